"""Which files of a log directory may be MegEngine's timelines, and which run and worker their names speak of."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.filenames import json_candidate, run_of
from tb_plugin.formats.base import Candidate

READER_ID = "megengine"

# (?s) and \Z: a file name may hold line breaks.
_TIMELINE = re.compile(r"(?s)^(?P<worker>.*)\.chrome_timeline\.json(?:\.gz)?\Z")


def candidate_of(path: str) -> Candidate | None:
    """Returns the candidate that a path (relative, forward slashes) stands for; None when it is no JSON file.

    MegEngine writes ``<pid>.chrome_timeline.json``: the worker is the process. No part of the name is a time.
    """
    match = _TIMELINE.match(PurePosixPath(path).name)
    if match:
        return Candidate(READER_ID, run_of(path), match["worker"], None, (path,), certain=True)
    return json_candidate(READER_ID, path)
