"""Chrome's trace JSON of any tool: VizTracer, custom tracers, Perfetto exports."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.filenames import json_candidate, run_of
from tb_plugin.formats._chrome.sniffing import has_events, speaks_of_time
from tb_plugin.formats.base import Candidate, each_file
from tb_plugin.formats.format_entry import TRACE, FormatEntry

READER_ID = "chrome"

_NODE_NAME = re.compile(r"(?P<worker>node_trace\.[0-9]{1,9})\.log\Z")


def _candidate_of(path: str) -> Candidate | None:
    match = _NODE_NAME.match(PurePosixPath(path).name)
    if match is None:
        return json_candidate(READER_ID, path)
    return Candidate(READER_ID, run_of(path), match["worker"], None, (path,), certain=False)


def _sniff(head: bytes) -> bool:
    return has_events(head) or speaks_of_time(head)


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "Chrome trace",
        order=50,
        raw=TRACE,
        endings=(".json.gz", ".json", ".log"),
        find=each_file(_candidate_of),
        sniff=_sniff,
    ),
)
