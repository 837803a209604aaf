"""The collectives in which chosen workers met, in a stretch of time of each: what links their timelines to each other.

Each worker has a stretch in its own time, as its file counts it: whoever lays timelines side by side decides how their clocks
translate, and asks for what is in sight of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.errors import BadRequest

Int64 = npt.NDArray[np.int64]

WITHIN = "within"
"""Name of the parameter, once for each worker: ``worker:start_ns:end_ns``."""
TABLE = "meetings"
COLUMNS = (
    "match", "worker", "collective", "start_ns", "dur_ns", "last_worker", "matched_workers", "timing", "wait_ns",
    "lateness_ns", "comm_bytes", "group", "step", "call", "event", "stream",
)  # fmt: skip
"""Columns of single collectives that the table has, of those that there are."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of time of one worker, in its own time."""

    worker: str
    start_ns: int
    end_ns: int


def stretches_of(texts: Sequence[str]) -> list[Stretch]:
    """Returns what the parameter says. Raises BadRequest."""
    found = []
    for text in texts:
        worker, start, end = (*text.rsplit(":", 2), "", "")[:3]
        try:
            stretch = Stretch(worker, int(start), int(end))
        except ValueError:
            stretch = Stretch("", 0, 0)
        if not stretch.worker or stretch.end_ns <= stretch.start_ns or max(-stretch.start_ns, stretch.end_ns) > 1 << 62:
            raise BadRequest("This is not a time range of a worker.", text[:100], "Write worker:start_ns:end_ns.")
        found.append(stretch)
    if len({stretch.worker for stretch in found}) < len(found):
        raise BadRequest("A worker is named twice.", WITHIN, "Name each worker once.")
    return found


def collectives_of_workers(
    worker: Int64, match: Int64, start_ns: Int64, dur_ns: Int64, within: Sequence[tuple[int, int, int]]
) -> Int64:
    """Returns the rows of collectives in which at least two of the chosen workers met, collective by collective.

    ``match`` is -1 for a call that nobody else has. A collective counts when the call of one of the chosen workers touches
    its stretch (its number, from, to); then the calls of the other chosen workers belong to it wherever they are.
    """
    low, high = _bounds(within, int(worker.max(initial=-1)) + 1)
    shared = (match >= 0) & (high > low)[worker]
    touches = shared & (start_ns < high[worker]) & (start_ns + dur_ns >= low[worker])
    rows = np.flatnonzero(shared & np.isin(match, np.unique(match[touches])))
    _, place, count = np.unique(match[rows], return_inverse=True, return_counts=True)
    rows = rows[count[place] > 1]
    return rows[np.lexsort((worker[rows], start_ns[rows], match[rows]))]


def _bounds(within: Sequence[tuple[int, int, int]], workers: int) -> tuple[Int64, Int64]:
    """Begin and end of the stretch of each worker; empty of those that are not chosen."""
    low, high = np.zeros(workers, np.int64), np.zeros(workers, np.int64)
    for number, start, end in within:
        if number < workers:
            low[number], high[number] = start, end
    return low, high


def meetings(calls: pa.Table, names: Sequence[str], worker: Int64, match: Int64, within: Sequence[Stretch]) -> pa.Table:
    """Returns the calls of single collectives in which chosen workers met. ``calls`` has a row for each of ``worker``.

    A worker that is not among ``names`` met nobody: its profile failed, or it is no rank of the job.
    """
    calls = calls.select([key for key in COLUMNS if key in calls.column_names])
    if not within:
        return calls.slice(0, 0)
    place = {name: i for i, name in enumerate(names)}
    asked = [(place[one.worker], one.start_ns, one.end_ns) for one in within if one.worker in place]
    start, dur = (np.asarray(calls[key], np.int64) for key in ("start_ns", "dur_ns"))
    rows = collectives_of_workers(worker, match, start, dur, asked)
    return calls.take(pa.array(rows))
