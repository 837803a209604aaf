"""Tables of blocks and events of a snapshot."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.allocator import device_name
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.snapshot.categories import categories_of_blocks
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of, levels_of_device
from tb_plugin.analysis.snapshot.labels import address_texts, pool_texts, stack_words, stream_texts, texts_of
from tb_plugin.analysis.snapshot.modules import modules_of_stacks
from tb_plugin.errors import NotFoundError
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.snapshot.table import NEVER, Action, Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable


def block_table(device: DeviceLevels, rows: Int64) -> pa.Table:
    """Returns a table of these blocks. ``end_event`` and ``end_ns`` refer to the first release event of each block."""
    snapshot = device.snapshot
    words, stack = stack_words(snapshot), device.block("stack")[rows]
    begin, freed, requested = (device.block(name)[rows] for name in ("begin", "freed", "requested"))
    known, ended = begin != MISSING, freed != NEVER
    # A release before the history has no event number.
    has_end_event = ended & (freed != MISSING)
    time = np.append(device.time_ns, 0)
    begins, ends = time[begin], time[np.where(has_end_event, freed, -1)]
    timed = np.full(len(rows), snapshot.has_times)
    return pa.table(
        {
            "allocation_line": words.line_labels(stack),
            "allocation_stack": texts_of(words.text, stack),
            "address": address_texts(device.block("address")[rows]),
            "block_size_bytes": pa.array(device.block("size")[rows]),
            "requested_bytes": pa.array(requested, mask=requested == MISSING),
            "stream_name": stream_texts(snapshot, device.block("stream")[rows]),
            "pool_name": pool_texts(snapshot, device.block("pool")[rows]),
            "begin_event": pa.array(begin, mask=~known),
            "end_event": pa.array(freed, mask=~has_end_event),
            "begin_ns": pa.array(begins, mask=~(known & timed)),
            "end_ns": pa.array(ends, mask=~(has_end_event & timed)),
            "life_ns": pa.array(ends - begins, mask=~(known & has_end_event & timed)),
            "block_module": texts_of(modules_of_stacks(snapshot), stack),
            "memory_category": categories_of_blocks(device).texts(rows),
            "compile_context": snapshot.strings.take(device.block("context")[rows]),
            "user_metadata": snapshot.strings.take(device.block("metadata")[rows]),
            "block_row": pa.array(rows),
        }
    )


def event_table(device: DeviceLevels, first: int = 0, last: int | None = None) -> pa.Table:
    snapshot, events = device.snapshot, device.snapshot.events
    stop = device.count if last is None else min(last + 1, device.count)
    rows = slice(device.events.start + first, device.events.start + stop)
    words, action = stack_words(snapshot), events.action[rows]
    is_oom = action == Action.OOM
    address = events.address[rows]
    return pa.table(
        {
            "event_number": pa.array(np.arange(first, stop)),
            "memory_action": pa.array([action.name.lower() for action in Action], pa.large_string()).take(
                pa.array(action)
            ),
            "address": address_texts(np.where(is_oom, MISSING, address)),
            "block_size_bytes": pa.array(events.size[rows]),
            "device_free_bytes": pa.array(address, mask=~is_oom),
            "event_ns": pa.array(events.time_ns[rows], mask=np.full(len(action), not snapshot.has_times)),
            "stream_name": stream_texts(snapshot, events.stream[rows]),
            "pool_name": pool_texts(snapshot, events.pool[rows]),
            "allocation_line": texts_of(words.line, events.stack[rows]),
            "allocation_stack": texts_of(words.text, events.stack[rows]),
            "compile_context": snapshot.strings.take(events.context[rows]),
            "user_metadata": snapshot.strings.take(events.metadata[rows]),
        }
    )


def events_of(model: object, where: str) -> pa.Table:
    if isinstance(model, Snapshot):
        parts = []
        for device in devices_of(model):
            table = event_table(device)
            parts.append(table.add_column(0, "device", pa.repeat(device.name, len(table))))
        return pa.concat_tables(parts) if parts else pa.table({})
    if isinstance(model, TraceTable):
        memory = model.memory
        names = [
            device_name(*each) for each in zip(memory.device_type.tolist(), memory.device_id.tolist(), strict=True)
        ]
        columns = ("time_ns", "bytes", "address", "total_allocated", "total_reserved")
        return pa.table({"device": pa.array(names, pa.string()), **{c: getattr(memory, c) for c in columns}})
    raise NotFoundError(
        "Only a trace and a memory snapshot have allocator events.", where, "Request its tables instead."
    )


def blocks_of(model: object, where: str, at: int | None, device: str) -> pa.Table:
    """Returns the blocks of a device of a snapshot, or those after event ``at``. Raises NotFoundError or BadRequest."""
    if not isinstance(model, Snapshot):
        do = "For the blocks of a trace, request the table memory_events of the view memory."
        raise NotFoundError("Only a memory snapshot has blocks at every event.", where, do)
    levels = levels_of_device(model, Params(extra=(("device", device),)))
    rows = np.arange(len(levels.block("begin"))) if at is None else levels.live(at)
    return block_table(levels, rows)
