"""Growing columns, and a table of distinct stacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeGuard, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.formats._pickle.memo import STACK, TEXT_ID, Taken
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.snapshot.table import Stacks
from tb_plugin.model.trace.schema import MISSING

T = TypeVar("T", bound=msgspec.Struct)
_MAX_NUMBER = 2**63 - 1
MAX_TEXT = 16 * 1024  # characters of a text
MAX_FRAMES = 4096  # frames of a stack


class TooMany(Exception):
    """References make the content of the file far larger than in any real snapshot."""


class Columns(Generic[T]):
    """Columns of a Struct of arrays, filled piece by piece. Arrays grow in place, to avoid memory fragmentation."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._columns = {f: getattr(kind(), f).copy() for f in kind.__struct_fields__}
        self._length = 0

    def add(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Appends columns of equal length. Columns that are not passed are filled with -1."""
        part = self._room(len(next(iter(columns.values()))))
        for name, column in self._columns.items():
            column[part] = columns.get(name, MISSING)

    def add_rows(self, rows: Sequence[Sequence[int]]) -> None:
        if rows:
            part = self._room(len(rows))
            for column, values in zip(self._columns.values(), zip(*rows, strict=True), strict=True):
                column[part] = values

    def _room(self, count: int) -> slice:
        begin, self._length = self._length, self._length + count
        for column in self._columns.values():
            if len(column) < self._length:
                column.resize(max(self._length, len(column) * 3 // 2, 64), refcheck=False)
        return slice(begin, self._length)

    def build(self) -> T:
        columns, self._columns = self._columns, {}
        for column in columns.values():
            column.resize(self._length, refcheck=False)
        return self._kind(**columns)


def is_number(value: object) -> TypeGuard[int]:
    """Returns True for an integer that fits into a column."""
    return type(value) is int and -_MAX_NUMBER <= value <= _MAX_NUMBER


class Texts:
    def __init__(self, log: IssueLog) -> None:
        self.all: list[str] = []
        self._log = log
        self._ids: dict[str, int] = {}

    def of(self, value: object) -> int:
        """Returns the id of a text, or -1 if the value is not a text."""
        if type(value) is Taken and value.what == TEXT_ID:
            return value.code
        if not isinstance(value, str):
            return MISSING
        number = self._ids.get(value)
        if number is None:
            shortened = value
            if len(shortened) > MAX_TEXT:
                self._log.add("long_text", "repaired", text=f"texts longer than {MAX_TEXT:,} characters were shortened")
                shortened = shortened[:MAX_TEXT]
            if not shortened.isascii():
                shortened = shortened.encode("utf-8", "replace").decode("utf-8")
            number = self._ids[value] = len(self.all)
            self.all.append(shortened)
        return number


class Numbered:
    """Table of distinct values. Its size is limited to the range of a 16-bit column."""

    def __init__(self, first: Any) -> None:
        self.all = [first]
        self._ids = {first: 0}

    def of(self, value: Any) -> int:
        """Returns the index of a value, or -1 if the table is full."""
        number = self._ids.get(value)
        if number is None:
            if len(self.all) >= 2**15 - 1:
                return MISSING
            number = self._ids[value] = len(self.all)
            self.all.append(value)
        return number


class StackTable:
    """Distinct frames and stacks. Calls ``spend`` with the number of frames read."""

    def __init__(self, texts: Texts, spend: Callable[[int], None]) -> None:
        self._texts = texts
        self._spend = spend
        self._frames: dict[tuple[int, int, int], int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}

    def frame(self, frame: object) -> int:
        """Returns the id of a frame. An empty frame also has an id."""
        values = frame if isinstance(frame, dict) else {}
        line = values.get("line")
        key = (
            self._texts.of(values.get("filename")),
            line if type(line) is int and 0 <= line < 2**31 else MISSING,
            self._texts.of(values.get("name")),
        )
        return self._frames.setdefault(key, len(self._frames))

    def of(self, frames: object) -> int:
        """Returns the id of a list of frames, or -1 if the value is not a list."""
        if type(frames) is Taken and frames.what == STACK:
            return frames.code
        if not isinstance(frames, list):
            return MISSING
        self._spend(len(frames))
        return self.numbered(tuple(self.frame(frame) for frame in frames[:MAX_FRAMES]))

    def numbered(self, frames: tuple[int, ...]) -> int:
        return self._stacks.setdefault(frames, len(self._stacks))

    def build(self) -> Stacks:
        lengths = np.fromiter((len(stack) for stack in self._stacks), np.int64, len(self._stacks))
        file, line, name = np.array(list(self._frames), np.int32).reshape(-1, 3).T.copy()
        return Stacks(
            first=np.concatenate(([0], np.cumsum(lengths))),
            frame=np.fromiter((frame for stack in self._stacks for frame in stack), np.int32),
            file=file,
            line=line,
            name=name,
        )
