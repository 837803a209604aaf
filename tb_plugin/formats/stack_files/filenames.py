"""Which files may hold stacks, what their names say was counted, and how a name reads without its ending."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from tb_plugin.formats._chrome.filenames import run_of
from tb_plugin.formats.base import Candidate

if TYPE_CHECKING:
    from tb_plugin.model.stack_profile import Counted

READER_ID = "stack_files"
ENDINGS = (".folded", ".collapsed", ".stacks", ".folded.txt", ".speedscope.json", ".txt")

_NAME = re.compile(
    r"(?s)^(?P<worker>.+?)(?P<ending>\.folded(?:\.txt)?|\.collapsed(?:\.txt)?|\.stacks(?:\.txt)?|\.speedscope(?:\.json)?|\.json|\.txt)"
    r"(?:\.gz|\.zst)?\Z"
)  # fmt: skip
_SPEAKS = re.compile(r"(?i)stacks?(?:[^a-z]|$)|flame|folded|collapsed|self_\w+_time_total")
"""What a name says that ends as anything may."""
_BY_NODE = re.compile(r"(?i)[-_.](?:kernel_)?py_stacks$")
"""What a name of stacks by node of a graph ends in beside the worker."""
_METRIC = re.compile(r"self_(?P<device>[a-z]+)_time_total")
_OURS = re.compile(r"\.(?P<weight>host|device)\.folded\.txt(?:\.gz|\.zst)?\Z")
"""As the page calls what it exports: whole nanoseconds."""
_DEVICES = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mtia": "MTIA"}


def candidate_of(path: str) -> Candidate | None:
    """Returns the uncertain candidate that a path stands for; None where the ending speaks against it.

    Text of any kind ends in .txt: where nothing in the name speaks for stacks it is refused without a word.
    """
    name = PurePosixPath(path).name
    match = _NAME.match(name)
    if match is None:
        return None
    worker = _BY_NODE.sub("", match["worker"]) or match["worker"]
    quiet = match["ending"] == ".txt" and not _SPEAKS.search(match["worker"])
    return Candidate(READER_ID, run_of(path), worker, None, (path,), certain=False, is_quiet=quiet)


def counted_by(name: str) -> tuple[Counted, str, int]:
    """Returns what a file of folded stacks counts by its name, in words, and by what its numbers are to be multiplied."""
    if found := _OURS.search(name):
        return "ns", f"{found['weight'].capitalize()} time", 1
    if found := _METRIC.search(name):
        return "ns", f"Self {_DEVICES.get(found['device'], found['device'])} time", 1000
    return "value", "", 1
