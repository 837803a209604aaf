"""Does a file that begins like this hold a timeline of MegEngine? Judged by the first bytes alone."""

from __future__ import annotations

import re

from tb_plugin.formats._chrome.sniffing import has_events

_MARK = re.compile(
    rb'"(?:gpu_usgae_ratio|train_time_ratio|nr_(?:op_pending|alive_tensor|redunant_tensor|shape_infer_failure)|TensorWaitProp)"'
    rb'|"cat"\s*:\s*"(?:OpDispatch|TensorLink|TensorProp)"'
)
"""Counters, calls and categories of arrows that only MegEngine writes."""


def looks_like_timeline(head: bytes) -> bool:
    """Returns True for events among which something speaks of MegEngine."""
    return has_events(head) and _MARK.search(head) is not None
