"""Interned strings: each text is stored once and has an integer id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.model.trace.schema import MISSING


class StringTable:
    """Distinct strings in one Arrow array, which can be memory-mapped. The id of a string is its index."""

    def __init__(self, values: Iterable[str] | pa.Array) -> None:
        self._array = values if isinstance(values, pa.Array) else pa.array(list(values), type=pa.large_string())

    @property
    def array(self) -> pa.Array:
        return self._array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, string_id: int) -> str:
        return "" if string_id == MISSING else str(self._array[int(string_id)].as_py())

    def __iter__(self) -> Iterator[str]:
        return iter(self._array.to_pylist())

    def take(self, ids: npt.NDArray[np.integer]) -> pa.Array:
        """Returns the strings that have these ids. Id -1 gives null."""
        indices = pa.array(ids.astype(np.int64), mask=ids == MISSING)
        return self._array.take(indices)

    def where(self, predicate: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """Returns a mask by string id, with an additional False for id -1."""
        flags = np.fromiter((predicate(text) for text in self), dtype=np.bool_, count=len(self))
        return np.append(flags, False)

    def extended(self, others: pa.Array) -> tuple[StringTable, npt.NDArray[np.int32]]:
        """Returns a table with the additional texts ``others``, and their ids. Existing ids do not change."""
        found = pc.index_in(others, value_set=self._array)
        ids = pc.fill_null(found, MISSING).to_numpy(zero_copy_only=False).astype(np.int32)
        new = np.flatnonzero(ids == MISSING)
        ids[new] = len(self) + np.arange(len(new), dtype=np.int32)
        return StringTable(pa.concat_arrays([self._array, others.take(pa.array(new))])), ids

    def find(self, text: str) -> int:
        """Returns the id of a text; -1 if the table does not contain the text."""
        position = self._array.index(pa.scalar(text, type=pa.large_string())).as_py()
        return int(position)
