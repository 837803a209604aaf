"""Snapshot file names: run, worker and span."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.filenames import run_and_step
from tb_plugin.formats.base import Candidate, ListedFile

READER_ID = "memory_snapshot"
ENDINGS = (".pickle", ".pickle.gz", ".pickle.zst", ".pkl", ".pkl.gz", ".pkl.zst", ".html")

_NAME = re.compile(r"(?s)^(?P<worker>.*)\.(?:(?:pickle|pkl)(?:\.gz|\.zst)?|html)\Z")


def find_candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    found = (candidate_of(file.path) for file in listing)
    return [candidate for candidate in found if candidate is not None]


def candidate_of(path: str) -> Candidate | None:
    match = _NAME.match(PurePosixPath(path).name)
    if match is None:
        return None
    run, span = run_and_step(path)
    return Candidate(READER_ID, run, match["worker"], span, (path,), certain=False)
