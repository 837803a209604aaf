"""What the name of a JSON file says, when only its extension speaks for it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.formats.base import Candidate

# Browsers and mail programs append ".txt".
_JSON_NAME = re.compile(r"(?si)^(?P<worker>.*)\.json(?:\.txt)?(?:\.gz|\.zst)?\Z")
# As torch.profiler.tensorboard_trace_handler calls its JSON, with another ending; the span token is a time in ms or ns.
# (?s) and \Z: a file name may hold line breaks.
_PACKETS_NAME = re.compile(
    r"(?s)^(?P<worker>.*?)(?:\.(?P<span>\d{10,}))?(?:\.pt\.trace)?\.(?:pftrace|perfetto-trace)(?:\.gz|\.zst)?\Z"
)

# A folder for each time that all ranks wrote one: torchtitan's iteration_20 or step_20.
_STEP = re.compile(r"^(?:step|iteration|iter)[-_]?(?P<span>\d{1,18})\Z")


def json_candidate(reader_id: str, path: str) -> Candidate | None:
    """Returns the uncertain candidate that a path (relative, forward slashes) stands for; None when it is no JSON file.

    PyTorch writes JSON also where a name asks for packets.
    """
    match = _JSON_NAME.match(PurePosixPath(path).name)
    if match is None:
        return packets_candidate(reader_id, path)
    return Candidate(reader_id, run_of(path), match["worker"], None, (path,), certain=False)


def packets_candidate(reader_id: str, path: str) -> Candidate | None:
    """Returns the uncertain candidate that the name of a Perfetto trace stands for; None when it is none."""
    match = _PACKETS_NAME.match(PurePosixPath(path).name)
    return match and Candidate(reader_id, run_of(path), match["worker"], match["span"], (path,), certain=False)


def run_of(path: str) -> str:
    """Returns the folder of a path, empty for none."""
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent


def run_and_step(path: str) -> tuple[str, str | None]:
    """Returns the run and the span of a path, of which a folder that counts steps is the span."""
    folder = run_of(path)
    step = _STEP.match(PurePosixPath(folder).name)
    return (run_of(folder), step["span"]) if step else (folder, None)
