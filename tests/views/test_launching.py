"""Launches: their phases, what devices wait for, queues, repeated sequences; by hand, and against a plain recount."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.blocking_calls import waits_for_device
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.window import WindowRequest, choose
from tb_plugin.payloads import Series
from tb_plugin.views.launches.launch_table import launch_table
from tb_plugin.views.launches.repeated_sequences import LEAST, LONGEST, repeated_sequences
from tb_plugin.views.launches.tables import ARROW
from tests.builders import Bytes, TraceBuilder, kernel, memcpy, part, row, rows, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples


def two() -> TraceBuilder:
    """A kernel of 20 us that is begun at once, one that waits for it, and one of 1 us that the device waits for."""
    builder = trace().step(1, 0, 60).op("aten::mm", 0, 20)
    builder.launches(kernel("long", 20, 5), at=1, dur=3).launches(kernel("long", 5, 26), at=6, dur=2)
    builder.op("aten::add", 40, 20).launches(kernel("short", 1, 48), at=41, dur=4)
    return builder.device(0)


def test_the_phases_of_a_launch() -> None:
    table = two().table()
    found = launch_table(table)
    assert found.api_ns.tolist() == [3_000, 2_000, 4_000]
    assert (found.queue_ns.tolist(), found.latency_ns.tolist()) == ([0, 17_000, 0], [1_000, 1_000, 3_000])
    assert found.is_queued.tolist() == [False, True, False]
    assert found.is_short.tolist() == [False, False, True]
    # From 31 to 48: Python until 40, the operator for 1 us, its launch for 4, and 3 of latency, of which 1 is usual.
    assert found.starved_ns.tolist() == [0, 1_000, 17_000]
    assert found.capture_ns.tolist() == [0, 0, 6_000]
    facts = part(table, "launches").facts
    assert (facts["launch.count"], facts["launch.empty_queue"], facts["launch.short"]) == (3, 2, 1)
    assert (facts["launch.starved_ns"], facts["launch.capture_ns"]) == (18_000, 6_000)
    assert (facts["launch.api_p50_ns"], facts["launch.latency_p50_ns"]) == (3_000, 2_000)
    one = row(table, "launches", "launch_operators", operator="aten::mm")
    assert (one["launches"], one["starved_ns"], one["launch_api_ns"], one["launch_queue_p50_ns"]) == (
        2, 1_000, 5_000, 8_500,
    )  # fmt: skip
    assert row(table, "launches", "launch_kernels", name="long")["launch_latency_p50_ns"] == 1_000
    assert row(table, "launches", "launch_kernels", name="short")["short_launches"] == 1


def test_the_queue_over_time() -> None:
    """One waits from 1 to 5, one from 6 to 26, one from 41 to 48: nobody in 29 of the 60 us of the step."""
    (found,) = rows(two().table(), "launches", "queue_depths")
    assert found == {
        "device": "0", "depth_mean": 31 / 60, "depth_p95": 1, "starved_ratio": 29 / 60, "shallow_ratio": 31 / 60,
        "blocked_ratio": 0.0,
    }  # fmt: skip


def test_a_late_launch() -> None:
    builder = trace().op("aten::add", 0, 900)
    for i in range(9):
        builder.launches(kernel("k", 2, 100 * i + 5 + (40 if i == 7 else 0)), at=100 * i + 1, dur=2)
    (found,) = rows(builder.table(), "launches", "late_launches")
    assert (found["launch_latency_ns"], found["latency_limit_ns"], found["name"]) == (42_000, 20_000, "k")
    assert (found["start_ns"], found["dur_ns"]) == (703_000, 42_000)
    assert builder.table().start_ns[found["event"]] == 745_000


def test_a_graph_is_one_launch_and_never_short() -> None:
    builder = (
        trace().op("a", 0, 50).launches(kernel("k", 1, 20), kernel("l", 1, 22), at=1, dur=9, name="cudaGraphLaunch")
    )
    found = launch_table(builder.table())
    assert (found.api_ns.tolist(), found.is_short.tolist()) == ([9_000], [False])


def test_the_distribution_holds_every_launch() -> None:
    series = part(two().table(), "launches").payloads["queue_times"]
    assert isinstance(series, Series) and sum(value or 0 for value in series.lines[0].values) == 3
    assert len(series.x) == len(series.lines[0].values) + 1


def stream(names: str, gap: int = 1, dur: int = 2) -> TraceBuilder:
    """Kernels of one letter each, one after the other; a bar is a call that waits for the device, a dot a copy."""
    builder, at = trace().op("aten::x", 0, 10_000), 10
    for name in names:
        if name == "|":
            builder.call(at, 1, name="cudaStreamSynchronize")
        elif name == ".":
            builder.launches(memcpy(1, at), at=at - 1)
        else:
            builder.launches(kernel(name, dur, at), at=at)
        at += gap + dur
    return builder


def told(builder: TraceBuilder) -> list[tuple[str, int]]:
    found = rows(builder.table(), "launches", "kernel_sequences")
    return [(each["kernel_sequence"].replace(ARROW, ""), each["repeats"]) for each in found]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("ABCX" + "ABCY" + "ABCZ" + "ABCV" + "ABCW", [("ABC", 5)]),
        ("ABC" * 20, [("ABC", 20)]),
        ("A" * 20, [("AA", 10)]),
        ("ABC" * 4, []),
        ("|".join(["ABC"] * 6), [("ABC", 6)]),
        ("|".join("ABC" * 6), []),
        (".".join("AB" * 6), []),
        ("".join(f"ABCD{x}CD{y}" for x, y in zip("uvwxyz", "UVWXYZ", strict=True)), [("ABCD", 6), ("CD", 6)]),
        ("".join("ABCDEFGHIJKLMNOPQRST" + x for x in "uvwxyz"), [("ABCDEFGHIJKLMNOP", 6), ("QRST", 6)]),
    ],
)
def test_sequences(names: str, expected: list[tuple[str, int]]) -> None:
    assert told(stream(names)) == expected


def test_the_numbers_of_a_sequence() -> None:
    (found,) = rows(stream("ABCX" + "ABCY" + "ABCZ" + "ABCV" + "ABCW").table(), "launches", "kernel_sequences")
    # 20 kernels of 2 us that begin every 3 us.
    assert (found["sequence_ns"], found["sequence_gaps_ns"], found["sequence_length"]) == (30_000, 10_000, 3)
    assert found["stream_ratio"] == 40 / 59
    assert (found["start_ns"], found["dur_ns"]) == (10_000, 8_000)


# -- plain recounts, from docs/concepts


def asked_before(table: TraceTable, wait: int, work: int) -> bool:
    """By the numbers of the calls, else by their begins on the stream."""
    numbers = int(table.correlation[wait]), int(table.correlation[work])
    if min(numbers) > 0:
        return numbers[0] < numbers[1]
    return bool(table.start_ns[wait] <= table.start_ns[work])


def recount_launches(table: TraceTable) -> dict[int, tuple[int, ...]]:
    """By call: first work, API time, queue time, latency, whether queued; and what its device waited and might save."""
    start, end = table.start_ns.tolist(), (table.start_ns + table.dur_ns).tolist()
    track, launch = table.track.tolist(), table.launch.tolist()
    work = covered_work(table).tolist()
    waits = [
        i
        for i in range(len(table))
        if table.kind[i] == EventKind.SYNC and table.strings[int(table.name[i])].startswith("Stream Wait")
    ]
    starved: Counter[int] = Counter()
    captured: Counter[int] = Counter()
    for device in sorted({int(table.device[i]) for i in work}):
        mine = [i for i in work if table.device[i] == device and end[i] > start[i]]
        if not mine:
            continue
        account = idle_account(table, device)
        begin = min(start[i] for i in mine)
        for low, high, cause, gap in zip(account.start_ns, account.end_ns, account.cause, account.gap, strict=True):
            following = int(account.gaps.next[gap])
            if low >= begin and following >= 0 and launch[following] >= 0:
                starved[launch[following]] += int(high - low)
                if cause in (Cause.LAUNCH, Cause.LAUNCH_LATENCY, Cause.DISPATCH):
                    captured[launch[following]] += int(high - low)
    found: dict[int, tuple[int, ...]] = {}
    reach: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for i in work:
        reach[track[i]].append((start[i], end[i]))
    for i in work:
        call = launch[i]
        if call < 0 or call in found:
            continue
        returned = end[call]
        before = [e for s, e in reach[track[i]] if s < start[i]]
        before += [end[j] for j in waits if track[j] == track[i] and asked_before(table, j, i)]
        blocked = min(max(before, default=-1), start[i])
        free = min(max(blocked, returned), start[i])
        graph = "Graph" in table.strings[int(table.name[call])]
        api = end[call] - start[call]
        short = table.kind[i] == EventKind.KERNEL and api > end[i] - start[i] and not graph
        found[call] = (
            i, api, max(blocked - returned, 0), start[i] - free, int(before != [] and blocked >= returned), int(short),
            starved[call], captured[call] if short else 0,
        )  # fmt: skip
    return found


def assert_launches(table: TraceTable) -> None:
    expected = recount_launches(table)
    found = launch_table(table)
    columns = (
        found.row,
        found.api_ns,
        found.queue_ns,
        found.latency_ns,
        found.is_queued,
        found.is_short,
        found.starved_ns,
        found.capture_ns,
    )
    got = {call: tuple(int(column[i]) for column in columns) for i, call in enumerate(found.call.tolist())}
    assert got == expected
    answer = part(table, "launches")
    assert answer.facts["launch.count"] == len(expected)
    for frame, total in (
        ("launches", len(expected)),
        ("starved_ns", sum(each[6] for each in expected.values())),
        ("capture_ns", sum(each[7] for each in expected.values())),
    ):
        for name in ("launch_kernels", "launch_operators"):
            assert sum(each[frame] for each in rows(table, "launches", name)) == total


def runs_of(table: TraceTable, left: Any) -> list[list[int]]:
    """Kernels that follow each other on a stream, nothing else between them and nobody waiting for the device."""
    waits = [
        int(table.start_ns[i]) for i in np.flatnonzero(waits_for_device(table) & (table.kind == EventKind.RUNTIME))
    ]
    by_track: dict[int, list[int]] = defaultdict(list)
    for i in covered_work(table).tolist():
        by_track[int(table.track[i])].append(i)
    runs: list[list[int]] = []
    for track in sorted(by_track):
        runs.append([])
        for i in by_track[track]:
            if table.kind[i] != EventKind.KERNEL or i not in left:
                runs.append([])
                continue
            if runs[-1]:
                pair = (runs[-1][-1], i)
                recorded = min(table.launch[j] for j in pair) >= 0
                low, high = sorted(int(table.start_ns[table.launch[j] if recorded else j]) for j in pair)
                if any(low < wait <= high for wait in waits):
                    runs.append([])
            runs[-1].append(i)
    return runs


def gaps(table: TraceTable, places: list[tuple[int, ...]]) -> int:
    starts, ends = table.start_ns.tolist(), table.end_ns.tolist()
    return sum(max(0, starts[b] - ends[a]) for place in places for a, b in pairwise(place))


def busy(table: TraceTable, places: list[tuple[int, ...]]) -> int:
    return sum(int(table.dur_ns[i]) for place in places for i in place)


def recount_repeats(table: TraceTable) -> list[tuple[int, list[int], int, int]]:
    """Length, first kernels, time of kernels and of gaps: long sequences first, all of a length compared."""
    every = set(range(len(table)))
    left, found = set(every), []
    runs = runs_of(table, every)
    order = {kernel: at for at, kernel in enumerate(kernel for run in runs for kernel in run)}
    for length in range(LONGEST, 1, -1):
        where: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
        for run in runs:
            for at in range(len(run) - length + 1):
                place = tuple(run[at : at + length])
                where[(int(table.track[place[0]]), *(int(table.name[i]) for i in place))].append(place)
        often = [places for places in where.values() if len(places) >= LEAST]
        for places in sorted(often, key=lambda each: (-gaps(table, each), order[each[0][0]])):
            apart: list[tuple[int, ...]] = []
            for place in places:
                if not apart or not set(apart[-1]) & set(place):
                    apart.append(place)
            free = [place for place in apart if set(place) <= left]
            if len(free) >= LEAST and (length == 2 or len(apart) == len(places)):
                left -= {i for place in free for i in place}
                found.append((length, [place[0] for place in free], busy(table, free), gaps(table, free)))
    return sorted(found, key=lambda each: (-each[3], -each[2], each[1][0]))


def assert_repeats(table: TraceTable) -> None:
    chosen = np.ones(len(table), np.bool_)
    found = [
        (each.length, each.first.tolist(), each.kernel_ns, each.gaps_ns) for each in repeated_sequences(table, chosen)
    ]
    assert found == recount_repeats(table)


drawn = st.lists(
    st.tuples(st.sampled_from("kkkkcgs-"), st.integers(0, 9), st.integers(0, 6), st.integers(0, 1), st.integers(0, 1)),
    max_size=14,
)


@given(drawn)
@examples(suite=25, deep=500)
def test_any_launches_of_work_recounted(drawn: list[tuple[str, int, int, int, int]]) -> None:
    builder, at = trace().op("aten::x", 0, 40).step(1, 0, 90), 2
    for what, wait, dur, flag, stream in drawn:
        if what == "-":
            builder.on_device(kernel("unknown", dur, at + wait, stream=stream))
        elif what == "s":
            builder.call(at, dur, name="cudaStreamSynchronize")
        elif what == "g":
            work = [kernel("in", dur, at + wait, stream=stream), kernel("graph", 1, at + wait + dur + 1, stream=stream)]
            builder.launches(*work, at=at, dur=3, name="cudaGraphLaunch")
        elif what == "c":
            builder.launches(memcpy(dur, at + wait, stream=stream, device=flag), at=at, dur=2)
        else:
            builder.launches(kernel("k" + str(flag), dur, at + wait, stream=stream), at=at, dur=1 + dur)
        at += 4
    assert_launches(builder.table())


@given(
    st.lists(st.sampled_from(["AB", "ABC", "C", "A", "BCA", "|", ".", "ABCAB"]), min_size=5, max_size=30),
    st.integers(0, 2),
)
@examples(suite=25, deep=1000)
def test_any_sequences_recounted(pieces: list[str], gap: int) -> None:
    assert_repeats(stream("".join(pieces), gap).table())


@pytest.mark.parametrize(
    "name", [name for name in UNLIKE if name.startswith("synthetic")], ids=lambda n: n.split(".")[0]
)
def test_launches_of_a_sample_recounted(name: str) -> None:
    assert_launches(sample(name))
    assert_repeats(sample(name))


def cut(builder: TraceBuilder, first: str, last: str) -> TraceTable:
    """The trace opened as a window of these steps."""
    data, room = Bytes(builder.bytes()), 10**9
    window = choose(
        KinetoReader().survey(data, ReadOptions(), no_progress), WindowRequest((first, last)), room, 0, room
    )
    return assemble(KinetoReader().read(data, ReadOptions(window=window), no_progress))


def spread_steps() -> TraceBuilder:
    """Three steps of 900 us, 100 us apart; a device works from 60 to 560 us of each."""
    builder = trace().device(0)
    for i in range(3):
        builder.step(i, 1000 * i, 900).op("aten::mm", 1000 * i + 20, 30)
        builder.launches(kernel("gemm", 500, 1000 * i + 60))
    return builder


@pytest.mark.parametrize(
    ("steps", "starved"),
    [
        (("0",), 0),  # before the first work of the device it was not in use
        (("1",), 60),
        (("2",), 60),
        (("0", "1"), 340 + 60),
        (("1", "2"), 60 + 340 + 60),
        (("0", "1", "2"), 340 + 60 + 340 + 60),
    ],
)
def test_selected_steps_and_a_window_of_them_wait_alike(steps: tuple[str, ...], starved: int) -> None:
    """The 100 us between two steps are in none; the end of a step counts where a launch of these steps ends the gap."""
    builder = spread_steps()
    for facts in (
        part(builder.table(), "launches", steps).facts,
        part(cut(builder, steps[0], steps[-1]), "launches").facts,
    ):
        assert facts["launch.starved_ns"] == 1_000 * starved
        assert facts["launch.count"] == len(steps)
        assert 0 <= int(facts["launch.capture_ns"] or 0) <= 1_000 * starved
    assert part(builder.table(), "launches").facts["launch.starved_ns"] == 1_000_000, "all of the recording"


def test_what_is_before_the_first_work_counts_in_no_window() -> None:
    """The first step runs on the host alone. In the second the device idles for 60 us, works, and idles for 40."""
    builder = trace().device(0).step(0, 0, 100).op("aten::a", 10, 50).step(1, 200, 300).op("aten::mm", 220, 20)
    builder.launches(kernel("gemm", 100, 260), kernel("gemm", 50, 400))
    for table, steps in ((builder.table(), ("1",)), (cut(builder, "1", "1"), None)):
        assert part(table, "launches", steps).facts["launch.starved_ns"] == 40_000
