"""What if, on devices with several streams: bounds around what depends on what nobody recorded."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.simulate import Change, time_saved
from tb_plugin.lib.intervals import Ranges
from tests.builders import kernel, memcpy, named, trace

US = 1000


def test_a_launch_may_have_held_a_stream_up_while_another_one_copied() -> None:
    """The host is busy until 300, launches a copy [310, 400) on another stream and the kernel [360, 900) after it.

    Without the 290 us of the host, both begin 290 us earlier: their streams had nothing to do since 60.
    """
    builder = trace().step(1, 0, 400).op("aten::mm", 0, 5).launches(kernel("before", 50), at=0, dur=10)
    builder.op("aten::copy_", 300, 15).launches(memcpy(90, stream=20), at=300, dur=10)
    table = builder.op("aten::mm", 350, 15).launches(kernel("after", 540), at=350, dur=10).table()
    change = Change(Ranges(np.array([10 * US]), np.array([300 * US])))
    low, high = (time_saved(table, table.steps, [change], careful) for careful in (True, False))
    assert (low.tolist(), high.tolist()) == ([290 * US], [290 * US])


def test_work_that_is_gone_leaves_no_latency_behind() -> None:
    """Three kernels of 100 us with 5 us between them, launched long before. Without the middle one 100 us go, or 105."""
    builder = trace().step(1, 0, 50).op("aten::mm", 0, 40)
    for i in range(3):
        builder.launches(kernel(f"k{i}", 100, 60 + 105 * i), at=i, dur=1)
    table = builder.table()
    row = np.array([named(table, "k1")])
    change = Change(row=row, less_ns=table.dur_ns[row])
    low, high = (time_saved(table, table.steps, [change], careful) for careful in (True, False))
    assert (low.tolist(), high.tolist()) == ([100 * US], [105 * US])


def test_what_the_busiest_stream_runs_may_be_in_the_way_of_all_of_its_work() -> None:
    """A kernel [60, 160) of which a copy on another stream overlaps 90 us is gone: 10 us less a latency, or all 100."""
    builder = trace().step(1, 0, 50).op("aten::mm", 0, 40).launches(kernel("gone", 100, 60), at=0, dur=1)
    builder.launches(memcpy(90, 60, stream=20), at=1, dur=1).launches(kernel("stays", 300, 160), at=2, dur=1)
    table = builder.table()
    row = np.array([named(table, "gone")])
    change = Change(row=row, less_ns=table.dur_ns[row])
    low, high = (time_saved(table, table.steps, [change], careful) for careful in (True, False))
    assert (low.tolist(), high.tolist()) == ([5 * US], [100 * US])
