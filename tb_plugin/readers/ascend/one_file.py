"""One file of a profile as a source of its own, for what reads one file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from tb_plugin.readers.base import Source


class OneFile(Source):
    """One file of a profile as a source of its own."""

    def __init__(self, source: Source, name: str) -> None:
        self._source = source
        self._name = name

    def names(self) -> Sequence[str]:
        """Returns the one name."""
        return [self._name]

    def open(self, name: str) -> BinaryIO:
        """Returns its bytes. Raises StorageError."""
        return self._source.open(name)

    def size(self, name: str) -> int:
        """Returns its stored size."""
        return self._source.size(name)
