"""Sources for one file, and for files that may vanish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from tb_plugin.errors import UserError
from tb_plugin.formats.base import Source


class OneFile(Source):
    """A source with one file of a profile."""

    def __init__(self, source: Source, name: str) -> None:
        self._source = source
        self._name = name

    def names(self) -> Sequence[str]:
        """Returns the file's name."""
        return [self._name]

    def open(self, name: str) -> BinaryIO:
        """Opens the file. Raises StorageError."""
        return self._source.open(name)

    def size(self, name: str) -> int:
        """Returns the stored size in bytes."""
        return self._source.size(name)


class Steady(Source):
    """A profile whose files may vanish after listing. A vanished file has size 0, and opening it raises an error."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def names(self) -> Sequence[str]:
        """Returns the names of all listed files."""
        return self._source.names()

    def open(self, name: str) -> BinaryIO:
        """Opens a file. Raises StorageError and OSError."""
        return self._source.open(name)

    def size(self, name: str) -> int:
        """Returns the stored size in bytes, 0 for a vanished file."""
        try:
            return self._source.size(name)
        except (OSError, UserError):
            return 0
