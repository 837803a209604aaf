"""Classification of rows by name: kernel classes, collectives, runtime calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tb_plugin.devices import (
    is_collective_kernel,
    is_collective_operator,
    is_matrix_eligible,
    matrix_use,
    role_of_call,
)
from tb_plugin.devices.kernel_classes import VARIABLE, Rule, built_in_rules, matching_rules, own_rules
from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.kernel_rules import ClassNames, RuleFile
from tb_plugin.model.trace.schema import DEVICE_WORK, CallRole, EventKind, KernelClass, MatrixUse, of_kind
from tb_plugin.model.trace.table import CallNames

CODE = "class_rules"  # issue code for invalid lines in the user's rules


class NameMeanings(Protocol):
    @property
    def name(self) -> npt.NDArray[np.int32]: ...

    @property
    def kind(self) -> npt.NDArray[np.uint8]: ...


def name_flags(
    rows: NameMeanings, texts: Sequence[str], collective_rows: npt.NDArray[np.int32], also: npt.NDArray[np.bool_]
) -> dict[str, Any]:
    """Returns flag columns by the name patterns of vendors. Rows with collective arguments or in ``also`` are collectives."""
    work, operators = of_kind(rows.kind, *DEVICE_WORK), of_kind(rows.kind, EventKind.OPERATOR)
    host = of_kind(rows.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    collective = rows_matching_name(rows.name, work, texts, is_collective_kernel)
    collective |= rows_matching_name(rows.name, host, texts, is_collective_operator)
    collective[collective_rows] = True
    collective |= also
    return {
        "is_collective": collective,
        "uses_matrix_unit": _matrix_use(rows, texts, (rows.kind == EventKind.KERNEL) & ~collective),
        "matrix_eligible": rows_matching_name(rows.name, operators, texts, is_matrix_eligible),
    }


def call_names(rows: NameMeanings, texts: Sequence[str]) -> CallNames:
    names = np.unique(rows.name[rows.kind == EventKind.RUNTIME])
    roles = np.array([role_of_call(texts[name]) for name in names.tolist()], np.uint8)
    known = roles != CallRole.OTHER
    return CallNames(names[known].astype(np.int32), roles[known])


def _matrix_use(rows: NameMeanings, texts: Sequence[str], kernels: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    table = np.full(len(texts) + 1, MatrixUse.NO, np.uint8)
    for name in np.unique(rows.name[kernels]).tolist():
        table[name] = matrix_use(texts[name])
    return np.where(kernels, table[rows.name], np.uint8(MatrixUse.NO))


def rows_matching_name(
    names: npt.NDArray[np.int32], among: npt.NDArray[np.bool_], texts: Sequence[str], predicate: Any
) -> npt.NDArray[np.bool_]:
    """Returns a mask of the rows in ``among`` whose name fulfils ``predicate``, called once per distinct name."""
    table = np.zeros(len(texts) + 1, np.bool_)
    for name in np.unique(names[among]).tolist():
        table[name] = predicate(texts[name])
    result: npt.NDArray[np.bool_] = table[names] & among
    return result


def class_names(rows: NameMeanings, interner: Interner, file: RuleFile, log: IssueLog) -> ClassNames:
    own, problems = own_rules(file)
    for problem in problems:
        log.note(CODE, f"{VARIABLE}: {problem}")
    rules = (*own, *built_in_rules())
    kernels = np.unique(rows.name[rows.kind == EventKind.KERNEL])
    if not len(kernels):
        return ClassNames()
    operators = np.unique(rows.name[rows.kind == EventKind.OPERATOR])
    found = [
        _matched_names(names, interner, [rule for rule in rules if rule.of_operator == of_operators])
        for names, of_operators in ((kernels, False), (operators, True))
    ]
    name = np.concatenate([each[0] for each in found])
    kernel_class = np.concatenate([each[1] for each in found])
    rule = np.concatenate([each[2] for each in found])
    is_own = np.concatenate([each[3] for each in found])
    of_operator = np.arange(len(name)) >= len(found[0][0])
    return ClassNames(name, of_operator, kernel_class, rule, is_own)


def _matched_names(
    names: npt.NDArray[np.int32], interner: Interner, rules: Sequence[Rule]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    first = matching_rules([interner.texts[name] for name in names.tolist()], rules)
    known = first >= 0
    hit = [rules[position] for position in first[known].tolist()]
    return (
        names[known].astype(np.int32),
        np.array([rule.kernel_class for rule in hit], np.uint8),
        np.array([interner.text(rule.text) for rule in hit], np.int32),
        np.array([rule.is_own for rule in hit], np.bool_),
    )


def own_communication(rows: NameMeanings, classes: ClassNames) -> npt.NDArray[np.bool_]:
    """Returns a boolean mask of the kernels that a rule of the user classifies as communication."""
    chosen = classes.is_own & ~classes.of_operator & (classes.kernel_class == KernelClass.COMMUNICATION)
    found: npt.NDArray[np.bool_] = np.isin(rows.name, classes.name[chosen]) & (rows.kind == EventKind.KERNEL)
    return found
