"""Causes of idle time: each by a trace of a few events, their sum on all samples, and a plain recount of random traces."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.device_time import device_time
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import TITLES, Cause
from tb_plugin.lib.intervals import measure_within
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Notices
from tb_plugin.rules._ordered_findings import findings_of
from tests.builders import TraceBuilder, analysis, kernel, memcpy, part, payload_of, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples


def pair(launch: float = 70) -> TraceBuilder:
    """Work until 30 us and from 90 us on, launched at ``launch`` for 2 us: a gap of 60 us."""
    builder = trace().step(1, 0, 100).op("first", 0, 5).launches(kernel("k", 20, 10)).op("last", launch, 5)
    return builder.launches(kernel("l", 10, 90), dur=2).device(0)


def gap(builder: TraceBuilder, start: int = 30, end: int = 90) -> dict[str, float]:
    """Microseconds by cause between 30 and 90 us of device 0."""
    table = builder.table()
    account = idle_account(table, 0)
    found: Counter[str] = Counter()
    for low, high, cause in zip(account.start_ns, account.end_ns, account.cause, strict=True):
        low, high = max(int(low), 1000 * start), min(int(high), 1000 * end)
        if low < high:
            found[Cause(cause).name.lower()] += (high - low) / 1000
    return dict(found)


def test_the_host_was_elsewhere() -> None:
    builder = pair().op("aten::slow", 35, 10).op("inner", 36, 2)
    assert gap(builder) == {"python": 30, "dispatch": 10, "launch": 2, "launch_latency": 10, "unexplained": 8}, (
        "the first launch took 10 us to begin, which is the median"
    )


@pytest.mark.parametrize(
    ("cause", "build"),
    [
        ("input", lambda b: b.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 30, 40)),
        ("synchronisation", lambda b: b.call(30, 40, name="cudaStreamSynchronize")),
        ("driver_memory", lambda b: b.call(30, 40, name="cudaMalloc")),
        ("driver_memory", lambda b: b.call(30, 40, name="cudaHostAlloc")),
        ("initialisation", lambda b: b.call(30, 40, name="cuModuleLoadDataEx", category="cuda_driver")),
        ("compilation", lambda b: b.op("compile_fx_inner (dynamo_timed)", 30, 40)),
        ("garbage_collection", lambda b: b.python("Python GC", 30, 40, tid=9)),
        ("profiler", lambda b: b.event("overhead", "Activity Buffer Request", 30, 40, -1, 0)),
        ("graph", lambda b: b.call(30, 40, name="cudaGraphLaunch")),
        ("dispatch", lambda b: b.call(30, 40, name="cudaEventRecord")),
        ("python", lambda b: b.annotation("forward", 30, 40)),
        ("python", lambda b: b.op("aten::mm", 30, 40, tid=2)),
    ],
)
def test_one_thing_is_open(cause: str, build: Any) -> None:
    assert gap(build(pair()), end=70) == {cause: 40}


def test_what_is_open_at_once_counts_by_priority() -> None:
    builder = pair().annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 30, 40)
    builder.op("aten::to", 35, 30).call(40, 20, name="cudaStreamSynchronize").call(45, 5, name="cudaMalloc")
    assert gap(builder, end=70) == {"input": 20, "synchronisation": 15, "driver_memory": 5}


def test_a_thread_with_nothing_open_leaves_the_word_to_the_others() -> None:
    builder = pair().op("backward", 0, 30, tid=2).launches(kernel("b", 1, 5, stream=8))
    builder.op("grad", 40, 10, tid=2).op("own", 45, 10)
    assert gap(builder, end=70) == {"python": 25, "dispatch": 15}


@pytest.mark.parametrize("count", [8, 9, 40])
def test_any_number_of_threads_launches_work(count: int) -> None:
    builder = trace().step(1, 0, 100 * count)
    for thread in range(count):
        builder.op("work", 100 * thread, 20, tid=thread + 1).launches(kernel("k", 10, 100 * thread + 40))
    told = gap(builder, 50, 100 * count - 50)
    # Each gap of 90 us: 50 us in Python, 20 us in the operator, the rest in the launch and its latency.
    assert sum(told.values()) == 90 * (count - 1) and told["python"] == 50 * (count - 1)


SECOND = 1_000_000


@pytest.mark.parametrize(
    "name", ["cudaDeviceGetStreamPriorityRange", "hipDeviceGetStreamPriorityRange", "cudaGetDevice"]
)
def test_a_call_that_creates_the_context(name: str) -> None:
    builder = trace().step(1, 0, 21 * SECOND).op("first", 0, 5).launches(kernel("k", 20, 10))
    builder.op("aten::empty", 40, 20 * SECOND).call(50, 20 * SECOND - 20, name=name)
    builder.op("last", 20 * SECOND + 100, 5).launches(kernel("l", 10, 20 * SECOND + 120), dur=2)
    assert gap(builder, end=20 * SECOND + 100)["initialisation"] == 20 * SECOND - 20


@pytest.mark.parametrize(("longest", "cause"), [(1_090_000, "initialisation"), (150, "launch")])
def test_a_first_launch_that_loads_code(longest: int, cause: str) -> None:
    """Of ten launches of 10 us each the first takes longer."""
    builder = trace().step(1, 0, 2 * SECOND)
    builder.on_device(kernel("earlier", 10, 0), ext=-1)
    builder.op("first", 50, longest + 10).launches(kernel("k", 20, longest + 70), at=55, dur=longest)
    for i in range(9):
        builder.op("next", longest + 200 + 100 * i, 20)
        builder.launches(kernel("k", 20, longest + 240 + 100 * i), at=longest + 205 + 100 * i, dur=10)
    assert gap(builder, 55, longest + 55) == {cause: longest}


@pytest.mark.parametrize(
    ("name", "call", "cause"),
    [
        ("new", "cudaLaunchKernel", "initialisation"),
        ("k", "cudaLaunchKernel", "launch"),
        ("new", "cudaGraphLaunch", "graph"),
    ],
)
def test_each_kernel_may_load_its_code_when_it_is_first_launched(name: str, call: str, cause: str) -> None:
    """Ten launches of 10 us and one of 5 ms while the device idles: lazy loading, if its kernel is a new one."""
    builder = trace().step(1, 0, 20_000)
    for i in range(10):
        builder.op("next", 100 * i, 20).launches(kernel("k", 20, 100 * i + 40), at=100 * i + 5, dur=10)
    builder.op("late", 2000, 5100).launches(kernel(name, 20, 7060), at=2005, dur=5000, name=call)
    assert gap(builder, 2005, 7005) == {cause: 5000}


def test_the_call_of_a_copy_lasts_as_long_as_the_copy() -> None:
    """The first copy takes 40 ms in its call, from pageable memory; launches of kernels take 10 us."""
    builder = trace().step(1, 0, 100_000).on_device(kernel("earlier", 10, 0), ext=-1)
    copy = memcpy(2000, 38_000, name="Memcpy HtoD (Pageable -> Device)")
    builder.op("aten::copy_", 50, 40_100).launches(copy, at=60, dur=40_000, name="cudaMemcpyAsync")
    for i in range(9):
        builder.op("next", 41_000 + 100 * i, 20).launches(
            kernel("k", 20, 41_040 + 100 * i), at=41_005 + 100 * i, dur=10
        )
    assert "initialisation" not in gap(builder, 60, 38_000)


def test_a_recording_of_the_device_alone_names_no_cause_on_the_host() -> None:
    builder = trace().device(0).on_device(kernel("a", 10, 0)).on_device(kernel("b", 10, 100))
    assert gap(builder, 10, 100) == {"not_recorded": 90}


@pytest.mark.parametrize(("silence", "cause"), [(990, "python"), (1010, "not_recorded")])
def test_long_silence_on_the_cpu_is_not_python(silence: int, cause: str) -> None:
    """Between two launches, no CPU event is recorded: after a millisecond, nobody knows what the CPU did."""
    builder = trace().device(0).op("first", 0, 5).launches(kernel("k", 4, 1))
    builder.op("last", 5 + silence, 5).launches(kernel("l", 10, 20 + silence), dur=2)
    assert gap(builder, 5, 5 + silence) == {cause: silence}
    builder.op("of a thread that launches nothing", 0, 2000, tid=9)
    assert gap(builder, 5, 5 + silence) == {cause: silence}
    assert set(gap(builder.python("f", 0, 2000), 5, 5 + silence)) == {"python"}, "Python calls are recorded"


def test_a_long_function_of_a_server_is_no_initialisation() -> None:
    """MTIA servers record their own functions as runtime calls."""
    builder = trace().step(1, 0, 21 * SECOND).op("first", 0, 5).launches(kernel("k", 20, 10))
    builder.call(40, 20 * SECOND, name="predictor_executor::run gif_thread_id:7")
    builder.op("last", 20 * SECOND + 100, 5).launches(kernel("l", 10, 20 * SECOND + 120), dur=2)
    assert gap(builder, 40, 20 * SECOND + 40) == {"dispatch": 20 * SECOND}


def test_a_launch_that_is_not_recorded() -> None:
    builder = trace().op("first", 0, 5).launches(kernel("k", 20, 10)).on_device(kernel("l", 10, 90)).device(0)
    assert gap(builder) == {"not_recorded": 60}


def test_work_that_was_launched_before() -> None:
    builder = trace().op("first", 0, 5).launches(kernel("k", 20, 10), kernel("k", 9, 31), kernel("k", 9, 41), at=1)
    builder.launches(kernel("l", 40, 51), at=2).launches(kernel("l", 2, 94), at=3)
    assert gap(builder, 30, 94) == {"kernel_latency": 4, "unexplained": 2}, "latencies of 1, 1, 1 and 3 us"


def test_a_stream_waits_for_another() -> None:
    builder = pair(launch=40)
    builder.event("cuda_sync", "Stream Wait Event", 42, 33, 0, 7, stream=7, device=0)
    assert gap(builder) == {"python": 10, "launch": 2, "dependency": 33, "kernel_latency": 15}


def test_a_wait_that_was_asked_for_later_holds_nothing_up() -> None:
    """Its row has the times of the call: that lies before the work, but the work was launched before the call."""
    builder = pair(launch=40)
    later = builder.events[-1]["args"]["correlation"] + 1
    builder.event("cuda_sync", "Stream Wait Event", 42, 33, 0, 7, stream=7, device=0, correlation=later)
    assert gap(builder) == {"python": 10, "launch": 2, "launch_latency": 10, "unexplained": 38}


def test_a_graph_is_launched() -> None:
    builder = trace().op("first", 0, 5).launches(kernel("k", 20, 10))
    builder.annotation("replay", 40, 30).launches(kernel("l", 5, 60), kernel("m", 5, 66), dur=8, name="cudaGraphLaunch")
    assert gap(builder, end=71) == {"python": 10, "graph": 20, "kernel_latency": 1}


def test_before_the_first_and_after_the_last_work() -> None:
    builder = pair().op("aten::end", 104, 6)
    account = idle_account(builder.table(), 0)
    assert (account.start_ns[0], account.end_ns[-1]) == (0, 110_000)
    assert gap(builder, 0, 10) == {"dispatch": 5, "launch_latency": 5} or gap(builder, 0, 10)
    assert gap(builder, 100, 110) == {"python": 4, "dispatch": 6}


# -- a plain recount, from docs/concepts

NAMED = {
    Cause.INITIALISATION: {"cuModuleLoadDataEx"},
    Cause.DRIVER_MEMORY: {"cudaFree"},
    Cause.SYNCHRONISATION: {"cudaStreamSynchronize"},
    Cause.INPUT: {"enumerate(DataLoader)#_Iter.__next__"},
    Cause.GARBAGE_COLLECTION: {"Python GC"},
    Cause.COMPILATION: {"x (dynamo_timed)"},
}


def middle(values: list[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2] if values else 0


def recount(table: TraceTable) -> dict[int, Cause]:
    """The cause of each idle microsecond of device 0: one long function, so that the rules stand together in their order."""
    numbers = range(len(table))
    name = [table.strings[int(i)] for i in table.name]
    start, end = table.start_ns.tolist(), table.end_ns.tolist()
    kind, track, launch = table.kind.tolist(), table.track.tolist(), table.launch.tolist()
    work = [i for i in numbers if kind[i] in DEVICE_WORK and table.device[i] == 0]
    latency: dict[int, tuple[int, bool, bool]] = {}
    for i in work:
        if launch[i] < 0:
            continue
        earlier = [end[j] for j in work if track[j] == track[i] and start[j] < start[i]]
        blocked = min(max(earlier, default=-(10**18)), start[i])
        queued = blocked >= end[launch[i]]
        free = min(max(blocked, end[launch[i]]), start[i])
        latency[i] = (start[i] - free, queued, "Graph" in name[launch[i]])
    threads = Counter(track[launch[i]] for i in work if launch[i] >= 0)
    order = sorted(threads, key=lambda t: (-threads[t], t))
    on_host = any(
        kind[i] in (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.PYTHON) and track[i] in order for i in numbers
    )
    nothing = Cause.PYTHON if order and on_host else Cause.NOT_RECORDED

    def limit(i: int) -> int:
        _, queued, graph = latency[i]
        alike = [
            value
            for j, (value, *how) in latency.items()
            if (how == [queued, graph] or (queued and how[0]))
            and (value > 0 or not queued)
            and (kind[j] == EventKind.KERNEL) == (kind[i] == EventKind.KERNEL)
        ]
        found = middle(alike) + 8 * middle([abs(value - middle(alike)) for value in alike])
        return found if len(alike) > 1 else min(found, 20_000)

    def doing(now: int, thread: int) -> Cause | None:
        of = [i for i in numbers if start[i] <= now < end[i] and (track[i] == thread or name[i] == "Python GC")]
        for cause in (
            Cause.GARBAGE_COLLECTION, Cause.COMPILATION, Cause.INITIALISATION, Cause.DRIVER_MEMORY,
            Cause.SYNCHRONISATION, Cause.INPUT,
        ):  # fmt: skip
            if any(name[i] in NAMED[cause] for i in of):
                return cause
        if any(name[i] == "cudaGraphLaunch" for i in of):
            return Cause.GRAPH
        if any(kind[i] == EventKind.RUNTIME and i in launch for i in of):
            return Cause.LAUNCH
        return Cause.DISPATCH if any(kind[i] in (EventKind.OPERATOR, EventKind.RUNTIME) for i in of) else None

    first = min([table.coverage.start_ns, *table.steps.start_ns.tolist()])
    last = max([table.coverage.end_ns, *table.steps.end_ns.tolist()])
    found: dict[int, Cause] = {}
    for now in range(first, last, 1000):
        if any(start[i] <= now < end[i] for i in work):
            continue
        begin = max([end[i] for i in work if end[i] <= now], default=first)
        after = sorted((start[i], start[launch[i]], i) for i in work if start[i] > now)
        following = after[0][2] if after else None
        call = launch[following] if following is not None else -1
        if following is not None and call < 0:
            found[now] = Cause.NOT_RECORDED
        elif following is None or now < end[call]:
            mine = track[call] if following is not None else order[0] if order else None
            asked = [mine, *(thread for thread in order if thread != mine)] if order else []
            found[now] = next((c for c in (doing(now, thread) for thread in asked) if c is not None), nothing)
        else:
            _, queued, graph = latency[following]
            queued |= end[call] <= begin
            kind_of = Cause.KERNEL_LATENCY if queued else Cause.GRAPH if graph else Cause.LAUNCH_LATENCY
            since = max(begin, end[call])
            found[now] = kind_of if now - since < limit(following) else Cause.UNEXPLAINED
    return found


@st.composite
def any_trace(draw: st.DrawFn) -> TraceBuilder:
    time = st.integers(0, 60)
    builder = trace().device(0)
    names = [("op", n) for n in ("aten::mm", "x (dynamo_timed)")] + [
        ("call", n)
        for n in ("cuModuleLoadDataEx", "cudaFree", "cudaStreamSynchronize", "cudaEventRecord", "cudaGraphLaunch")
    ]
    for how, name in draw(
        st.lists(st.sampled_from([*names, ("note", "enumerate(DataLoader)#_Iter.__next__")]), max_size=6)
    ):
        at, dur, tid = draw(time), draw(st.integers(0, 15)), draw(st.integers(1, 2))
        if how == "op":
            builder.op(name, at, dur, tid=tid)
        elif how == "call":
            builder.call(at, dur, tid=tid, name=name)
        else:
            builder.annotation(name, at, dur, tid=tid)
    if draw(st.booleans()):
        builder.python("Python GC", draw(time), 5, tid=9)
    for _ in range(draw(st.integers(1, 6))):
        tid, at, dur = draw(st.integers(1, 2)), draw(time), draw(st.integers(0, 4))
        work = kernel("k", draw(st.integers(1, 9)), at + draw(st.integers(0, 12)), stream=draw(st.integers(7, 8)))
        if draw(st.booleans()):
            work = memcpy(draw(st.integers(1, 9)), at + draw(st.integers(5, 30)), "Memcpy DtoD (Device -> Device)")
        if draw(st.integers(0, 5)):
            graph = draw(st.integers(0, 4)) == 0
            builder.op("aten::op", at, dur, tid=tid)
            builder.launches(work, dur=dur, name="cudaGraphLaunch" if graph else "cudaLaunchKernel")
        else:
            builder.on_device(work)
    return builder


@given(any_trace(), st.integers(0, 2**32))
@examples(25, deep=3000)
def test_causes_are_those_of_a_plain_recount(builder: TraceBuilder, seed: int) -> None:
    table = builder.table()
    account = idle_account(table, 0)
    found: dict[int, Cause] = {}
    for low, high, cause in zip(
        account.start_ns.tolist(), account.end_ns.tolist(), account.cause.tolist(), strict=True
    ):
        found |= dict.fromkeys(range(low, high, 1000), Cause(cause))
    assert found == recount(table)
    random.Random(seed).shuffle(builder.events)
    again = idle_account(builder.table(), 0)
    assert again.start_ns.tolist() == account.start_ns.tolist(), "the order of events means nothing"
    assert again.cause.tolist() == account.cause.tolist()


# -- the view


@pytest.mark.parametrize("name", UNLIKE)
def test_causes_sum_to_the_idle_time_of_every_device_and_step(name: str) -> None:
    table = sample(name)
    facts = part(table, "overview").facts
    busy = device_busy(table)
    steps = table.steps
    for number, device in enumerate(table.devices):
        time = device_time(table, number)
        if time is None:
            continue
        of_device = {key: value for key, value in facts.items() if key.startswith(f"device.{device.id}.idle.")}
        assert len(of_device) == len(Cause)
        assert sum(of_device.values()) == facts[f"device.{device.id}.idle_ns"] == time.idle_ns
        by_cause = idle_account(table, number).by_cause(steps.start_ns, steps.end_ns)
        worked = measure_within(busy[number], steps.start_ns, steps.end_ns)
        assert (sum(by_cause.values()) == steps.end_ns - steps.start_ns - worked).all()
    if busy:
        rows = {row["cause"]: row for row in part(table, "idle").frames["idle_causes"].data.to_pylist()}
        means = {TITLES[cause][0]: facts[f"overview.idle.{cause.name.lower()}_mean_ns"] for cause in Cause}
        devices = len(busy) * len(steps.label)
        assert {title: row["idle_ns"] / devices for title, row in rows.items()} == pytest.approx(
            {title: mean for title, mean in means.items() if mean}
        )


def test_unrecorded_causes_are_not_named_python() -> None:
    builder = trace().device(0).op("first", 0, 5).launches(kernel("k", 4, 1))
    builder.op("last", 5000, 5).launches(kernel("l", 10, 5020), dur=2)
    (notice,) = [each.notice for each in findings_of(builder.table(), None).all if each.rule.id == "low_utilization"]
    assert "does not contain the cause of most of its idle time" in notice.text
    assert notice.todo.startswith("profile(with_stack=True)"), "the CPU is recorded, but no Python calls"


def test_work_before_the_first_cpu_event_is_outside_the_average_step() -> None:
    builder = (
        trace().device(0).on_device(kernel("earlier", 30, 0), ext=-1).op("first", 50, 5).launches(kernel("k", 4, 60))
    )
    assert (
        part(builder.table(), "overview").payloads["average_step"].title == "Recording, without work launched before it"
    )
    builder = trace().device(0).op("first", 50, 5).launches(kernel("k", 4, 60))
    assert part(builder.table(), "overview").payloads["average_step"].title == "Whole recording"


def test_the_view_tells_steps_causes_and_pieces() -> None:
    table = pair().call(40, 20, name="cudaStreamSynchronize").python("train.py(3): loop", 60, 9).table()
    frames = part(table, "idle", ("1",)).frames
    (step,) = frames["idle_steps"].data.to_pylist()
    assert step == {
        "step": "1", "device": "0", "idle_ns": 70_000, "idle_python_ns": 20_000, "idle_synchronisation_ns": 20_000,
        "idle_launch_ns": 2_000, "idle_launch_latency_ns": 10_000, "idle_kernel_latency_ns": 10_000,
        "idle_unexplained_ns": 8_000,
    }  # fmt: skip
    causes = {row["cause"]: row for row in frames["idle_causes"].data.to_pylist()}
    assert (causes["Python"]["idle_pieces"], causes["Python"]["idle_longest_ns"]) == (2, 10_000)
    assert (causes["Launch latency"]["idle_pieces"], causes["Synchronizing calls"]["idle_pieces"]) == (1, 1)
    pieces = {(row["cause"], row["start_ns"]): row for row in frames["idle_pieces"].data.to_pylist()}
    longest = pieces["Synchronizing calls", 40_000]
    assert (longest["dur_ns"], longest["idle_host"], longest["next_work"]) == (20_000, "cudaStreamSynchronize", "l")
    assert pieces["Python", 60_000]["idle_host"] == pieces["Python", 60_000]["idle_line"] == "train.py(3): loop"
    notice = payload_of(part(table, "idle", ("1",)), "answer", Notices)
    said = (
        "The GPU is idle {idle_ratio} of the time ({idle_ns}{per_step}): {idle_synchronisation_ns} while the CPU waits"
    )
    assert notice.notices[0].text.startswith(said)


def test_equal_idle_periods_are_one_row() -> None:
    """Three steps of 100 us, each with 20 us of synchronising calls from one line."""
    builder = trace().device(0)
    for at in (0, 100, 200):
        builder.step(at // 100, at, 100).python("train.py(3): loop", at, 99).call(
            at + 40, 20, name="cudaStreamSynchronize"
        )
        builder.op("mm", at, 5).launches(kernel("k", 20, at + 10)).op("mm", at + 70, 5)
        builder.launches(kernel("l", 10, at + 90), dur=2)
    found = part(builder.table(), "idle")
    rows = [row for row in found.frames["idle_groups"].data.to_pylist() if row["cause"] == "Synchronizing calls"]
    (row,) = rows
    assert (row["idle_pieces"], row["idle_ns"], row["idle_longest_ns"]) == (
        3,
        60_000,
        20_000,
    )
    assert (row["idle_host"], row["idle_line"], row["start_ns"]) == (
        "cudaStreamSynchronize",
        "train.py(3): loop",
        40_000,
    )
    summary = payload_of(found, "summary", Figures).figures
    assert len(summary) <= 5 and summary[0].metric.window == "sum over the selected steps"
    total = sum(row["idle_ns"] for row in found.frames["idle_groups"].data.to_pylist())
    assert summary[0].value == total
    text = payload_of(found, "answer", Notices).notices[0].text
    assert text.startswith("The GPU is idle {idle_ratio} of the time ({idle_ns}{per_step}): ")


def test_idle_time_without_launches_is_one_sentence() -> None:
    table = trace().device(0).on_device(kernel("a", 10, 0)).on_device(kernel("b", 10, 100)).table()
    found = part(table, "idle")
    notice = payload_of(found, "answer", Notices).notices[0]
    assert notice.text.endswith("Launches were not recorded, so the cause is unknown.") and notice.todo
    assert found.frames["idle_groups"].data.num_rows == 1 and "idle_by_cause" not in found.payloads


def test_without_a_device_there_is_no_such_view() -> None:
    assert analysis("idle").missing(trace().op("aten::mm", 0, 5).table()) is not None


def test_idle_times_of_several_pages_have_a_name_each() -> None:
    """Three steps of 900 us, 100 us apart, with 500 us of work from 60 us on in each: 1,200 idle in the steps, 1,000 between
    first and last work, 1,400 in all. What has the same name is the same number."""
    builder = trace().device(0)
    for i in range(3):
        builder.step(i, 1000 * i, 900).op("aten::mm", 1000 * i + 20, 30)
        builder.launches(kernel("gemm", 500, 1000 * i + 60))
    table = builder.table()
    named: dict[str, set[int]] = {}
    bar: Any = part(table, "overview").payloads["device_time_0"]
    idle = part(table, "idle")
    summary: Any = idle.payloads["summary"]
    answer: Any = idle.payloads["answer"]
    figures = [
        *((each.metric, each.value) for each in bar.parts),
        *((each.metric, each.value) for each in summary.figures),
    ]
    figures += [(each.metric, each.value) for each in answer.notices[0].figures]
    for view, name in (("idle", "idle_causes"), ("idle", "idle_steps"), ("range", "range_devices")):
        frame = part(table, view).frames[name]
        column = next(each for each in frame.columns if each.metric.key == "idle_ns")
        figures.append((column.metric, sum(frame.data["idle_ns"].to_pylist())))
    for metric, value in figures:
        if metric.key == "idle_ns":
            named.setdefault(metric.title, set()).add(value)
    assert named == {
        "Idle time, first to last kernel": {1_000_000},
        "Idle in the steps": {1_200_000},
        "Idle in the range": {1_400_000},
    }
