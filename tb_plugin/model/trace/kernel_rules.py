"""Kernel classes by kernel and operator name."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.schema import no_rows


class RuleFile(msgspec.Struct, frozen=True):
    """Text of the user's rules. If the file could not be read, ``problem`` is the reason."""

    text: str = ""
    problem: str = ""


class ClassNames(msgspec.Struct, frozen=True, eq=False):
    """Names of kernels and operators that a rule matches, with their classes."""

    name: npt.NDArray[np.int32] = no_rows(np.int32)
    """String id of the kernel or operator name."""
    of_operator: npt.NDArray[np.bool_] = no_rows(np.bool_)
    """Whether the name is that of an operator. The operator's class is used only if no rule matches the kernel name."""
    kernel_class: npt.NDArray[np.uint8] = no_rows(np.uint8)
    """``KernelClass`` of the name."""
    rule: npt.NDArray[np.int32] = no_rows(np.int32)
    """String id of the rule's text."""
    is_own: npt.NDArray[np.bool_] = no_rows(np.bool_)
    """Whether the rule was written by the user. The user's rules take precedence."""
