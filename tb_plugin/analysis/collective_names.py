"""Normalized names of collectives."""

from __future__ import annotations

import re

from tb_plugin.analysis.communication import BACKEND

_DISPATCHER = re.compile(r"^_?c10d(?:_functional(?:_autograd)?)?::_?(\w+?)_?$")
_FAMILIES = (
    (r"all_?to_?allv|deep_ep::.*(?:dispatch|combine)", "all_to_allv"),
    (r"all_?to_?all", "all_to_all"),
    (r"reduce_?scatter", "reduce_scatter"),
    (r"all_?gather", "all_gather"),
    (r"all_?reduce|cross_device_reduce", "all_reduce"),
    (r"send_?recv", "send_recv"),
    (r"broadcast|bcast", "broadcast"),
    (r"scatter", "scatter"),
    (r"gather", "gather"),
    (r"reduce", "reduce"),
    (r"barrier", "barrier"),
    (r"recv|receive", "recv"),
    (r"send", "send"),
)
_FAMILY = [(re.compile(pattern, re.IGNORECASE), name) for pattern, name in _FAMILIES]
# Waiting for a collective, and the end of a coalesced batch of calls.
WAIT, BATCH_END = "wait", "end_coalescing"
# Operations in record_param_comms that move no data.
NOT_COLLECTIVE = frozenset({WAIT, BATCH_END, "init", "pg_init", "start_coalescing"})
POINT_TO_POINT = frozenset({"send", "recv", "send_recv"})
UNEVEN = frozenset({"all_to_all", "all_to_allv", "gather", "scatter"})
"""Collectives in which ranks may send and receive different numbers of elements."""


def collective_name(text: str) -> str:
    """Normalizes a name, such as ``all_reduce`` for ``c10d::allreduce_`` or ``ncclKernel_AllReduce``."""
    for pattern in (BACKEND, _DISPATCHER):
        if found := pattern.match(text):
            text = found.group(found.lastindex or 1)
            break
    lowered = text.lower().strip("_")
    if lowered in NOT_COLLECTIVE:
        return lowered
    # A kernel for all collectives (ncclDevKernel_Generic) stays as is, without its signature.
    return next((name for pattern, name in _FAMILY if pattern.search(text)), re.split(r"[(<]", text)[0])
