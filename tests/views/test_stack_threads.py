"""Threads of the stacks: which calls are one thread's, which threads are idle; named ranges and folding."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.code_owner import package_of
from tb_plugin.analysis.host_threads import threads_of
from tb_plugin.analysis.selection import select_rows
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.stacks.options import Choice
from tb_plugin.views.stacks.places import merged_stacks
from tests.builders import TraceBuilder, kernel, part, trace
from tests.conftest import SAMPLE_FILES, UNLIKE, sample
from tests.depth import examples
from tests.views.test_stacks import folded, places

BOOTSTRAP, WAIT, MONITOR = "threading.py(1032): _bootstrap", "threading.py(359): wait", "tqdm/_monitor.py(60): run"


def progress_bar(builder: TraceBuilder, tid: int = 0) -> TraceBuilder:
    return builder.python(BOOTSTRAP, 0, 100, tid=tid).python(MONITOR, 1, 98, tid=tid).python(WAIT, 2, 96, tid=tid)


def training() -> TraceBuilder:
    return trace().python("train.py(1): main", 0, 50).op("aten::mm", 10, 30).launches(kernel("k", 7))


def test_an_idle_thread_is_out_of_the_sum_and_listed_last() -> None:
    table = progress_bar(training()).table()
    assert folded(places(table)) == [("train.py(1): main", 20), ("train.py(1): main;aten::mm", 30)]
    everything = folded(places(table, thread="all"))
    assert (f"{BOOTSTRAP};{MONITOR};{WAIT}", 96) in everything and len(everything) == 5
    assert sum(us for _, us in folded(places(table, thread="1:0"))) == 100
    found = part(table, "stacks").frames["threads"].data.to_pylist()
    assert [(row["thread"], row["thread_idle"]) for row in found] == [
        ("Main thread", False), (f"thread 0: {MONITOR}", True),
    ]  # fmt: skip
    assert (found[1]["thread_host_ns"], found[1]["thread_wait_ns"]) == (100_000, 96_000)


def test_a_wait_beneath_which_something_runs_is_not_idle() -> None:
    builder = progress_bar(training()).python("work.py(3): check", 10, 20, tid=0)
    assert not any(thread.idle for thread in threads_of(builder.table())), "76 % of its time"
    builder = progress_bar(training()).python("work.py(3): check", 10, 0.5, tid=0)
    assert {t.key: t.idle for t in threads_of(builder.table())} == {"1:1": False, "1:0": True}, "95.5 %"


@pytest.mark.parametrize("works", ["op", "call", "annotation", "module"])
def test_a_thread_that_works_is_not_idle_however_long_it_waits(works: str) -> None:
    builder = progress_bar(training(), tid=9)
    match works:
        case "op":
            builder.op("aten::add", 99, 0.1, tid=9)
        case "call":
            builder.call(99, 0.1, corr=7, tid=9)
        case "annotation":
            builder.annotation("refill", 99, 0.1, tid=9)
        case _:
            builder.module("Net", 99, 0.1, tid=9)
    assert not any(thread.idle for thread in threads_of(builder.table()))


def several() -> TraceTable:
    builder = trace().op("a", 0, 50).launches(kernel("k", 1)).thread_name(3, "third")
    builder.op("b", 0, 20, tid=2).launches(kernel("k", 2)).op("a", 10, 30, tid=3).launches(kernel("k", 4))
    return progress_bar(builder).on_device(kernel("stray", 8, at=99)).table()


@pytest.mark.parametrize(
    ("chosen", "host", "device"),
    [
        ((), [("a", 80), ("b", 20)], 15),
        (("1:1", "1:3"), [("a", 80)], 5),
        (("third", "2"), [("a", 30), ("b", 20)], 6),
        (("1:3", "third", "3"), [("a", 30)], 4),
        (("1:1", "1:2", "1:3"), [("a", 80), ("b", 20)], 7),
    ],
)
def test_any_threads_can_be_chosen(chosen: tuple[str, ...], host: list[tuple[str, int]], device: int) -> None:
    """Work that nobody launched belongs to no thread: it counts where none is chosen."""
    table = several()
    assert folded(places(table, thread=chosen)) == host
    assert sum(us for _, us in folded(places(table, thread=chosen, weight="device"), "device")) == device
    page = part(table, "stacks", extra=tuple(("thread", text) for text in chosen)).frames
    names, own = (page["functions"].data[key].to_pylist() for key in ("name", "function_host_self_ns"))
    assert [(name, ns // 1000) for name, ns in zip(names, own, strict=True) if ns] == host
    assert len(page["threads"].data) == 4, "all can be chosen"


def test_one_of_several_threads_that_is_not_there_is_said() -> None:
    with pytest.raises(BadRequest, match="No thread matches 9"):
        places(several(), thread=("1:1", "9"))
    assert sum(us for _, us in folded(places(several(), thread=("1:1", "1:0")))) == 150, "idle ones may be chosen"


CALLS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=12)


@given(CALLS, st.sets(st.integers(0, 3)))
@examples(20, 300)
def test_any_subset_recounted(calls: list[tuple[int, int, int]], wanted: set[int]) -> None:
    """The time of chosen threads is the number of their microseconds in which they are in any call."""
    builder = trace()
    for tid, at, dur in calls:
        builder.op(f"op{dur}", at, dur, tid=10 + tid)
    present = {tid for tid, _, _ in calls}
    moments = {(tid, at + i) for tid, at, dur in calls if tid in (wanted & present or present) for i in range(dur)}
    found = part(builder.table(), "stacks", extra=tuple(("thread", str(10 + tid)) for tid in wanted & present))
    assert sum(found.frames["functions"].data["function_host_self_ns"].to_pylist()) == 1000 * len(moments)
    tree = found.payloads["stacks"]
    roots = [row["host_ns"] for row, above in zip(tree.rows, tree.parent, strict=True) if above < 0]
    assert sum(roots) == 1000 * len(moments)


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        (WAIT, True),
        ("/opt/conda/lib/python3.11/threading.py(359): wait", True),
        ("Condition.wait (/usr/lib/python3.11/threading.py:295)", True),
        ("Thread._wait_for_tstate_lock (/usr/lib/python3.11/threading.py:1125)", True),
        ("Queue.get (C:\\Python311\\Lib\\queue.py:154)", True),
        ("worker (/usr/lib/python3.11/multiprocessing/pool.py:97)", True),
        ("_thread.lock.acquire", True),
        ("_thread.RLock.__enter__", True),
        ("time.sleep", True),
        ("select.epoll.poll", True),
        ("<built-in method acquire of _thread.lock object at 0x7f>", True),
        ("torch/_inductor/compile_worker/subproc_pool.py(55): _recv_msg", True),
        ("<method 'read' of '_io.BufferedReader' objects>", True),
        ("<built-in method read of _io.BufferedReader object at 0x7f>", True),
        ("_thread.lock.release", False),
        ("Thread.start (/usr/lib/python3.11/threading.py:945)", False),
        ("wait (/home/me/train.py:3)", False),
        ("mythreading.py(3): wait", False),
        ("Condition.wait (/home/me/mythreading.py:3)", False),
        ("<method 'select' of 'pyarrow.lib.Table' objects>", False),
    ],
)
def test_what_is_a_wait(name: str, waits: bool) -> None:
    builder = training().python("monitor (tqdm/_monitor.py:60)", 0, 100, tid=5).python(name, 1, 98, tid=5)
    assert {thread.key: thread.idle for thread in threads_of(builder.table())}["1:5"] is waits


def test_waits_of_another_recorder_are_seen() -> None:
    """VizTracer writes the class and the whole path: waiting counts there as well."""
    name = next(name for name in SAMPLE_FILES if name.startswith("viztracer_cpu"))
    assert [(thread.name, thread.wait_ns > 0) for thread in threads_of(sample(name))] == [
        ("Main thread", True),
        ("background", False),
    ]


def test_where_all_threads_are_idle_none_is() -> None:
    assert [thread.idle for thread in threads_of(progress_bar(trace()).table())] == [False]


def test_threads_under_one_id_are_cut_where_one_begins() -> None:
    """PyTorch records the frames of threads that it does not know under one id, each inside the one before."""
    builder = trace().python(BOOTSTRAP, 0, 100, tid=0).python("a.py(1): serve", 1, 98, tid=0)
    builder.python(BOOTSTRAP, 10, 80, tid=0).python("b.py(1): watch", 11, 78, tid=0)
    table = builder.table()
    assert sorted(folded(places(table))) == [
        (BOOTSTRAP, 4), (f"{BOOTSTRAP};a.py(1): serve", 98), (f"{BOOTSTRAP};b.py(1): watch", 78),
    ]  # fmt: skip
    assert [(thread.key, thread.name, thread.host_ns) for thread in threads_of(table)] == [
        ("1:0", "thread 0: a.py(1): serve", 100_000), ("1:0#2", "thread 0: b.py(1): watch", 80_000),
    ]  # fmt: skip
    assert folded(places(table, thread="1:0#2")) == [(BOOTSTRAP, 2), (f"{BOOTSTRAP};b.py(1): watch", 78)]
    with pytest.raises(BadRequest, match="No thread matches"):
        places(table, thread="1:0#3")


def test_a_thread_that_begins_inside_a_call_leaves_the_track_to_the_others() -> None:
    builder = trace().python("main", 0, 100).python(BOOTSTRAP, 10, 20).python("main2", 40, 20)
    assert [(t.key, t.host_ns) for t in threads_of(builder.table())] == [("1:1", 100_000), ("1:1#2", 20_000)]


def test_a_named_range_is_a_frame_and_a_step_is_none() -> None:
    """It begins inside the call that opens it and ends inside the one that closes it."""
    builder = trace().step(1, 0, 100).python("main", 1, 98).annotation("forward", 12, 50)
    builder.python("__enter__", 10, 4).op("aten::mm", 20, 30).launches(kernel("k", 7)).python("__exit__", 60, 5)
    table = builder.table()
    assert folded(places(table)) == [
        ("main", 43), ("main;forward", 16), ("main;forward;aten::mm", 30), ("main;__exit__", 5), ("main;__enter__", 4),
    ]  # fmt: skip
    assert folded(places(table, weight="device"), "device") == [("main;forward;aten::mm", 7)]
    assert folded(places(table, of="python", weight="device"), "device") == [("main;forward", 7)]
    assert folded(places(table, of="operators")) == [("aten::mm", 30)]


def test_calls_of_a_framework_to_itself_are_part_of_the_call_that_entered_it() -> None:
    builder = trace().python("train.py(1): main", 0, 100).python("torch/optim/sgd.py(9): step", 10, 80)
    builder.python("torch/optim/sgd.py(50): _update", 20, 60).python("contextlib.py(3): __enter__", 30, 10)
    builder.op("aten::add", 50, 20).launches(kernel("k", 7)).python("hook.py(1): mine", 75, 5)
    table = builder.table()
    step = "train.py(1): main;torch/optim/sgd.py(9): step"
    assert folded(places(table, fold="framework")) == [
        ("train.py(1): main", 20), (step, 55), (f"{step};aten::add", 20), (f"{step};hook.py(1): mine", 5),
    ]  # fmt: skip
    assert folded(places(table, of="python", fold="framework", weight="device"), "device") == [(step, 7)]
    assert folded(places(trace().python("threading.py(3): _bootstrap", 0, 9).table(), fold="framework")) == [
        ("threading.py(3): _bootstrap", 9)
    ], "what nobody else called stays"


def test_objects_of_one_kind_are_called_alike() -> None:
    builder = trace().python("main", 0, 100)
    for number in range(3):
        builder.python(f"<built-in method append of list object at 0x7f3a{number}>", 10 + 20 * number, 5)
    assert folded(places(builder.table())) == [("main", 85), ("main;<built-in method append of list object>", 15)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train.py(1): main", ("train", False)),
        ("model/net.py(12): forward", ("model", False)),
        ("torch/nn/modules/module.py(1743): _call_impl", ("torch", True)),
        ("threading.py(1032): _bootstrap", ("standard library", True)),
        ("multiprocessing/process.py(314): run", ("standard library", True)),
        ("<frozen os>(808): getenv", ("standard library", True)),
        ("/usr/lib/python3.11/threading.py(1): run", ("standard library", True)),
        ("/opt/venv/lib/python3.10/site-packages/mylib/x.py(1): f", ("mylib", True)),
        ("C:\\env\\Lib\\site-packages\\mylib\\x.py(1): f", ("mylib", True)),
        ("/work/sglang/python/sglang/srt/run.py(7): step", ("sglang", False)),
        ("/home/me/project/train.py(7): step", ("project", False)),
        ("/train.py(7): step", ("train.py", False)),
        ("<built-in function len>", ("built-in", True)),
        ("<string>(1): <module>", ("generated code", False)),
        ("quicksort (/tmp/samples/record.py:24)", ("samples", False)),
        ("WeakSet.add (/usr/lib/python3.11/_weakrefset.py:85)", ("standard library", True)),
        ("no path", ("", False)),
        ("", ("", False)),
        (r"C:\Users\me\miniconda3\envs\t\Lib\functools.py(888): wrapper", ("standard library", True)),
        (r"D:\proj\Lib\mine.py(3): f", ("Lib", False)),
        ("/home/dev/pytorch/torch/nn/modules/linear.py(134): forward", ("torch", True)),
        ("/root/.cache/uv/archive-v0/Zx1/torch/_tensor.py(5): backward", ("torch", True)),
        ("/home/u/my-torch/train.py(3): f", ("my-torch", False)),
    ],
)
def test_whose_code_a_call_is(name: str, expected: tuple[str, bool]) -> None:
    assert package_of(name) == expected


def busy(table: TraceTable) -> dict[int, int]:
    """Time in which a call is open on each track, one call at a time; ranges and steps are no calls here."""
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for i in np.flatnonzero(
        np.isin(table.kind, [EventKind.PYTHON, EventKind.MODULE, EventKind.OPERATOR, EventKind.RUNTIME])
    ):
        spans[int(table.track[i])].append((int(table.start_ns[i]), int(table.end_ns[i])))
    totals = {}
    for track, members in spans.items():
        total, reach = 0, -1
        for start, end in sorted(members):
            total += max(0, end - max(start, reach))
            reach = max(reach, end)
        totals[track] = total
    return totals


@pytest.mark.parametrize("name", UNLIKE)
def test_functions_sum_to_the_time_in_which_a_thread_is_in_calls(name: str) -> None:
    table = sample(name)
    if not threads_of(table):
        return
    recount = busy(table)
    # Several threads may be recorded under one id: together they are in calls whenever one of them is.
    first = {thread.key.partition("#")[0]: thread.number for thread in reversed(threads_of(table))}
    together: Counter[int] = Counter()
    for thread in threads_of(table):
        found = part(table, "stacks", extra=(("thread", thread.key),))
        own = sum(found.frames["functions"].data["function_host_self_ns"].to_pylist())
        assert own == thread.host_ns
        apart = merged_stacks(table, select_rows(table, None), Choice(threads=(thread.key,)), by_thread=True)
        ranges = sum(apart.host_ns[apart.kind == EventKind.ANNOTATION].tolist())
        track = first[thread.key.partition("#")[0]]
        assert own <= recount.get(track, 0) + ranges
        together[track] += own
    assert all(own >= recount.get(track, 0) for track, own in together.items())
    some = threads_of(table)[::2]
    found = part(table, "stacks", extra=tuple(("thread", thread.key) for thread in some))
    own = sum(found.frames["functions"].data["function_host_self_ns"].to_pylist())
    assert own == sum(thread.host_ns for thread in some)
    whole = part(table, "stacks", extra=(("of", "operators"), ("thread", "all"))).frames["functions"].data
    assert sum(whole["function_host_self_ns"].to_pylist()) <= max(sum(recount.values()), sum(together.values()))


def test_threads_are_judged_by_the_chosen_steps() -> None:
    builder = progress_bar(training()).step(1, 5, 60).step(2, 70, 20).op("aten::add", 75, 5).launches(kernel("k", 2))
    table = builder.python("queue.py(154): get", 71, 10, tid=3).op("aten::add", 20, 5, tid=3).table()
    found = part(table, "stacks", ("2",)).frames["threads"].data.to_pylist()
    assert [(row["thread_key"], row["thread_host_ns"], row["thread_idle"]) for row in found] == [
        ("1:1", 5_000, False), ("1:3", 10_000, True),
    ], "what began before them has no time in them"  # fmt: skip
    assert folded(places(table, ("2",))) == [("aten::add", 5)]
    assert not any(row["thread_idle"] for row in part(table, "stacks", ("1",)).frames["threads"].data.to_pylist())
