"""Tables of failed memory requests and of the obstructing blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.labels import address_texts, stack_words, texts_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.moment import moment_at, obstacles_to
from tb_plugin.analysis.snapshot.out_of_memory import RunningOut
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Sort

MOST_RUNS = 100


def oom_moments_frame(device: DeviceLevels, found: list[RunningOut]) -> Frame:
    words = stack_words(device.snapshot)
    stack = np.array([one.stack for one in found], np.int64)
    runs = [one.obstacles for one in found]
    no_way = np.array([len(run.row) == 0 for run in runs], np.bool_)
    table = pa.table(
        {
            "allocation_line": texts_of(words.line, stack),
            "event_number": pa.array([one.event for one in found], pa.int64()),
            "asked_bytes": pa.array([one.requested for one in found], pa.int64()),
            "device_free_bytes": pa.array([one.device_free for one in found], pa.int64()),
            "segment_bytes": pa.array([one.moment.reserved for one in found], pa.int64()),
            "allocated_now_bytes": pa.array([one.moment.allocated for one in found], pa.int64()),
            "free_now_bytes": pa.array([one.moment.free for one in found], pa.int64()),
            "pool_free_bytes": pa.array([one.pool_free for one in found], pa.int64()),
            "pool_gap_bytes": pa.array([one.pool_gap for one in found], pa.int64()),
            "fits_joined": pa.array([one.fits_if_contiguous for one in found], pa.bool_()),
            "in_way_bytes": pa.array([int(run.live_bytes[:1].sum()) for run in runs], pa.int64(), mask=no_way),
            "in_way_blocks": pa.array([int(run.count[:1].sum()) for run in runs], pa.int64(), mask=no_way),
            "allocation_stack": texts_of(words.text, stack),
        }
    )
    columns = METRICS.columns(*table.column_names, hidden=("allocation_stack",))
    return Frame("oom_moments", "Out of memory", columns, table, ("event_number",), "allocation_line")


def obstacles_frame(device: DeviceLevels, one: RunningOut | None) -> Frame:
    """Returns, for each segment, the adjacent blocks with the fewest bytes that prevent a request from fitting."""
    snapshot = device.snapshot
    moment = one.moment if one else moment_at(device, MISSING)
    runs = one.obstacles if one else obstacles_to(moment, 0, np.zeros(len(moment.rows), np.bool_))
    wanted = np.flatnonzero(runs.count > 0)[:MOST_RUNS]
    first, count = runs.first[wanted], runs.count[wanted]
    runs_of = zip(first.tolist(), count.tolist(), strict=True)
    blocks = [begin + int(np.argmax(moment.size[begin : begin + length])) for begin, length in runs_of]
    largest = np.array(blocks, np.int64)
    row = runs.row[wanted]
    stack = device.block("stack")[moment.block[largest]]
    words = stack_words(snapshot)
    address = moment.rows.address[row] + moment.start[first] - moment.rows.first[row]
    table = pa.table(
        {
            "allocation_line": texts_of(words.line, stack),
            "in_way_bytes": pa.array(runs.live_bytes[wanted]),
            "in_way_blocks": pa.array(count),
            "gap_without_bytes": pa.array(runs.gap_bytes[wanted]),
            "address": address_texts(address),
            "segment_bytes": pa.array(moment.rows.size[row]),
            "block_row": pa.array(moment.block[first].astype(np.int64)),
            "allocation_stack": texts_of(words.text, stack),
        }
    )
    columns = METRICS.columns(*table.column_names, hidden=("block_row", "allocation_stack"))
    title, sort = "Blocks in the way of the request", Sort("in_way_bytes", False)
    return Frame("oom_obstacles", title, columns, table, ("block_row",), "allocation_line", sort)
