"""The format: ``{"numbers": {name: whole number}}`` in files that end in ``.toy.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import Candidate, FileSize, ListedFile, Progress, ReadOptions, ReadState, Source
from tb_plugin.model.trace.report import ReadReport
from tests.toy.model import ReadNumbers

END = ".toy.json"


class ToyReader:
    id = "toy"
    title = "Numbers"
    endings = (".toy.json",)
    raw = ReadNumbers

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        paths = [PurePosixPath(file.path) for file in listing if file.path.endswith(END)]
        return [
            Candidate(self.id, str(path.parent), path.name.removesuffix(END), None, (str(path),), certain=True)
            for path in paths
        ]

    def sniff(self, head: bytes) -> bool:
        return head.startswith(b'{"numbers"')

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return 10 * sum(size.stored_bytes for size in sizes.values())

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> ReadNumbers:
        (name,) = source.names()
        with source.open(name) as stream:
            content = stream.read()
        progress(ReadState(1.0, 0, {}))
        try:
            numbers = {str(key): int(value) for key, value in json.loads(content)["numbers"].items()}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise UnreadableTrace("It holds no numbers.", name, "Write some.") from error
        return ReadNumbers(numbers, ReadReport(self.id, len(content), len(content), records=""))
