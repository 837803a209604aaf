"""Allocator snapshots (``torch.cuda.memory._dump_snapshot``), read without executing code."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.filenames import run_and_step
from tb_plugin.formats.base import Candidate, each_file
from tb_plugin.formats.format_entry import FormatEntry

READER_ID = "memory_snapshot"
_NAME = re.compile(r"(?s)^(?P<worker>.*)\.(?:(?:pickle|pkl)(?:\.gz|\.zst)?|html)\Z")

_SNAPSHOT_KEYS = re.compile(
    rb"device_traces|allocator_settings|external_annotations|host_segments|segment_type|active_allocated|total_size"
)
_PICKLE = re.compile(rb"\A(?:\x80[\x02-\x05]|\(d|\(l|\}q|\]q)")


def candidate_of(path: str) -> Candidate | None:
    match = _NAME.match(PurePosixPath(path).name)
    if match is None:
        return None
    run, span = run_and_step(path)
    return Candidate(READER_ID, run, match["worker"], span, (path,), certain=False)


def _sniff(head: bytes) -> bool:
    from tb_plugin.formats.memory_snapshot.html_page import is_page

    return (_PICKLE.match(head) is not None and _SNAPSHOT_KEYS.search(head) is not None) or is_page(head)


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "PyTorch memory snapshot",
        order=70,
        raw="tb_plugin.model.snapshot.table:RawSnapshot",
        endings=(".pickle", ".pickle.gz", ".pickle.zst", ".pkl", ".pkl.gz", ".pkl.zst", ".html"),
        find=each_file(candidate_of),
        sniff=_sniff,
    ),
)
