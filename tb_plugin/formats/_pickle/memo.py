"""The memo of a pickle: objects by index.

An object that went to the sink is replaced by five bytes: a type and a code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Int64

MAX_OBJECTS = 1 << 22  # maximum number of objects in memory (about 1 GB); events are removed when the sink takes them
MAX_TEXT_SIZE = 1 << 28
_KEY_NUMBERS = 65_536  # memo indices below this may be keys

# type of a memo entry: object (or none), event, or id of a stack, text or pool
OBJECT, ROW, STACK, TEXT_ID, POOL_ID = range(5)


class Taken(NamedTuple):
    """Placeholder for an object that went to the sink."""

    what: int
    code: int


class Memo:
    """Objects by memo index. The opcode MEMOIZE uses ``count`` as the next index."""

    def __init__(self) -> None:
        self.count = 0
        self.objects: dict[int, Any] = {}
        self.top = 0  # larger than all memo indices in use
        self.words: dict[int, str] = {}  # texts with small memo indices; keys are among them
        self.fresh: list[int] = []  # memo indices of containers created since items last went to the sink
        self._text_size = 0
        self._what = np.zeros(1024, np.uint8)
        self._code = np.zeros(1024, np.int32)

    def get(self, key: int) -> Any:
        """Returns the object at an index, or its ``Taken``. Raises IndexError for an unknown index."""
        if key in self.objects:
            return self.objects[key]
        if 0 <= key < len(self._what) and self._what[key]:
            return Taken(int(self._what[key]), int(self._code[key]))
        raise IndexError(f"the memo has no entry {key}")

    def put(self, key: int, value: Any) -> None:
        if key not in self.objects:
            self.count += 1
        self.top = max(self.top, key + 1)
        self.objects[key] = value
        if len(self.objects) > MAX_OBJECTS:
            raise ValueError(f"there are over {MAX_OBJECTS:,} objects")
        if type(value) is str:
            self._text_size += len(value)
            if self._text_size > MAX_TEXT_SIZE:
                raise ValueError(f"the texts have over {MAX_TEXT_SIZE:,} characters in total")
            if key < _KEY_NUMBERS:
                self.words[key] = value
        elif type(value) in (dict, list, tuple):
            self.fresh.append(key)

    def replace(self, key: int, what: int, code: int) -> None:
        """Replaces an object that went to the sink by a type and a code."""
        self.objects.pop(key, None)
        if key >= self.limit:
            self.objects[key] = Taken(what, code)
            return
        self.codes(np.array([key]), what, np.array([code]))

    @property
    def limit(self) -> int:
        """Returns the index from which ``codes`` would use too much memory. Indices in real files are consecutive."""
        return 2 * len(self._what) + _KEY_NUMBERS

    def codes(self, keys: Int64, what: int, codes: npt.NDArray[np.integer[Any]]) -> None:
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
        """Returns the types and codes of many objects. The type is OBJECT if an object did not go to the sink."""
        inside = np.minimum(keys, len(self._what) - 1)
        what = np.where(keys < len(self._what), self._what[inside], 0).astype(np.uint8)
        return what, self._code[inside]
