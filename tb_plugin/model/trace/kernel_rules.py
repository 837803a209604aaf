"""What kernels do, as far as their names and those of operators tell: on the way from rules to analyses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.schema import no_rows


@dataclass(frozen=True)
class RuleFile:
    """A RuleFile holds a person's rules as the file was read; ``problem`` says why it was not."""

    text: str = ""
    problem: str = ""


@dataclass(frozen=True, eq=False)
class ClassNames:
    """Names of kernels and operators that a rule knows, and what such kernels do."""

    name: npt.NDArray[np.int32] = no_rows(np.int32)
    """String id."""
    of_operator: npt.NDArray[np.bool_] = no_rows(np.bool_)
    """The name is an operator's: it tells the class of a kernel of which the own name says nothing."""
    kernel_class: npt.NDArray[np.uint8] = no_rows(np.uint8)
    """KernelClass."""
    rule: npt.NDArray[np.int32] = no_rows(np.int32)
    """String id of the rule as it is written."""
    is_own: npt.NDArray[np.bool_] = no_rows(np.bool_)
    """A person wrote the rule: it goes before all else."""
