"""Execution traces of PyTorch (``ExecutionTraceObserver``, Chakra schema) in JSON."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.filenames import run_of
from tb_plugin.formats.base import Candidate, each_file
from tb_plugin.formats.format_entry import FormatEntry

READER_ID = "execution_trace"
_NAME = re.compile(r"(?s)^(?P<worker>.+)\.json(?:\.gz|\.zst)?\Z")
_HEAD = re.compile(
    rb'\A(?:\xef\xbb\xbf)?\s{0,64}\{\s{0,64}"schema"\s{0,8}:\s{0,8}"\d[^"]{0,100}"'
    rb'[\s\S]{0,4096}?"nodes"\s{0,8}:\s{0,8}\['
)


def _candidate_of(path: str) -> Candidate | None:
    """Returns a candidate for any JSON file, because execution traces have no typical file name."""
    match = _NAME.match(PurePosixPath(path).name)
    return match and Candidate(READER_ID, run_of(path), match["worker"], None, (path,), certain=False)


def _sniff(head: bytes) -> bool:
    return _HEAD.match(head) is not None


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "PyTorch execution trace",
        order=120,
        raw="tb_plugin.model.execution_trace:ExecutionTrace",
        endings=(".json", ".json.gz"),
        find=each_file(_candidate_of),
        sniff=_sniff,
    ),
)
