"""Sources for a single file, and for files that may vanish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from tb_plugin.errors import UserError
from tb_plugin.formats.base import Source


class OneFile(Source):
    """A source that contains one file of a profile."""

    def __init__(self, source: Source, name: str) -> None:
        self._source = source
        self._name = name

    def names(self) -> Sequence[str]:
        return [self._name]

    def open(self, name: str) -> BinaryIO:
        return self._source.open(name)

    def size(self, name: str) -> int:
        return self._source.size(name)


class Steady(Source):
    """A source whose files may vanish after they were listed. A vanished file has size 0 and cannot be opened."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def names(self) -> Sequence[str]:
        return self._source.names()

    def open(self, name: str) -> BinaryIO:
        """Opens a file. Raises StorageError and OSError."""
        return self._source.open(name)

    def size(self, name: str) -> int:
        try:
            return self._source.size(name)
        except (OSError, UserError):
            return 0
