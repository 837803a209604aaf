"""What a read says about itself while it goes on."""

from __future__ import annotations

import json
from itertools import pairwise

from tb_plugin.formats.base import ReadOptions, ReadState
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.table import RawTrace
from tests.builders import kernel, trace
from tests.formats.sources import Bytes


def states_of(content: bytes) -> tuple[list[ReadState], RawTrace]:
    """Everything that a read said on its way, and what it read."""
    states: list[ReadState] = []
    return states, KinetoReader().read(Bytes(content), ReadOptions(4096), states.append)


def test_progress_counts_the_events_that_were_read_so_far():
    builder = trace()
    for i in range(5000):
        builder.op(f"aten::op{i}", at=i * 10, dur=8).launches(kernel("gemm", dur=4))
    states, raw = states_of(builder.bytes())
    assert len(states) > 3
    for one, other in pairwise(states):
        assert one.fraction <= other.fraction and one.events <= other.events
    for state in states:
        assert sum(state.counts.values()) == state.events
    middle = states[len(states) // 2]
    # What was decoded lags behind what was read by a block at most.
    assert 0 < middle.events < states[-1].events
    last = states[-1]
    assert (last.fraction, last.events) == (1.0, raw.report.events_in_file)
    assert last.counts["kernel"] == last.counts["operator"] == 5000


def test_progress_counts_what_is_no_row():
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5},
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 2, "args": {"Bytes": 4}},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
    ]
    states, _ = states_of(json.dumps({"traceEvents": events}).encode())
    assert states[-1].counts == {"operator": 1, "memory": 1, "other": 1}


def test_progress_begins_anew_when_a_later_list_replaces_the_events():
    def listed(*names: str) -> str:
        return json.dumps(
            [{"ph": "X", "cat": "cpu_op", "name": n, "pid": 1, "tid": 1, "ts": 1, "dur": 5} for n in names]
        )

    states, raw = states_of(f'{{"traceEvents": {listed("a", "b", "c")}, "traceEvents": {listed("d")}}}'.encode())
    assert states[-1].events == len(raw.start_ns) == 1


def test_what_stands_ahead_of_the_events_is_known_before_them():
    events = [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(20_000)]
    head = {"deviceProperties": [{"id": 0, "name": "GPU"}], "with_stack": 1}
    text = json.dumps(head | {"traceEvents": events, "traceName": "x"})
    states, raw = states_of(text.encode())
    early = [state for state in states if 0 < state.events < 10_000]
    assert early and all(state.head == head for state in early)
    assert states[-1].head == raw.metadata == head | {"traceName": "x"}
