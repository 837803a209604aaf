"""Calls of one collective on all workers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part, int_param
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Sort
from tb_plugin.views.distributed import merge as j
from tb_plugin.views.distributed.clocks.lateness import KNOWN, Lateness, sure_of
from tb_plugin.views.distributed.clocks.offsets import clocks_from
from tb_plugin.views.distributed.matching.keys import numbers_of
from tb_plugin.views.distributed.matching.match import BY
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.waiting import TIMINGS

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

PARTNERS = "partners"
# parameters that identify a call: its number on the worker, its row in the trace, or its start
_PLACES = ("call", "event", "start_ns")


def partners_frame(joined: Part, params: Params) -> Frame:
    """Returns one row per worker in the collective of a call, latest worker first.

    If clocks are not accurate enough, rows are sorted by wait instead of lateness. The parameter ``of`` selects the
    worker of the call. One of ``call``, ``event`` or ``start_ns`` selects the call. The table is empty if the call
    does not exist. Raises BadRequest if a parameter is missing.
    """
    calls, ranks = joined.frames[j.CALLS].data, joined.frames[j.RANKS].data
    names = ranks.filter(pc.equal(ranks["left_out"], ""))["worker"].to_pylist()
    named = params.get("of")
    places = {key: int_param(params, key) for key in _PLACES}
    if not named or all(value is None for value in places.values()):
        raise BadRequest(
            "The request does not identify a call.",
            "of",
            "Set the parameter of to the worker, and also set call, event or start_ns.",
        )
    worker = numbers_of(calls, "worker")
    begin, end = _span(worker, names.index(named)) if named in names else (0, 0)
    found = begin + np.flatnonzero(_at(calls.slice(begin, end - begin), places))
    match = numbers_of(calls, "match")
    if len(found) and match[found[0]] >= 0:
        rows = np.flatnonzero(match == match[found[0]])
    else:
        rows = found[:1]
    return _frame(calls.take(pa.array(rows)), joined, names, rows == found[0] if len(found) else rows < 0)


def _span(worker: Int64, mine: int) -> tuple[int, int]:
    begin, end = np.searchsorted(worker, (mine, mine + 1))
    return int(begin), int(end)


def _at(calls: pa.Table, places: dict[str, int | None]) -> Bool:
    keep = np.ones(calls.num_rows, np.bool_)
    for key, value in places.items():
        if value is not None and key in calls.column_names:
            keep &= numbers_of(calls, key) == value
    return keep


def _frame(calls: pa.Table, joined: Part, names: list[str], own: Bool) -> Frame:
    late = Lateness(*(numbers_of(calls, key) for key in j.LATE))
    sure = sure_of(late, clocks_from(joined.frames[j.CLOCKS].data), numbers_of(calls, "worker"))
    # Null if it does not exceed the clock error.
    lateness = pa.array(late.lateness_ns, mask=~sure.lateness)
    worker, match, last = (numbers_of(calls, key) for key in ("worker", "match", "last"))
    dur, transfer = numbers_of(calls, "dur_ns"), numbers_of(calls, "transfer_ns")
    is_matched = match >= 0
    worker_names = pa.array(names, pa.string())
    data = {
        "worker": worker_names.take(pa.array(worker)),
        "start_ns": calls["start_ns"],
        "dur_ns": calls["dur_ns"],
        "wait_ns": pa.array(dur - transfer, mask=~is_matched),
        "lateness_ns": lateness,
        "last_worker": worker_names.take(pa.array(last, mask=last < 0)),
        "timing": _text(TIMINGS, numbers_of(calls, "timing"), is_matched),
        "match_kind": _text(BY, numbers_of(calls, "match_kind"), is_matched),
        "is_asked": pa.array(own),
        **{
            key: calls[key]
            for key in ("step", "collective", "dtype", "comm_bytes", "group", "group_ranks", "group_size", "sequence")
        },
        **{key: calls[key] for key in ("event", "stream") if key in calls.column_names},
        "call": calls["call"],
        "match": pa.array(match, mask=~is_matched),
        "matched_workers": pa.array(numbers_of(calls, "matched_workers"), mask=~is_matched),
    }
    # Lateness below the clock error is null, but still used for sorting.
    by_clocks = len(worker) > 0 and bool((late.arrival == KNOWN).all())
    order = pa.array(np.lexsort((worker, dur, -late.lateness_ns if by_clocks else dur - transfer)))
    hidden = tuple(key for key, column in data.items() if key not in _SHOWN or column.null_count == len(column) > 0)
    table = pa.table(data).take(order)
    by_lateness = Sort("lateness_ns", True) if lateness.null_count == 0 else None
    sort = by_lateness if by_clocks else Sort("wait_ns", False)
    return Frame(PARTNERS, "On other ranks", METRICS.columns(*data, hidden=hidden), table, ("worker",), "worker", sort)


_SHOWN = ("worker", "start_ns", "dur_ns", "wait_ns", "lateness_ns", "last_worker", "timing", "match_kind")


def _text(words: tuple[str, ...], place: Int64, known: Bool) -> pa.Array:
    return pc.take(pa.array(words, pa.string()), pa.array(place, mask=~known))
