"""Which files of a log directory may be Kineto traces, and which run, worker and span their names speak of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from tb_plugin.readers.base import Candidate, ListedFile

READER_ID = "kineto"

# The grammar of torch.profiler.tensorboard_trace_handler; the span token is a time in ms (older) or ns.
TRACE_NAME = re.compile(r"^(?P<worker>.*?)(?:\.(?P<span>\d+))?\.pt\.trace\.json(?:\.gz)?$")
JSON_NAME = re.compile(r"^(?P<worker>.*)\.json(?:\.gz)?$")


def find_candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    """One candidate per listed JSON file; certain when the name follows the trace handler's grammar."""
    found = (candidate_of(file.path) for file in listing)
    return [candidate for candidate in found if candidate is not None]


def candidate_of(path: str) -> Candidate | None:
    """The candidate a path (relative, forward slashes) stands for, or None when it is no JSON file."""
    pure = PurePosixPath(path)
    run = "" if str(pure.parent) == "." else str(pure.parent)
    match = TRACE_NAME.match(pure.name)
    if match:
        return Candidate(READER_ID, run, match["worker"], match["span"], (path,), certain=True)
    match = JSON_NAME.match(pure.name)
    if match:
        return Candidate(READER_ID, run, match["worker"], None, (path,), certain=False)
    return None
