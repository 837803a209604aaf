"""Calls of one collective on all workers, or of selected workers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part, int_param
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.payloads import Sort
from tb_plugin.views.distributed import merge
from tb_plugin.views.distributed.clocks.lateness import KNOWN, Lateness, sure_of
from tb_plugin.views.distributed.clocks.offsets import clocks_from
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.matching.keys import numbers_of
from tb_plugin.views.distributed.matching.match import BY
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.rank.profile import frame
from tb_plugin.views.distributed.tables import frames
from tb_plugin.views.distributed.waiting import TIMINGS

# tables that are only available by name
PARTNERS, MEETINGS = "partners", "meetings"
# parameters that identify a call: its number on the worker, its row in the trace, or its start
_PLACES = ("call", "event", "start_ns")
_SHOWN = ("worker", "start_ns", "dur_ns", "wait_ns", "lateness_ns", "last_worker", "timing", "match_kind")
_OF_CALLS = (
    "step", "collective", "dtype", "comm_bytes", "group", "group_ranks", "group_size", "sequence", "event", "stream", "call",
)  # fmt: skip
# columns of MEETINGS, from the table Single collectives
_MEETING_COLUMNS = (
    "match", "worker", "collective", "start_ns", "dur_ns", "last_worker", "matched_workers", "timing", "wait_ns",
    "lateness_ns", "comm_bytes", "group", "step", "call", "event", "stream",
)  # fmt: skip


def partners_frame(joined: Part, params: Params) -> Frame:
    """Returns one row per worker that called the same collective, latest worker first.

    If clocks are not accurate enough, rows are sorted by wait instead of lateness. ``of`` is the worker of the
    selected call. ``call``, ``event`` or ``start_ns`` selects the call. Without such a call, the table is empty.
    Raises BadRequest if a parameter is missing.
    """
    calls, ranks = joined.frames[merge.CALLS].data, joined.frames[merge.RANKS].data
    names = ranks.filter(pc.equal(ranks["left_out"], ""))["worker"].to_pylist()
    named = params.get("of")
    places = {key: value for key in _PLACES if (value := int_param(params, key)) is not None}
    if not named or not places:
        todo = "Set of=WORKER, and also set call, event or start_ns."
        raise BadRequest("The request does not identify a call.", "of", todo)
    worker, match = numbers_of(calls, "worker"), numbers_of(calls, "match")
    is_call = worker == (names.index(named) if named in names else -1)
    for key, value in places.items():
        is_call &= numbers_of(calls, key) == value
    found = np.flatnonzero(is_call)[:1]
    rows = np.flatnonzero(match == match[found[0]]) if len(found) and match[found[0]] >= 0 else found
    return _frame(calls.take(pa.array(rows)), joined, names, np.isin(rows, found))


def _frame(calls: pa.Table, joined: Part, names: list[str], own: Bool) -> Frame:
    late = Lateness(*(numbers_of(calls, key) for key in merge.LATE))
    sure = sure_of(late, clocks_from(joined.frames[merge.CLOCKS].data), numbers_of(calls, "worker"))
    # Null if it does not exceed the clock error.
    lateness = pa.array(late.lateness_ns, mask=~sure.lateness)
    worker, match, last = (numbers_of(calls, key) for key in ("worker", "match", "last"))
    dur, transfer = numbers_of(calls, "dur_ns"), numbers_of(calls, "transfer_ns")
    unmatched = match < 0
    worker_names = pa.array(names, pa.string())
    data = {
        "worker": worker_names.take(pa.array(worker)),
        "start_ns": calls["start_ns"],
        "dur_ns": calls["dur_ns"],
        "wait_ns": pa.array(dur - transfer, mask=unmatched),
        "lateness_ns": lateness,
        "last_worker": worker_names.take(pa.array(last, mask=last < 0)),
        "timing": pa.array(TIMINGS).take(pa.array(numbers_of(calls, "timing"), mask=unmatched)),
        "match_kind": pa.array(BY).take(pa.array(numbers_of(calls, "match_kind"), mask=unmatched)),
        "is_asked": pa.array(own),
        **{key: calls[key] for key in _OF_CALLS},
        "match": pa.array(match, mask=unmatched),
        "matched_workers": pa.array(numbers_of(calls, "matched_workers"), mask=unmatched),
    }
    # Lateness below the clock error is null, but still used for sorting.
    by_clocks = len(worker) > 0 and bool((late.arrival == KNOWN).all())
    order = pa.array(np.lexsort((worker, dur, -late.lateness_ns if by_clocks else dur - transfer)))
    hidden = tuple(key for key, column in data.items() if key not in _SHOWN or column.null_count == len(column) > 0)
    by_lateness = Sort("lateness_ns", True) if lateness.null_count == 0 else None
    sort = by_lateness if by_clocks else Sort("wait_ns", False)
    columns = METRICS.columns(*data, hidden=hidden)
    return Frame(PARTNERS, "On other ranks", columns, pa.table(data).take(order), ("worker",), "worker", sort)


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
        raise BadRequest("A worker is named twice.", "within", "Name each worker once.")
    return found


def meetings_frame(data: JobData, params: Params) -> Frame:
    """Returns the calls of collectives of at least two selected workers within the ranges of these workers.

    The parameter ``within`` is repeated for each selected worker. The page aligns the timelines of workers, and
    requests the visible time range of each timeline. Ranges of unknown workers are ignored.
    """
    within = stretches_of(params.values("within"))
    place = {name: at for at, name in enumerate(data.names)}
    ranges = [(place[one.worker], one.start_ns, one.end_ns) for one in within if one.worker in place]
    calls = data.calls
    rows = collectives_of_workers(calls.worker, calls.match, calls.start_ns, calls.end_ns - calls.start_ns, ranges)
    found = frames(data)["collectives"].data.select(_MEETING_COLUMNS).take(pa.array(rows))
    return frame(MEETINGS, "Collectives", found, ("match", "worker"), "collective")


def collectives_of_workers(
    worker: Int64, match: Int64, start_ns: Int64, dur_ns: Int64, within: Sequence[tuple[int, int, int]]
) -> Int64:
    """Returns the calls of collectives of at least two selected workers, as rows sorted by collective.

    ``match`` is the index of each call's collective (-1 = none). ``within`` contains worker, start and end of each
    range. A collective is included if at least one call overlaps the range of the calling worker. The result
    contains the calls of all selected workers at this collective.
    """
    low, high = (np.zeros(int(worker.max(initial=-1)) + 1, np.int64) for _ in range(2))
    for number, start, end in within:
        if number < len(low):
            low[number], high[number] = start, end
    shared = (match >= 0) & (high > low)[worker]
    touches = shared & (start_ns < high[worker]) & (start_ns + dur_ns >= low[worker])
    rows = np.flatnonzero(shared & np.isin(match, np.unique(match[touches])))
    _, place, count = np.unique(match[rows], return_inverse=True, return_counts=True)
    rows = rows[count[place] > 1]
    return rows[np.lexsort((worker[rows], start_ns[rows], match[rows]))]
