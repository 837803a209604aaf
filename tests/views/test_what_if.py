"""Running recorded steps again without some time: by hand, and against programs that are truly run again on a machine."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis import simulate
from tb_plugin.analysis.selection import steps_of
from tb_plugin.analysis.simulate import Change, merge_changes, time_saved
from tb_plugin.lib.intervals import EMPTY, Ranges
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, memcpy, named, trace


def host(*ranges: tuple[int, int]) -> Change:
    """Host time that goes, microseconds."""
    begin, end = (np.array(side, np.int64) * 1000 for side in zip(*ranges, strict=True))
    return Change(Ranges(begin, end))


def device(table: TraceTable, **less: int) -> Change:
    """Device work by name that gets shorter, microseconds."""
    rows = np.array([named(table, name) for name in less], np.int64)
    return Change(EMPTY, rows, np.array(list(less.values()), np.int64) * 1000)


def bounds(table: TraceTable, *changes: Change) -> list[tuple[float, float]]:
    """Lower and upper saving of each change, microseconds, all steps together."""
    low, high = (time_saved(table, table.steps, changes, careful=careful) / 1000 for careful in (True, False))
    return list(zip(low.tolist(), high.tolist(), strict=True))


def test_a_host_alone_is_faster_by_what_it_does_not_do() -> None:
    table = trace().step(1, 0, 100).op("aten::add", 10, 80).table()
    assert bounds(table, host((20, 50)), host((90, 130)), Change()) == [(30, 30), (10, 10), (0, 0)]


def starved(builder: TraceBuilder | None = None) -> TraceBuilder:
    """The device works at 5..15 and 75..85: between, it waits for the second launch. Launches take 2, their latency is 3."""
    builder = (builder or trace()).op("aten::a", 0, 2).launches(kernel("a", 10, 5), dur=2)
    return builder.op("aten::b", 70, 2).launches(kernel("b", 10, 75), dur=2)


def test_a_device_that_waits_for_a_launch_starts_earlier_with_it() -> None:
    table = starved().table()
    assert bounds(table, host((10, 30))) == [(20, 20)]
    # Not before what ran before it has ended, or later by what a launch takes: how fast kernels follow is not known here.
    assert bounds(table, host((2, 70))) == [(57, 60)]


def test_a_chosen_step_is_repeated() -> None:
    """The step takes 80 on the host and again from there on; both kernels then take 10, and 3 until they begin at most."""
    builder = starved(trace().step(1, 0, 80)).step(2, 90, 40)
    for at in (90, 110):
        builder.op("aten::c", at, 2).launches(kernel("c", 10, at + 5), dur=2)
    table = builder.table()
    steps = steps_of(table, ("1",))
    changes = [host((10, 30)), host((2, 70)), device(table, b=9)]
    low, high = ((time_saved(table, steps, changes, careful) / 1000).tolist() for careful in (True, False))
    # Shorter work at the end of a step lets the device wait longer in the next one: nothing is saved.
    assert (low, high) == ([20, 80 - 2 * (10 + 3), 0], [20, 80 - 2 * 10, 0])
    once = starved().table()
    assert bounds(once, device(once, b=9)) == [(9, 9)], "what is not repeated ends earlier"


def test_what_the_device_has_yet_to_do_is_not_saved() -> None:
    """Four steps of 50 on the host and 60 on the device, which lags behind by 10 more with each: 50 go on the host.

    Whichever step is looked at, the device works for 60 of it; where it works for 20 less, the host's 50 remain.
    """
    builder = trace()
    for number in range(4):
        builder.step(number, 50 * number, 50).op("aten::mm", 50 * number, 2)
        builder.launches(kernel("k", 60, 5 + 60 * number), at=50 * number, dur=2)
    table = builder.table()
    rows = np.flatnonzero(table.device != MISSING)
    for label, row in zip(table.steps.label, rows.tolist(), strict=True):
        steps = steps_of(table, (label,))
        shorter = Change(row=np.array([row]), less_ns=np.array([20_000]))
        assert time_saved(table, steps, [Change(host((0, 200)).host), shorter], careful=False).tolist() == [
            0,
            10_000,
        ], label


def test_a_device_that_is_busy_gains_nothing_from_a_faster_host() -> None:
    builder = trace().step(1, 0, 50).op("aten::a", 0, 2).launches(kernel("a", 100, 5), dur=2)
    table = builder.op("aten::b", 30, 2).launches(kernel("b", 100, 105), dur=2).table()
    assert bounds(table, host((5, 25)), device(table, a=40), device(table, a=40, b=10)) == [(0, 0), (40, 40), (50, 50)]


def test_shorter_work_gains_until_the_host_holds_it_up() -> None:
    """The second kernel was launched at 30 with a latency of 3: it cannot begin before 35, whatever the first one takes."""
    builder = trace().op("aten::a", 0, 2).launches(kernel("a", 100, 5), dur=2)
    table = builder.op("aten::b", 30, 2).launches(kernel("b", 100, 105), dur=2).table()
    ((low, high),) = bounds(table, device(table, a=90))
    assert low == 63 and high == 73
    both = merge_changes([device(table, a=90), host((5, 25))])
    assert bounds(table, both) == [(83, 90)]


def test_a_wait_ends_the_lead_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host waits for the first kernel until 110; what it saves before is lost there, what it saves after is not."""
    builder = trace().step(1, 0, 160).op("aten::a", 10, 2).launches(kernel("a", 90, 15), dur=2)
    builder.call(50, 60, name="cudaStreamSynchronize")
    table = builder.op("aten::b", 140, 2).launches(kernel("b", 40, 145), dur=2).table()
    before, after = host((20, 40)), host((115, 135))
    changes = [before, after, merge_changes([before, after])]
    assert bounds(table, *changes) == [(0, 0), (20, 20), (20, 20)]
    monkeypatch.setattr(simulate, "_MAX_WORK_PER_RUN", 4)  # two changes, then the others
    assert bounds(table, *changes) == [(0, 0), (20, 20), (20, 20)]
    # Without the wait the second launch comes 60 earlier, and the device has 40 to gain.
    assert bounds(table, host((50, 110)))[0] == (37, 40)
    assert bounds(table, device(table, a=30)) == [(30, 30)]


def test_work_beside_other_work_gains_nothing() -> None:
    builder = trace().step(1, 0, 10).op("aten::a", 0, 2)
    table = builder.launches(kernel("a", 100, 5), kernel("c", 60, 10, stream=20), dur=2).table()
    assert bounds(table, device(table, c=60)) == [(0, 0)]
    builder = trace().step(1, 0, 10).op("aten::a", 0, 2)
    table = builder.launches(kernel("a", 50, 5), kernel("c", 60, 45, stream=20), dur=2).table()
    assert bounds(table, device(table, c=60)) == [(50, 50)], "what runs alone"


def test_a_copy_beside_what_a_stream_waited_for_goes_on_beside_its_work() -> None:
    """Kernels [5, 105) and [165, 265); between them a collective, and a copy for the first 40: at best all 60 go."""
    builder = trace().step(1, 0, 10).op("aten::a", 0, 2).launches(kernel("a", 100, 5), dur=1)
    builder.launches(kernel("c", 60, 105, stream=20), at=1, dur=1)
    builder.launches(memcpy(40, 105, name="d", stream=21), at=2, dur=1)
    table = builder.launches(kernel("b", 100, 165), at=3, dur=1).table()
    assert [high for _, high in bounds(table, *(device(table, c=less) for less in (60, 30)))] == [60, 30]


@pytest.mark.parametrize(("begin", "least", "most"), [(65, 51, 61), (67, 53, 63), (75, 0, 0)])
def test_first_work_waited_for_what_ends_right_before_it(begin: int, least: int, most: int) -> None:
    """Its launch returns at 4 on an empty stream, while another works from 5 to 65; work usually begins 3 after that."""
    builder = trace().step(1, 0, 10).op("aten::a", 0, 2).launches(kernel("c", 60, 5, stream=20), dur=2)
    builder.launches(kernel("b", 100, begin), at=2, dur=2)
    table = builder.launches(kernel("e", 5, begin + 100), at=4, dur=2).table()
    assert bounds(table, device(table, c=60)) == [(least, most)]


def test_a_copy_that_begins_between_two_kernels_found_no_idle_device() -> None:
    """Kernels [5, 105), [106, 206) and [207, 307), launched long before; a copy of 20 is launched at 100, begins at 105.5."""
    builder = trace().step(1, 0, 120)
    for i, name in enumerate("abc"):
        builder.op("aten::mm", 2 * i, 1).launches(kernel(name, 100, 5 + 101 * i), dur=1)
    builder.op("aten::copy_", 100, 4).launches(kernel("d", 20, 105.5, stream=20), dur=4)
    table = builder.table()
    assert bounds(table, device(table, a=50)) == [(50, 50)]


def test_with_a_kernel_goes_what_the_device_needs_between_two() -> None:
    """Four kernels, 2 apart, queued from the second on: at best their latency goes too."""
    builder = trace().step(1, 0, 60)
    for i in range(4):
        builder.op(f"aten::{i}", i, 1).launches(kernel("abcd"[i], 10, 5 + 12 * i), dur=1)
    table = builder.table()
    assert bounds(table, device(table, b=10, c=10), device(table, b=9)) == [(0, 0), (0, 0)], "the host takes longer"
    builder.events[0]["dur"] = 10
    table = builder.table()
    assert bounds(table, device(table, b=10, c=10), device(table, b=9)) == [(20, 24), (9, 9)]


def test_a_launch_waits_where_the_queue_is_full() -> None:
    """2,600 kernels of 10: each launch beyond 1,024 waits for the device, and less when that is faster."""
    builder, now = trace().step(1, 0, 16_000), 1
    for i in range(2_600):
        end = max(now + 1, 2 + 10 * (i - 1_024))
        builder.call(now, end - now, corr=i).on_device(kernel("k", 10, 2 + 10 * i), corr=i)
        now = end
    table = builder.table()
    rows = np.flatnonzero(table.device != -1)
    ((low, high),) = bounds(table, Change(EMPTY, rows, np.full(len(rows), 5_000)))
    assert (low, high) == (12_995, 13_000)


def test_together_counts_each_moment_once() -> None:
    both = merge_changes([host((0, 10)), host((5, 20))])
    assert (both.host.start.tolist(), both.host.end.tolist()) == ([0], [20_000])
    ab = merge_changes([Change(EMPTY, np.array([3, 5]), np.array([7, 1])), Change(EMPTY, np.array([5]), np.array([4]))])
    assert (ab.row.tolist(), ab.less_ns.tolist()) == ([3, 5], [7, 4])


LATENCY, CALL, RETURN, GAP = 3, 2, 1, 1


@dataclass
class Machine:
    """Runs a program of host work, launches and waits on a host and a stream."""

    now: int = 0
    free: int = 0
    builder: TraceBuilder = field(default_factory=trace)
    spent: list[tuple[int, int]] = field(default_factory=list)
    """When the host was in what will be left out."""

    def run(self, program: list[tuple[str, int]], without: bool) -> int:
        for i, (what, length) in enumerate(program):
            if what == "extra" and not without:
                self.spent.append((self.now, self.now + length))
            if what in ("work", "extra") and not (without and what == "extra"):
                self.builder.python(f"train.py({i}): work", self.now, length)
                self.now += length
            if what in ("launch", "twice"):
                begin = max(self.now + CALL + LATENCY, self.free + GAP)
                time = 2 * length if what == "twice" and not without else length
                self.builder.op("aten::mm", self.now, CALL).launches(kernel(what, time, begin), dur=CALL)
                self.now, self.free = self.now + CALL, begin + time
            if what == "wait":
                end = max(self.now + RETURN, self.free + RETURN)
                self.builder.call(self.now, end - self.now, name="cudaStreamSynchronize")
                self.now = end
        return max(self.now, self.free)


WHAT = st.tuples(st.sampled_from(["work", "extra", "launch", "launch", "twice", "wait"]), st.integers(1, 60))


def period(program: list[tuple[str, int]], without: bool) -> float:
    """How long one pass takes of a program that is repeated, microseconds: in the end of many passes."""
    machine = Machine()
    ends = [machine.run(program, without) for _ in range(60)]
    return (ends[-1] - ends[-21]) / 20


def passed(program: list[tuple[str, int]], without: bool, passes: int) -> Machine:
    """A machine that has run a program so often, each time in a step."""
    machine = Machine()
    for step in range(passes):
        begin = machine.now
        machine.run(program, without)
        machine.builder.step(step, begin, machine.now - begin)
    return machine


@given(st.lists(WHAT, min_size=1, max_size=25), st.integers(1, 4), st.booleans())
def test_a_program_run_again_saves_what_the_bounds_say(
    program: list[tuple[str, int]], passes: int, alone: bool
) -> None:
    """All steps save what the program does that is run as often, the last of several what the program saves for ever."""
    program = [("launch", 5), *program]
    recorded, again = passed(program, False, passes), passed(program, True, passes)
    table = recorded.builder.table()
    alone &= passes > 1
    steps = steps_of(table, (str(passes - 1),) if alone else None)
    first = int(steps.host_start_ns[0])
    times = np.array(recorded.spent, np.int64).reshape(-1, 2) * 1000
    begin, end = times[times[:, 0] >= first].T
    twice = np.flatnonzero((table.device != MISSING) & (table.name == table.strings.find("twice")))
    twice = twice[table.start_ns[table.launch[twice]] >= first]
    gone = Change(Ranges(begin, end), twice, table.dur_ns[twice] // 2)
    low, high = (float(time_saved(table, steps, [gone], careful)[0]) / 1000 for careful in (True, False))
    if alone:
        # How soon work follows that of the step before is not known where the device's lag has changed meanwhile.
        gain, off = period(program, without=False) - period(program, without=True), LATENCY
    else:
        gain, off = max(recorded.now, recorded.free) - max(again.now, again.free), 0
    assert low - off <= gain <= high + off
    latencies = sum(what in ("launch", "twice") for what, _ in program)
    assert high - low <= len(steps.label) * latencies * (LATENCY + GAP), "no wider than what the usual latencies allow"


def test_work_that_takes_longer_makes_steps_longer_and_larger() -> None:
    """Two kernels of 100, queued, end at 205. Twice as long they end at 405: a step worth two of them saves 2.5."""
    builder = trace().step(1, 0, 50).op("aten::a", 0, 2).launches(kernel("a", 100, 5), dur=2)
    table = builder.op("aten::b", 30, 2).launches(kernel("b", 100, 105), dur=2).table()
    longer = replace(device(table, a=-100, b=-100), worth=2)
    assert bounds(table, longer, device(table, a=-100), Change(worth=2)) == [(2.5, 2.5), (0, 0), (102.5, 102.5)]
    both = merge_changes([longer, device(table, a=40)])
    assert (both.worth, both.less_ns.tolist()) == (2, [-60_000, -100_000])


def test_what_lies_between_steps_is_no_part_of_them() -> None:
    """Two steps of 100 with 10 between them: twice the work in each of them saves one."""
    table = trace().step(1, 0, 100).op("aten::a", 10, 80).step(2, 110, 100).op("aten::a", 120, 80).table()
    assert bounds(table, Change(worth=2)) == [(100, 100)]


def test_longer_work_hides_in_the_time_in_which_a_device_waits() -> None:
    """The device waits at 15..75: work of 40 more ends before the second launch, work of 80 more 20 after it, at
    least with the latency of 3 that nobody knows to be less."""
    table = starved().table()
    twice = [replace(device(table, a=-less), worth=2) for less in (40, 80)]
    assert bounds(table, *twice) == [(42.5, 42.5), (31, 32.5)]


def test_steps_of_known_length_are_not_run_again() -> None:
    table = trace().step(1, 0, 100).op("aten::a", 10, 80).step(2, 100, 100).op("aten::b", 110, 80).table()
    known = Change(step=np.array([0]), step_ns=np.array([60_000]))
    both = merge_changes([known, host((20, 50), (120, 150))])
    # At least the first step ends 60 earlier, whatever else goes there; at most what else goes there goes as well.
    assert bounds(table, known, both) == [(60, 60), (90, 120)]


def test_work_that_goes_with_its_call_holds_nothing_up() -> None:
    """A copy that the host waits for from 5 to 65 begins at 55: without both the kernel after it begins at once."""
    builder = trace().step(1, 0, 90).op("aten::a", 0, 2).launches(kernel("a", 20, 5), dur=2)
    builder.op("aten::copy_", 5, 60).launches(memcpy(10, 55, name="Memcpy HtoD (Pageable -> Device)"), at=5, dur=60,
                                              name="cudaMemcpyAsync")  # fmt: skip
    table = builder.op("aten::b", 70, 2).launches(kernel("b", 15, 75), dur=2).table()
    row = np.array([named(table, "Memcpy HtoD (Pageable -> Device)")], np.int64)
    change = Change(Ranges(np.array([5_000]), np.array([65_000])), row, np.array([10_000]))
    ((low, high),) = bounds(table, change)
    assert low <= 50 <= high, (
        "the second launch comes 60 earlier, at 10; its kernel begins at 25, as the first one ends"
    )
