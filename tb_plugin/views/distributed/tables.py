"""Tables of workers, steps, operations, single collectives, groups and devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import codes, sum_by
from tb_plugin.lib.intervals import measure_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.clocks.lateness import ARRIVALS, BEGAN_LATER, BELOW, KNOWN
from tb_plugin.views.distributed.clocks.offsets import DRIFT, HOW
from tb_plugin.views.distributed.job_data import JobCalls, JobData, Row
from tb_plugin.views.distributed.matching.keys import numbers_of, texts_of
from tb_plugin.views.distributed.matching.match import BY
from tb_plugin.views.distributed.pictures.topology import listed_ranks, ranks_short
from tb_plugin.views.distributed.rank.profile import CALL, DEVICE, GROUP, STEP, frame, table
from tb_plugin.views.distributed.stragglers.causes import COMPONENTS
from tb_plugin.views.distributed.stragglers.report import straggler_report, straggler_table
from tb_plugin.views.distributed.waiting import BOUND, TIMINGS

# most important columns first: narrow terminals drop the last ones
WORKER = {
    "worker": pa.string(), "lost_ns": pa.float64(), "caused_wait_ns": pa.int64(), "held_up_by": pa.string(),
    "last_share": pa.float64(), "step_total_ns": pa.int64(), "compute_ns": pa.int64(), "compute_alone_ns": pa.int64(),
    "overlap_ns": pa.int64(), "exposed_communication_ns": pa.int64(), "step_other_ns": pa.int64(),
    "latency_ns": pa.int64(), "wait_ns": pa.int64(), "transfer_ns": pa.int64(), "calls": pa.int64(),
    "matched": pa.int64(), "unmatched": pa.int64(), "bounded": pa.int64(),
    "arrived_last": pa.int64(),
}  # fmt: skip
# titles that differ from the metric's: totals, and the cost per step
WORKER_TITLES = {
    "lost_ns": "Cost per step", "caused_wait_ns": "Caused wait, total", "last_share": "Last share, all groups",
    "step_total_ns": "Step time, total",
}  # fmt: skip
CLOCK = {
    "worker": pa.string(), "clock_how": pa.string(), "clock_offset_ns": pa.int64(), "clock_drift_ppb": pa.float64(),
    "clock_residual_ns": pa.int64(), "clock_anchors": pa.int64(), "clock_aside": pa.int64(), "clock_set": pa.int64(),
    "trace_begins_ns": pa.int64(), "arrivals_known": pa.int64(), "arrivals_suppressed": pa.int64(),
    "arrivals_later": pa.int64(),
}  # fmt: skip
# in characters; longer lists of ranks are shortened
MAX_RANKS_CHARACTERS = 128
# first columns of single collectives
_SINGLE_FIRST = (
    "worker", "step", "collective", "dtype", "comm_bytes", "group", "inferred_group",
    "dur_ns", "wait_ns", "transfer_ns", "timing",
    "last_worker", "lateness_ns",
    "arrival_skew_ns", "last_arrived", "arrival", "algorithm_bandwidth", "bus_bandwidth",
    "matched_workers",
)  # fmt: skip
_SINGLE_HIDDEN = (
    "call", "group_ranks", "elements", "on_device", "match", "match_kind", "bus_factor", "source_rank",
    "destination_rank",
)  # fmt: skip
# kinds of groups and devices: table, title, name, number of alike rows, and columns that alike rows share
_KINDS = (
    ("group_kinds", "Kinds of groups", "group_description", "same_groups",
     ("group_size", "dimension", "group_shape", "backend")),
    ("device_kinds", "Kinds of devices", "device_name", "same_devices", ("memory_bytes", "capability", "link_peak")),
)  # fmt: skip
# more groups or devices are too many to read
_MAX_LISTED = 24
_STRAGGLER_HIDDEN = ("collectives_met", *(f"more_{key}_ns" for key in COMPONENTS))


@cached_by_argument
def frames(data: JobData) -> Mapping[str, Frame]:
    devices = {"node": pa.string(), "process": pa.string(), "worker": pa.string(), **DEVICE}
    workers, steps, operations = table(WORKER, worker_rows(data)), _steps(data), _operations(data)
    singles, stragglers = _shortened(_singles(data)), straggler_table(data)
    groups = _shortened(table({**GROUP, "group_shape": pa.string()}, data.process_groups))
    operation_keys = ("worker", "collective", "dtype", "group")
    straggler_titles = {"lost_ns": "Cost per step", "last_share": "Last share in its group"}
    every = [
        _frame("workers", "Workers", workers, ("worker",), "worker", ("compute_ns",), WORKER_TITLES),
        _frame("steps", "Steps", steps, ("worker", "step"), "worker", ("compute_ns",)),
        _frame("operations", "Communication operations", operations, operation_keys, "collective", ("matched",)),
        _frame("collectives", "Single collectives", singles, ("worker", "call"), "collective", _SINGLE_HIDDEN),
        _frame(
            "stragglers", "Stragglers", stragglers, ("worker", "group"), "worker", _STRAGGLER_HIDDEN, straggler_titles
        ),
        frame("process_groups", "Process groups", groups, ("group", "group_ranks"), "group"),
        frame("clocks", "Clocks", table(CLOCK, clock_rows(data)), ("worker",), "worker"),
        frame("devices", "Devices", table(devices, data.devices), ("worker", "device"), "worker"),
    ]
    return {one.name: one for one in every}


def kind_frames(data: JobData) -> Mapping[str, Frame]:
    """Returns the kinds of groups and of devices, sorted by first occurrence, if there are many groups or devices."""
    found, types = {}, {**GROUP, **DEVICE, "group_shape": pa.string()}
    for (name, title, named, count, others), rows in zip(_KINDS, (data.process_groups, data.devices), strict=True):
        keys = (named, *others)
        if len(rows) > _MAX_LISTED:
            kinds = Counter(tuple(row[key] for key in keys) for row in rows)
            schema = {named: types[named], count: pa.int64(), **{key: types[key] for key in others}}
            alike = [{**dict(zip(keys, kind, strict=True)), count: number} for kind, number in kinds.items()]
            found[name] = frame(name, title, table(schema, alike), keys, named)
    return found


def _frame(
    name: str, title: str, data: pa.Table, keys: tuple[str, ...], named: str, hidden: tuple[str, ...],
    titles: Mapping[str, str] | None = None,
) -> Frame:  # fmt: skip
    return frame(name, title, data, keys, named, (*hidden, *nothing_in(data)), titles)


def nothing_in(data: pa.Table) -> tuple[str, ...]:
    """Returns the columns without values. Such columns are hidden by default."""
    return tuple(key for key in data.column_names if data.num_rows and data[key].null_count == data.num_rows)


def _shortened(data: pa.Table) -> pa.Table:
    """Shortens long lists of ranks, to limit the size of the response."""
    at = data.column_names.index("group_ranks")
    places, texts = texts_of(data, "group_ranks")
    short = pa.array([_short(text) for text in texts], pa.string())
    # Dictionary-encoded: repeated for each call they would be a quarter of the table.
    return data.set_column(at, "group_ranks", pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), short))


def _short(text: str) -> str:
    ranks = listed_ranks(text, None) if len(text) > MAX_RANKS_CHARACTERS else ()
    return ranks_short(ranks) if ranks else text


@cached_by_argument
def worker_rows(data: JobData) -> list[Row]:
    """Returns one row per worker, with sums over the selected steps and the cost per step."""
    job_calls, alone = data.calls, data.is_single
    latency, wait, transfer = (times.sum(axis=1).tolist() for times in data.times)
    one_each = data.first_rows
    last = job_calls.waiting.last[one_each]
    counts = {
        "matched": data.count(job_calls.matched),
        # The only rank of a group cannot have a match.
        "unmatched": data.count(~job_calls.matched & _in_groups_of_several(job_calls)),
        "bounded": data.count(job_calls.waiting.timing == TIMINGS.index(BOUND)),
        "arrived_last": np.bincount(last[last >= 0], minlength=len(data.names)),
        "caused_wait_ns": data.caused.sum(axis=1),
    }
    share = counts["arrived_last"] / np.maximum(counts["matched"], 1)
    calls = data.count(np.ones(len(job_calls.worker), np.bool_)).tolist()
    totals = _totals(data)
    report = None if alone else straggler_report(data)
    lost = report.lost_ns.tolist() if report is not None and report.has_costs else [None] * len(data.names)
    return [
        {
            "worker": name,
            **{key: values[w] for key, values in totals.items()},
            "latency_ns": latency[w],
            "wait_ns": None if alone else wait[w],
            "transfer_ns": None if alone else transfer[w],
            "calls": calls[w],
            **{key: None if alone else int(values[w]) for key, values in counts.items()},
            "last_share": float(share[w]) if counts["matched"][w] else None,
            "lost_ns": lost[w],
            "held_up_by": None if report is None else report.root_of_worker(w),
        }
        for w, name in enumerate(data.names)
    ]


def _totals(data: JobData) -> Mapping[str, list[int | None]]:
    """Returns the sums of the step columns by worker. A sum is null if any summed value is unknown."""
    worker, totals = data.step_places[0], {}
    for key in STEP:
        if key != "step":
            values = data.step_table[key]
            total = sum_by(worker, pc.fill_null(values, 0).to_numpy(), len(data.names)).tolist()
            unknown = np.bincount(worker[np.asarray(pc.is_null(values))], minlength=len(data.names)).tolist()
            totals[key] = [None if lacking else value for value, lacking in zip(total, unknown, strict=True)]
    return totals


def clock_rows(data: JobData) -> list[Row]:
    """Returns one row per worker: the clock, and the number of the worker's calls with a known order of arrival."""
    clocks, rows = data.clocks, []
    counts = [data.count(data.calls.late.arrival == code).tolist() for code in (KNOWN, BELOW, BEGAN_LATER)]
    for w, name in enumerate(data.names):
        known, how = bool(clocks.comparable[w]), HOW[clocks.how[w]]
        row: Row = dict.fromkeys(CLOCK)
        row |= {"worker": name, "clock_how": how}
        row |= {"clock_anchors": int(clocks.anchors[w]), "clock_aside": int(clocks.aside[w])}
        row |= dict(
            zip(("arrivals_known", "arrivals_suppressed", "arrivals_later"), (n[w] for n in counts), strict=True)
        )
        if known and data.is_zero_reported[w]:
            row["clock_offset_ns"] = int(clocks.offset_ns[w])
        if how == DRIFT:
            row["clock_drift_ppb"] = float(clocks.drift[w]) * 1e9
        if known:
            row["clock_residual_ns"] = int(clocks.residual_ns[w])
            row["clock_set"] = int(clocks.connected[w])
            row["trace_begins_ns"] = int(clocks.begin_ns[w])
        rows.append(row)
    return rows


def _steps(data: JobData) -> pa.Table:
    at = data.step_places
    nothing = np.full(len(at[0]), data.is_single)
    latency, wait, transfer = (times[at] for times in data.times)
    return pa.table(
        {
            "worker": pa.array(data.names, pa.string()).take(pa.array(at[0])),
            **{key: data.step_table[key] for key in STEP},
            "latency_ns": pa.array(latency),
            "wait_ns": pa.array(wait, mask=nothing),
            "transfer_ns": pa.array(transfer, mask=nothing),
        }
    )


def _operations(data: JobData) -> pa.Table:
    """Returns the calls of each worker by collective, dtype and group, sorted by first call."""
    job_calls = data.calls
    keys = ("collective", "dtype", "group")
    code = codes(job_calls.worker, *(texts_of(job_calls.data, key)[0] for key in keys))
    _, first, code = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first)
    head, count = first[order], len(first)
    place = np.argsort(order)[code]
    m, known = job_calls.matched, job_calls.bytes >= 0
    calls, matched = np.bincount(place, minlength=count), np.bincount(place[m], minlength=count)
    sized = np.bincount(place[known], minlength=count) == calls
    size = sum_by(place[known], job_calls.bytes[known], count)
    latency = measure_by(place, job_calls.start_ns, job_calls.end_ns, count)
    transfer = measure_by(place[m], job_calls.transfer_start_ns[m], job_calls.end_ns[m], count)
    algorithm, bus = _bandwidth(job_calls, place, count)
    described = {row["group"]: row["group_description"] for row in reversed(data.process_groups)}
    groups = job_calls.data["group"].take(head)
    columns = {
        "worker": pa.array([data.names[w] for w in job_calls.worker[head].tolist()], pa.string()),
        **{key: job_calls.data[key].take(head).combine_chunks() for key in keys},
        "group_description": pa.array([described.get(name, "") for name in groups.to_pylist()], pa.string()),
        "calls": pa.array(calls),
        "matched": _known(matched, np.full(count, not data.is_single)),
        "comm_bytes": _known(size, sized),
        "mean_comm_bytes": _known(size / calls, sized),
        "latency_ns": pa.array(latency),
        "mean_latency_ns": pa.array(latency / calls),
        "transfer_ns": _known(transfer, matched > 0),
        "mean_transfer_ns": _known(transfer / np.maximum(matched, 1), matched > 0),
        "algorithm_bandwidth": _known(algorithm, ~np.isnan(algorithm)),
        "bus_bandwidth": _known(bus, ~np.isnan(bus)),
    }
    return pa.table(columns)


def _bandwidth(seen: JobCalls, place: Int64, count: int) -> tuple[Float64, Float64]:
    """Returns the algorithm and the bus bandwidth of matched calls, by ``place``, in bytes per second.

    The bandwidth is NaN if a size, the bus factor or the group size is unknown.
    """
    m = seen.matched
    at, size = place[m], seen.bytes[m]
    time, moved = sum_by(at, seen.waiting.transfer_ns[m], count), sum_by(at, np.maximum(size, 0), count)
    unfit = np.bincount(at[(size < 0) | ~seen.rated[m]], minlength=count) > 0
    on_bus = np.bincount(at, weights=size * seen.factor[m], minlength=count)
    per_ns: Float64 = np.where((time > 0) & (moved > 0) & ~unfit, 1e9 / np.maximum(time, 1), np.nan)
    return moved * per_ns, on_bus * per_ns


def _singles(data: JobData) -> pa.Table:
    calls, w = data.calls, data.calls.waiting
    m, count, late, sure = calls.matched, len(calls.worker), calls.late, data.sure
    wait = calls.end_ns - calls.start_ns - w.transfer_ns
    algorithm, bus = _bandwidth(calls, np.arange(count), count)
    names = pa.array(data.names, pa.string())
    added = {
        "bus_factor": _known(calls.factor, ~np.isnan(calls.factor)),
        "match": _known(calls.match, m),
        "match_kind": _as_words(numbers_of(calls.data, "match_kind"), m, BY),
        "inferred_group": calls.data["inferred_group"].combine_chunks(),
        "matched_workers": _known(w.workers, m),
        "timing": _as_words(w.timing, m, TIMINGS),
        "wait_ns": _known(wait, m),
        "transfer_ns": _known(w.transfer_ns, m),
        "last_worker": names.take(_known(w.last, w.last >= 0)),
        "lateness_ns": _known(late.lateness_ns, sure.lateness),
        "arrival_skew_ns": _known(late.skew_ns, sure.skew),
        "last_arrived": names.take(_known(late.last, sure.skew)),
        "arrival": _as_words(late.arrival, late.arrival >= 0, ARRIVALS),
        "algorithm_bandwidth": _known(algorithm, ~np.isnan(algorithm)),
        "bus_bandwidth": _known(bus, ~np.isnan(bus)),
    }
    columns = {"worker": names.take(pa.array(calls.worker)), **{key: calls.data[key] for key in CALL}, **added}
    return pa.table(columns).select([*_SINGLE_FIRST, *(key for key in columns if key not in _SINGLE_FIRST)])


def _in_groups_of_several(seen: JobCalls) -> Bool:
    """Marks calls in groups of at least two ranks or of unknown size."""
    found: Bool = np.asarray(pc.fill_null(pc.not_equal(seen.data["group_size"], 1), True))
    return found


def _known(values: npt.NDArray[np.generic], known: Bool) -> pa.Array:
    return pa.array(values) if known.all() else pa.array(values, mask=~known)


def _as_words(place: Int64, known: Bool, words: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(_known(place.astype(np.int8), known), pa.array(words, pa.string()))
