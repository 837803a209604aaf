"""Sources for one file, or for all files that still exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from tb_plugin.errors import UserError
from tb_plugin.formats.base import Source


class OneFile(Source):
    """A file of a profile as a source."""

    def __init__(self, source: Source, name: str) -> None:
        self._source = source
        self._name = name

    def names(self) -> Sequence[str]:
        """Returns the name."""
        return [self._name]

    def open(self, name: str) -> BinaryIO:
        """Returns its bytes. Raises StorageError."""
        return self._source.open(name)

    def size(self, name: str) -> int:
        """Returns its stored size."""
        return self._source.size(name)


class Steady(Source):
    """A profile whose files may vanish after listing: their size is then 0, and opening one raises."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def names(self) -> Sequence[str]:
        """Returns the names of all listed files."""
        return self._source.names()

    def open(self, name: str) -> BinaryIO:
        """Returns the bytes of one file. Raises StorageError and OSError."""
        return self._source.open(name)

    def size(self, name: str) -> int:
        """Returns the stored size, 0 for a file that vanished."""
        try:
            return self._source.size(name)
        except (OSError, UserError):
            return 0
