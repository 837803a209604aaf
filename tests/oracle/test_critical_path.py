"""HTA's two critical-path recordings, edge class by edge class, counted from the file.

| HTA | here |
|---|---|
| operator or kernel span | time on a chain: innermost event of a thread, work of a stream |
| dependency of top-level operators (0) | time between calls of a thread counts as CPU time, up to 1.5 ms |
| kernel launch delay | LAUNCH or OPEN_CALL, without lag if the queue was empty |
| kernel-kernel delay | time on a stream between queued kernels |
| context, stream and event sync | WAIT, if the awaited work ends during the call; else the call is CPU time |
| stream-wait event | STREAM, without lag if neither the launch nor the own stream explains the start |
| runtime lock | none: a call that waits for a lock counts as CPU time |
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.critical_path.graph import Link, dependencies
from tests.conftest import SHARED, loaded, needs_shared

FOLDER = "data/hta/critical_path"
FILES = [
    "cuda_event_sync_multi_stream/event_sync_trace.json.gz",
    "simple_add/benchmark_result_493459_1694039959_trace.json.gz",
]
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
DRAINS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize")


def events(path: str) -> list[dict[str, Any]]:
    with gzip.open(SHARED / FOLDER / path) as file:
        return [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]


@needs_shared
@pytest.mark.parametrize("path", FILES)
def test_edges_of_hta(path: str) -> None:
    found = events(path)
    graph = dependencies(loaded(f"{SHARED.name}/{FOLDER}/{path}"))
    count = np.bincount(graph.links.kind, minlength=len(Link)).tolist()
    calls = {event["args"]["correlation"]: event for event in found if event["cat"] == "cuda_runtime"}
    work = [event for event in found if event["cat"] in ON_DEVICE]
    assert count[Link.LAUNCH] + count[Link.OPEN_CALL] == sum(event["args"]["correlation"] in calls for event in work)
    assert graph.dropped == 0

    def is_awaited(call: dict[str, Any]) -> bool:
        """Whether the last work that was launched before the call ended while the call waited."""
        earlier = [each for each in work if calls[each["args"]["correlation"]]["ts"] < call["ts"]]
        last = max((each["ts"] + each["dur"] for each in earlier), default=0)
        return call["ts"] < last <= call["ts"] + call["dur"]

    waits = sum(is_awaited(call) for call in calls.values() if call["name"] in DRAINS)
    # Copies from pageable memory wait for themselves.
    copies = {event["args"]["correlation"]: event for event in work if event["cat"] == "gpu_memcpy"}
    own = sum(
        calls[number]["name"] not in DRAINS and copy["ts"] + copy["dur"] <= calls[number]["ts"] + calls[number]["dur"]
        for number, copy in copies.items()
    )
    # Other waits have a lag: the awaited work could have ended later.
    assert count[Link.WAIT] - int((graph.links.lag_ns[graph.links.kind == Link.WAIT] > 0).sum()) == waits + own
    # Both recordings have stream-wait events, the first one with the awaited event. One of the second recording delayed a
    # kernel; the others have a lag.
    delayed = (graph.links.kind == Link.STREAM) & (graph.links.lag_ns == 0)
    assert int(delayed.sum()) == graph.inferred == FILES.index(path)
    assert count[Link.STREAM] == (1, 6)[FILES.index(path)]
    assert count[Link.THREAD] == 0
