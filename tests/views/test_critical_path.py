"""Longest paths against a search of all paths, and critical paths of traces by hand."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import tb_plugin
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.critical_path.collectives import paths_to_collectives
from tb_plugin.analysis.critical_path.graph import FAR, Graph, Link, Links, dependencies
from tb_plugin.analysis.critical_path.longest import Windows, longest_paths
from tb_plugin.analysis.critical_path.steps import Part, critical_paths, critical_time, runs_of_steps, slack
from tb_plugin.analysis.simulate import Assumption
from tb_plugin.analysis.simulate.streams import streams_of
from tb_plugin.errors import UserError
from tb_plugin.lib.intervals import measure_within, union
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.registry import analysis_by_id
from tests.builders import kernel, memcpy, named, trace
from tests.conftest import SAMPLE_FILES, SAMPLES, SHARED, loaded, needs_shared, sample

END = 40
CHAINS = 3
# The order of operations at equal times: device work ends, waits end, calls end, calls start, device work starts.
TAIL = {Link.LAUNCH: 2, Link.STREAM: 0, Link.WAIT: 0, Link.THREAD: 2, Link.OPEN_CALL: 3}
HEAD = {Link.LAUNCH: 4, Link.STREAM: 4, Link.WAIT: 1, Link.THREAD: 1, Link.OPEN_CALL: 4}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    time = st.integers(-5, END + 5)
    lags = {}
    for chain in range(CHAINS):
        some = draw(st.lists(st.tuples(time, time), max_size=3))
        some += [pair for pair in ((-FAR, draw(time)), (draw(time), FAR)) if draw(st.booleans())]
        lags[chain] = union(np.array([a for a, _ in some], np.int64), np.array([b for _, b in some], np.int64))
    rows = []
    for _ in range(draw(st.integers(0, 7))):
        kind = draw(st.sampled_from(list(Link)))
        tail_ns, head_ns = sorted((draw(time), draw(time)))
        tail, head = draw(st.permutations(range(CHAINS)))[:2]
        if kind != Link.THREAD or head_ns > tail_ns:
            rows.append((kind, tail, tail_ns, head, head_ns, draw(st.integers(0, head_ns - tail_ns)), 0))
    columns = np.array(rows, np.int64).reshape(-1, 7).T
    return Graph(Links(columns[0].astype(np.uint8), *columns[1:]), lags, 0, 0)


class Search:
    """All paths of one step, one after the other: the smallest lag from its start, and to its end."""

    def __init__(self, graph: Graph, start: int, end: int, ends: dict[int, int]) -> None:
        self.graph, self.start, self.end, self.ends = graph, start, end, ends
        links = graph.links
        self.links = [
            (
                (int(links.tail[i]), int(links.tail_ns[i]), TAIL[Link(links.kind[i])]),
                (int(links.head[i]), int(links.head_ns[i]), HEAD[Link(links.kind[i])]),
                int(links.lag_ns[i]),
            )
            for i in range(len(links.kind))
            if start < links.head_ns[i] <= end
        ]
        self.before, self.after = cache(self._before), cache(self._after)

    def waits(self, chain: int, since: int, until: int) -> int:
        return int(measure_within(self.graph.lags[chain], np.array([since]), np.array([until]))[0])

    def _before(self, chain: int, when: int, order: int) -> float:
        """The smallest lag from the start of the step to a time of a chain, over all paths."""
        ways: list[float] = [self.waits(chain, self.start, when)]
        for (tail, tail_ns, tail_order), (head, head_ns, head_order), lag in self.links:
            if head != chain or (head_ns, head_order) > (when, order):
                continue
            if tail_ns < self.start:
                until = max(0, lag - (self.start - tail_ns))
            else:
                until = self.before(tail, tail_ns, tail_order - 0.5) + lag
            ways.append(until + self.waits(chain, head_ns, when))
        return min(ways)

    def _after(self, chain: int, when: int, order: int) -> float:
        ways = [math.inf]
        if chain in self.ends:  # work after its end does not belong to the step
            end = self.ends[chain]
            waits = self.waits(chain, when, end) if end >= when else -self.waits(chain, end, when)
            ways = [float(waits + self.end - end)]
        for (tail, tail_ns, tail_order), (head, head_ns, head_order), lag in self.links:
            if tail == chain and tail_ns >= self.start and (tail_ns, tail_order) >= (when, order):
                ways.append(self.waits(chain, when, tail_ns) + lag + self.after(head, head_ns, head_order + 0.5))
        return min(ways)


@given(graphs(), st.sets(st.integers(0, CHAINS - 1), min_size=1), st.integers(0, CHAINS - 1), st.integers(0, END // 2))
def test_longest_path_of_all(graph: Graph, last: set[int], other: int, before_end: int) -> None:
    work_ends = [(step, other, end - before_end) for step, end in enumerate((END // 2, END)) if other not in last]
    windows = Windows(np.array([0, END // 2]), np.array([END // 2, END]), (tuple(last), tuple(last)), work_ends)
    found = longest_paths(graph, windows)
    for step, (start, end) in enumerate(((0, END // 2), (END // 2, END))):
        search = Search(graph, start, end, {other: end - before_end} | dict.fromkeys(last, end))
        assert found.lag_ns[step] == min(search.before(chain, end, 9) for chain in last)
        mine = np.flatnonzero(found.path.step == step)
        lag = end - start
        for at in mine.tolist():
            chain, since, until = (int(each[at]) for each in (found.path.chain, found.path.start_ns, found.path.end_ns))
            lag -= until - since - (search.waits(chain, since, until) if chain >= 0 else 0)
        assert lag == found.lag_ns[step]  # the path has the length that it claims
        for chain in range(CHAINS):
            for when in range(start, end + 1):
                # At equal times, work of devices starts after ends of work on its stream.
                on_device = bool(when % 2)
                order = 4 if on_device else 3
                most = search.before(chain, when, order) + search.after(chain, when, order) - found.lag_ns[step]
                expected = max(0, min(most, end - when))
                at = np.array([when])
                got = found.slack_ns(np.array([step]), np.array([chain]), at, at, np.array([on_device]))
                assert got.tolist() == [expected], (step, chain, when)


def times(table: TraceTable) -> dict[str, int]:
    """The time of the critical path by kind, in microseconds."""
    found = critical_time(table)
    total = table.steps.end_ns - table.steps.start_ns
    assert found.ns.sum() == total.sum()
    return {part.name: int(found.ns[found.part == part].sum()) // 1000 for part in Part if (found.part == part).any()}


def on_path(table: TraceTable) -> set[str]:
    found = critical_time(table)
    return {table.strings[int(table.name[row])] for row in found.row[found.row >= 0].tolist()}


def test_slow_launches() -> None:
    """Two short kernels, each of a slow operator: the thread decides, and each kernel could end later."""
    table = (
        trace().step(0, 0, 200)
        .op("first", 0, 90).launches(kernel("a", 10, at=90), at=80, dur=5)
        .op("second", 100, 90).launches(kernel("b", 20, at=190), at=180, dur=5)
        .table()
    )  # fmt: skip
    # The last 10 us of kernel b are after the annotation of the step.
    assert times(table) == {"COMPUTE": 20, "LAUNCH": 15, "OPERATOR": 165, "PYTHON": 10}
    assert on_path(table) == {"ProfilerStep#0", "first", "second", "cudaLaunchKernel", "b"}
    late = slack(table)
    assert late[named(table, "b")] == 0
    # Kernel a could end as late as kernel b starts.
    assert late[named(table, "a")] == 90_000


def test_busy_device() -> None:
    """Queued kernels: the device decides, and the launches have slack."""
    table = (
        trace().step(0, 0, 40)
        .op("first", 0, 10).launches(kernel("a", 100, at=10), at=5, dur=5)
        .op("second", 10, 10).launches(kernel("b", 100, at=111), at=15, dur=5)
        .table()
    )  # fmt: skip
    assert times(table) == {"COMPUTE": 200, "BETWEEN_KERNELS": 1, "LAUNCH": 5, "OPERATOR": 5}
    # The second launch call ends at 20, and kernel b waits for kernel a until 110.
    assert slack(table)[named(table, "second")] == 90_000
    assert slack(table)[named(table, "a")] == 0


def test_waiting_thread() -> None:
    """A synchronizing call takes no time of its own while the device works."""
    table = (
        trace().step(0, 0, 300)
        .op("item", 0, 10).launches(kernel("a", 200, at=10), at=5, dur=5)
        .call(20, 200, name="cudaDeviceSynchronize").op("after", 230, 70)
        .table()
    )  # fmt: skip
    # The call returns 10 us after kernel a.
    assert times(table) == {"COMPUTE": 200, "LAUNCH": 5, "OPERATOR": 75, "RUNTIME": 10, "PYTHON": 10}


@pytest.mark.parametrize(
    ("call", "slack_us"),
    [("cudaDeviceSynchronize", 90), ("aclrtSynchronizeDevice", 90), ("cudaStreamSynchronize", 280)],
)
def test_a_thread_that_waits_for_all_streams(call: str, slack_us: int) -> None:
    """Kernel b of stream 9 ends 90 us before kernel a. A wait for the device also waits for kernel b."""
    table = (
        trace().step(0, 0, 400)
        .op("first", 0, 10).launches(kernel("a", 200, at=10), at=5, dur=5)
        .op("second", 10, 10).launches(kernel("b", 100, at=20, stream=9), at=15, dur=5)
        .call(30, 182, name=call).op("after", 230, 70)
        .table()
    )  # fmt: skip
    assert slack(table)[named(table, "b")] == slack_us * 1000


def test_backward_on_another_thread() -> None:
    table = (
        trace().step(0, 0, 300)
        .op("forward", 0, 50, sequence=1).op("backward", 60, 200, tid=2, sequence=1, forward_thread=1)
        .arrow(0, 60).op("optimizer", 270, 30)
        .table()
    )  # fmt: skip
    assert times(table) == {"OPERATOR": 280, "PYTHON": 20}
    assert on_path(table) == {"forward", "backward", "optimizer"}


def test_other_stream() -> None:
    """A kernel that waits for another stream follows the work of this stream."""
    table = (
        trace().step(0, 0, 30)
        .op("first", 0, 5).launches(kernel("compute", 100, at=5), at=0, dur=5)
        .op("second", 5, 5).launches(kernel("copy", 300, at=110, stream=9), at=5, dur=5)
        .op("third", 10, 5).launches(kernel("more", 50, at=420), at=10, dur=5)
        .table()
    )  # fmt: skip
    assert dependencies(table).inferred == 2
    assert times(table) == {"COMPUTE": 450, "BETWEEN_KERNELS": 15, "LAUNCH": 5}


def test_late_work_of_another_stream() -> None:
    """30 us are too long for the simulation, but the path has no better explanation."""
    table = (
        trace().step(0, 0, 30)
        .op("first", 0, 5).launches(kernel("compute", 100, at=5), at=0, dur=5)
        .op("second", 5, 5).launches(kernel("copy", 300, at=135, stream=9), at=5, dur=5)
        .table()
    )  # fmt: skip
    assert not len(streams_of(table, 0, 0, 1_000_000, Assumption.EXPECTED).join)
    assert dependencies(table).inferred == 1
    assert times(table) == {"COMPUTE": 400, "BETWEEN_KERNELS": 30, "LAUNCH": 5}


@needs_shared
def test_late_work_of_other_streams_in_a_recording() -> None:
    table = loaded(f"{SHARED.name}/data/hta/mtia_inference_trace/mtia_inference_rank_0.json.gz")
    found = critical_time(table)
    assert found.ns[found.part == Part.UNCOVERED].sum() < 0.2 * found.ns.sum()


def waiting_streams(**ids: int) -> TraceTable:
    """Stream 9 waits for kernel a of stream 7, which ends early. Kernel b is launched after the event."""
    found = (
        trace().step(0, 0, 900)
        .op("first", 0, 10).launches(kernel("a", 100, at=10), at=0, dur=5)
        .call(20, 1, corr=50, name="cudaEventRecord")
        .op("second", 30, 10).launches(kernel("b", 100, at=111), at=30, dur=5)
        .call(50, 2, corr=51, name="cudaStreamWaitEvent")
        .op("third", 300, 10).launches(kernel("c", 590, at=310, stream=9), at=300, dur=5)
    )  # fmt: skip
    return found.event("cuda_sync", "Stream Wait Event", 50, 2, 0, 9, stream=9, correlation=51, **ids).table()


@pytest.mark.parametrize(
    ("ids", "awaited", "slack_us"),
    [
        # The last 1 us before kernel c is the usual gap between kernels.
        ({"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 50}, "a", 199),
        ({"wait_on_stream": 8, "wait_on_cuda_event_record_corr_id": 50}, None, 689),
        # The event or its stream is unknown: kernel c may wait for the last work before it.
        ({"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": 50}, "b", 98),
        ({"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": -1}, "b", 98),
        ({"wait_on_stream": 7}, "b", 98),
    ],
)
def test_recorded_waits_of_streams(ids: dict[str, int], awaited: str | None, slack_us: int) -> None:
    table = waiting_streams(**ids)
    graph = dependencies(table)
    tails = graph.links.tail_ns[graph.links.kind == Link.STREAM].tolist()
    assert tails == ([] if awaited is None else [table.ends(np.array([named(table, awaited)]))[0]])
    assert graph.inferred == 0
    assert slack(table)[named(table, "a")] == slack_us * 1000


def test_unrecorded_time() -> None:
    """A copy takes 5 ms to start: the device runs work from before the recording."""
    table = trace().step(0, 0, 10).op("copy", 0, 5).launches(memcpy(50, at=5000), at=0, dur=5).table()
    assert times(table)["UNRECORDED"] > 4_000


@pytest.mark.parametrize("name", SAMPLE_FILES)
def test_path_and_rest_add_up(name: str) -> None:
    adds_up(sample(name))


REAL = [
    str(path.relative_to(SHARED.parent))
    for place in ("hta", "kineto", "tracelens", "megengine")
    for path in sorted((SHARED / "data" / place).rglob("*.json*"))
    if path.stat().st_size < 30_000_000
]


@needs_shared
@pytest.mark.parametrize("path", REAL)
def test_real_paths_add_up(path: str) -> None:
    try:
        table = loaded(path)
    except (UserError, AttributeError):
        pytest.skip("not a trace")
    adds_up(table)


def adds_up(table: TraceTable) -> None:
    found, steps = critical_time(table), table.steps
    total, rest = np.zeros(len(steps.label), np.int64), np.zeros(len(steps.label), np.int64)
    np.add.at(total, found.step, found.ns)
    uncovered, unrecorded = found.part == Part.UNCOVERED, found.part == Part.UNRECORDED
    np.add.at(rest, found.step[uncovered], found.ns[uncovered])
    assert (total == steps.end_ns - steps.start_ns).all()
    # A lag while a device runs unrecorded work counts as unrecorded.
    lag_ns, run = critical_paths(table).lag_ns, runs_of_steps(table)
    rest_of_run = np.bincount(run, rest, len(lag_ns)).astype(np.int64)
    assert (rest_of_run == lag_ns).all() if not unrecorded.any() else (rest_of_run <= lag_ns).all()
    order = np.argsort(found.start_ns, kind="stable")
    assert (found.start_ns[order][1:] >= found.end_ns[order][:-1]).all()  # no time counts twice
    late = slack(table)
    assert (late >= -1).all()
    # Whatever runs until the end of a run of steps has no slack.
    last = steps.end_ns[np.flatnonzero(np.diff(run, append=-1))]
    chains = found.row[(found.row >= 0) & (found.chain >= 0) & np.isin(found.end_ns, last)]
    assert (late[chains] <= 0).all()


@pytest.mark.parametrize(
    ("job", "straggler", "share"), [("synthetic_ddp", "rank2", 1.0), ("synthetic_job", "rank5", 0.4)]
)
def test_path_of_a_job(job: str, straggler: str, share: float) -> None:
    """The planted straggler has most of the path, and the path is as long as the steps."""
    opened, params = tb_plugin.open(str(SAMPLES / job)), Params(table="job_path", extra=(("path", "1"),))
    view = analysis_by_id("distributed")
    models = {worker: opened.worker(worker)._made() for worker in opened.workers}
    parts = [replace(view.part(table, params), worker=worker) for worker, table in models.items()]
    answer = view.answer(parts, params)
    found = {row["worker"]: row for row in answer.rows}
    total = sum(row["job_path_ns"] for row in found.values())
    assert max(found, key=lambda worker: found[worker]["job_path_ns"]) == straggler
    assert found[straggler]["job_path_ns"] >= share * total
    longest = max(float((table.steps.end_ns - table.steps.start_ns).mean()) for table in models.values())
    assert total == pytest.approx(longest, rel=0.01)
    for row in found.values():
        parts_ns = [value for key, value in row.items() if key.startswith("job_path_") and key != "job_path_ns"]
        assert row["job_path_ns"] == pytest.approx(sum(parts_ns), abs=2)


@pytest.mark.parametrize("name", ["synthetic_ddp/rank0", "synthetic_job/rank0", "synthetic_groups/rank2"])
def test_paths_between_collectives_add_up(name: str) -> None:
    (path,) = [each for each in SAMPLE_FILES if each.startswith(name)]
    table = sample(path)
    rows = np.flatnonzero(table.is_collective & (table.kind == EventKind.KERNEL))
    to_calls, to_steps = paths_to_collectives(table, rows)
    for step, end in enumerate(table.steps.end_ns.tolist()):
        length, call = (
            to_steps.device_ns[step] + to_steps.host_ns[step] + to_steps.lag_ns[step],
            to_steps.collective[step],
        )
        while call >= 0:
            length += table.dur_ns[rows[call]]
            length += to_calls.device_ns[call] + to_calls.host_ns[call] + to_calls.lag_ns[call]
            call = to_calls.collective[call]
        assert length == end - table.steps.start_ns[step]
