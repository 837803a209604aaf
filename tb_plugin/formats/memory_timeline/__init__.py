"""Files of ``torch.profiler.profile.export_memory_timeline``: JSON and raw JSON."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Literal

from tb_plugin.formats._chrome.filenames import run_of
from tb_plugin.formats._chrome.sniffing import text_start
from tb_plugin.formats.base import Candidate, each_file
from tb_plugin.formats.format_entry import FormatEntry

READER_ID = "memory_timeline"
Form = Literal["raw", "levels"]
LEVEL_COLUMNS = 9  # one column that is always 0, and one per category

_NAME = re.compile(r"(?s)^(?P<stem>.*?)(?:\.json(?:\.gz)?|(?<=\.raw)\.gz|\.html)\Z")
# a time in ms, us or ns since 1970, as in the names of trace handlers
_SPAN = re.compile(r"[._-](\d{13}|\d{16}|\d{19})(?=[._-]|\Z)")
_SPACE = rb"[ \t\r\n]{0,64}"
_COMMA = _SPACE + rb"," + _SPACE
_RAW = re.compile(
    rb"\[" + _SPACE + rb"\[" + _SPACE + rb"(?:-1|\d{18,19})" + _COMMA + rb"[1-4]" + _COMMA + rb"-?\d{1,19}" + _COMMA
    + rb"[0-7]" + _SPACE + rb"\]"
)  # fmt: skip
# microseconds since 1970, for 1973 and later
_TIMES = re.compile(rb"\[" + _SPACE + rb"\[" + _SPACE + rb"((?:-1|\d{15,17})" + rb"(?:" + _COMMA + rb"\d{15,17})*)")
_SIZES = re.compile(
    _SPACE + rb"\]" + _COMMA + rb"\[" + _SPACE + rb"\[" + _SPACE + rb"-?\d{1,19}"
    + rb"(?:" + _COMMA + rb"-?\d{1,19}){%d}" % (LEVEL_COLUMNS - 1) + _SPACE + rb"\]"
)  # fmt: skip
_NOTHING = re.compile(rb"\[" + _SPACE + rb"\[" + _SPACE + rb"\]" + _COMMA + rb"\[" + _SPACE + rb"\]" + _SPACE + rb"\]")
_TIMES_CUT = re.compile(rb"[ \t\r\n,\d]{0,100}\Z")  # the examined bytes contain only times
# the examined bytes end inside the first sizes
_SIZES_CUT = re.compile(_SPACE + rb"\]" + _SPACE + rb"(?:,[ \t\r\n,\[\d-]{0,300})?\Z")


def candidate_of(path: str) -> Candidate | None:
    match = _NAME.match(PurePosixPath(path).name)
    if match is None:
        return None
    stem = match["stem"]
    span = _SPAN.search(stem)
    worker = stem if span is None else stem[: span.start()] + stem[span.end() :]
    return Candidate(READER_ID, run_of(path), worker, span and span[1], (path,), certain=False)


def form_of(head: bytes) -> Form | None:
    """Returns the form of the file, or None if it is not a memory timeline. ``head`` contains its first bytes."""
    text = text_start(head)
    if _RAW.match(text):
        return "raw"
    if _NOTHING.match(text):
        return "levels"
    times = _TIMES.match(text)
    if times is None:
        return None
    end = times.end()
    follows = _SIZES.match(text, end) or _TIMES_CUT.match(text, end) or _SIZES_CUT.match(text, end)
    return "levels" if follows else None


def _sniff(head: bytes) -> bool:
    return form_of(head) is not None


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "PyTorch memory timeline",
        order=80,
        raw="tb_plugin.model.category_memory:RawCategoryMemory",
        endings=(".json.gz", ".json", ".raw.gz"),
        find=each_file(candidate_of),
        sniff=_sniff,
    ),
)
