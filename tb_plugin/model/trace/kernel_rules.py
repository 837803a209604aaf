"""Kernel classes from names of kernels and operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.schema import no_rows


@dataclass(frozen=True)
class RuleFile:
    """A RuleFile has the user's rules as text; ``problem`` says why it could not be read."""

    text: str = ""
    problem: str = ""


@dataclass(frozen=True, eq=False)
class ClassNames:
    """Names of kernels and operators matched by a rule, and their classes."""

    name: npt.NDArray[np.int32] = no_rows(np.int32)
    """String id."""
    of_operator: npt.NDArray[np.bool_] = no_rows(np.bool_)
    """The name is an operator's: it gives the class of a kernel with an unknown name."""
    kernel_class: npt.NDArray[np.uint8] = no_rows(np.uint8)
    """KernelClass."""
    rule: npt.NDArray[np.int32] = no_rows(np.int32)
    """String id of the rule text."""
    is_own: npt.NDArray[np.bool_] = no_rows(np.bool_)
    """A rule of the user, which takes precedence."""
