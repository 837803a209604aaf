"""Which files may be snapshots, and which run, worker and span their paths speak of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from tb_plugin.readers.base import Candidate, ListedFile

READER_ID = "memory_snapshot"
ENDINGS = (".pickle", ".pickle.gz", ".pickle.zst", ".pkl", ".pkl.gz", ".pkl.zst", ".html")

_NAME = re.compile(r"(?s)^(?P<worker>.*)\.(?:(?:pickle|pkl)(?:\.gz|\.zst)?|html)\Z")
# A folder for each time that all ranks wrote one: torchtitan's iteration_20 or step_20.
_STEP = re.compile(r"^(?:step|iteration|iter)[-_]?(?P<span>\d{1,18})\Z")


def find_candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    """Returns one uncertain candidate for each file whose ending a snapshot may have."""
    found = (candidate_of(file.path) for file in listing)
    return [candidate for candidate in found if candidate is not None]


def candidate_of(path: str) -> Candidate | None:
    """Returns the candidate that a path (relative, forward slashes) stands for; None when its ending is another one.

    A folder that counts steps is the span, and the folder around it the run.
    """
    pure = PurePosixPath(path)
    match = _NAME.match(pure.name)
    if match is None:
        return None
    step = _STEP.match(pure.parent.name)
    folder = pure.parent.parent if step else pure.parent
    run = "" if str(folder) == "." else str(folder)
    return Candidate(READER_ID, run, match["worker"], step["span"] if step else None, (path,), certain=False)
