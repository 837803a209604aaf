"""Collectives of selected workers within a time range of each worker.

The times of a range are trace times of the worker. The page aligns the timelines of workers, and requests the
visible time range of each timeline.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.errors import BadRequest

Int64 = npt.NDArray[np.int64]

# request parameter, repeated for each worker: worker:start_ns:end_ns
WITHIN = "within"
TABLE = "meetings"
# columns taken from the table Single collectives, if they exist
COLUMNS = (
    "match", "worker", "collective", "start_ns", "dur_ns", "last_worker", "matched_workers", "timing", "wait_ns",
    "lateness_ns", "comm_bytes", "group", "step", "call", "event", "stream",
)  # fmt: skip


class Stretch(msgspec.Struct, frozen=True):
    """A time range of one worker, in trace time of the worker."""

    worker: str
    start_ns: int
    end_ns: int


def stretches_of(texts: Sequence[str]) -> list[Stretch]:
    """Parses texts of the form ``worker:start_ns:end_ns``.

    Raises BadRequest if a text is invalid or a worker is repeated.
    """
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
    """Returns the calls of collectives of at least two selected workers, as rows sorted by collective.

    ``match`` is the index of each call's collective (-1 = none). ``within`` contains worker, start and end of each
    range. A collective is included if at least one call overlaps the range of the calling worker. The result
    contains the calls of all selected workers at this collective.
    """
    low, high = _bounds(within, int(worker.max(initial=-1)) + 1)
    shared = (match >= 0) & (high > low)[worker]
    touches = shared & (start_ns < high[worker]) & (start_ns + dur_ns >= low[worker])
    rows = np.flatnonzero(shared & np.isin(match, np.unique(match[touches])))
    _, place, count = np.unique(match[rows], return_inverse=True, return_counts=True)
    rows = rows[count[place] > 1]
    return rows[np.lexsort((worker[rows], start_ns[rows], match[rows]))]


def _bounds(within: Sequence[tuple[int, int, int]], workers: int) -> tuple[Int64, Int64]:
    """Returns start and end of each worker's range. Workers without a range get an empty range."""
    low, high = np.zeros(workers, np.int64), np.zeros(workers, np.int64)
    for number, start, end in within:
        if number < workers:
            low[number], high[number] = start, end
    return low, high


def shared_collectives(
    calls: pa.Table, names: Sequence[str], worker: Int64, match: Int64, within: Sequence[Stretch]
) -> pa.Table:
    """Returns the calls of collectives of at least two selected workers within the ranges of these workers.

    ``worker`` and ``match`` have one value per row of ``calls``. Ranges of workers outside ``names`` are ignored.
    """
    calls = calls.select([key for key in COLUMNS if key in calls.column_names])
    if not within:
        return calls.slice(0, 0)
    place = {name: i for i, name in enumerate(names)}
    ranges = [(place[one.worker], one.start_ns, one.end_ns) for one in within if one.worker in place]
    start, dur = (np.asarray(calls[key], np.int64) for key in ("start_ns", "dur_ns"))
    rows = collectives_of_workers(worker, match, start, dur, ranges)
    return calls.take(pa.array(rows))
