"""MegEngine file names: run and worker."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.filenames import json_candidate, run_of
from tb_plugin.formats.base import Candidate

READER_ID = "megengine"

# (?s) and \Z: file names may contain line breaks.
_TIMELINE = re.compile(r"(?s)^(?P<worker>.*)\.chrome_timeline\.json(?:\.gz)?\Z")


def candidate_of(path: str) -> Candidate | None:
    """Returns a candidate, or None if the file is not JSON. The process id becomes the worker name."""
    match = _TIMELINE.match(PurePosixPath(path).name)
    if match:
        return Candidate(READER_ID, run_of(path), match["worker"], None, (path,), certain=True)
    return json_candidate(READER_ID, path)
