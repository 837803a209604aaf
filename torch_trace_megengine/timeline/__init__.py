"""MegEngine's chrome_timeline.json: threads, devices and CUPTI streams."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.filenames import json_candidate, run_of
from tb_plugin.formats._chrome.sniffing import has_events
from tb_plugin.formats.base import Candidate, each_file
from tb_plugin.formats.format_entry import TRACE, FormatEntry

READER_ID = "megengine"

# (?s) and \Z: file names may contain line breaks.
_TIMELINE = re.compile(r"(?s)^(?P<worker>.*)\.chrome_timeline\.json(?:\.gz)?\Z")
# counters, calls and arrow categories that only MegEngine writes
_MARK = re.compile(
    rb'"(?:gpu_usgae_ratio|train_time_ratio|nr_(?:op_pending|alive_tensor|redunant_tensor|shape_infer_failure)|TensorWaitProp)"'
    rb'|"cat"\s*:\s*"(?:OpDispatch|TensorLink|TensorProp)"'
)


def candidate_of(path: str) -> Candidate | None:
    """Returns a candidate, or None if the file is not JSON. The process id becomes the worker name."""
    match = _TIMELINE.match(PurePosixPath(path).name)
    if match:
        return Candidate(READER_ID, run_of(path), match["worker"], None, (path,), certain=True)
    return json_candidate(READER_ID, path)


def _sniff(head: bytes) -> bool:
    return has_events(head) and _MARK.search(head) is not None


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "MegEngine trace",
        order=40,
        raw=TRACE,
        endings=(".chrome_timeline.json.gz", ".chrome_timeline.json"),
        find=each_file(candidate_of),
        sniff=_sniff,
    ),
)
