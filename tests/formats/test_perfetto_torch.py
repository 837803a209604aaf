"""PyTorch's packets beside its JSON of the same recording: the same rows, but for what the packets do not hold.

What they lose is named here, one test each (formats-2.15.md, sections 4.3 and 4.4).
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tb_plugin import registry
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.formats.perfetto.columns import TorchColumns
from tb_plugin.formats.perfetto.wire import Malformed
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tb_plugin.profilers import PYTORCH, PYTORCH_PACKETS
from tests.pftraces import pftrace
from tests.samples import SAMPLES

from .sources import DATA, Bytes, names, plain

(PERFETTO,) = [reader for reader in registry.readers() if reader.id == "perfetto"]
TWIN = Path(__file__).parent / "twins/cuspy_cpu.pt.trace.json.gz"
RECORDED = (SAMPLES / "cuspy_cpu/worker0.pftrace.gz", TWIN)
GPU = "cuspy_synthetic"
TWINS = {
    "cuspy_cpu": RECORDED,
    GPU: (SAMPLES / "cuspy_packets_synthetic/worker0.pftrace.gz", SAMPLES / GPU / "worker0.pt.trace.json.gz"),
    "real_cpu_shapes_mem": (
        DATA / "torch215/real_cpu_shapes_mem.pftrace.gz",
        DATA / "torch215/real_cpu_shapes_mem.pt.trace.json",
    ),
}


def read(content: bytes | Path, chunk_bytes: int = 512 * 1024) -> RawTrace:
    content = content.read_bytes() if isinstance(content, Path) else content
    return PERFETTO.read(Bytes(content, "worker0.pftrace.gz"), ReadOptions(chunk_bytes), no_progress)


def read_json(content: bytes | Path) -> RawTrace:
    content = content.read_bytes() if isinstance(content, Path) else content
    return KinetoReader().read(Bytes(content), ReadOptions(), no_progress)


@cache
def twins(name: str) -> tuple[RawTrace, RawTrace]:
    packets, text = TWINS[name]
    if not packets.exists():
        pytest.skip("the traces of ../shared/data/torch215 are not here")
    return read(packets), read_json(text)


@pytest.fixture(params=TWINS)
def pair(request: pytest.FixtureRequest) -> tuple[RawTrace, RawTrace]:
    return twins(request.param)


def rounded(raw: RawTrace, text: Path) -> dict[int, int]:
    """Start in the JSON -> start in the packets: PyTorch's encoder makes nanoseconds of a float, which may be one off."""
    document = json.loads(gzip.decompress(text.read_bytes()) if text.suffix == ".gz" else text.read_bytes())
    stated = [event["ts"] for event in document["traceEvents"] if event["ph"] == "X"]
    return dict(zip(raw.start_ns.tolist(), [round(time * 1000) for time in stated], strict=True))


def row(raw: RawTrace, at: int, start: int) -> tuple[Any, ...]:
    text = raw.strings
    return (
        text[raw.name[at]], text[raw.category[at]], start, int(raw.dur_ns[at]), EventKind(raw.kind[at]).name,
        text[raw.pid[at]], text[raw.tid[at]], int(raw.correlation[at]), bool(raw.is_collective[at]),
    )  # fmt: skip


def test_rows_and_times_are_those_of_the_json(request: pytest.FixtureRequest, pair: tuple[RawTrace, RawTrace]) -> None:
    packets, text = pair
    name = request.node.callspec.params["pair"]
    at = rounded(text, TWINS[name][1])
    assert all(abs(before - after) <= 1 for before, after in at.items())
    expected = Counter(
        row(text, i, at[start])
        for i, start in enumerate(text.start_ns.tolist())
        if names(text)[i] != "PyTorch Profiler (0)"
    )
    found = Counter(row(packets, i, start) for i, start in enumerate(packets.start_ns.tolist()))
    differing = [
        (one[0], (expected - found)[one], (found - expected)[one]) for one in (expected - found) + (found - expected)
    ]
    if name == GPU:  # a wait for no stream is on row 1 of its device in the JSON, on stream -1 in the packets
        assert sorted(differing) == [("Context Sync", 0, 1), ("Context Sync", 1, 0)]
    else:
        assert differing == []
    assert (
        packets.base_time_ns == text.base_time_ns and packets.recorder is PYTORCH_PACKETS and text.recorder is PYTORCH
    )


def test_operators_and_frames_state_the_same(pair: tuple[RawTrace, RawTrace]) -> None:
    packets, text = (by_event(raw) for raw in pair)
    assert packets == text


def by_event(raw: RawTrace) -> Counter[tuple[Any, ...]]:
    """Arguments of operators and Python calls with the name of their event."""
    told, every = plain(raw), names(raw)
    found: Counter[tuple[Any, ...]] = Counter()
    for section in ("operators", "python"):
        columns = {key: values for key, values in told[section].items() if key != "row"}
        for place, at in enumerate(told[section]["row"]):
            found[every[at], *((key, values[place]) for key, values in columns.items())] += 1
    return found


def tables(pair: tuple[RawTrace, RawTrace]) -> tuple[TraceTable, TraceTable]:
    packets, text = pair
    return assemble(packets), assemble(text)


def test_nesting_links_and_steps_are_the_same(pair: tuple[RawTrace, RawTrace]) -> None:
    packets, text = tables(pair)

    def links(table: TraceTable) -> Counter[tuple[str, ...]]:
        called = [table.strings[i] for i in table.name]
        columns = (table.parent, table.operator, table.launch, table.python_parent, table.forward)
        kept = [i for i, kind in enumerate(table.kind.tolist()) if kind not in (EventKind.WINDOW, EventKind.SYNC)]
        return Counter((called[i], *("" if column[i] < 0 else called[column[i]] for column in columns)) for i in kept)

    # The encoder's nanosecond: one call at the end of the recording is no longer inside of its caller.
    lost = links(text) - links(packets)
    assert all(called.startswith("<built-in method _disable_profiler") for called, *_ in lost)
    assert packets.steps.label == text.steps.label


def test_lost_allocator_events_metadata_and_marks() -> None:
    packets, text = twins("real_cpu_shapes_mem")
    assert len(text.memory.time_ns) > 0 and len(packets.memory.time_ns) == 0
    assert set(packets.metadata) == {"baseTimeNanoseconds"} < set(text.metadata)
    assert "PyTorch Profiler (0)" in names(text) and "PyTorch Profiler (0)" not in names(packets)
    assert len(text.flows.start_time_ns) > 0 and len(packets.flows.start_time_ns) == 0
    assert text.process_names["11271"] == "python (CPU)" and packets.process_names["11271"] == "python"


def test_lost_static_shared_memory_and_the_way_of_a_copy() -> None:
    packets, text = twins(GPU)
    assert set(text.device_args.shared_memory.tolist()) == {1536, -1}
    assert set(packets.device_args.shared_memory.tolist()) == {-1}, "the dynamic part is not the whole"
    (dynamic,) = [column for column in packets.others if column.key == "dynamic shared memory"]
    assert len(dynamic.row) > 0
    lost = {column.key for column in text.others} - {column.key for column in packets.others}
    assert lost == {
        "copy kind", "src kind", "dst kind", "flags", "host process", "host thread", "cuda event",
        "priority", "queued", "annotation",
    }  # fmt: skip


def test_work_of_the_device_states_the_same() -> None:
    packets, text = twins(GPU)
    for column in ("stream", "grid", "block", "registers", "bytes"):
        assert Counter(plain(packets)["device_args"][column]) == Counter(plain(text)["device_args"][column]), column
    assert plain(packets)["collectives"]["in_elements"] == plain(text)["collectives"]["in_elements"] == [1024]
    assert len(packets.devices) == len(text.devices) == 1
    lanes = {"7": "stream 7", "100000": "lane A", "100001": "lane B"}
    assert {tid: packets.thread_names["0", tid] for tid in lanes} == lanes
    assert {tid: text.thread_names["0", tid].strip() for tid in lanes} == lanes


def test_counters_are_the_same() -> None:
    packets, text = twins(GPU)
    series = [
        Counter(
            (time, value, *(raw.strings[text] for text in texts))
            for time, value, *texts in zip(
                *(getattr(raw.counters, key).tolist() for key in ("time_ns", "value", "name", "series", "pid")),
                strict=True,
            )
        )
        for raw in (packets, text)
    ]
    assert series[0] == series[1] and series[0].total() == 39


def synthetic() -> dict[str, Any]:
    return json.loads(gzip.decompress(next((SAMPLES / "synthetic_gpu").glob("*.gz")).read_bytes()))


def test_a_training_on_a_gpu_as_packets_answers_as_its_json() -> None:
    """Steps, launches, classes of kernels, forward operators: on the synthetic training, encoded by our own hand."""
    document = synthetic()
    packets, text = read(pftrace(document)), read_json(json.dumps(document).encode())
    tables_ = tables((packets, text))
    for table in tables_:
        assert len(table.steps.label) == 6
    one, other = (_told(table) for table in tables_)
    assert one == other


def _told(table: TraceTable) -> Counter[tuple[Any, ...]]:
    called = np.array([table.strings[i] for i in table.name])
    columns = (table.parent, table.operator, table.launch, table.python_parent, table.forward)
    linked = [np.where(column < 0, "", called[column]) for column in columns]
    kept = np.isin(
        table.kind, [EventKind.OPERATOR, EventKind.KERNEL, EventKind.RUNTIME, EventKind.PYTHON, EventKind.MODULE]
    )
    times = (table.start_ns + table.origin_ns, table.dur_ns, table.uses_matrix_unit, table.is_collective)
    every = zip(
        called[kept], *(column[kept] for column in linked), *(time[kept].tolist() for time in times), strict=True
    )
    return Counter(every)


def slowly(content: bytes) -> RawTrace:
    """Reads the way that takes anything: over text."""
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*_: Any) -> None:
            raise Malformed

        patch.setattr(TorchColumns, "take", refuse)
        return read(content)


@pytest.mark.parametrize("name", ["cuspy_cpu", GPU, "synthetic_gpu"])
def test_the_way_over_text_gives_the_same(name: str) -> None:
    if name == "synthetic_gpu":
        content = pftrace(synthetic())
    else:
        content = TWINS[name][0].read_bytes()
    one, other = read(content), slowly(content)
    assert _told(assemble(one)) == _told(assemble(other))
    assert by_event(one) == by_event(other)
    assert one.thread_names == other.thread_names and one.report.events_loaded == other.report.events_loaded
