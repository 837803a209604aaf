"""Whole traces: parts sum exactly, and nothing depends on how the file was written."""

from __future__ import annotations

import copy
import gzip
import json
import random
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.device_time import device_time
from tb_plugin.analysis.timeline.pyramid import build
from tb_plugin.errors import UnreadableTrace
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads.export import to_json
from tests.builders import TraceBuilder, facts, kernel, memcpy, memset, model, read, rows, trace
from tests.conftest import SAMPLES
from tests.depth import DEEP, examples, needs_time
from tests.samples import OF_TRACES

BREAKDOWN = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu", "other")
NAMES = ("aten::mm", "aten::add", "nccl:all_reduce", "enumerate(DataLoader)#x.__next__", "f")
KERNELS = ("gemm", "ncclDevKernel_AllReduce", "volta_s884")

times = st.tuples(st.integers(0, 200), st.integers(0, 60))


@st.composite
def builders(draw: st.DrawFn) -> TraceBuilder:
    """Anything: crossing operators on two threads, steps that touch or overlap, launches and work of every kind."""
    builder = trace()
    for number in range(draw(st.integers(0, 3))):
        at, dur = draw(times)
        builder.step(number, at, dur, tid=draw(st.integers(1, 2)))
    for at, dur in draw(st.lists(times, max_size=8)):
        name, tid = draw(st.sampled_from(NAMES)), draw(st.integers(1, 2))
        builder.op(name, at, dur, ext=draw(st.integers(1, 9)), tid=tid, sequence=draw(st.none() | st.integers(0, 2)))
    for at, dur in draw(st.lists(times, max_size=4)):
        builder.module("M", at, dur, number=draw(st.integers(0, 1)), tid=draw(st.integers(1, 2)))
    for at, dur in draw(st.lists(times, max_size=5)):
        builder.call(at, dur, corr=draw(st.integers(1, 6)), tid=draw(st.integers(1, 2)))
    for at, dur in draw(st.lists(times, max_size=8)):
        device, stream = draw(st.integers(0, 1)), draw(st.integers(7, 8))
        name = draw(st.sampled_from(KERNELS))
        kinds = [kernel(name, dur, at, device=device, stream=stream), memcpy(dur, at, device=device), memset(dur, at)]
        builder.on_device(draw(st.sampled_from(kinds)), ext=draw(st.integers(1, 9)), corr=draw(st.integers(1, 9)))
    return builder


def numbers(table: TraceTable) -> dict[str, Any]:
    """All a person can ask: facts and whole tables of every view (event numbers included), and the payloads."""
    found: dict[str, Any] = {}
    for analysis in OF_TRACES:
        try:
            part = analysis.part(table, Params())
        except UnreadableTrace:  # a truncated file cannot be simulated
            assert analysis.missing(table)
            continue
        found[analysis.id] = {
            "facts": dict(part.facts),
            "frames": {name: frame.data.to_pydict() for name, frame in part.frames.items()},
            "payloads": {name: json.loads(to_json(payload)) for name, payload in part.payloads.items()},
        }
    pyramid = build(table)
    for group in range(len(pyramid.groups) - 1):
        line, items = pyramid.tile(len(pyramid.levels) - 1, group, 0)
        drawn = {name: getattr(items, name).tolist() for name in ("first", "last", "longest", "count", "busy_ns")}
        found[f"tile {group}"] = {"line": line.tolist(), **drawn}
    return found


@given(builders())
def test_parts_sum_exactly(builder: TraceBuilder) -> None:
    table = builder.table()
    for step in rows(table, "overview", "steps"):
        parts = [step[f"{c}_ns"] for c in BREAKDOWN]
        assert sum(parts) == step["total_ns"] and min(parts) >= 0
    for i in range(len(table.devices)):
        time = device_time(table, i)
        if time is not None:
            exposed = (time.exposed_communication_ns, time.exposed_memcpy_ns, time.exposed_memset_ns)
            assert time.compute_ns + sum(exposed) + time.idle_ns == time.window_ns
            assert time.window_ns == time.busy_ns + time.idle_ns and min(*exposed, time.idle_ns) >= 0


@given(builders())
def test_self_is_between_zero_and_total_and_sums_to_the_whole(builder: TraceBuilder) -> None:
    table = builder.table()
    operators = rows(table, "operators")
    for row in operators:
        assert row["host_self_ns"] >= 0
        assert 0 <= row.get("device_self_ns", 0) <= row.get("device_total_ns", 0) and row["host_total_ns"] >= 0
    work = table.device >= 0
    assert sum(r.get("device_self_ns", 0) for r in operators) == table.dur_ns[work].sum()
    assert ((table.self_ns >= 0) & (table.self_ns <= table.dur_ns)).all()
    by_shape = rows(table, "operators", "operators_by_shape")
    for key in ("calls", "host_self_ns", "device_self_ns"):
        assert sum(r.get(key, 0) for r in operators) == sum(r.get(key, 0) for r in by_shape)


@given(builders(), st.randoms(use_true_random=False))
@examples(suite=6, deep=300)
def test_the_order_of_events_in_the_file_changes_nothing(builder: TraceBuilder, rng: random.Random) -> None:
    shuffled = copy.deepcopy(builder)
    rng.shuffle(shuffled.events)
    assert numbers(builder.table()) == numbers(shuffled.table())


@given(builders(), st.data())
@examples(suite=6, deep=300)
def test_a_device_interval_may_be_split(builder: TraceBuilder, data: st.DataObject) -> None:
    work = [
        i for i, e in enumerate(builder.events) if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") and e["dur"] > 1
    ]
    if not work:
        return
    chosen = builder.events[data.draw(st.sampled_from(work))]
    split = copy.deepcopy(builder)
    first = split.events[builder.events.index(chosen)]
    second = copy.deepcopy(first)
    first["dur"] = data.draw(st.integers(1, first["dur"] - 1))
    second["ts"], second["dur"] = first["ts"] + first["dur"], second["dur"] - first["dur"]
    split.events.append(second)
    counts = ("kernels", "memcpys", "memsets", "unlaunched")
    before, after = facts(builder.table()), facts(split.table())
    for key in before:
        if key.startswith("device.") and key.rpartition(".")[2] not in counts:
            assert before[key] == pytest.approx(after[key], rel=1e-12) if before[key] else before[key] == after[key], (
                key
            )
    # Steps too, unless the extra event changes which trailing steps are complete.
    one, other = rows(builder.table(), "overview", "steps"), rows(split.table(), "overview", "steps")
    assert one == other or len(one) != len(other)


SMALL = ("no_steps_cpu/inference.pt.trace.json", "synthetic_gpu/worker0.1795200788815973544.pt.trace.json.gz")


@cache
def of_sample(name: str) -> dict[str, Any]:
    return numbers(model((SAMPLES / name).read_bytes()))


@needs_time
@pytest.mark.parametrize("name", [*SMALL, "resnet_cpu/worker0.1795200788569794381.pt.trace.json.gz"])
def test_order_and_name_of_a_sample_change_nothing(name: str) -> None:
    content = (SAMPLES / name).read_bytes()
    root = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    random.Random(3).shuffle(root["traceEvents"])
    shuffled = assemble(read(json.dumps(root).encode(), name="other name.json"))
    assert numbers(shuffled) == of_sample(name)


@pytest.fixture(scope="module")
def small_file() -> bytes:
    """A few dozen events of every kind."""
    builder = trace().device(0).meta(distributedInfo={"rank": 0, "backend": "nccl"}).thread_name(1, "python")
    for i in range(6):
        at = 100 * i
        builder.step(i, at, 100).op('na"me\\ π', at, 50, ext=i, shapes=[[2, 8], []], stack="a.py(1): f")
        builder.launches(kernel("gemm", 20, grid=[1, 2, 3]), memcpy(3, at + 60, bytes=9), at=at + 10, dur=5)
        builder.module("M", at, 40, id=i).memory(at + 5, 100).op("bw", at + 60, 5, tid=2).arrow(at, at + 60)
    return builder.bytes()


@needs_time
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gz"])
def test_a_file_cut_anywhere_still_reports(small_file: bytes, compressed: bool) -> None:
    whole = gzip.compress(small_file) if compressed else small_file
    events = len(model(whole))
    cuts = random.Random(7).sample(range(len(whole)), min(1_000 if DEEP else 60, len(whole)))
    read_any = 0
    for cut in cuts:
        try:
            table = model(whole[:cut])
        except UnreadableTrace:
            # Nothing of the event list was written yet.
            assert compressed or b'"traceEvents": [' not in whole[:cut]
            continue
        read_any += 1
        assert len(table) <= events
        if cut < len(whole) - 20:
            assert not table.report.complete
        for step in rows(table, "overview", "steps"):
            assert sum(step[f"{c}_ns"] for c in BREAKDOWN) == step["total_ns"]
        if cut % 10 == 0:
            numbers(table)
    assert read_any > len(cuts) * 0.6


@pytest.mark.parametrize("name", SMALL)
def test_a_sample_cut_anywhere_still_reports(name: str) -> None:
    whole = (SAMPLES / name).read_bytes()
    for cut in random.Random(11).sample(range(len(whole) // 50, len(whole)), 12 if DEEP else 6):
        table = model(whole[:cut])
        assert not table.report.complete
        facts(table)


def test_the_name_of_the_file_changes_nothing(small_file: bytes) -> None:
    one, other = read(small_file, name="a.pt.trace.json"), read(small_file, name="weird.gz")
    assert numbers(assemble(one)) == numbers(assemble(other))


def test_a_call_that_lies_within_one_of_its_name_in_time_alone_counts() -> None:
    """``inner`` is nested in what crosses the outer call of its name: no other total has what it launched."""
    builder = trace().op("f", 32, 60).op("g", 33, 60).op("f", 33, 1, ext=2).on_device(kernel("k", 5, 40), ext=2)
    by_name = {row["name"]: row for row in rows(builder.table(), "operators")}
    assert (by_name["f"]["device_self_ns"], by_name["f"]["device_total_ns"]) == (5000, 5000)
    assert by_name["f"]["host_total_ns"] == 61_000 and by_name["g"]["device_total_ns"] == 5000
