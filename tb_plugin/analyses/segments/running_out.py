"""Events at which memory ran out: what was asked for, what was free, and which blocks stood in the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analyses.base import Frame
from tb_plugin.analyses.segments.metrics import SHOWN
from tb_plugin.analyses.snapshot.free import SMALL_BLOCK
from tb_plugin.analyses.snapshot.held import Held, ooms_of
from tb_plugin.analyses.snapshot.moment import Moment, Obstacles, moment_at, obstacles_to
from tb_plugin.analyses.snapshot.words import address_texts, stack_words, texts_of
from tb_plugin.payloads import Sort
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

MOST_OOMS = 20
"""Events that are looked into, the last ones: a program that catches them and tries again has as many as it likes."""
MOST_RUNS = 100


@dataclass(frozen=True, eq=False)
class RunningOut:
    """One event at which memory ran out."""

    event: int
    asked: int
    device_free: int
    stack: int
    moment: Moment
    """The state that it met."""
    serves: Bool
    """Which rows of segments its stream, pool and size may use."""
    obstacles: Obstacles

    @property
    def pool_free(self) -> int:
        """Returns the free bytes that could serve it."""
        gaps = self.moment.gaps
        return int(gaps.size[self.serves[gaps.row]].sum())

    @property
    def pool_gap(self) -> int:
        """Returns the largest free range that could serve it."""
        gaps = self.moment.gaps
        return int(gaps.size[self.serves[gaps.row]].max(initial=0))

    @property
    def fits_joined(self) -> bool:
        """Returns whether it would fit if all that is free could be one range."""
        return self.asked <= self.pool_free + self.device_free


def ran_out(held: Held, event: int) -> RunningOut:
    """Returns what an event met at which memory ran out."""
    events, at = held.snapshot.events, held.events.start + event
    moment = moment_at(held, event)
    serves = _same(moment.rows.stream, int(events.stream[at])) & _same(moment.rows.pool, int(events.pool[at]))
    asked = int(events.size[at])
    # Small requests are served from small segments, and no others are.
    serves &= moment.rows.is_large == (asked > SMALL_BLOCK)
    return RunningOut(event, asked, max(int(events.address[at]), 0), int(events.stack[at]), moment, serves,
                      obstacles_to(moment, asked, serves))  # fmt: skip


def _same(values: Int64, value: int) -> Bool:
    """Which are equal; what nobody recorded may be."""
    found: Bool = (values == value) | (values == MISSING) | (value == MISSING)
    return found


def last_ooms(held: Held) -> list[RunningOut]:
    """Returns the last events at which memory ran out, in their order."""
    return [ran_out(held, event) for event in ooms_of(held)[-MOST_OOMS:].tolist()]


def oom_moments_frame(held: Held, found: list[RunningOut]) -> Frame:
    """Returns the events at which memory ran out."""
    words = stack_words(held.snapshot)
    stack = np.array([one.stack for one in found], np.int64)
    runs = [one.obstacles for one in found]
    no_way = np.array([len(run.row) == 0 for run in runs], np.bool_)
    table = pa.table(
        {
            "allocation_line": texts_of(words.line, stack),
            "event_number": pa.array([one.event for one in found], pa.int64()),
            "asked_bytes": pa.array([one.asked for one in found], pa.int64()),
            "device_free_bytes": pa.array([one.device_free for one in found], pa.int64()),
            "segment_bytes": pa.array([one.moment.reserved for one in found], pa.int64()),
            "allocated_now_bytes": pa.array([one.moment.allocated for one in found], pa.int64()),
            "free_now_bytes": pa.array([one.moment.free for one in found], pa.int64()),
            "pool_free_bytes": pa.array([one.pool_free for one in found], pa.int64()),
            "pool_gap_bytes": pa.array([one.pool_gap for one in found], pa.int64()),
            "fits_joined": pa.array([one.fits_joined for one in found], pa.bool_()),
            "in_way_bytes": pa.array([int(run.live_bytes[:1].sum()) for run in runs], pa.int64(), mask=no_way),
            "in_way_blocks": pa.array([int(run.count[:1].sum()) for run in runs], pa.int64(), mask=no_way),
            "allocation_stack": texts_of(words.text, stack),
        }
    )
    return Frame(
        name="oom_moments",
        title="Out of memory",
        columns=SHOWN.columns(*table.column_names, hidden=("allocation_stack",)),
        data=table,
        row_key=("event_number",),
        name_column="allocation_line",
    )


def obstacles_frame(held: Held, one: RunningOut | None) -> Frame:
    """Returns what stood in the way at one of these events: by segment the run of blocks with the least live bytes."""
    snapshot = held.snapshot
    moment = one.moment if one else moment_at(held, MISSING)
    runs = one.obstacles if one else obstacles_to(moment, 0, np.zeros(len(moment.rows), np.bool_))
    wanted = np.flatnonzero(runs.count > 0)[:MOST_RUNS]
    first, count = runs.first[wanted], runs.count[wanted]
    runs_of = zip(first.tolist(), count.tolist(), strict=True)
    blocks = [begin + int(np.argmax(moment.size[begin : begin + length])) for begin, length in runs_of]
    largest = np.array(blocks, np.int64)
    row = runs.row[wanted]
    stack = held.block("stack")[moment.block[largest]]
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
    return Frame(
        name="oom_obstacles",
        title="In the way of the request",
        columns=SHOWN.columns(*table.column_names, hidden=("block_row", "allocation_stack")),
        data=table,
        row_key=("block_row",),
        name_column="allocation_line",
        sort=Sort("in_way_bytes", False),
    )


def in_way_of(one: RunningOut | None, moment: Moment) -> Bool:
    """Returns which blocks of a moment are in the run that stood in the way at the least bytes."""
    found = np.zeros(len(moment.block), np.bool_)
    if one is not None and len(one.obstacles.row):
        first = int(one.obstacles.first[0])
        found[first : first + int(one.obstacles.count[0])] = True
    return found
