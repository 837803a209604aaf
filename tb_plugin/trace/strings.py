"""Interned strings: every text of a trace is stored once and named by a small integer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.trace.schema import MISSING


class StringTable:
    """An immutable list of distinct strings; ids are positions. One Arrow array, so it can be memory-mapped."""

    def __init__(self, values: Iterable[str] | pa.Array) -> None:
        self._array = values if isinstance(values, pa.Array) else pa.array(list(values), type=pa.large_string())

    @property
    def array(self) -> pa.Array:
        """Returns the strings as an Arrow array of ``large_string``, position = id."""
        return self._array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, string_id: int) -> str:
        return "" if string_id == MISSING else str(self._array[int(string_id)].as_py())

    def __iter__(self) -> Iterator[str]:
        return iter(self._array.to_pylist())

    def take(self, ids: npt.NDArray[np.integer]) -> pa.Array:
        """Strings of ``ids`` in order; null where an id is missing (-1)."""
        indices = pa.array(ids.astype(np.int64), mask=ids == MISSING)
        return self._array.take(indices)

    def where(self, predicate: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """Returns ``predicate`` of every distinct string, as a boolean array indexed by id (one extra False for id -1)."""
        flags = np.fromiter((predicate(text) for text in self), dtype=np.bool_, count=len(self))
        return np.append(flags, False)

    def find(self, text: str) -> int:
        """Returns the id of ``text``, or -1."""
        position = self._array.index(pa.scalar(text, type=pa.large_string())).as_py()
        return int(position)
