"""Repeated copies of the same data to a device."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.range_patterns import BACKWARD, DATALOADER, name_matches, search_pattern
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.intervals import measure
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._host_waits import copies_to_device, host_waits, top_level_waiter
from tb_plugin.rules._overlap import bytes_of, overlapped_ns
from tb_plugin.rules._shapes import arguments

METRICS = COMMON.in_steps(
    number={"repeated_copies": ("Repeated copies", "Repeated copies of the same tensor, per step.")},
    bytes={"repeated_copy_bytes": ("Repeated bytes", "Bytes of repeated copies per step.")},
    ns={"repeated_copy_ns": ("Repeated copies", "Host time of repeated copies per step.")},
    code={"repeated_copy_line": ("Python line", "Python line with the most repeated copies.")},
)


class Repeats(msgspec.Struct, frozen=True, eq=False):
    """Copies that seem to repeat an earlier copy, sorted by row."""

    row: Int64
    is_first: Bool
    """Whether the copy is the first copy of the same data in its step."""


@cached_by_argument
def repeated_copies(trace: TraceTable) -> Repeats:
    """Returns the copies to devices that seem to copy the same data several times in each training step.

    These copies have the same Python line, operator, shape and size, and this Python line makes no other copies. No
    batch is loaded and no backward pass runs between these copies, because the data would then differ.
    """
    none = Repeats(np.empty(0, np.int64), np.empty(0, np.bool_))
    copies = copies_to_device(trace)
    if len(copies) < 2 or not trace.steps.recorded:
        return none
    lines = code_lines(trace)
    call = trace.launch[copies]
    copies = copies[(lines.of[call] != MISSING) & (trace.operator[call] != MISSING)]
    call = trace.launch[copies].astype(np.int64)
    step = trace.steps.at(trace.start_ns[call], on_host=True)
    copies, call, step = (column[step != MISSING] for column in (copies, call, step))
    turns = _turns(trace)
    if len(copies) < 2 or not len(turns):
        return none
    line, turn = lines.of[call], np.searchsorted(turns, trace.start_ns[call])
    operator = trace.operator[call]
    shapes = arguments(trace).shape_of(operator)
    kinds = group(trace.name[copies], trace.name[operator], shapes, bytes_of(trace, copies))
    # A line that copies several tensors cannot be resolved: offloaded layers, parts of a batch.
    of_line = group(line)
    alone = of_line.min(kinds.of)[of_line.of] == of_line.max(kinds.of)[of_line.of]
    together = group(line, step, turn)
    again = alone & (together.count()[together.of] > 1)
    by_step = group(line, step)
    steps_with = group(line[by_step.first])
    always = ~steps_with.any(~by_step.any(again))
    kept = again & always[steps_with.of[by_step.of]]
    row = copies[kept]
    order = np.lexsort((row, trace.start_ns[call[kept]]))
    first = np.zeros(len(row), np.bool_)
    first[order[np.unique(by_step.of[kept][order], return_index=True)[1]]] = True
    return Repeats(row, first)


def _turns(trace: TraceTable) -> Int64:
    """Returns sorted starts of backward operators and waits for a batch; none without backward operators."""
    backward = name_matches(trace, search_pattern(BACKWARD))
    if not backward.any():
        return np.empty(0, np.int64)
    found: Int64 = np.sort(trace.start_ns[backward | name_matches(trace, search_pattern(DATALOADER))])
    return found


def _look(s: Scene) -> Detection | None:
    trace, repeats = s.trace, repeated_copies(s.trace)
    mine = s.rows[repeats.row]
    row, is_first = s.by_length(repeats.row[mine]), repeats.row[mine & repeats.is_first]
    whole = top_level_waiter(trace, trace.operator[row].astype(np.int64))
    host, dur = s.covered(whole), trace.dur_ns[row]
    if not s.is_significant(measure(host) + int(dur.sum())):
        return None
    again = ~np.isin(row, is_first)
    takes_ns = int(trace.dur_ns[np.unique(whole)].sum())
    notice = s.notice(
        RULE,
        text="{repeated_copy_line} seems to copy the same data to the device {repeated_copies} times per step, "
        "{repeated_copy_bytes} in all. These copies take {repeated_copy_ns} on the host.",
        figures=METRICS.measured(
            repeated_copy_line=s.line(row),
            repeated_copies=s.per_step(len(row)),
            repeated_copy_bytes=s.per_step(int(bytes_of(trace, row).sum())),
            repeated_copy_ns=s.per_step(takes_ns),
        ),
        why="Constant data needs one copy. Lower bound: one prefetched copy from pinned memory per step remains. Upper "
        "bound: no copy remains. The trace does not record which tensor is copied. But line, operator, shape and size "
        "repeat, with no batch or backward pass in between.",
    )
    return Detection(notice, Bounds(_least(s, row, whole, again), Change(host, row, dur)), row, takes_ns)


def _least(s: Scene, row: Int64, whole: Int64, again: Bool) -> Change:
    waits, first = host_waits(s.trace), row[~again]
    calls = waits.row[np.isin(waits.copy, first)]
    less = s.trace.dur_ns[row].copy()
    less[~again] = overlapped_ns(s, first)
    return Change(s.covered(np.concatenate((whole[again], calls))), row, less)


RULE = Rule(
    __name__,
    title="Repeated copies to the device",
    look=_look,
    order=80,
    detects="One Python line copies the same data to the GPU repeatedly.",
    threshold="Each step that has such copies has at least two. Together, these copies take at least "
    f"{percent(MIN_SHARE)} of the step.",
    saving="Upper bound: the time of all these copies and their operators. Lower bound: the time of all copies except the "
    "first per step. The saving of the first copy is that of a prefetched copy in `pageable_copies`.",
    needs="Recorded Python lines, steps and a backward pass.",
    notes="""
        Copies are repeated if line, operator, shapes and bytes are the same each time. Between them, no batch is loaded
        and no backward operator runs. The trace does not record which tensor is copied. The confidence is medium,
        because one line of code may move several layers of the same shape to the GPU.
    """,
    limits=(Limit.COPIES,),
)
