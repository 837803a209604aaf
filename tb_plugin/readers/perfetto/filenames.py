"""Which files may be Perfetto's traces, and which run, worker and span their names speak of."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.readers.base import Candidate
from tb_plugin.readers.chrome.filenames import run_of

READER_ID = "perfetto"

# As torch.profiler.tensorboard_trace_handler calls its JSON, with another ending; the span token is a time in ms or ns.
# (?s) and \Z: a file name may hold line breaks.
_NAME = re.compile(
    r"(?s)^(?P<worker>.*?)(?:\.(?P<span>\d{10,}))?(?:\.pt\.trace)?\.(?:pftrace|perfetto-trace)(?:\.gz)?\Z"
)


def candidate_of(path: str) -> Candidate | None:
    """Returns the candidate that a path (relative, forward slashes) stands for, None where its name is another.

    It is never certain: PyTorch writes plain JSON under such a name, too.
    """
    match = _NAME.match(PurePosixPath(path).name)
    return match and Candidate(READER_ID, run_of(path), match["worker"], match["span"], (path,), certain=False)
