"""Kineto's Chrome JSON: ``<worker>.<time>.pt.trace.json[.gz]``, written by torch.profiler."""

from __future__ import annotations

import re

from tb_plugin.formats._chrome.sniffing import has_events, text_start
from tb_plugin.formats.format_entry import TRACE, FormatEntry
from tb_plugin.formats.kineto.filenames import READER_ID, find_candidates

# Root keys that only Kineto writes. One is enough, even without events.
_ROOT_KEY = re.compile(
    rb'"(?:deviceProperties|distributedInfo|baseTimeNanoseconds|trace_id|record_shapes|with_stack)"\s*:\s*[\[{0-9"]'
)
# Typical content of torch.profiler events. schemaVersion alone is not enough: container manifests contain it too.
_MARK = re.compile(
    rb'"schemaVersion"\s*:|"(?:PyTorch Profiler|CPU functions|\[memory\]|cpu_instant_event)"|"aten::|"ProfilerStep#'
    rb'|"(?:External id|external id|Ev Idx|Python id|Fwd thread id|Record function id)"\s*:'
    rb'|"cat"\s*:\s*"(?:cpu_op|Operator|user_annotation|gpu_user_annotation|python_function|Python|kernel|Kernel'
    rb"|cuda_runtime|cuda_driver|hip_runtime|xpu_runtime|mtia_runtime|Runtime|gpu_memcpy|gpu_memset|Memcpy|Memset"
    rb'|ac2g|async_gpu|async_cpu_to_gpu|fwdbwd|forward_backward|cuda_profiler_range|overhead)"'
)


def looks_like_trace(head: bytes) -> bool:
    """Returns True if the events look like those of torch.profiler, or if there is a root key of Kineto."""
    if has_events(head) and _MARK.search(head):
        return True
    return text_start(head).startswith(b"{") and _ROOT_KEY.search(head) is not None


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "PyTorch trace",
        order=30,
        raw=TRACE,
        endings=(".json.gz", ".json"),
        find=find_candidates,
        sniff=looks_like_trace,
    ),
)
