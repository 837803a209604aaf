"""Candidate profiles by file extension."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.formats.base import Candidate

# Browsers and mail programs append ".txt".
_JSON_NAME = re.compile(r"(?si)^(?P<worker>.*)\.json(?:\.txt)?(?:\.gz|\.zst)?\Z")
# torch.profiler.tensorboard_trace_handler's JSON name with another extension; the span is a time in ms or ns. (?s) and
# \Z: file names may contain line breaks.
_PACKETS_NAME = re.compile(
    r"(?s)^(?P<worker>.*?)(?:\.(?P<span>\d{10,}))?(?:\.pt\.trace)?\.(?:pftrace|perfetto-trace)(?:\.gz|\.zst)?\Z"
)

# folder with one export of all ranks, such as torchtitan's iteration_20 or step_20
_STEP_FOLDER = re.compile(r"^(?:step|iteration|iter)[-_]?(?P<span>\d{1,18})\Z")


def json_candidate(reader_id: str, path: str) -> Candidate | None:
    """Returns an uncertain candidate for a JSON file or a ``.pftrace``, which may be JSON; None for others."""
    match = _JSON_NAME.match(PurePosixPath(path).name)
    if match is None:
        return packets_candidate(reader_id, path)
    return Candidate(reader_id, run_of(path), match["worker"], None, (path,), certain=False)


def packets_candidate(reader_id: str, path: str) -> Candidate | None:
    match = _PACKETS_NAME.match(PurePosixPath(path).name)
    return match and Candidate(reader_id, run_of(path), match["worker"], match["span"], (path,), certain=False)


def run_of(path: str) -> str:
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent


def run_and_step(path: str) -> tuple[str, str | None]:
    """Returns the run and the span of a path. The span is the name of the folder if that is a step number, otherwise None."""
    folder = run_of(path)
    step = _STEP_FOLDER.match(PurePosixPath(folder).name)
    return (run_of(folder), step["span"]) if step else (folder, None)
