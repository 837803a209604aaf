"""A format that is a folder of 14 files, as an extension: what the tests of claims register."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from tb_plugin.formats.base import Candidate
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.storage.files import FileSource

NAMES = (
    "OUT/timeline.json",  # Kineto's reader would take it
    "OUT/communication.json",  # it would ask for it, and tell that it is no trace
    *(f"OUT/table_{i}.csv" for i in range(10)),
    "info.json",
)
RAW = ("PROF_1/device.json",)
TIME_NS = 1_741_000_000_000_000_000


@dataclass
class FolderReader:
    """A format that is a folder: what it reads is in OUT, what lies beside it is raw data."""

    id: str = "folder"
    title: str = "a folder"
    raw: type[RawTrace] = RawTrace
    endings: tuple[str, ...] = ("_profile/",)
    is_certain: bool = True

    def find(self, listing):
        found = []
        for root in dict.fromkeys(file.path.partition("_profile/")[0] for file in listing if "_profile/" in file.path):
            place = f"{root}_profile"
            mine = [file.path for file in listing if file.path.startswith(f"{place}/")]
            read = [f"{place}/{name}" for name in NAMES if f"{place}/{name}" in mine]
            also = tuple(path for path in mine if path not in read)
            run, worker = str(PurePosixPath(root).parent), PurePosixPath(root).name
            found.append(
                Candidate(self.id, run, worker, None, tuple(read), self.is_certain, place, also, time_unix_ns=TIME_NS)
            )
        return found

    def sniff(self, head):
        return b'"version": 7' not in head

    def peak_memory_bytes(self, sizes):
        assert len(sizes) == 13
        return 1

    def read(self, source, options, progress):
        assert len(source.names()) == 13 and all(source.size(name) for name in source.names())
        only = _Only(source, source.names()[0])
        return KinetoReader().read(only, options, progress)


class _Only:
    """One file of a folder as a source of its own."""

    def __init__(self, source: FileSource, name: str) -> None:
        self._source, self._name = source, name

    def names(self):
        return [self._name]

    def open(self, name):
        return self._source.open(name)

    def size(self, name):
        return self._source.size(name)


READERS = (FolderReader(),)
