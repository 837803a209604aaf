"""What threads and streams are called: by what ran on them, never by a number alone where anything better is known."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.thread_and_stream_names import main_thread, track_names
from tb_plugin.analysis.timeline.lanes import lanes_of, tracks_of
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.recorder import UNKNOWN_RECORDER
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, Work, kernel, memcpy, memset, part, rows, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples

NCCL = "ncclDevKernel_AllReduce_Sum_f32"


def titles(table: TraceTable) -> list[str]:
    """In the order of the timeline, each once."""
    lanes = lanes_of(table)
    return list(dict.fromkeys(track.title for track in tracks_of(table, lanes, lanes.number)))


def threads(builder: TraceBuilder) -> list[str]:
    """Titles of threads, without what a lane holds where a thread has several."""
    shown = (title.split(" · ")[0] for title in titles(builder.table()))
    return [title for title in dict.fromkeys(shown) if not title.startswith("Stream")]


def test_threads_are_called_by_what_runs_on_them() -> None:
    built = trace().step(1, at=0, dur=900).op("aten::mm", at=0, dur=5)
    built.op("autograd::engine::evaluate_function: MmBackward0", at=10, dur=5, tid=20)
    built.python("torch/utils/data/_utils/pin_memory.py(30): _pin_memory_loop", at=0, dur=900, id=1, tid=30)
    built.python("torch/utils/data/_utils/worker.py(200): _worker_loop", at=0, dur=900, id=2, tid=31)
    built.call(50, 1, name="cudaEventQuery", tid=-1220540864).call(60, 1, name="cudaEventQuery", tid=-1220540864)
    built.call(70, 1, name="cudaEventQuery", tid=40).call(80, 1, name="cudaLaunchKernel", tid=40)
    built.annotation("gloo:all_reduce", at=5, dur=5, tid=50)
    built.python("threading.py(1002): _bootstrap", at=0, dur=900, id=3, tid=60)
    built.python("tqdm/_monitor.py(60): run", at=1, dur=800, id=4, parent=3, tid=60)
    built.op("aten::add", at=0, dur=5, tid=70).op("aten::add", at=9, dur=5, tid=70)
    built.op("aten::add", at=0, dur=5, tid=140000000000000)
    shown = threads(built)
    assert shown[:6] == ["Main thread", "Autograd", "Data loader", "Pin memory", "NCCL watchdog", "Gloo"]
    assert set(shown[6:]) == {"tqdm/_monitor.py: run", "Runtime calls", "Thread 70", "Thread"}


def test_a_name_that_a_thread_gave_itself_counts_unless_it_is_the_program_s() -> None:
    built = trace().thread_name(1, "thread 1 (train.py)").thread_name(2, "thread 2 (train.py)")
    built.thread_name(3, "thread 3 (pt_autograd_0)").thread_name(4, "thread 4 (pt_autograd_1)")
    built.thread_name(5, "thread 5 (sampler)").thread_name(6, "thread 6 (python3.11)")
    for tid in range(1, 7):
        built.op("aten::mm", at=0, dur=5, tid=tid)
    assert threads(built) == ["Main thread", "Autograd 3", "Autograd 4", "Thread 2", "sampler", "Thread 6"]


def test_lanes_of_one_thread_or_stream_say_what_they_hold() -> None:
    built = trace().op("aten::mm", at=0, dur=5).python("train.py(3): main", at=0, dur=900, id=1)
    built.launches(kernel("k", 10, 5)).device_annotation("step", at=10, dur=5, stream=7)
    assert titles(built.table()) == [
        "Stream 7 · compute",
        "Stream 7 · annotations",
        "Main thread · operators",
        "Main thread · Python",
    ]


def test_streams_of_one_number_on_two_devices_name_the_device() -> None:
    built = trace().op("a", at=0, dur=5).launches(kernel("k", 10, 5)).launches(kernel("k", 10, 5, device=1))
    assert titles(built.table())[:2] == ["GPU 0 · Stream 7 · compute", "GPU 1 · Stream 7 · compute"]


def test_a_helper_below_a_gpu_s_number_is_no_main_thread() -> None:
    """Kineto gives Python events of unknown threads process and thread 0, the number of the first GPU."""
    built = trace().op("aten::mm", at=0, dur=5).launches(kernel("k", 10, 5))
    built.event("python_function", "tqdm/_monitor.py(60): run", 1, 800, 0, 0, **{"Python id": 4})
    assert titles(built.table())[1:] == ["Main thread", "tqdm/_monitor.py: run"]


def test_the_main_thread_is_that_of_the_steps_else_that_of_the_process() -> None:
    table = trace().op("a", at=0, dur=5, tid=1).op("b", at=0, dur=5, tid=2).table()
    assert table.tracks[main_thread(table)].tid == "1"
    table = trace().op("a", at=0, dur=5, tid=1).step(1, at=0, dur=9, tid=2).op("b", at=0, dur=5, tid=2).table()
    assert table.tracks[main_thread(table)].tid == "2"
    assert main_thread(trace().op("a", at=0, dur=5, tid=2).table()) == -1


def test_streams_are_called_by_their_work_in_natural_order() -> None:
    group = {"Process Group Name": "1", "Process Group Description": "dp", "Collective name": "allreduce"}
    built = trace().device(0, name="NVIDIA H100").device(10).device(9).op("a", at=0, dur=5)
    built.launches(kernel("gemm", 80, stream=20), memcpy(30, stream=20), memset(2, stream=20))
    built.launches(kernel("gemm", 90, stream=7), memcpy(10, stream=7))
    built.launches(kernel(NCCL, 9, stream=100, **group)).launches(memcpy(5, stream=30))
    built.launches(kernel("gemm", 5, stream=1, device=10)).launches(kernel(NCCL, 5, stream=1, device=9))
    table = built.event("cuda_sync", "Context Sync", 2, 2, 0, -1, device=0, stream=-1).table()
    lanes = lanes_of(table)
    shown = [(track.title, track.subtitle) for track in tracks_of(table, lanes, lanes.number) if track.is_device]
    assert shown == [
        ("Stream 7 · compute", "GPU 0 · NVIDIA H100"),
        ("Stream 20 · compute and copies", "GPU 0 · NVIDIA H100"),
        ("Stream 30 · copies to device", "GPU 0 · NVIDIA H100"),
        ("Stream 100 · NCCL dp", "GPU 0 · NVIDIA H100"),
        ("All streams", "waits · GPU 0 · NVIDIA H100"),
        ("Stream 1 · NCCL", "GPU 9 · Tesla V100"),
        ("Stream 1 · compute", "GPU 10 · Tesla V100"),
    ]
    group["Process Group Description"] = "tp"
    more = built.launches(kernel(NCCL, 9, stream=100, **group)).table()
    assert "Stream 100 · NCCL, 2 groups" in titles(more)


@pytest.mark.parametrize(
    ("copies", "title"),
    [
        ([memcpy(5)], "copies to device"),
        ([memcpy(5, name="Memcpy DtoH (Device -> Pageable)"), memcpy(1)], "copies to host"),
        ([memcpy(4, name="Memcpy DtoH (Device -> Pinned)"), memcpy(1)], "copies to host and to device"),
        ([memcpy(5, name="Memcpy DtoD (Device -> Device)"), memset(1)], "copies within the device"),
        ([memcpy(5, name="Memcpy PtoP (Device -> Device)")], "copies to other devices"),
        ([memcpy(5, name="CopyHostToDevice")], "copies to device"),
        ([memcpy(5, name="Memcpy", direction="device_to_host")], "copies to host"),
        ([memcpy(5, name="Memcpy", kind="HtoD")], "copies to device"),
        ([memcpy(5, name="Memcpy DtoH (Device -> Pinned)", kind="HtoD")], "copies to host"),
        ([memcpy(4), memcpy(1, name="Memcpy")], "copies"),
        ([memcpy(5, name="Memcpy HtoH (Pinned -> Pinned)")], "copies"),
        ([memcpy(4), memset(1)], "copies"),
        ([memset(5)], "copies"),
    ],
)
def test_a_stream_of_copies_says_where_they_go(copies: list[Work], title: str) -> None:
    built = trace().op("a", at=0, dur=5).launches(kernel("gemm", 5, stream=7))
    for copy in copies:
        built.on_device(dataclasses.replace(copy, stream=20, at=10))
    assert titles(built.table())[1] == f"Stream 20 · {title}"


def test_lists_of_events_say_the_same() -> None:
    built = trace().step(1, at=0, dur=90).op("a", at=0, dur=5).launches(kernel("gemm", 5))
    table = built.op("autograd::engine::evaluate_function: B", at=10, dur=5, tid=20).table()
    labels = {name.label for name in track_names(table)}
    assert labels == {"Main thread (1)", "Autograd (20)", "GPU 0, stream 7 (compute)"}
    assert {row["thread"] for row in rows(table, "events", "instances")} == labels
    assert {row["thread"] for row in rows(table, "find", "hits")} == labels


def test_what_no_tool_told_is_called_by_its_number() -> None:
    built = (
        trace().thread_name(2, "thread 2 (pt_autograd_0)").op("gloo:x", at=0, dur=5, tid=3).op("a", at=0, dur=5, tid=2)
    )
    table = assemble(replace(built.raw_trace(), recorder=UNKNOWN_RECORDER))
    assert sorted(titles(table)) == ["Thread 3", "pt_autograd_0"]


def test_the_tool_s_own_track_stands_last_and_takes_one_line() -> None:
    built = trace().event("Trace", "PyTorch Profiler (0)", 0, 100, "Spans", "PyTorch Profiler")
    table = built.op("a", at=0, dur=5).launches(kernel("k", 5)).table()
    last = part(table, "timeline").payloads["timeline"].tracks[-1]
    assert (last.title, last.subtitle) == ("PyTorch Profiler", "")


DRAWN = st.lists(
    st.tuples(st.sampled_from(["gemm", NCCL, "copy"]), st.integers(0, 40), st.integers(0, 3), st.integers(0, 1)),
    max_size=25,
)


@given(DRAWN, st.lists(st.tuples(st.sampled_from([-5, 1, 2, 3, 10**12, 10**13]), st.booleans()), max_size=12))
@examples(25, 400)
def test_names_are_recounted(device: list[tuple[str, int, int, int]], host: list[tuple[int, bool]]) -> None:
    """Whatever runs: each thread and stream has a name of its own, and a stream that of what took most of its time."""
    built = trace().op("first", at=0, dur=1)
    for name, dur, stream, number in device:
        work = (
            memcpy(dur, 10, stream=stream, device=number)
            if name == "copy"
            else kernel(name, dur, 10, stream=stream, device=number)
        )
        built.on_device(work)
    for at, (tid, is_autograd) in enumerate(host):
        built.op("torch::autograd::AccumulateGrad" if is_autograd else "aten::mm", at=at * 10, dur=3, tid=tid)
    table = built.table()
    names = track_names(table)
    for on_device in (True, False):
        shown = [
            (name.title, name.recorded if on_device else "")
            for name, t in zip(names, table.tracks, strict=True)
            if t.is_device is on_device
        ]
        assert len(set(shown)) == len(shown)
    assert_recounted(table)


@pytest.mark.parametrize("name", UNLIKE)
def test_names_of_the_samples_are_recounted(name: str) -> None:
    table = sample(name)
    if not isinstance(table, TraceTable):
        pytest.skip("no trace")
    assert_recounted(table)


def assert_recounted(table: TraceTable) -> None:
    """The name of each stream holds what took a fifth of its time or more, and nothing else; one event at a time."""
    time: dict[int, Counter[str]] = {}
    autograd = set()
    for row in range(len(table)):
        kind, track = EventKind(int(table.kind[row])), int(table.track[row])
        text = table.strings[int(table.name[row])]
        if text.startswith(("autograd::engine::", "torch::autograd::")):
            autograd.add(track)
        if kind in (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET):
            what = "copies" if kind != EventKind.KERNEL else "talk" if table.is_collective[row] else "compute"
            time.setdefault(track, Counter())[what] += max(int(table.dur_ns[row]), 1)
    for i, (track, found) in enumerate(zip(table.tracks, track_names(table), strict=True)):
        if not track.is_device:
            assert found.title.rpartition(" · ")[2].startswith("Autograd") == (
                i in autograd and i != main_thread(table)
            )
            continue
        total = sum(time.get(i, Counter()).values())
        said = {
            "compute": "compute" in found.title,
            "copies": "copies" in found.title,
            "talk": any(word in found.title for word in ("communication", "NCCL", "HCCL")),
        }
        assert said == {what: time.get(i, Counter())[what] * 5 >= max(total, 1) for what in said}
