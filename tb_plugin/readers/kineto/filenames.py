"""Which files of a log directory may be Kineto traces, and which run, worker and span their names speak of."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from tb_plugin.readers.base import Candidate, ListedFile
from tb_plugin.readers.chrome.filenames import json_candidate, run_of

READER_ID = "kineto"

# The grammar of torch.profiler.tensorboard_trace_handler; the span token is a time in ms (older) or ns.
# (?s) and \Z: a file name may hold line breaks.
TRACE_NAME = re.compile(
    r"(?s)^(?P<worker>.*?)(?:\.(?P<span>\d+))?\.pt\.trace(?:(?:\.json(?:\.gz)?)?\.annotated)?\.json(?:\.gz|\.zst)?\Z"
)
# torchtitan: profiling/traces/iteration_10/rank0_trace.json.gz, with a folder of the part of the job in between or not.
_OF_ITERATION = re.compile(
    r"(?s)^(?P<above>(?:.*/)?)iteration_(?P<span>\d+)/(?P<leaf>(?:[^/]+/)?)(?P<worker>rank\d+)_trace"
    r"(?:(?:\.json(?:\.gz)?)?\.annotated)?\.json(?:\.gz|\.zst)?\Z"
)
# What torch.cuda._annotate_cuda_graph_trace of PyTorch 2.14 wrote beside a trace: all of it, and annotations.
_ANNOTATED = re.compile(r"(?s)^(?P<trace>.+?)(?:\.json(?:\.gz)?)?\.annotated\.json(?:\.gz)?\Z")
_ENDINGS = (".json", ".json.gz")
# SGLang: <seconds>-TP-0[-DP-0][-PP-0][-EP-0][-EXTEND|-DECODE].trace.json.gz
_OF_STAGE = re.compile(
    r"(?s)^(?P<second>\d{9,10})(?:\.(?P<part>\d{1,9})\d*)?-(?P<worker>TP-\d+(?:-(?:DP|PP|EP|CP)-\d+)*)"
    r"(?:-(?P<stage>[A-Z]+))?\.trace\.json(?:\.gz)?\Z"
)


def find_candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    """Returns one candidate per listed JSON file; certain when the name follows the grammar of a tool that writes them."""
    paths = {file.path for file in listing}
    found = (candidate_of(file.path, paths) for file in listing)
    return [candidate for candidate in found if candidate is not None]


def candidate_of(path: str, among: Collection[str] = ()) -> Candidate | None:
    """Returns the candidate a path (relative, forward slashes) stands for, None when it is no JSON file.

    A trace to which annotations were added stands for the one of ``among`` that it was made of.
    """
    annotated = _ANNOTATED.match(path)
    also = tuple(name for end in _ENDINGS if (name := f"{annotated['trace']}{end}") in among) if annotated else ()
    match = TRACE_NAME.match(PurePosixPath(path).name)
    if match:
        return Candidate(READER_ID, run_of(path), match["worker"], match["span"], (path,), certain=True, also=also)
    match = _OF_ITERATION.match(path)
    if match:
        run = f"{match['above']}{match['leaf']}".rstrip("/")
        return Candidate(READER_ID, run, match["worker"], match["span"], (path,), certain=True, also=also)
    match = _OF_STAGE.match(PurePosixPath(path).name)
    if match:
        time_ns = int(match["second"]) * 10**9 + int((match["part"] or "0").ljust(9, "0"))
        return Candidate(
            READER_ID, run_of(path), match["worker"], None, (path,), certain=False, also=also, time_unix_ns=time_ns,
            stage=match["stage"] or "",
        )  # fmt: skip
    found = json_candidate(READER_ID, path)
    return replace(found, also=also) if found and also else found
