"""Stack file names: candidates, and units of the values in a file."""

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
# words that identify stack files with a common extension
_STACK_WORDS = re.compile(r"(?i)stacks?(?:[^a-z]|$)|flame|folded|collapsed|self_\w+_time_total")
_BY_NODE = re.compile(
    r"(?i)[-_.](?:kernel_)?py_stacks$"
)  # end of the file name of stacks by graph node, after the worker
_METRIC = re.compile(r"self_(?P<device>[a-z]+)_time_total")
# names of files exported from the page, with integer nanoseconds
_PAGE_EXPORT = re.compile(r"\.(?P<weight>host|device)\.folded\.txt(?:\.gz|\.zst)?\Z")
_DEVICES = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mtia": "MTIA"}


def candidate_of(path: str) -> Candidate | None:
    """Returns an uncertain candidate, None for other extensions. Unlikely .txt files are not listed as skipped."""
    name = PurePosixPath(path).name
    match = _NAME.match(name)
    if match is None:
        return None
    worker = _BY_NODE.sub("", match["worker"]) or match["worker"]
    quiet = match["ending"] == ".txt" and not _STACK_WORDS.search(match["worker"])
    return Candidate(READER_ID, run_of(path), worker, None, (path,), certain=False, is_quiet=quiet)


def counted_by(name: str) -> tuple[Counted, str, int]:
    """Returns unit, title and scale of the values in a folded file, based on the file name."""
    if found := _PAGE_EXPORT.search(name):
        return "ns", f"{found['weight'].capitalize()} time", 1
    if found := _METRIC.search(name):
        return "ns", f"Self {_DEVICES.get(found['device'], found['device'])} time", 1000
    return "value", "", 1
