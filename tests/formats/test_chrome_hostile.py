"""Odd values, depth, masses and cut-off text in traces of any tool: told, bounded, and never an error."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome import pairing
from tb_plugin.formats._chrome.generic import finishing
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.chrome_json.reader import ChromeJsonReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import TraceTable
from tests.builders import Bytes
from tests.conftest import SAMPLES, sample
from tests.depth import examples

from .sources import issues
from .test_chrome_rules import ev, rows, table

ODD = [
    None,
    True,
    -1,
    0,
    2**70,
    -(2**70),
    1e300,
    "",
    "x",
    "0x",
    "0xzz",
    "1e400",
    "NaN",
    [],
    [1, [2]],
    {},
    {"local": {}},
]
FIELDS = (
    *(
        "ph",
        "ts",
        "dur",
        "pid",
        "tid",
        "name",
        "cat",
        "id",
        "id2",
        "scope",
        "bp",
        "args",
        "s",
        "tts",
        "tdur",
        "bind_id",
    ),
    *("flow_in", "flow_out", "sf", "stack", "esf", "estack"),
)
PHASES = "XBEiIRPbenSTpFNODstfCM"
MOST_SECONDS = 20.0


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_may_hold_anything(field: str) -> None:
    good = [ev("X", 50, "good", dur=1)]
    events = [{**ev(phase, 10, id=1, args={"name": "n"}), field: odd} for phase in PHASES for odd in ODD]
    trace = table([*good, *events, *good], stackFrames={"x": {"parent": "x", "name": ["odd"]}, "1": 7})
    assert sum("good" in line for line in rows(trace)) == 2
    report = trace.report
    assert report.complete and report.events_in_file == 2 + len(events)
    counted = report.events_loaded + report.events_quarantined + report.events_dropped + report.events_other
    assert counted == report.events_in_file


@examples(25, 400)
@given(st.lists(st.fixed_dictionaries({"ph": st.sampled_from(PHASES), "ts": st.integers(0, 4)}, optional={
    "dur": st.integers(0, 3), "id": st.integers(0, 1), "name": st.sampled_from("ab"), "tid": st.integers(0, 1),
    "s": st.sampled_from("tpgx"), "bp": st.just("e"), "bind_id": st.integers(0, 1), "flow_in": st.booleans(),
    "flow_out": st.booleans(), "args": st.dictionaries(st.sampled_from("xy"), st.integers() | st.text(max_size=2)),
}), max_size=16), st.integers(1, 200))  # fmt: skip
def test_the_size_of_chunks_changes_nothing(events: list[Any], chunk: int) -> None:
    text = json.dumps({"traceEvents": events}).encode()

    def read(size: int) -> TraceTable | None:
        try:
            return assemble(ChromeJsonReader().read(Bytes(text, "x.json"), ReadOptions(size), no_progress))
        except UnreadableTrace:
            return None

    whole, parts = read(1 << 20), read(chunk)
    assert (whole is None) == (parts is None)
    if whole is not None and parts is not None:
        assert rows(whole) == rows(parts) and issues(whole) == issues(parts)
        for one, other in ((whole.arrows.tail, parts.arrows.tail), (whole.arrows.head, parts.arrows.head)):
            assert one.tolist() == other.tolist()
        assert [(c.key, c.row.tolist()) for c in whole.others] == [(c.key, c.row.tolist()) for c in parts.others]


@examples(25, 400)
@given(st.data())
def test_a_recording_cut_anywhere_or_damaged(data: st.DataObject) -> None:
    text = bytearray((SAMPLES / "node" / "node_trace.1.log").read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(text[: data.draw(st.integers(0, len(text)))])
    try:
        trace = assemble(ChromeJsonReader().read(Bytes(cut, "x.log"), ReadOptions(1000), no_progress))
    except UnreadableTrace as error:
        assert error.what and error.do
        return
    assert len(trace) <= len(sample("node/node_trace.1.log")) + 3


def within_seconds(events: list[Any]) -> TraceTable:
    text = json.dumps({"traceEvents": events}).encode()
    begun = time.process_time()
    found = assemble(ChromeJsonReader().read(Bytes(text, "x.json"), ReadOptions(), no_progress))
    assert time.process_time() - begun < MOST_SECONDS
    return found


def test_begins_that_nothing_ends() -> None:
    count = 10_000
    trace = within_seconds([ev("B", i, f"n{i % 7}") for i in range(count)])
    assert issues(trace) == {"unfinished_range": count} and len(trace) == count
    # No tower: those beyond the first ones end where the next begins.
    assert int(trace.depth.max()) == pairing.MOST_OPEN
    assert (trace.dur_ns[pairing.MOST_OPEN : -1] == 1000).all() and trace.dur_ns[0] == (count - 1) * 1000


def test_operations_of_many_names_and_many_that_overlap() -> None:
    count = 3000
    events = [ev(ph, i + 5000 * (ph == "e"), f"n{i}", id=i) for i in range(count) for ph in "be"]
    trace = within_seconds([*events, *[ev("b", i, "same", id=f"s{i}") for i in range(count)]])
    assert len(trace.tracks) == finishing.MOST_TRACKS + 1
    assert issues(trace) == {"many_operations": count + 1 - finishing.MOST_TRACKS, "unfinished_range": count}
    # All of one name are open at once: as many lanes.
    assert int(trace.depth.max()) == count - 1


def test_arrows_of_one_id() -> None:
    count = 10_000
    events = [ev("X", i, dur=1) for i in range(count)] + [ev("stf"[i % 3], i, id=1) for i in range(count)]
    assert len(within_seconds(events).arrows.name) > count // 3
