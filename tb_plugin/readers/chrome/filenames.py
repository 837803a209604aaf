"""What the name of a JSON file says, when only its extension speaks for it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.readers.base import Candidate

_JSON_NAME = re.compile(r"(?s)^(?P<worker>.*)\.json(?:\.gz)?\Z")


def json_candidate(reader_id: str, path: str) -> Candidate | None:
    """Returns the uncertain candidate that a path (relative, forward slashes) stands for; None when it is no JSON file."""
    pure = PurePosixPath(path)
    match = _JSON_NAME.match(pure.name)
    return Candidate(reader_id, run_of(path), match["worker"], None, (path,), certain=False) if match else None


def run_of(path: str) -> str:
    """Returns the folder of a path, empty for none."""
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent
