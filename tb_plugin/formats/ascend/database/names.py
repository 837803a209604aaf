"""Tables of texts in a database: all names, and enums."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.database.cells import Form
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.schema import MISSING

# limits for text columns: bytes, and multiple of the database size; a long name may be repeated in all rows
MOST_BYTES, MOST_TIMES = 256 * 1024 * 1024, 16


class Names:
    """Texts of one table by number. If a number occurs twice, its first text is used."""

    def __init__(
        self, database: Database, interner: Interner, table: str = "STRING_IDS", column: str = "value"
    ) -> None:
        read = database.read(table, needs="id", text=column)
        number = read.integers("id")
        known = np.flatnonzero(number >= 0)
        self._number, first = np.unique(number[known], return_index=True)
        self._texts = read.array(column, Form.TEXT).cast(pa.large_string()).take(pa.array(known[first]))
        self._bytes = np.asarray(pc.fill_null(pc.binary_length(self._texts), 0)).astype(np.int64)
        self._interner = interner
        self._log = database.log
        self._free_bytes = max(MOST_BYTES, MOST_TIMES * database.size)

    def cells(self, number: Int64) -> pa.Array:
        """Returns the text of each number; null = missing."""
        place = self._places(number)
        size = int(self._bytes[place[place != MISSING]].sum())
        self._free_bytes -= size
        if self._free_bytes < 0:
            self._free_bytes += size
            self._log.add("long_texts", "note", text="a column of very long texts was skipped")
            return pa.nulls(len(number), pa.string())
        return self._texts.take(pa.array(place, mask=place == MISSING)).cast(pa.string())

    def ids(self, number: Int64) -> Int32:
        """Returns the string id of each number; -1 = missing. Only these numbers' texts are interned."""
        distinct, inverse = np.unique(number, return_inverse=True)
        place = self._places(distinct)
        texts = self._texts.take(pa.array(place, mask=place == MISSING)).to_pylist()
        ids = [MISSING if text is None else self._interner.text(text) for text in texts]
        found: Int32 = np.array(ids, np.int32)[inverse]
        return found

    def bytes_of(self, number: Int64) -> Int64:
        """Returns the length of each number's text, in bytes."""
        place = self._places(number)
        return np.where(place == MISSING, 0, np.append(self._bytes, 0)[place])

    def _places(self, number: Int64) -> Int64:
        if not len(self._number):
            return np.full(len(number), MISSING, np.int64)
        place = np.minimum(np.searchsorted(self._number, number), len(self._number) - 1)
        return np.where(self._number[place] == number, place, MISSING)
