"""MegEngine's memory flow drawings (``<pid>.memory_flow.svg``), with one rectangle per tensor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.filenames import run_of
from tb_plugin.formats.base import Candidate, ListedFile
from tb_plugin.formats.format_entry import FormatEntry

READER_ID = "memory_flow"
_NAME = re.compile(r"(?s)^(?P<worker>.+)\.memory_flow\.svg(?:\.gz)?\Z")
_MARK = re.compile(rb'xmlns:tag="https://megengine\.org\.cn"')


def _find(listing: Sequence[ListedFile]) -> list[Candidate]:
    """Returns a candidate for each ``<pid>.memory_flow.svg``. The process id becomes the worker name."""
    names = ((file.path, _NAME.match(PurePosixPath(file.path).name)) for file in listing)
    return [
        Candidate(READER_ID, run_of(path), match["worker"], None, (path,), certain=True)
        for path, match in names
        if match
    ]


def _sniff(head: bytes) -> bool:
    return _MARK.search(head) is not None


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "MegEngine memory flow",
        order=90,
        raw="tb_plugin.model.memory_flow:RawMemoryFlow",
        endings=(".memory_flow.svg", ".memory_flow.svg.gz"),
        find=_find,
        sniff=_sniff,
    ),
)
