"""Which files of a log directory may be Kineto traces, and which run, worker and span their names speak of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from tb_plugin.readers.base import Candidate, ListedFile
from tb_plugin.readers.chrome.filenames import json_candidate, run_of

READER_ID = "kineto"

# The grammar of torch.profiler.tensorboard_trace_handler; the span token is a time in ms (older) or ns.
# (?s) and \Z: a file name may hold line breaks.
TRACE_NAME = re.compile(r"(?s)^(?P<worker>.*?)(?:\.(?P<span>\d+))?\.pt\.trace\.json(?:\.gz)?\Z")


def find_candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    """Returns one candidate per listed JSON file; certain when the name follows the trace handler's grammar."""
    found = (candidate_of(file.path) for file in listing)
    return [candidate for candidate in found if candidate is not None]


def candidate_of(path: str) -> Candidate | None:
    """Returns the candidate a path (relative, forward slashes) stands for, None when it is no JSON file."""
    match = TRACE_NAME.match(PurePosixPath(path).name)
    if match:
        return Candidate(READER_ID, run_of(path), match["worker"], match["span"], (path,), certain=True)
    return json_candidate(READER_ID, path)
