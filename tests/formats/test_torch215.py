"""PyTorch 2.14 and 2.15 in JSON: a recount in plain Python of every file, and each thing that these releases write anew."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.copy_directions import DIRECTIONS, directions_of
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Counters, Flows
from tb_plugin.rules._host_waits import from_pageable
from tests.builders import TraceBuilder, name_of, named, part, trace
from tests.depth import examples
from tests.formats.sources import DATA, issues, read
from tests.samples import SAMPLES

FOLDER = DATA / "torch215"
CUSPY = SAMPLES / "cuspy_synthetic" / "worker0.pt.trace.json.gz"
LANES = SAMPLES / "graph_lanes_synthetic" / "iteration_10" / "rank0_trace.json"
RECORDED = SAMPLES / "torch215_cpu" / "with_stack.pt.trace.json.gz"
FILES = [CUSPY, LANES, RECORDED, *sorted(FOLDER.glob("**/*.pt.trace.json*"))]
KINDS = {
    "cpu_op": EventKind.OPERATOR, "user_annotation": EventKind.ANNOTATION, "kernel": EventKind.KERNEL,
    "gpu_memcpy": EventKind.MEMCPY, "gpu_memset": EventKind.MEMSET, "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.RUNTIME, "cuda_sync": EventKind.SYNC, "graph_event_node": EventKind.SYNC,
    "graph_host_node": EventKind.SYNC, "gpu_user_annotation": EventKind.DEVICE_ANNOTATION,
    "overhead": EventKind.OVERHEAD, "Trace": EventKind.WINDOW, "python_function": EventKind.PYTHON,
}  # fmt: skip
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def text_of(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode()


def table_of(path: Path) -> TraceTable:
    return assemble(read(text_of(path)))


def events_of(path: Path) -> list[dict[str, Any]]:
    """The event list, also of a file that is no JSON elsewhere."""
    text = text_of(path)
    start = text.index("[", text.index('"traceEvents"'))
    events: list[dict[str, Any]] = json.JSONDecoder(parse_float=Decimal).raw_decode(text[start:])[0]
    return events


def ns(event: dict[str, Any]) -> tuple[int, int]:
    return round(event["ts"] * 1000), round(event["dur"] * 1000)


def is_instant(event: dict[str, Any]) -> bool:
    return event.get("cat") == "cpu_instant_event" or event["name"] == "[memory]"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_by_a_recount(path: Path) -> None:
    """Categories, devices, tracks, launches by correlation, counters: from the text, event by event."""
    events = events_of(path)
    raw = read(text_of(path))
    table = assemble(raw)
    of_rows = [e for e in events if e["ph"] == "X" and not is_instant(e)]
    assert len(table) == len(of_rows) and table.report.events_dropped == table.report.events_unknown == 0
    got = Counter(np.where(table.kind == EventKind.MODULE, EventKind.PYTHON, table.kind).tolist())
    assert got == Counter(int(KINDS[event["cat"]]) for event in of_rows)
    origin = min(ns(event)[0] for event in of_rows)
    wanted = Counter((e["name"], str(e["pid"]), str(e["tid"]), ns(e)[0] - origin, ns(e)[1]) for e in of_rows)
    tracks = [table.tracks[track] for track in table.track.tolist()]
    names = [table.strings[name] for name in table.name.tolist()]
    found = Counter(
        (name, track.pid, track.tid, start, dur)
        for name, track, start, dur in zip(names, tracks, table.start_ns.tolist(), table.dur_ns.tolist(), strict=True)
    )
    assert found == wanted
    work = [event for event in of_rows if event["cat"] in WORK]
    assert {device.id for device in table.devices} == {str(event["args"]["device"]) for event in work}
    calls = {e["args"]["correlation"] for e in of_rows if e["cat"] in ("cuda_runtime", "cuda_driver")}
    chosen = of_kind(table.kind, *DEVICE_WORK)
    assert int((table.launch[chosen] >= 0).sum()) == sum(event["args"]["correlation"] in calls for event in work)
    streams = hardware_streams(table)
    hardware = Counter(streams.names[number] for number in streams.of[chosen].tolist())
    assert hardware == Counter(str(e["args"].get("original_stream", e["args"]["stream"])) for e in work)
    values = Counter((e["name"], float(e["args"][""])) for e in events if e["ph"] == "C")
    names = [table.strings[name] for name in table.counters.name.tolist()]
    assert Counter(zip(names, table.counters.value.tolist(), strict=True)) == values
    assert len(table.memory.time_ns) == sum(event["name"] == "[memory]" for event in events)
    assert len(raw.flows.end_time_ns) == sum(e["ph"] == "f" and e.get("cat") == "fwdbwd" for e in events)


def test_launches_come_by_correlation_and_operators_by_containment() -> None:
    """No row of Cuspy has an External id: the call around the driver's launch is the launch, the operator is around it."""
    table = table_of(CUSPY)
    gemm = named(table, 'void gemm<float>(float const*, "q")')
    assert table.strings[int(table.name[table.launch[gemm]])] == "cudaLaunchKernel"
    events = events_of(CUSPY)
    call = next(e for e in events if e["name"] == "cudaLaunchKernel" and e["args"]["correlation"] == 11)
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    around = [e for e in operators if e["ts"] <= call["ts"] < e["ts"] + e["dur"]]
    innermost = min(around, key=lambda e: e["dur"])["name"] if around else None
    assert name_of(table, int(table.operator[gemm])) == innermost
    assert table.external_disagreements == 0


def test_dependencies_are_arrows_and_no_launches() -> None:
    table = table_of(CUSPY)
    events = events_of(CUSPY)
    ends = {e["id"]: e for e in events if e["ph"] == "f" and e["id"] >= 2**40}
    starts = {e["id"]: e for e in events if e["ph"] == "s" and e["id"] >= 2**40}
    on_device = [e for e in events if e["ph"] == "X" and e["pid"] == 0]

    def at(lane: Any, time: float, *, end: bool) -> str:
        (found,) = [
            e["name"]
            for e in on_device
            if e["tid"] == lane
            and "cat" in e
            and e["cat"] != "gpu_user_annotation"
            and abs(e["ts"] + (e["dur"] if end else 0) - time) < Decimal("0.002")
        ]
        return str(found)

    wanted = Counter(
        (at(s["tid"], s["ts"], end=True), at(ends[i]["tid"], ends[i]["ts"], end=False)) for i, s in starts.items()
    )
    said = [table.strings[name] for name in table.name.tolist()]
    found = Counter(
        (said[a], said[b]) for a, b in zip(table.arrows.tail.tolist(), table.arrows.head.tolist(), strict=True)
    )
    assert found == wanted and found.total() == 5
    assert {table.strings[name] for name in table.arrows.name.tolist()} == {"graph dependency"}
    flows = part(table, "flows").payloads["flows"]
    assert isinstance(flows, Flows)
    kinds = Counter(flows.kinds[kind] for kind in flows.arrow)
    assert kinds["recorded"] == 5 and kinds["launch"] == int((table.launch >= 0).sum())


def on_a_lane(*nodes: tuple[str, int, int], lane: int = 100) -> TraceBuilder:
    """Nodes of a graph on one lane: name, begin and length in microseconds."""
    builder = trace().op("a", 0, 100)
    for name, at, dur in nodes:
        kind = "kernel" if dur else "graph_event_node"
        builder.event(kind, name, at, dur, 0, lane, device=0, stream=lane)
    return builder


def arrow(builder: TraceBuilder, begin: float, end: float, lane: int = 100, flow: Any = 2**40) -> TraceBuilder:
    plain = {"cat": "ac2g", "name": "ac2g", "id": flow, "pid": 0, "tid": lane}
    return builder.raw(ph="s", ts=begin, **plain).raw(ph="f", bp="e", ts=end, **plain)


@pytest.mark.parametrize(
    ("nodes", "begin", "end", "wanted"),
    [
        ((("a", 10, 5), ("b", 15, 5)), 15, 15, ("a", "b")),
        ((("a", 10, 5), ("b", 30, 5)), 15, 30, ("a", "b")),
        ((("a", 10, 5), ("b", 12, 5)), 15, 12, ("a", "b")),
        ((("a", 10, 5), ("e", 15, 0)), 15, 15, ("a", "e")),
        ((("a", 10, 5), ("e", 15, 0), ("b", 20, 5)), 15, 20, ("e", "b")),
        ((("a", 10, 5), ("b", 20, 5)), 15.001, 20, ("a", "b")),
        ((("a", 10, 5), ("b", 20, 5)), 18, 20, None),
        ((("a", 10, 5), ("b", 20, 5)), 15, 19, None),
    ],
)
def test_an_arrow_begins_where_a_node_ends(
    nodes: tuple[tuple[str, int, int], ...], begin: float, end: float, wanted: tuple[str, str] | None
) -> None:
    table = arrow(on_a_lane(*nodes), begin, end).table()
    said = [table.strings[name] for name in table.name.tolist()]
    found = [(said[a], said[b]) for a, b in zip(table.arrows.tail.tolist(), table.arrows.head.tolist(), strict=True)]
    assert found == ([wanted] if wanted else [])
    assert issues(table) == ({} if wanted else {"unbound_arrow": 1})


@pytest.mark.parametrize("flow", [7, "1099511627776", 2**40 - 1, None, [1]])
def test_other_ids_are_launches(flow: Any) -> None:
    table = arrow(on_a_lane(("a", 10, 5), ("b", 15, 5)), 15, 15, flow=flow).table()
    assert len(table.arrows.tail) == 0 and "unpaired_arrow" not in issues(table)


def test_an_arrow_with_one_end_is_counted() -> None:
    builder = on_a_lane(("a", 10, 5)).raw(ph="s", cat="ac2g", name="ac2g", id=2**40, pid=0, tid=100, ts=15)
    assert issues(builder.table()) == {"unpaired_arrow": 1}


@pytest.mark.parametrize(
    ("stated", "direction", "pageable"),
    [
        ({"copy kind": "HtoD", "src kind": "pageable", "dst kind": "device"}, "htod", True),
        ({"copy kind": "DtoH", "src kind": "device", "dst kind": "pinned"}, "dtoh", False),
        ({"copy kind": "HtoA"}, "htod", False),
        ({"copy kind": "AtoH", "src kind": 7}, "dtoh", False),
        ({"copy kind": "DtoA"}, "dtod", False),
        ({"copy kind": "PtoP"}, "ptop", False),
        ({"copy kind": 12, "src kind": "pageable"}, None, True),
        ({}, None, False),
    ],
)
def test_where_copies_without_a_direction_in_their_name_go(
    stated: dict[str, Any], direction: str | None, pageable: bool
) -> None:
    builder = trace().op("a", 0, 50).event("gpu_memcpy", "Memcpy", 10, 5, 0, 7, device=0, stream=7, bytes=64, **stated)
    table = builder.table()
    copy = np.flatnonzero(table.kind == EventKind.MEMCPY)
    position = int(directions_of(table, copy)[0])
    assert (DIRECTIONS[position].key if position >= 0 else None) == direction
    assert from_pageable(table, copy).tolist() == [pageable]
    assert {column.key for column in table.others} >= stated.keys(), "and all of it stays to be seen"


def test_a_lane_names_its_track_and_the_stream_stays_known() -> None:
    table = table_of(CUSPY)
    lane = next(i for i, track in enumerate(table.tracks) if track.tid == "100000")
    names = track_names(table)
    assert names[lane].title == "lane A · compute"
    assert "Stream 32" in {name.title for name in names} and "All streams" in {name.title for name in names}
    kernel = np.flatnonzero(table.name == table.strings.find("graph_k0"))
    streams = hardware_streams(table)
    assert {streams.names[number] for number in streams.of[kernel].tolist()} == {"31"}


def test_two_lanes_of_one_stream_share_its_queue() -> None:
    """Three launches wait in stream 31, two of which are drawn on a lane of their own; one in stream 7."""
    builder = trace().op("a", 0, 100).device(0)
    builder.event("cuda_runtime", "cudaGraphLaunch", 10, 5, 1, 1, correlation=20)
    for at, lane, stream in ((20, 60, 31), (40, 31, 31), (60, 60, 31), (30, 7, 7), (50, 7, 7)):
        more = {"original_stream": stream} if lane != stream else {}
        builder.event("kernel", "k", at, 5, 0, lane, device=0, stream=lane, correlation=20, **more)
    payload = part(builder.table(), "counters").payloads["counters"]
    assert isinstance(payload, Counters)
    depth = {c.key: c.max for c in payload.counters if c.key.startswith("stream_queue_depth")}
    assert depth == {'stream_queue_depth:["0", "31"]': 3.0, 'stream_queue_depth:["0", "7"]': 2.0}


def test_annotations_of_a_graph_are_facts_of_their_events_and_are_found() -> None:
    table = table_of(LANES)
    row = named(table, "k_attn")
    payload = part(table, "events", extra=(("event", str(row)),)).payloads["event"]
    facts = {figure.metric.key: figure.value for figure in payload.figures}  # type: ignore[union-attr]
    assert facts["args.name"] == "layers.0.attn" and facts["args.dtype"] == "bf16"
    assert (facts["args.graph node id"], facts["args.original_stream"], facts["stream"]) == ("21474836481", "31", "31")
    hits = part(table, "find", search="layers.0.attn", extra=(("in", "args"),)).frames["hits"]
    assert hits.data["event"].to_pylist() == [row]


@pytest.mark.parametrize("node", [2**21 << 32 | 5, 2**53 + 1, 2**63 - 1, 7])
def test_a_full_node_id_keeps_every_digit(node: int) -> None:
    builder = trace().op("a", 0, 50)
    builder.event("kernel", "k", 10, 5, 0, 7, device=0, stream=7, **{"graph id": node >> 32, "graph node id": node})
    table = builder.table()
    payload = part(table, "events", extra=(("event", str(named(table, "k"))),)).payloads["event"]
    facts = {figure.metric.key: figure.value for figure in payload.figures}  # type: ignore[union-attr]
    assert facts["args.graph node id"] == str(node)


def test_of_two_keys_the_last_one_wins() -> None:
    event = (
        '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": '
        '{"device": 0, "stream": 7, "priority": 0, "graph id": 5, "priority": "high", "stream": "side", "tag": {"a": [1]}}}'
    )
    table = assemble(read('{"traceEvents": [' + event + "]}"))
    said = {column.key: table.strings[int(column.value[0])] for column in table.others if column.is_text}
    assert said == {"priority": "high", "tag": '{"a": [1]}'}
    assert table.strings[int(table.device_args.stream[0])] == "side" and table.tracks[0].tid == "7"


def test_counters_without_values_are_no_events_of_the_host() -> None:
    """The Python exporter writes hardware counters as ranges, and leaves their values out."""
    builder = trace().op("a", 0, 50).event("hardware_counters", "sm__cycles_active.avg", 5, 0, "GPU 0 Counters", 0)
    raw = builder.counter(
        7, "sm__throughput.avg.pct_of_peak_sustained_elapsed", "GPU 0 Counters", **{"": 40}
    ).raw_trace()
    assert len(raw.start_ns) == 1 and issues(raw) == {"bad_counter": 1}
    assert raw.counters.value.tolist() == [40.0] and raw.report.events_dropped == 1


def test_garbage_collection_is_a_python_call_without_a_number() -> None:
    builder = trace().event("python_function", "a.py(1): f", 0, 50, 1, 1, **{"Python id": 1})
    table = builder.event("python_function", "Python GC", 10, 20, 1, 1, **{"Ev Idx": 4}).table()
    collection = named(table, "Python GC")
    assert table.kind[collection] == EventKind.PYTHON
    assert table.strings[int(table.name[table.python_parent[collection]])] == "a.py(1): f"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings of ../shared/data/torch215 are not here")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("real_cpu_escapes.pt.trace.json", {"raw_quote": 1, "control_character": 1}),
        ("real_cpu_escapes_python_export.pt.trace.json", {"bad_escape": 1, "control_character": 1}),
    ],
)
def test_texts_that_are_no_json_are_repaired(name: str, wanted: dict[str, int]) -> None:
    table = table_of(FOLDER / name)
    assert issues(table) == wanted and table.coverage.complete
    assert table.metadata["obj"] == {"a": [1, 2]} and "say" in table.metadata["quote"]


@pytest.mark.parametrize(
    ("flags", "wanted", "loose"),
    [
        (("out", "in"), [("e0", "e1")], 0),
        (("in", "out"), [("e1", "e0")], 0),
        (("out", "both", "in"), [("e0", "e1"), ("e1", "e2")], 0),
        (("out", ""), [], 1),
        (("", "in"), [], 1),
        (("", ""), [], 0),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [300, 1 << 20])
def test_events_bound_by_an_id_of_their_own(
    flags: tuple[str, ...], wanted: list[tuple[str, str]], loose: int, chunk_bytes: int
) -> None:
    builder = trace().op("a", 0, 100)
    for i, flag in enumerate(flags):
        stated = {"bind_id": 7, **{f"flow_{each}": True for each in ("out", "in") if flag in (each, "both")}}
        builder.raw(
            ph="X", cat="mtia_insight", name=f"e{i}", pid=0, tid=i, ts=10 * i, dur=5, **(stated if flag else {})
        )
    table = assemble(builder.raw_trace(chunk_bytes))
    said = [table.strings[name] for name in table.name.tolist()]
    found = [(said[a], said[b]) for a, b in zip(table.arrows.tail.tolist(), table.arrows.head.tolist(), strict=True)]
    assert sorted(found) == sorted(wanted) and issues(table).get("unpaired_arrow", 0) == loose


@given(
    st.lists(
        st.tuples(st.sampled_from(["s", "f"]), st.integers(0, 3), st.integers(0, 30), st.integers(100, 102)),
        max_size=12,
    )
)
@examples(suite=25, deep=500)
def test_any_arrows_lead_from_a_node_to_another_that_begins_there(drawn: list[tuple[str, int, int, int]]) -> None:
    """Whatever is written: each arrow that is kept joins nodes of its lanes at its times; all others are counted."""
    builder = trace().op("a", 0, 100)
    for lane in (100, 101, 102):
        for at in range(0, 30, 5):
            builder.event("kernel", f"{lane}.{at}", at, 5 if lane != 102 else 0, 0, lane, device=0, stream=lane)
    for phase, number, at, lane in drawn:
        builder.raw(ph=phase, cat="ac2g", name="ac2g", id=2**40 + number, pid=0, tid=lane, ts=at)
    table = builder.table()
    starts, ends = ([(n, at, lane) for p, n, at, lane in drawn if p == phase] for phase in "sf")
    pairs = sum(min(sum(n == i for n, *_ in starts), sum(n == i for n, *_ in ends)) for i in range(4))
    told = issues(table)
    assert len(table.arrows.tail) + told.get("unbound_arrow", 0) == pairs
    assert told.get("unpaired_arrow", 0) == len(drawn) - 2 * pairs
    for tail, head in zip(table.arrows.tail.tolist(), table.arrows.head.tolist(), strict=True):
        reach = {at for _, at, lane in starts if str(lane) == table.tracks[int(table.track[tail])].tid}
        begin = {at for _, at, lane in ends if str(lane) == table.tracks[int(table.track[head])].tid}
        first, last = int(table.start_ns[tail]) // 1000, int(table.ends(np.array([tail]))[0]) // 1000
        assert any(first <= at <= last for at in reach)
        assert any(
            int(table.start_ns[head]) // 1000 <= at <= int(table.ends(np.array([head]))[0]) // 1000 for at in begin
        )
