"""Tables of memory growth over steps and between two events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.memory.growth import change_of, live_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.labels import address_texts, changes_of, stack_words, texts_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.steps import Steps, growth_of_device
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Sort

# Largest blocks first; there may be millions.
MOST_BLOCKS = 100_000
# Hidden columns of most tables.
_STACK = ("allocation_stack", "stack_number")


def growth_frame(device: DeviceLevels) -> Frame:
    growth = growth_of_device(device)
    rows = growth.ranked()
    words, stack = stack_words(device.snapshot), growth.owner[rows]
    step_bytes, confidence = growth.step_bytes[rows], growth.confidence[rows]
    table = pa.table(
        {
            "allocation_line": words.line_labels(stack),
            "step_growth_bytes": pa.array(step_bytes),
            "step_growth_blocks": pa.array(growth.step_blocks[rows]),
            "leak_confidence": pa.array(confidence),
            "growing_steps": pa.array(growth.growing[rows]),
            "counted_steps": pa.array(growth.counted[rows]),
            "first_step_bytes": pa.array(growth.first_bytes[rows]),
            "last_step_bytes": pa.array(growth.last_bytes[rows]),
            "left_blocks": pa.array(growth.left_blocks[rows]),
            "last_step_blocks": pa.array(growth.last_blocks[rows]),
            "left_bytes": pa.array(growth.left_bytes[rows]),
            "growth_score": pa.array(step_bytes * confidence),
            "allocation_stack": texts_of(words.text, stack),
            "stack_number": pa.array(stack),
        }
    )
    hidden = ("step_growth_blocks", "counted_steps", "first_step_bytes", "left_bytes", "growth_score", *_STACK)
    columns = METRICS.columns(*table.column_names, hidden=hidden)
    sort = Sort("growth_score", True)
    return Frame("growth_stacks", "Growth by stack", columns, table, ("stack_number",), "allocation_line", sort)


def changes_frame(device: DeviceLevels, first: int, second: int) -> Frame:
    change = change_of(device.table, first, second)
    delta = change.second_bytes - change.first_bytes
    rows = np.lexsort((change.owner, -np.abs(delta)))
    words, stack = stack_words(device.snapshot), change.owner[rows]
    table = pa.table(
        {
            "allocation_line": words.line_labels(stack),
            "memory_change": changes_of(change.first_bytes[rows], change.second_bytes[rows]),
            "delta_held_bytes": pa.array(delta[rows]),
            "delta_held_blocks": pa.array((change.second_blocks - change.first_blocks)[rows]),
            "earlier_bytes": pa.array(change.first_bytes[rows]),
            "later_bytes": pa.array(change.second_bytes[rows]),
            "earlier_blocks": pa.array(change.first_blocks[rows]),
            "later_blocks": pa.array(change.second_blocks[rows]),
            "still_blocks": pa.array(change.both_blocks[rows]),
            "still_bytes": pa.array(change.both_bytes[rows]),
            "difference_size_bytes": pa.array(np.abs(delta)[rows]),
            "allocation_stack": texts_of(words.text, stack),
            "stack_number": pa.array(stack),
        }
    )
    hidden = ("earlier_blocks", "later_blocks", "still_bytes", "difference_size_bytes", *_STACK)
    columns = METRICS.columns(*table.column_names, hidden=hidden)
    title, sort = "Change between two events, by stack", Sort("difference_size_bytes", True)
    return Frame("changed_stacks", title, columns, table, ("stack_number",), "allocation_line", sort)


def blocks_frame(device: DeviceLevels, first: int, second: int) -> Frame:
    blocks = device.table
    begin, freed, size = blocks.begin, blocks.freed, blocks.size
    one, other = blocks.live(first), blocks.live(second)
    rows = np.flatnonzero(one | other)
    rows = rows[np.argsort(-size[rows], kind="stable")][:MOST_BLOCKS]
    words, stack = stack_words(device.snapshot), blocks.owner[rows]
    state = np.where(one[rows] & other[rows], 0, np.where(one[rows], 1, 2))
    changes = np.array(["allocated at both events", "gone", "appears"])[state]
    table = pa.table(
        {
            "allocation_line": words.line_labels(stack),
            "block_change": pa.array(changes.tolist(), pa.string()),
            "block_size_bytes": pa.array(size[rows]),
            "address": address_texts(device.block("address")[rows]),
            "begin_event": pa.array(begin[rows], mask=begin[rows] == MISSING),
            "end_event": pa.array(freed[rows], mask=freed[rows] >= device.count),
            "allocation_stack": texts_of(words.text, stack),
            "stack_number": pa.array(stack),
            "block_row": pa.array(rows),
        }
    )
    columns = METRICS.columns(*table.column_names, hidden=(*_STACK, "block_row"))
    title, sort = "Change between two events, by block", Sort("block_size_bytes", True)
    return Frame("changed_blocks", title, columns, table, ("block_row",), "allocation_line", sort)


def steps_frame(device: DeviceLevels, steps: Steps, labels: Sequence[str]) -> Frame:
    size, blocks = live_of(device.table, steps.moments)
    table = pa.table(
        {
            "snapshot_step": pa.array(labels, pa.string()),
            "event_number": pa.array(steps.moments),
            "live_bytes_at_step": pa.array(size),
            "held_blocks": pa.array(blocks),
        }
    )
    columns = METRICS.columns(*table.column_names)
    return Frame("growth_steps", "Steps", columns, table, ("event_number",), "snapshot_step")
