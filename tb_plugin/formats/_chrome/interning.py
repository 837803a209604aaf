"""Every text of the file once: dictionaries that give a value its id, and make the id when it is new."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.columns import int32s
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.values import valid_unicode
from tb_plugin.model.trace.schema import MISSING

LONG_NAME, LONGEST_NAME, LONG_NAMES = 4096, 1 << 20, 16 << 20
"""Characters of a name from which on it counts as long, that it may have at most, and that all long names may have together:
tables, facts and JSON repeat them."""
Int32 = npt.NDArray[np.int32]


class Ids(dict[Any, int]):
    """value -> id of its text. A lookup of something new asks ``make`` once."""

    def __init__(self, make: Callable[[Any], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, value: Hashable) -> int:
        made = self[value] = self._make(value)
        return made

    def of(self, values: Sequence[Any]) -> Int32:
        """Ids of a column. Plain ``get`` first, because a chunk rarely brings a new text."""
        try:
            return int32s(tuple(map(self.get, values)))  # type: ignore[arg-type]  # None raises
        except struct.error:  # the None of a new text; looking for it would cost more than the lookups
            return int32s(tuple(map(self.__getitem__, values)))
        except TypeError:  # an unhashable value, such as a list where a word belongs
            ids = [self[value] if isinstance(value, Hashable) else self[as_text(value)] for value in values]
            return int32s(ids)


class Interner:
    """One table of texts behind several views of it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.replaced = 0
        """Texts that held bytes or characters which no text may hold."""
        self.cut = 0
        """Names that were too long."""
        self._room = LONG_NAMES
        self._positions: dict[str, int] = {}
        self.names = Ids(lambda value: self.name("" if value is None else as_text(value)))
        """Names and categories; a missing one is the empty text."""
        self.keys = Ids(lambda value: self.text("" if value is None else as_text(value)))
        """Process and thread ids: 7 and "7" are the same key."""
        self.words = Ids(lambda value: MISSING if value is None else self.text(as_text(value)))
        """Optional words."""
        self.raw = Ids(self._raw_text)
        """Raw JSON, normalised to one spacing."""
        self.raw[b""] = self.raw[b"null"] = MISSING

    def tell(self, log: IssueLog) -> None:
        """Counts what was changed in texts."""
        if self.replaced:
            log.add("bad_utf8", "repaired", count=self.replaced)
        if self.cut:
            log.add("long_name", "repaired", count=self.cut)

    def name(self, text: str) -> int:
        """Returns the id of a name, which is cut where it is longer than LONG_NAME and no room is left for such names."""
        if len(text) > LONG_NAME:
            if len(text) > min(self._room, LONGEST_NAME):
                self.cut += 1
                text = f"{text[:LONG_NAME]}... ({len(text):,} characters, {self.cut})"
            self._room -= len(text)
        return self.text(text)

    def text(self, text: str) -> int:
        """Returns the id of ``text``."""
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
        """Returns the ids of a column of texts, most of which are known already."""
        try:
            return int32s(tuple(map(self._positions.get, texts)))  # type: ignore[arg-type]  # None raises
        except struct.error:
            return int32s(tuple(map(self.text, texts)))

    def _raw_text(self, raw: bytes) -> int:
        # Raw values were skipped over, not decoded, so their strings may still hold anything.
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
    """Returns a scalar as the text people know it by: 7, 7.0 and "7" give "7"."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
