"""Short names for types of arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int16 = npt.NDArray[np.int16]
Int8 = npt.NDArray[np.int8]
UInt64 = npt.NDArray[np.uint64]
UInt32 = npt.NDArray[np.uint32]
UInt8 = npt.NDArray[np.uint8]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
