"""Tables of a device: stacks, blocks, steps and failed requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.snapshot.block_tables import block_table
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, Levels, ooms_of
from tb_plugin.analysis.snapshot.labels import stack_words, texts_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.steps import HistorySteps
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.tables import sorted_by
from tb_plugin.payloads import Sort

# Largest blocks first; a history may have millions.
MOST_BLOCKS = 100_000

# One page of the table of steps. A part of the history lists all of its steps.
MOST_STEPS = 1_000


def stacks_frame(device: DeviceLevels, at: int, when: str) -> Frame:
    rows = device.allocated(at)
    stack, size = device.block("stack")[rows], device.block("size")[rows]
    groups = group(stack)
    words = stack_words(device.snapshot)
    first = stack[groups.first] if len(rows) else stack
    table = pa.table(
        {
            "allocation_line": words.line_labels(first),
            "held_bytes": pa.array(groups.sum(size)),
            "held_blocks": pa.array(groups.count()),
            "largest_bytes": pa.array(groups.max(size)),
            "allocation_stack": texts_of(words.text, first),
            "stack_number": pa.array(first.astype(np.int64)),
        }
    )
    hidden = ("allocation_stack", "stack_number")
    columns = METRICS.columns(*table.column_names, share=("held_bytes",), hidden=hidden)
    table = sorted_by(table, [("held_bytes", "descending"), ("stack_number", "ascending")])
    title, sort = f"Allocated {when}, by stack", Sort("held_bytes", True)
    return Frame("held_stacks", title, columns, table, ("stack_number",), "allocation_line", sort)


def blocks_frame(device: DeviceLevels, first: int, last: int, named: Sequence[int] = ()) -> Frame:
    begin, end = device.block("begin"), device.block("end")
    rows = np.flatnonzero((begin <= last) & (end > first))
    if len(rows) > MOST_BLOCKS:
        size = device.block("size")[rows]
        rows = rows[np.argpartition(-size, MOST_BLOCKS)[:MOST_BLOCKS]]
    rows = np.union1d(rows, np.array([row for row in named if 0 <= row < len(begin)], np.int64))
    rows = rows[np.argsort(-device.block("size")[rows], kind="stable")]
    table = block_table(device, rows)
    empty = [key for key in ("block_module", "memory_category", "compile_context", "user_metadata", "requested_bytes")
             if table[key].null_count == len(rows)]  # fmt: skip
    keys = [key for key in table.column_names if key != "allocation_stack"]
    hidden = (*empty, "begin_event", "end_event", "allocation_stack", "block_row")
    columns = METRICS.columns(*keys, "allocation_stack", hidden=hidden)
    sort = Sort("block_size_bytes", True)
    return Frame("held_blocks", "Blocks", columns, table, ("block_row",), "allocation_line", sort)


def steps_in(steps: HistorySteps, first: int, last: int) -> Int64:
    return np.flatnonzero((steps.end > steps.first) & (steps.first <= last) & (steps.end > first))


def steps_frame(levels: Levels, steps: HistorySteps, rows: Int64) -> Frame:
    """Returns the memory peak of each profiler step, or of an even sample of MOST_STEPS steps."""
    rows = rows[:: -(-len(rows) // MOST_STEPS) or 1]
    first, end = steps.first[rows], steps.end[rows]
    peaks = [int(levels.allocated[a + 1 : b + 1].max()) for a, b in zip(first.tolist(), end.tolist(), strict=True)]
    table = pa.table(
        {
            "step_name": pa.array([steps.label[row] for row in rows.tolist()], pa.large_string()),
            "step_peak_bytes": pa.array(peaks, pa.int64()),
            "first_event": pa.array(first, pa.int64()),
            "last_event": pa.array(end - 1, pa.int64()),
            "step_begin_ns": pa.array(steps.begin_ns[rows], pa.int64()),
            "step_end_ns": pa.array(steps.end_ns[rows], pa.int64()),
        }
    )
    return Frame("history_steps", "Steps", METRICS.columns(*table.column_names), table, ("step_name",), "step_name")


def ooms_frame(device: DeviceLevels, levels: Levels) -> Frame:
    rows = ooms_of(device)
    events = device.snapshot.events
    mine = rows + device.events.start
    words = stack_words(device.snapshot)
    table = pa.table(
        {
            "allocation_line": words.line_labels(events.stack[mine]),
            "event_number": pa.array(rows),
            "event_ns": pa.array(events.time_ns[mine], mask=np.full(len(rows), not device.snapshot.has_times)),
            "asked_bytes": pa.array(events.size[mine]),
            "device_free_bytes": pa.array(events.address[mine]),
            "allocated_bytes": pa.array(levels.allocated[rows + 1]),
            "free_bytes": pa.array((levels.reserved - levels.active)[rows + 1]),
            "allocation_stack": texts_of(words.text, events.stack[mine]),
        }
    )
    columns = METRICS.columns(*table.column_names, hidden=("allocation_stack",))
    return Frame("oom_events", "Out of memory", columns, table, ("event_number",), "allocation_line")
