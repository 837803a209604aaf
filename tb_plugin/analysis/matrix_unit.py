"""Kernel time on matrix units, and the vendors' names for these units."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import Groups
from tb_plugin.model.trace.schema import MISSING, MatrixUse
from tb_plugin.model.trace.table import TraceTable

NEUTRAL = "matrix units"
# By MatrixUse. Not an Arrow array: that would import pandas.
_USE_WORDS = ("false", "true", "unknown")


class MatrixTime(msgspec.Struct, frozen=True):
    """Kernel time in ns: total, on matrix units, and of kernels whose use of matrix units is unknown."""

    total_ns: int
    used_ns: int
    unknown_ns: int

    @property
    def used_ratio(self) -> float | None:
        """Returns the share of kernel time on matrix units, None if there is no kernel time."""
        return self.used_ns / self.total_ns if self.total_ns else None

    @property
    def unknown_ratio(self) -> float | None:
        """Returns the share of kernel time with unknown use of matrix units, None without kernel time."""
        return self.unknown_ns / self.total_ns if self.total_ns else None


def matrix_time(trace: TraceTable, kernels: Int64) -> MatrixTime:
    """Returns the total time of these kernels, and how much of it is spent on matrix units."""
    dur, use = trace.dur_ns[kernels], trace.uses_matrix_unit[kernels]
    used, unknown = (int(dur[use == which].sum()) for which in (MatrixUse.YES, MatrixUse.UNKNOWN))
    return MatrixTime(int(dur.sum()), used, unknown)


def has_matrix_unit(trace: TraceTable, device: int) -> bool:
    """Returns whether a device has matrix units. If its type is unknown, its kernels decide."""
    stated = trace.devices[device].has_matrix_unit
    if stated is not None:
        return stated
    return bool((trace.uses_matrix_unit[trace.device == device] == MatrixUse.YES).any())


def matrix_units(trace: TraceTable, kernels: Int64) -> str:
    """Returns the vendor's name for the matrix units of the devices that ran these kernels; "" if there are none."""
    used = [int(device) for device in np.unique(trace.device[kernels]) if device != MISSING]
    words = [trace.devices[device].matrix_unit or NEUTRAL for device in used if has_matrix_unit(trace, device)]
    return ", ".join(dict.fromkeys(words))


def matrix_uses(groups: Groups, use: npt.NDArray[np.uint8]) -> pa.Array:
    """Returns, by group, "true" if a kernel uses a matrix unit, "unknown" if one may, otherwise "false"."""
    found = np.where(groups.any(use == MatrixUse.UNKNOWN), MatrixUse.UNKNOWN, MatrixUse.NO)
    found = np.where(groups.any(use == MatrixUse.YES), MatrixUse.YES, found)
    return pa.DictionaryArray.from_arrays(pa.array(found.astype(np.int8)), pa.array(_USE_WORDS, pa.string()))
