"""Counters of a window: by hand, as other pages have them, and as a recount moment by moment finds them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tb_plugin.analysis.copy_directions import DIRECTIONS
from tb_plugin.analysis.device_time import device_ratios
from tb_plugin.errors import BadRequest
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.window import choose, parse_window
from tb_plugin.payloads import Counter, Counters
from tb_plugin.payloads.export import to_json
from tb_plugin.views.counters.view import LONGEST_LIST
from tests.builders import Bytes, TraceBuilder, kernel, memcpy, memset, part, payload_of, trace
from tests.conftest import SAMPLE_FILES, SAMPLES, UNLIKE, sample
from tests.depth import sampled

# Copies of NPUs state their direction, and not by their names.
WITHOUT = ("ascend", "capture_traces")
WITH_DEVICES = [name for name in UNLIKE if name.startswith("synthetic") and not any(word in name for word in WITHOUT)]


def counters(table: TraceTable, start: Any = "", end: Any = "", width: Any = "") -> Counters:
    extra = (("start_ns", str(start)), ("end_ns", str(end)), ("width", str(width)))
    return payload_of(part(table, "counters", extra=extra), "counters", Counters)


def by_key(table: TraceTable, start: Any = "", end: Any = "", width: Any = "") -> dict[str, Counter]:
    return {counter.key: counter for counter in counters(table, start, end, width).counters}


def small() -> TraceBuilder:
    """100 us: two kernels that overlap, a copy of 5000 bytes in 10 us, all launched at 10 us."""
    builder = trace().op("a", 0, 100).device(0)
    return builder.launches(
        kernel("k", 20, 20, blocks_per_sm=0.5),
        kernel("l", 20, 30, blocks_per_sm=0.75, stream=8),
        memcpy(10, 60, bytes=5000),
        at=10,
    )


def test_a_device_by_hand() -> None:
    found = by_key(small().table(), 0, 100_000, 50)
    at = [5, 12, 17, 22, 27]  # bins of 2 us: begin at 10, 24, 34, 44 and 54 us
    assert [found["utilization:0"].mean[i] for i in at] == [0, 1, 1, 1, 0]
    assert [found["sm_efficiency:0"].mean[i] for i in at] == [0, 0.5, 1, 0.75, 0]
    assert [found["queue_depth:0"].mean[i] for i in at] == [3, 2, 1, 1, 1]
    assert [found["htod:0"].mean[i] for i in (29, 30, 34, 35)] == [0, 5e8, 5e8, 0]
    assert (found["htod:0"].title, found["htod:0"].metric.unit) == ("Copies, host to device", "bytes_per_second")
    assert {counter.device for counter in found.values()} == {"0"}
    assert {key: counter.max for key, counter in found.items()} == {
        "utilization:0": 1.0,
        "sm_efficiency:0": 1.0,
        "queue_depth:0": 3.0,
        "htod:0": 5e8,
    }


def test_the_queue_of_each_stream() -> None:
    """Two streams: 3 and 2 launches wait from 10 us on; in a third never more than one."""
    builder = trace().op("a", 0, 100).device(0)
    waiting = [(stream, at) for stream, begins in ((7, (20, 30, 40)), (8, (20, 50)), (9, (20,))) for at in begins]
    found = by_key(builder.launches(*(kernel("k", 5, at, stream=s) for s, at in waiting), at=10).table())
    streams = {key: (counter.max, counter.device) for key, counter in found.items() if "stream" in key}
    assert streams == {'stream_queue_depth:["0", "7"]': (3.0, "0"), 'stream_queue_depth:["0", "8"]': (2.0, "0")}
    assert found["queue_depth:0"].max == 6.0
    assert found['stream_queue_depth:["0", "8"]'].title == "Launch queue depth, stream 8"


def test_a_bin_has_its_mean_and_its_extremes() -> None:
    payload = counters(small().table(), 0, 100_000)
    assert (payload.bins, payload.window_end_ns) == (800, 100_000)
    depth = by_key(small().table(), 15_000, 35_000, 50)["queue_depth:0"]
    assert (depth.mean[12], depth.low[12], depth.high[12]) == (2.5, 2, 3), "the bin from 19.8 to 20.2 us"


def test_outside_of_the_trace_nothing_is_known() -> None:
    found = by_key(small().table(), 50_000, 250_000, 50)["utilization:0"]
    assert found.mean[12] == 0.0 and found.mean[13:] == found.low[13:] == found.high[13:] == [None] * 37


def test_the_scale_is_that_of_the_whole_trace() -> None:
    some, every = by_key(small().table(), 80_000, 90_000), by_key(small().table())
    assert {k: (c.min, c.max) for k, c in some.items()} == {k: (c.min, c.max) for k, c in every.items()}


def test_no_more_bins_than_nanoseconds() -> None:
    assert counters(small().table(), 7, 20).bins == 13
    assert counters(small().table(), 0, 10**6, 1).bins == 50
    assert counters(small().table(), 0, 10**6, 10**9).bins == 4000


@pytest.mark.parametrize("asked", [(5, 5), (9, 2), ("x", 2), (0, 9, "many")])
def test_a_window_that_is_none_is_said(asked: tuple[Any, ...]) -> None:
    with pytest.raises(BadRequest):
        counters(small().table(), *asked)


def test_memory_holds_until_the_next_event() -> None:
    builder = trace().op("a", 0, 100)
    for at, size, total in ((20, 100, 150), (40, 50, 200), (40, -150, 50), (60, 10, 60)):
        totals = {"Total Allocated": total, "Total Reserved": -1 if at == 60 else 400}
        builder.memory(at, size, device_type=1, device_id=0, **totals)
    builder.memory(50, 30).launches(kernel("k", 1, 90)).device(0)
    found = by_key(builder.table(), 0, 100_000, 50)
    cuda, reserved, cpu = (found[key] for key in ("allocated:cuda:0", "reserved:cuda:0", "allocated:cpu"))
    assert [cuda.mean[i] for i in (0, 9, 10, 19, 20, 30)] == [50, 50, 150, 150, 50, 60]
    assert (cuda.low[20], cuda.high[20], cuda.max) == (50, 200, 200), "what was met for no time counts as extreme"
    assert [reserved.mean[i] for i in (9, 10, 29, 30)] == [None, 400, 400, None]
    assert [cpu.mean[i] for i in (24, 25)] == [0, 30] and cpu.metric.key == "change_bytes"
    assert (cuda.device, cpu.device, cuda.subtitle) == ("0", None, "cuda:0")


def test_accelerators_of_two_types_with_one_number_have_a_curve_each() -> None:
    builder = (
        trace().op("a", 0, 100).memory(10, 70, device_type=1, device_id=0).memory(20, 30, device_type=12, device_id=0)
    )
    found = {key: counter.max for key, counter in by_key(builder.table(), 0, 100_000, 50).items()}
    assert found == {"allocated:cuda:0": 70, "allocated:xpu:0": 30}


def test_what_has_no_launch_or_no_bytes_is_not_counted() -> None:
    builder = trace().op("a", 0, 50).on_device(kernel("k", 5, 10)).on_device(memset(5, 20))
    builder.on_device(memcpy(5, 30)).on_device(memcpy(0, 40, bytes=7))
    assert set(by_key(builder.table())) == {"utilization:0"}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "htod"),
        ("Memcpy DtoH (Device -> Pageable)", "dtoh"),
        ("Memcpy DtoD (Device -> Device)", "dtod"),
        ("Memcpy PtoP (Device -> Device)", "ptop"),
        ("CopyHostToDevice", "htod"),
        ("CopyDeviceToHost", "dtoh"),
        ("zeCommandListAppendMemoryCopy(M2D)", "htod"),
        ("zeCommandListAppendMemoryCopy(D2H)", "dtoh"),
        ("acl_memcpy_host_to_device", "htod"),
        ("Memcpy HtoH (Pinned -> Pinned)", "copies"),
        ("Memcpy", "copies"),
    ],
)
def test_where_a_copy_goes(name: str, key: str) -> None:
    table = trace().op("a", 0, 50).on_device(memcpy(10, 10, name=name, bytes=10)).table()
    assert set(by_key(table)) == {f"{key}:0"}


def test_recorded_series_hold_until_their_next_value() -> None:
    builder = small().counter(20, "GPU 0", pid=0, used=4, free=6).counter(60, "GPU 0", pid=0, used=-8)
    builder.counter(40, "load", pid=77, v=0.5).counter(10, "GPU 0", pid=77, used=1)
    found = {c.title: c for c in counters(builder.table(), 0, 100_000, 50).counters if c.key.startswith("recorded")}
    assert len(found) == 3, "one title stands for two"
    alone = by_key(small().counter(20, "level", value=1).table())
    assert "level" in {counter.title for counter in alone.values()}
    everything = [c for c in counters(builder.table(), 0, 100_000, 50).counters if c.process is not None]
    used = next(c for c in everything if c.title == "GPU 0 · used" and c.process == "0")
    assert [used.mean[i] for i in (9, 10, 29, 30, 49)] == [None, 4, 4, -8, -8]
    assert (used.min, used.max, used.device, used.subtitle) == (-8, 4, "0", "process 0")
    load = found["load · v"]
    assert (load.min, load.max, load.device, load.subtitle) == (0.5, 0.5, None, "process 77")


def test_of_many_recorded_series_those_with_most_values_are_shown() -> None:
    builder = trace().op("a", 0, 50)
    for i in range(LONGEST_LIST + 3):
        builder.counter(1, f"n{i}", v=1)
    builder.counter(2, f"n{LONGEST_LIST + 2}", v=1)
    found = counters(builder.table())
    assert (len(found.counters), found.omitted) == (LONGEST_LIST, 3)
    assert f"n{LONGEST_LIST + 2} · v" in [c.title for c in found.counters]


def test_a_list_that_is_too_long_says_so() -> None:
    builder = trace().op("a", 0, 50)
    for device in range(LONGEST_LIST + 3):
        builder.on_device(kernel("k", 5, 10, device=device))
    found = counters(builder.table())
    assert (len(found.counters), found.omitted) == (LONGEST_LIST, 3)


def test_a_trace_without_events() -> None:
    assert counters(trace().table()).counters == []
    assert json.loads(to_json(counters(trace().op("a", 0, 0).launches(kernel("k", 0, 0)).table())))["bins"] == 1


@pytest.mark.parametrize("name", WITH_DEVICES, ids=lambda n: n.split(".")[0])
def test_means_are_those_of_other_pages(name: str) -> None:
    """Of the steps' window, which no bin's edge meets unless it is asked for."""
    table = sample(name)
    start, end = int(table.steps.start_ns[0]), int(table.steps.end_ns[-1])
    found = by_key(table, start, end, 50)
    for number, device in enumerate(table.devices):
        ratios = device_ratios(table, number, None)
        lengths = np.diff([start + (end - start) * i // 50 for i in range(51)])
        for key, expected in (("utilization", ratios.utilization), ("sm_efficiency", ratios.sm_efficiency)):
            assert (f"{key}:{device.id}" in found) == (expected is not None)
            if expected is None:
                continue
            mean = np.array(found[f"{key}:{device.id}"].mean)
            assert (mean * lengths).sum() / (end - start) == pytest.approx(expected, rel=1e-12)
    numbers = part(table, "memory").facts
    for counter in found.values():
        if counter.key.startswith("allocated"):
            assert counter.max == numbers[f"memory.{counter.subtitle}.peak_allocated_bytes"]


def moments(table: TraceTable, start: int, end: int) -> pd.DataFrame:
    """Everything that happens on devices between two moments, as pandas sees it."""
    data = pd.DataFrame(
        {
            "kind": table.kind,
            "name": [table.strings[int(i)] for i in table.name],
            "start": table.start_ns,
            "end": table.end_ns,
            "launched": np.where(table.launch >= 0, table.start_ns[table.launch], -1),
        }
    )
    for column in ("bytes", "blocks_per_sm"):
        data[column] = math.nan
        data.loc[table.device_args.row, column] = getattr(table.device_args, column)
    data = data[np.isin(data["kind"], (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET))]
    begun = (data["start"] < end) | ((data["launched"] >= 0) & (data["launched"] < end))
    return data[begun & (data["end"] > start)]


@pytest.mark.parametrize("name", sampled(WITH_DEVICES, WITH_DEVICES[::2]), ids=lambda n: n.split(".")[0])
def test_a_sample_recounted(name: str) -> None:
    """Piece by piece between all changes: what is open is looked up among all events each time."""
    table = sample(name)
    begins = table.steps.start_ns
    middle = int(begins[1] if len(begins) > 1 else np.median(table.start_ns))
    edges = [middle + 40_000 * i for i in range(51)]
    found = {key.partition(":")[0]: c for key, c in by_key(table, edges[0], edges[-1], 50).items()}
    data = moments(table, edges[0], edges[-1])
    kernels, copies = data[data["kind"] == EventKind.KERNEL], data[data["kind"] == EventKind.MEMCPY]
    patterns = {each.key: each.pattern for each in DIRECTIONS}

    def at(key: str, time: int) -> float:
        if key == "queue_depth":
            return float(((data["launched"] >= 0) & (data["launched"] <= time) & (data["start"] > time)).sum())
        if key in patterns:
            those = copies[copies["name"].str.contains(patterns[key], case=False)]
            those = those[(those["start"] <= time) & (those["end"] > time)]
            return float((those["bytes"] * 1e9 / (those["end"] - those["start"])).sum())
        open_now = kernels[(kernels["start"] <= time) & (kernels["end"] > time)]
        return float(len(open_now) > 0) if key == "utilization" else min(1.0, float(open_now["blocks_per_sm"].sum()))

    changes = np.unique(np.concatenate([data[c].to_numpy() for c in ("start", "end", "launched")]))
    stated = [key for key in ("sm_efficiency", *patterns) if key in found]
    for key in ("utilization", "queue_depth", *stated):
        for i in range(50):
            inner = changes[(changes > edges[i]) & (changes < edges[i + 1])].tolist()
            pieces = [edges[i], *inner, edges[i + 1]]
            values = [at(key, time) for time in pieces[:-1]]
            mean = float(np.dot(values, np.diff(pieces))) / 40_000
            assert found[key].mean[i] == pytest.approx(mean, rel=1e-9, abs=1e-9), (key, i)
            assert found[key].low[i] == pytest.approx(min(values), rel=1e-9, abs=1e-3), (key, i)
            assert found[key].high[i] == pytest.approx(max(values), rel=1e-9, abs=1e-3), (key, i)


def test_of_a_trace_opened_as_a_window_the_counters_inside_are_those_of_the_whole_trace() -> None:
    name = next(name for name in SAMPLE_FILES if name.startswith("synthetic_gpu"))
    whole, source, reader = sample(name), Bytes((SAMPLES / name).read_bytes()), KinetoReader()
    survey = reader.survey(source, ReadOptions(), no_progress)
    window = choose(survey, parse_window("1-2"), 10**15, 0, 0)
    opened = assemble(reader.read(source, ReadOptions(window=window), no_progress))
    begin, end = opened.coverage.start_ns, opened.coverage.end_ns
    some, every = by_key(opened, begin, end, 400), by_key(whole, begin, end, 400)
    for key in ("utilization:0", "sm_efficiency:0", "htod:0", "dtod:0", "allocated:cuda:0"):
        assert some[key].high == pytest.approx(every[key].high, rel=1e-9), key
        assert some[key].mean == pytest.approx(every[key].mean, rel=1e-9, abs=1e-3), key
    outside = by_key(opened, 0, begin, 50)["utilization:0"]
    assert outside.mean == outside.low == outside.high == [None] * 50
    found, known = (part(table, "gaps").frames["gaps"].data.to_pylist() for table in (opened, whole))

    def inside(gaps: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
        keys = ("stream", "start_ns", "dur_ns", "why", "host_doing", "host_doing_ns")
        within = [gap for gap in gaps if begin < gap["start_ns"] and gap["start_ns"] + gap["dur_ns"] < end]
        return {tuple(gap[key] for key in keys) for gap in within}

    assert inside(found) == inside(known) and len(inside(found)) > 5
