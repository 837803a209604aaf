"""Tables of memory after an event: segments, pools, blocks and failed requests."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.labels import address_texts, pool_texts, stack_words, stream_texts, texts_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.moment import Moment, moment_at, obstacles_to, pinned_by
from tb_plugin.analysis.snapshot.out_of_memory import RunningOut
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import ratio, sum_by
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Sort

# Largest blocks first.
MOST_BLOCKS = 50_000
MOST_PINNING = 10_000
KINDS = np.array(["small", "large", "small expandable", "large expandable"])


def segments_frame(moment: Moment) -> Frame:
    rows, snapshot = moment.rows, moment.levels.snapshot
    words, numbers = stack_words(snapshot), moment.numbers(np.arange(len(rows)), len(rows))
    del numbers["segments_now"]
    table = pa.table(
        {
            "allocation_line": texts_of(words.line, rows.stack),
            "address": address_texts(rows.address),
            "segment_kind": _kinds(rows.is_large, rows.is_expandable),
            "stream_name": stream_texts(snapshot, rows.stream),
            "pool_name": pool_texts(snapshot, rows.pool),
            **numbers,
            "allocation_stack": texts_of(words.text, rows.stack),
        }
    )
    columns = METRICS.columns(
        *table.column_names,
        share=("segment_bytes", "free_now_bytes"),
        hidden=("allocation_stack", "pending_now_bytes"),
        titles={"allocation_line": "Reserved by"},
    )
    table = sorted_by(table, [("segment_bytes", "descending"), ("address", "ascending")])
    sort = Sort("segment_bytes", True)
    return Frame("segments_at", "Segments", columns, table, ("address",), "allocation_line", sort)


def _kinds(is_large: Bool, is_expandable: Bool) -> pa.Array:
    return pa.array(KINDS[is_large.astype(np.int64) + 2 * is_expandable], pa.large_string())


def pools_frame(moment: Moment, request: int) -> Frame:
    rows, gaps, snapshot = moment.rows, moment.gaps, moment.levels.snapshot
    keys = np.stack((rows.pool, rows.stream, rows.is_large, rows.is_expandable), axis=1).astype(np.int64)
    found, of = np.unique(keys, axis=0, return_inverse=True)
    of = of.reshape(-1)
    numbers = moment.numbers(of, len(found))
    small, free = gaps.size < request, numbers["free_now_bytes"]
    share = ratio(sum_by(of[gaps.row[small]], gaps.size[small], len(found)), free)
    shown = (
        "allocated_now_bytes",
        "pending_now_bytes",
        "free_now_bytes",
        "widest_gap_bytes",
        "gaps_now",
        "stuck_bytes",
    )
    table = pa.table(
        {
            "pool_name": pool_texts(snapshot, found[:, 0]),
            "stream_name": stream_texts(snapshot, found[:, 1]),
            "segment_kind": _kinds(found[:, 2] == 1, found[:, 3] == 1),
            **{key: numbers[key] for key in ("segments_now", "segment_bytes", *shown)},
            "unusable_ratio": pa.array(share, mask=free == 0),
        }
    )
    columns = METRICS.columns(*table.column_names, share=("segment_bytes",), hidden=("gaps_now",))
    table, sort = sorted_by(table, [("segment_bytes", "descending")]), Sort("segment_bytes", True)
    key = ("pool_name", "stream_name", "segment_kind")
    return Frame("pools_at", "Streams and pools", columns, table, key, "pool_name", sort)


def blocks_frame(moment: Moment) -> Frame:
    device = moment.levels
    rows = np.concatenate((moment.block, moment.outside))
    size = device.block("size")[rows]
    rows = rows[np.argsort(-size, kind="stable")[:MOST_BLOCKS]]
    table, sort = _blocks(moment, rows), Sort("block_size_bytes", True)
    hidden = ("begin_event", "allocation_stack", "block_row")
    columns = METRICS.columns(*table.column_names, share=("block_size_bytes",), hidden=hidden)
    return Frame("blocks_at", "Blocks", columns, table, ("block_row",), "allocation_line", sort)


def pinning_frame(moment: Moment) -> Frame:
    freed = pinned_by(moment)
    at = np.flatnonzero(freed > 0)
    at = at[np.lexsort((moment.size[at], -freed[at]))][:MOST_PINNING]
    table = _blocks(moment, moment.block[at]).append_column("returnable_bytes", pa.array(freed[at]))
    table = table.append_column("segment_bytes", pa.array(moment.rows.size[moment.row[at]]))
    place = ("segment_bytes", "address", "stream_name", "pool_name", "age_events")
    hidden = ("allocation_stack", "block_row")
    columns = METRICS.columns("allocation_line", "block_size_bytes", "returnable_bytes", *place, *hidden, hidden=hidden)
    title, sort = "Blocks whose release returns memory to the driver", Sort("returnable_bytes", True)
    return Frame("blocks_in_way", title, columns, table, ("block_row",), "allocation_line", sort)


def _blocks(moment: Moment, rows: Int64) -> pa.Table:
    device = moment.levels
    snapshot, words = device.snapshot, stack_words(device.snapshot)
    stack, begin = device.block("stack")[rows], device.block("begin")[rows]
    requested = device.block("requested")[rows]
    return pa.table(
        {
            "allocation_line": texts_of(words.line, stack),
            "block_size_bytes": pa.array(device.block("size")[rows]),
            "requested_bytes": pa.array(requested, mask=requested == MISSING),
            "is_pending": pa.array(device.block("freed")[rows] <= moment.event),
            "address": address_texts(device.block("address")[rows]),
            "stream_name": stream_texts(snapshot, device.block("stream")[rows]),
            "pool_name": pool_texts(snapshot, device.block("pool")[rows]),
            "age_events": pa.array((moment.event - begin).astype(np.int64), mask=begin == MISSING),
            "begin_event": pa.array(begin.astype(np.int64), mask=begin == MISSING),
            "allocation_stack": texts_of(words.text, stack),
            "block_row": pa.array(rows.astype(np.int64)),
        }
    )


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
