"""Dumps of PyTorch's flight recorder: JSON, or pickles that are never executed."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.filenames import run_and_step
from tb_plugin.formats.base import Candidate, each_file
from tb_plugin.formats.format_entry import FormatEntry

READER_ID = "flight_recorder"
# The file name is TORCH_FR_DUMP_TEMP_FILE (TORCH_NCCL_DEBUG_INFO_TEMP_FILE), any prefix, followed by the rank.
_NAME = re.compile(
    r"(?s)^(?P<stem>.*?)(?<![\d.])(?P<rank>\d{1,6})(?P<ending>\.(?:json|pickle|pkl|bin|dump))?(?:\.(?:gz|zst))?\Z"
)
_DUMP_PREFIX = re.compile(r"(?i)trace|flight|nccl|rank[_-]?\Z|(?:^|[^a-z])(?:fr|dump)(?:[^a-z]|$)")
"""File names that suggest a dump. Others are not listed as skipped, because many end in a number."""
_PICKLE = re.compile(rb"\A(?:\x80[\x02-\x05]|\(d|\}q|\(l|\]q)")
_PICKLE_KEYS = re.compile(rb"pg_config|pg_status|collective_seq_id|profiling_name|comm_lib_version|nccl_version")
TEXT = re.compile(rb"\A(?:\xef\xbb\xbf)?[ \t\r\n]{0,64}\{")
_JSON_KEYS = re.compile(rb'"(?:pg_config|pg_status|collective_seq_id|comm_lib_version|nccl_comm_state)"[ \t\r\n]{0,8}:')


def candidate_of(path: str) -> Candidate | None:
    """Returns an uncertain candidate, or None if the file name does not end in a rank number."""
    match = _NAME.match(PurePosixPath(path).name)
    if match is None:
        return None
    run, span = run_and_step(path)
    is_quiet = _DUMP_PREFIX.search(f"{PurePosixPath(run).name}/{match['stem']}") is None
    if is_quiet and (match["ending"] or not match["stem"].endswith(("_", "-"))):
        return None
    return Candidate(READER_ID, run, f"rank{int(match['rank'])}", span, (path,), certain=False, is_quiet=is_quiet)


def _sniff(head: bytes) -> bool:
    if TEXT.match(head):
        return _JSON_KEYS.search(head) is not None
    return _PICKLE.match(head) is not None and _PICKLE_KEYS.search(head) is not None


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "PyTorch flight recorder",
        order=100,
        raw="tb_plugin.model.flight_recorder:RawFlight",
        endings=("trace_rank_<R>", "rank<R>.json"),
        find=each_file(candidate_of),
        sniff=_sniff,
    ),
)
