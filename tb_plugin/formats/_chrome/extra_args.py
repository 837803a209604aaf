"""Event arguments that the model has no column for."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import NoneType
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.columns import Column
from tb_plugin.formats._chrome.interning import Interner, as_text
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.extra_columns import OpenColumn

MOST_NAMES = 128  # maximum number of names that become columns; others are skipped and reported
_NARROW = (np.int8, np.int16, np.int32, np.int64)


class Others:
    """One growing column per argument name, of the narrowest type (integer, float, text) for all values."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self._columns: dict[str, _Growing] = {}
        self.left_out = 0  # number of values skipped because of MOST_NAMES

    def add(self, key: str, rows: Int64, values: Sequence[Any]) -> None:
        """Appends the values of one argument: JSON scalars, or JSON text for lists and objects. None means missing."""
        types = set(map(type, values))
        if msgspec.Raw in types:
            values = [_plain(value) if isinstance(value, msgspec.Raw) else value for value in values]
            types = set(map(type, values))
        if NoneType in types:
            kept = [value is not None for value in values]
            rows, values = rows[kept], [value for value in values if value is not None]
            types.discard(NoneType)
        if not types:
            return
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= MOST_NAMES:
                self.left_out += len(rows)
                return
            column = self._columns[key] = _Growing(self._interner)
        column.add(rows, values, types)

    def take_piece(self) -> list[OthersPiece] | None:
        """Returns and removes the values since the last call. Returns None if some were skipped."""
        left_out, self.left_out = self.left_out, 0
        pieces = [column.take_piece(key) for key, column in self._columns.items()]
        return None if left_out else [piece for piece in pieces if len(piece.rows)]

    def can_merge(self, pieces: Sequence[OthersPiece]) -> bool:
        """Returns False if a type changes, because the order of the texts then depends on earlier values."""
        if len(self._columns.keys() | {piece.key for piece in pieces}) > MOST_NAMES:
            return False
        return all(piece.key not in self._columns or self._columns[piece.key].fits(piece) for piece in pieces)

    def merge(self, pieces: Sequence[OthersPiece], first_row: int, ids: Int32) -> None:
        for piece in pieces:
            column = self._columns.get(piece.key)
            if column is None:
                column = self._columns[piece.key] = _Growing(self._interner, piece.kind)
            column.merge(piece, first_row, ids)

    def take(self) -> tuple[OpenColumn, ...]:
        """Returns all columns, sorted by the first row that has a value."""
        columns = [column.take(key) for key, column in self._columns.items()]
        return tuple(sorted(columns, key=lambda column: (int(column.row[0]), column.key)))


_Kind = Literal["whole", "real", "text"]
_DTYPES: dict[_Kind, type[Any]] = {"whole": np.int64, "real": np.float64, "text": np.int32}


class OthersPiece(NamedTuple):
    """Values of one argument in a piece of the file."""

    key: str
    kind: _Kind
    is_converted: bool  # earlier values had another type
    rows: Int32
    values: npt.NDArray[Any]


class _Growing:
    def __init__(self, interner: Interner, kind: _Kind = "whole") -> None:
        self._interner = interner
        self._kind: _Kind = kind
        self._rows = Column(np.int32)
        self._values = Column(_DTYPES[kind])
        self._is_taken = False  # whether values were removed
        self._is_converted = False

    def add(self, rows: Int64, values: Sequence[Any], types: set[type]) -> None:
        self._rows.add(rows)
        if self._kind == "whole" and types == {int}:
            try:
                self._values.add(np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64))
            except struct.error:  # more than 64 bits
                self._become("text")
            else:
                return
        if self._kind != "text":
            numbers = types <= {int, float} and (int not in types or _fit_floats(values))
            self._become("real" if numbers else "text")
        self._values.add(self._ids(values, types) if self._kind == "text" else np.array(values, np.float64))

    def take(self, key: str) -> OpenColumn:
        values = self._values.take()
        if self._kind == "whole":
            low, high = int(values.min()), int(values.max())
            narrow = next(dtype for dtype in _NARROW if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max)
            values = values.astype(narrow)
        return OpenColumn(key, self._rows.take(), values, is_text=self._kind == "text")

    def take_piece(self, key: str) -> OthersPiece:
        piece = OthersPiece(key, self._kind, self._is_converted, self._rows.take(), self._values.take())
        self._is_taken = self._is_taken or len(piece.rows) > 0
        self._is_converted = False
        return piece

    def fits(self, piece: OthersPiece) -> bool:
        return piece.kind == self._kind and not piece.is_converted

    def merge(self, piece: OthersPiece, first_row: int, ids: Int32) -> None:
        self._rows.add(piece.rows + np.int32(first_row))
        self._values.add(ids[piece.values] if piece.kind == "text" else piece.values)

    def _become(self, kind: Literal["real", "text"]) -> None:
        if self._kind == kind:
            return
        found = self._values.take()
        self._is_converted = self._is_converted or self._is_taken or len(found) > 0
        if kind == "real" and self._kind == "whole" and not _fit_floats(found.tolist()):
            kind = "text"
        if kind == "real":
            self._values = Column(np.float64)
            self._values.add(found)
        else:
            self._values = Column(np.int32)
            self._values.add(self._ids(found.tolist()))
        self._kind = kind

    def _ids(self, values: Sequence[Any], types: set[type] | None = None) -> Int32:
        if types == {str}:
            return self._interner.texts_of(values)
        raw = self._interner.raw
        texts = [value if isinstance(value, str) else _text(value) for value in values]
        ids = [raw[text] if isinstance(text, bytes) else self._interner.text(text) for text in texts]
        return np.array(ids, np.int32)


def _fit_floats(values: Sequence[int | float]) -> bool:
    return not values or (min(values) >= -(2**53) and max(values) <= 2**53)


def _plain(raw: msgspec.Raw) -> Any:
    if bytes(memoryview(raw)[:1]) in (b"[", b"{"):
        return raw
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # raw values are skipped during decoding, so they may be invalid
        return raw


def _text(value: Any) -> str | bytes:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    return as_text(value)
