"""Recognition of MegEngine timelines by their first bytes."""

from __future__ import annotations

import re

from tb_plugin.formats._chrome.sniffing import has_events

# counters, calls and arrow categories that only MegEngine writes
_MARK = re.compile(
    rb'"(?:gpu_usgae_ratio|train_time_ratio|nr_(?:op_pending|alive_tensor|redunant_tensor|shape_infer_failure)|TensorWaitProp)"'
    rb'|"cat"\s*:\s*"(?:OpDispatch|TensorLink|TensorProp)"'
)


def looks_like_timeline(head: bytes) -> bool:
    return has_events(head) and _MARK.search(head) is not None
