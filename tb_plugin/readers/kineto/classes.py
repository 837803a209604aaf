"""Which names of kernels and operators a rule knows: asked once for each distinct name of a trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tb_plugin.devices.kernel_classes import VARIABLE, Rule, matching_rules, ours, own_rules
from tb_plugin.readers.chrome.interning import Interner
from tb_plugin.readers.issues import IssueLog
from tb_plugin.readers.kineto.rows import Core
from tb_plugin.trace.classes import ClassNames, RuleFile
from tb_plugin.trace.schema import EventKind, KernelClass

CODE = "class_rules"
"""Code of the issue that a person's line of rules is none."""


def class_names(core: Core, interner: Interner, file: RuleFile, log: IssueLog) -> ClassNames:
    """Returns the names that a rule knows; what is wrong with a person's file goes to the log."""
    own, problems = own_rules(file)
    for problem in problems:
        log.note(CODE, f"{VARIABLE}: {problem}")
    rules = (*own, *ours())
    kernels = np.unique(core.name[core.kind == EventKind.KERNEL])
    if not len(kernels):
        return ClassNames()
    operators = np.unique(core.name[core.kind == EventKind.OPERATOR])
    found = [
        _known(names, interner, [rule for rule in rules if rule.of_operator == asked])
        for names, asked in ((kernels, False), (operators, True))
    ]
    name = np.concatenate([each[0] for each in found])
    kernel_class = np.concatenate([each[1] for each in found])
    rule = np.concatenate([each[2] for each in found])
    is_own = np.concatenate([each[3] for each in found])
    of_operator = np.arange(len(name)) >= len(found[0][0])
    return ClassNames(name, of_operator, kernel_class, rule, is_own)


def _known(
    names: npt.NDArray[np.int32], interner: Interner, rules: Sequence[Rule]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Of the names that a rule knows: the name, the class, the rule and whether a person wrote it."""
    first = matching_rules([interner.texts[name] for name in names.tolist()], rules)
    known = first >= 0
    hit = [rules[position] for position in first[known].tolist()]
    return (
        names[known].astype(np.int32),
        np.array([rule.kernel_class for rule in hit], np.uint8),
        np.array([interner.text(rule.text) for rule in hit], np.int32),
        np.array([rule.is_own for rule in hit], np.bool_),
    )


def own_communication(core: Core, classes: ClassNames) -> npt.NDArray[np.bool_]:
    """Returns the kernels that communicate because a person says so."""
    chosen = classes.is_own & ~classes.of_operator & (classes.kernel_class == KernelClass.COMMUNICATION)
    found: npt.NDArray[np.bool_] = np.isin(core.name, classes.name[chosen]) & (core.kind == EventKind.KERNEL)
    return found
