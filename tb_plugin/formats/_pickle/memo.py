"""The memo of a pickle: objects by number, and of what the sink has taken only what it became, in five bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


MAX_OBJECTS = 1 << 22
"""Objects that are held at a time: about 1 GB. Events leave the memo when the sink takes them."""
MAX_TEXT_SIZE = 1 << 28
_WORDS = 65_536
"""Numbers that may be those of keys."""


OBJECT, ROW, STACK, TEXT_ID, POOL_ID = range(5)
"""What a memoized object became: an object still (or nothing), an event, or the number of a stack, text or pool."""


class Taken(NamedTuple):
    """Stands for an object that the sink has taken."""

    what: int
    code: int


class Memo:
    """Numbers to objects; ``count`` is the number that MEMOIZE gives next."""

    def __init__(self) -> None:
        self.count = 0
        self.objects: dict[int, Any] = {}
        self.top = 0
        """Above all numbers."""
        self.words: dict[int, str] = {}
        """Texts among the first numbers: keys are."""
        self.fresh: list[int] = []
        """Numbers of containers since the sink last took something."""
        self._text_size = 0
        self._what = np.zeros(1024, np.uint8)
        self._code = np.zeros(1024, np.int32)

    def get(self, key: int) -> Any:
        """Returns an object, or Taken for it. Raises IndexError when there is none."""
        if key in self.objects:
            return self.objects[key]
        if 0 <= key < len(self._what) and self._what[key]:
            return Taken(int(self._what[key]), int(self._code[key]))
        raise IndexError(f"nothing is memoized as {key}")

    def put(self, key: int, value: Any) -> None:
        """Memoizes an object."""
        if key not in self.objects:
            self.count += 1
        self.top = max(self.top, key + 1)
        self.objects[key] = value
        if len(self.objects) > MAX_OBJECTS:
            raise ValueError(f"over {MAX_OBJECTS:,} objects")
        if type(value) is str:
            self._text_size += len(value)
            if self._text_size > MAX_TEXT_SIZE:
                raise ValueError(f"texts of over {MAX_TEXT_SIZE:,} characters")
            if key < _WORDS:
                self.words[key] = value
        elif type(value) in (dict, list, tuple):
            self.fresh.append(key)

    def replace(self, key: int, what: int, code: int) -> None:
        """Lets go of an object that the sink has taken."""
        self.objects.pop(key, None)
        if key >= self.limit:
            self.objects[key] = Taken(what, code)
            return
        self.codes(np.array([key]), what, np.array([code]))

    @property
    def limit(self) -> int:
        """Returns the number from which on ``codes`` would take much room: numbers are given one after the other."""
        return 2 * len(self._what) + _WORDS

    def codes(self, keys: Int64, what: int, codes: npt.NDArray[np.integer[Any]]) -> None:
        """Says what became of objects: many at once."""
        if not len(keys):
            return
        top = int(keys.max()) + 1
        self.top = max(self.top, top)
        if top > len(self._what):
            grown = max(top, 2 * len(self._what))
            self._what = np.concatenate((self._what, np.zeros(grown - len(self._what), np.uint8)))
            self._code = np.concatenate((self._code, np.zeros(grown - len(self._code), np.int32)))
        self._what[keys] = what
        self._code[keys] = codes

    def look(self, keys: Int64) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Returns what became of many; OBJECT where nothing did."""
        inside = np.minimum(keys, len(self._what) - 1)
        what = np.where(keys < len(self._what), self._what[inside], 0).astype(np.uint8)
        return what, self._code[inside]
