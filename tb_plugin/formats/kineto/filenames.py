"""Kineto file names: run, worker and span."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from tb_plugin.formats._chrome.filenames import json_candidate, run_of
from tb_plugin.formats.base import Candidate, ListedFile

READER_ID = "kineto"

# File names of torch.profiler.tensorboard_trace_handler. The span is a time in ms (older) or ns. (?s) and \Z are needed
# because file names may contain line breaks.
TRACE_NAME = re.compile(
    r"(?s)^(?P<worker>.*?)(?:\.(?P<span>\d+))?\.pt\.trace(?:(?:\.json(?:\.gz)?)?\.annotated)?\.json(?:\.gz|\.zst)?\Z"
)
# torchtitan: profiling/traces/iteration_10/rank0_trace.json.gz, optionally in a folder for the part of the job
_TORCHTITAN = re.compile(
    r"(?s)^(?P<above>(?:.*/)?)iteration_(?P<span>\d+)/(?P<leaf>(?:[^/]+/)?)(?P<worker>rank\d+)_trace"
    r"(?:(?:\.json(?:\.gz)?)?\.annotated)?\.json(?:\.gz|\.zst)?\Z"
)
# torch.cuda._annotate_cuda_graph_trace of PyTorch 2.14 writes an annotated copy beside the trace.
_ANNOTATED = re.compile(r"(?s)^(?P<trace>.+?)(?:\.json(?:\.gz)?)?\.annotated\.json(?:\.gz)?\Z")
_PROCESS = re.compile(r"(?s)^.+_\d+\Z")
_ENDINGS = (".json", ".json.gz")
_EXPORTED = re.compile(r"(?s)^(?P<stem>.+?)(?:\.trace)?(?:(?:\.json(?:\.gz)?)?\.annotated)?\.json(?:\.gz)?\Z")
# File names of other tools (docs/formats.md). Groups: ``rank`` or ``worker``; ``second`` and its fraction ``part``, a
# time that all ranks share; ``span``, a counter; ``stage``.
_HANDLER_NAMES = (
    # Lightning: fit-[<filename>-]<local rank>-[Strategy]DDPStrategy.training_step, later with _ for signs
    re.compile(
        r"(?s)^(?P<stage>fit|validate|test|predict)-(?:.+-)?(?P<rank>\d+)-"
        r"(?:[\[_].+[\]._])?(?:training|validation|test|predict)_step\Z"
    ),
    # DLRM: worker0_step_12
    re.compile(r"(?s)^(?P<worker>.+)_step_(?P<span>\d+)\Z"),
)
_EXPORT_NAMES = (
    # SGLang: [<prefix>-]<seconds>-TP-0[-DP-0][-PP-0][-EP-0][-EXTEND|-DECODE]
    re.compile(
        r"(?s)^(?:.*-)?(?P<second>\d{9,10})(?:\.(?P<part>\d{1,9})\d*)?-(?P<worker>TP-\d+(?:-(?:DP|PP|EP|CP)-\d+)*)"
        r"(?:-(?P<stage>[A-Z]+))?\Z"
    ),
    # verl: [<phase>_]prof_rank-0_<pid>_<local time>, and before prof_start_3_end_3_rank_0
    re.compile(r"(?s)^(?:(?P<stage>.+)_)?prof_rank-(?P<rank>\d+)_\d+_(?P<span>\d{17})(?:_cycle\d+)?\Z"),
    re.compile(r"^prof_start_(?P<span>\d+)_end_\d+_rank_(?P<rank>\d+)\Z"),
    # Composer
    re.compile(r"^ep\d+-ba(?P<span>\d+)-rank(?P<rank>\d+)\Z"),
    # Megatron
    re.compile(r"^rank-(?P<rank>\d+)\Z"),
)


def find_candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    """Returns one candidate per JSON file. A candidate is certain if its file name has the form that a known tool uses."""
    paths = {file.path for file in listing}
    found = (candidate_of(file.path, paths) for file in listing)
    return [candidate for candidate in found if candidate is not None]


def candidate_of(path: str, among: Collection[str] = ()) -> Candidate | None:
    """Returns a candidate, or None. An annotated trace also claims its original in ``among``."""
    annotated = _ANNOTATED.match(path)
    also = tuple(name for end in _ENDINGS if (name := f"{annotated['trace']}{end}") in among) if annotated else ()
    match = TRACE_NAME.match(PurePosixPath(path).name)
    if match:
        handler_file = Candidate(
            READER_ID, run_of(path), match["worker"], match["span"], (path,), certain=True, also=also
        )
        return _with_worker(handler_file, handler_file.worker, _HANDLER_NAMES)
    match = _TORCHTITAN.match(path)
    if match:
        run = f"{match['above']}{match['leaf']}".rstrip("/")
        return Candidate(READER_ID, run, match["worker"], match["span"], (path,), certain=True, also=also)
    found = json_candidate(READER_ID, path)
    exported = _EXPORTED.match(PurePosixPath(path).name)
    return found and _with_worker(replace(found, also=also), exported["stem"] if exported else "", _EXPORT_NAMES)


def process_in(path: str) -> str:
    """Returns host and process (``host_4711``) from a default name of tensorboard_trace_handler, or "" for other names."""
    candidate = candidate_of(path)
    is_process = candidate is not None and candidate.certain and _PROCESS.match(candidate.worker)
    return candidate.worker if candidate is not None and is_process else ""


def _with_worker(candidate: Candidate, stem: str, namings: Sequence[re.Pattern[str]]) -> Candidate:
    match = next((match for naming in namings if (match := naming.match(stem))), None)
    if match is None:
        return candidate
    groups = match.groupdict()
    second = groups.get("second")
    return replace(
        candidate,
        worker=groups.get("worker") or f"rank{int(groups['rank'])}",
        span=candidate.span or groups.get("span"),
        time_unix_ns=int(second) * 10**9 + int((groups["part"] or "0").ljust(9, "0")) if second else None,
        stage=groups.get("stage") or "",
    )
