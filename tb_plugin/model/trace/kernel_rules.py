"""Kernel classes, determined by the names of kernels and operators."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.schema import no_rows


class RuleFile(msgspec.Struct, frozen=True):
    """Text of the user's rules. If the file could not be read, ``problem`` contains the reason."""

    text: str = ""
    problem: str = ""


class ClassNames(msgspec.Struct, frozen=True, eq=False):
    name: npt.NDArray[np.int32] = no_rows(np.int32)
    of_operator: npt.NDArray[np.bool_] = no_rows(np.bool_)
    """Whether the name is an operator's, used only if no rule matches the kernel."""
    kernel_class: npt.NDArray[np.uint8] = no_rows(np.uint8)
    rule: npt.NDArray[np.int32] = no_rows(np.int32)
    is_own: npt.NDArray[np.bool_] = no_rows(np.bool_)
    """Whether the user wrote the rule. Rules from the user take precedence over built-in rules."""
