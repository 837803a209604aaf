"""String interning: each distinct text of a file is stored once."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from tb_plugin.formats._chrome.columns import int32s
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.values import valid_unicode
from tb_plugin.lib.arrays import Int32
from tb_plugin.model.trace.schema import MISSING

LONG_NAME, LONGEST_NAME, LONG_NAMES = 4096, 1 << 20, 16 << 20
"""Characters of a long name, of the longest name, and of all long names, as names are repeated in tables."""


class Ids(dict[Any, int]):
    """Maps values to string ids. Calls ``make`` once per new value."""

    def __init__(self, make: Callable[[Any], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, value: Hashable) -> int:
        made = self[value] = self._make(value)
        return made

    def of(self, values: Sequence[Any]) -> Int32:
        """Returns the ids of a column. Tries plain ``get`` first, because most chunks contain no new text."""
        try:
            return int32s(tuple(map(self.get, values)))  # type: ignore[arg-type]  # None raises
        except struct.error:  # a new text gave None
            return int32s(tuple(map(self.__getitem__, values)))
        except TypeError:  # an unhashable value, such as a list where a text is expected
            ids = [self[value] if isinstance(value, Hashable) else self[as_text(value)] for value in values]
            return int32s(ids)


class Interner:
    """Distinct texts of a file, with several lookup tables."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.replaced = 0  # number of texts with invalid bytes or characters
        self.cut = 0  # number of names that were shortened
        self._room = LONG_NAMES
        self._positions: dict[str, int] = {}
        # names and categories; missing = ""
        self.names = Ids(lambda value: self.name("" if value is None else as_text(value)))
        # process and thread ids; 7 and "7" are the same key
        self.keys = Ids(lambda value: self.text("" if value is None else as_text(value)))
        self.words = Ids(
            lambda value: MISSING if value is None else self.text(as_text(value))
        )  # optional texts; -1: missing
        self.raw = Ids(self._raw_text)  # raw JSON with normalised spacing
        self.raw[b""] = self.raw[b"null"] = MISSING

    def tell(self, log: IssueLog) -> None:
        if self.replaced:
            log.add("bad_utf8", "repaired", count=self.replaced)
        if self.cut:
            log.add("long_name", "repaired", count=self.cut)

    def history(self) -> tuple[int, int, int]:
        """Returns the state that later texts depend on. Equal before and after a piece with usual texts only."""
        return self.replaced, self.cut, self._room

    def merge(self, texts: Sequence[str], ids: Int32) -> Int32:
        """Adds the new texts of a piece. Returns ``ids`` with the ids of these texts appended."""
        return np.append(ids, int32s(tuple(map(self.text, texts))))

    def name(self, text: str) -> int:
        """Returns the id of a name. After LONG_NAMES characters, names are cut to LONG_NAME characters."""
        if len(text) > LONG_NAME:
            if len(text) > min(self._room, LONGEST_NAME):
                self.cut += 1
                text = f"{text[:LONG_NAME]}... ({len(text):,} characters, {self.cut})"
            self._room -= len(text)
        return self.text(text)

    def text(self, text: str) -> int:
        position = self._positions.get(text)
        if position is None:
            clean = valid_unicode(text)
            if clean != text:
                self.replaced += 1
                position = self._positions[text] = self.text(clean)
                return position
            position = self._positions[text] = len(self.texts)
            self.texts.append(text)
        return position

    def texts_of(self, texts: Sequence[str]) -> Int32:
        try:
            return int32s(tuple(map(self._positions.get, texts)))  # type: ignore[arg-type]  # None raises
        except struct.error:
            return int32s(tuple(map(self.text, texts)))

    def _raw_text(self, raw: bytes) -> int:
        # Raw values are skipped during decoding, so their strings may be invalid.
        loose = raw.decode("utf-8", "replace")
        try:
            value = json.loads(loose, strict=False)
        except (ValueError, RecursionError):
            value = loose
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        clean = valid_unicode(text)
        if loose.encode() != raw or clean != text:
            self.replaced += 1
        return self.text(clean)


def as_text(value: Any) -> str:
    """Returns a scalar as text: 7, 7.0 and "7" all become "7". True becomes "1", because ``Ids`` finds 1 for it."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
