"""Tables of one worker, and their schema."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.communication import communication_ranges, computation_ranges, exposed_ranges
from tb_plugin.analysis.parallelism.experts import split_sizes
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group, sum_by
from tb_plugin.lib.intervals import Ranges, intersect, measure_within
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.distributed.matching.groups import dimensions_of
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.rank.calls import Calls, calls_of
from tb_plugin.views.distributed.rank.collective_metadata import MOST_RANKS, groups_of, rank_of, world_size_of
from tb_plugin.views.distributed.rank.reported import (
    RANK,
    ROW,
    SHAPES,
    lacks_computation,
    number_rows,
    reported_frames,
    reported_step_times,
)
from tb_plugin.views.distributed.rank.time_before_calls import PARTS, before_calls

Schema = dict[str, pa.DataType]

# dictionary-encoded: few distinct texts in many calls
TEXT = pa.dictionary(pa.int32(), pa.string())
CALL = {
    "call": pa.int64(), "step": TEXT, "collective": TEXT, "dtype": TEXT, "elements": pa.int64(),
    "comm_bytes": pa.int64(), "group": TEXT, "group_ranks": TEXT, "group_size": pa.int64(),
    "sequence": pa.int64(), "source_rank": pa.int64(), "destination_rank": pa.int64(), "start_ns": pa.int64(),
    "dur_ns": pa.int64(), "on_device": pa.bool_(), "event": pa.int64(), "stream": TEXT, "batch": pa.int64(),
    "issued_ns": pa.int64(), "sent_splits": pa.list_(pa.int64()),
    "received_splits": pa.list_(pa.int64()), "before_ns": pa.int64(), **dict.fromkeys(PARTS, pa.int64()),
    "blocked_ns": pa.int64(),
}  # fmt: skip
STEP = {
    "step": pa.string(), "step_total_ns": pa.int64(), "compute_ns": pa.int64(), "compute_alone_ns": pa.int64(),
    "overlap_ns": pa.int64(), "exposed_communication_ns": pa.int64(), "step_other_ns": pa.int64(),
}  # fmt: skip
GROUP = {
    "group": pa.string(), "group_description": pa.string(), "backend": pa.string(), "group_size": pa.int64(),
    "group_ranks": pa.string(), "dimension": pa.string(),
}  # fmt: skip
DEVICE = {
    "node": pa.string(), "process": pa.string(), "device": pa.string(), "device_name": pa.string(),
    "memory_bytes": pa.int64(), "capability": pa.string(),
    "link_peak": pa.int64(),
}  # fmt: skip
KERNEL = {
    "step": pa.string(), "kernel": pa.dictionary(pa.int32(), pa.string()), "kernel_calls": pa.int64(),
    "kernel_ns": pa.int64(),
}  # fmt: skip
# maximum number of kernels listed per step, most time first; one more row sums the others
MAX_KERNELS_PER_STEP = 64
# value of the device column for a worker without a device
HOST = "CPU"
# columns that are only needed to compute others
MATERIAL = ("batch", "sent_splits", "received_splits", "blocked_ns")

# Increment if a number of a part changes its meaning or a bug is fixed: cached summaries are then recomputed. New columns
# change the stamp automatically.
MEANING = 2
# tables that every part has; reported tables are optional
ALWAYS: Mapping[str, Mapping[str, pa.DataType]] = {
    "collectives": CALL,
    "steps": STEP,
    "kernels": {**KERNEL, ROW: pa.int64()},
    "process_groups": GROUP,
    "devices": DEVICE,
}
NEVER_NULL: Mapping[str, tuple[str, ...]] = {
    "collectives": ("call", "collective", "start_ns", "dur_ns", "on_device", "event", "stream"),
    "steps": ("step",),
    "kernels": ("kernel_calls", "kernel_ns"),
    "process_groups": ("group", "group_ranks"),
    "devices": ("device",),
    RANK: ("alone", "kernels_missing", "ranks_at_least"),
}

# ranges of the facts of a part; a fact may be None
FACTS: Mapping[str, tuple[int, int]] = {
    "distributed.rank": (0, MOST_RANKS - 1),
    "distributed.world_size": (0, MOST_RANKS - 1),
    "distributed.calls": (0, 2**62),
    "distributed.base_time_ns": (-(2**62), 2**62),
}


def profile_part(trace: TraceTable, params: Params) -> Part:
    """Returns all data of one worker. Raises BadRequest for unknown steps."""
    chosen_steps(trace, params.steps)
    calls = calls_of(trace)
    compute, communication = computation_ranges(trace), communication_ranges(trace)
    before = before_calls(trace, calls, compute, communication)
    blocked = blocked_ns(compute, trace.start_ns[calls.row], trace.ends(calls.row))
    steps = table(STEP, _step_rows(trace, compute, communication))
    return Part(
        coverage=select_rows(trace, params.steps).coverage,
        facts={
            "distributed.rank": rank_of(trace.metadata),
            "distributed.world_size": world_size_of(trace.metadata),
            "distributed.calls": len(calls),
            "distributed.base_time_ns": trace.clock_ns,
        },
        frames={
            "collectives": frame(
                "collectives", "Collectives", _calls_table(trace, calls, before, blocked), ("call",), "collective"
            ),
            "steps": frame("steps", "Steps", steps, ("step",), "step"),
            "kernels": number_rows("kernels", kernels_table(trace)),
            "process_groups": frame(
                "process_groups", "Process groups", table(GROUP, _group_rows(trace)), ("group", "group_ranks"), "group"
            ),
            "devices": frame("devices", "Devices", table(DEVICE, _device_rows(trace)), ("device",), "device"),
            **reported_frames(trace),
        },
        steps=tuple(trace.steps.label) if trace.steps.recorded else (),
    )


def frame(
    name: str,
    title: str,
    data: pa.Table,
    key: tuple[str, ...],
    name_column: str,
    hidden: tuple[str, ...] = (),
    titles: Mapping[str, str] | None = None,
) -> Frame:
    """Returns a table whose columns are metrics. Columns that only serve to compute other columns are hidden."""
    shown = [column for column in data.column_names if column not in MATERIAL]
    return Frame(name, title, METRICS.columns(*shown, hidden=hidden, titles=titles), data, key, name_column)


def table(schema: Schema, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Returns a table from ``rows``, which contain all keys of ``schema``. Integers beyond 64 bits become null."""
    return pa.table({key: pa.array([_stored(row[key]) for row in rows], kind) for key, kind in schema.items()})


def _stored(value: object) -> object:
    return None if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _calls_table(trace: TraceTable, calls: Calls, before: Mapping[str, Int64], blocked: Int64) -> pa.Table:
    about, row, texts = calls.metadata, calls.row, calls.words
    streams = np.unique(trace.track[row])
    titles = [track_names(trace)[track].label for track in streams.tolist()] if len(streams) else []
    columns = {
        "call": np.arange(len(calls)),
        "step": pa.array(trace.steps.label, pa.string()).take(_known(calls.step)),
        "collective": texts.take(about.collective),
        "dtype": texts.take(about.dtype),
        "elements": _known(calls.elements),
        "comm_bytes": _known(calls.bytes),
        "group": texts.take(about.group),
        "group_ranks": texts.take(about.ranks),
        "group_size": _known(about.group_size),
        "sequence": _known(about.sequence),
        "source_rank": _known(about.source),
        "destination_rank": _known(about.destination),
        "start_ns": trace.start_ns[row],
        "dur_ns": trace.dur_ns[row],
        "on_device": trace.kind[row] == EventKind.KERNEL,
        "event": row,
        "stream": pa.array(titles, pa.string()).take(pa.array(np.searchsorted(streams, trace.track[row]))),
        "batch": _known(calls.batch),
        "issued_ns": _known(calls.issued_ns),
        "sent_splits": _splits(trace, about.sent),
        "received_splits": _splits(trace, about.received),
        **before,
        "blocked_ns": blocked,
    }
    return pa.table(columns, pa.schema(CALL))


def _known(values: Int64) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == MISSING)


def _splits(trace: TraceTable, texts: Int64) -> pa.Array:
    """Returns the split sizes of all-to-alls. Missing or truncated splits are null."""
    unique, which = np.unique(texts, return_inverse=True)
    sizes = [split_sizes(trace.strings[text]) or None for text in unique.tolist()]
    return pa.array(sizes, pa.list_(pa.int64())).take(pa.array(which.ravel()))


def _step_rows(trace: TraceTable, compute: Ranges, communication: Ranges) -> list[dict[str, object]]:
    """Returns one row per step, as defined for the Overview."""
    if lacks_computation(trace):
        return _reported_rows(trace)
    start, end = trace.steps.start_ns, trace.steps.end_ns
    sets = (compute, intersect(compute, communication), exposed_ranges(trace))
    parts = zip(*(measure_within(ranges, start, end).tolist() for ranges in sets), strict=True)
    steps = zip(trace.steps.label, (end - start).tolist(), parts, strict=True)
    return [
        _step_row(label, length, busy, overlap, exposed, length - busy - exposed)
        for label, length, (busy, overlap, exposed) in steps
    ]


def _step_row(label: str, length: int, compute: int, overlap: int, exposed: int, other: int) -> dict[str, object]:
    return dict(zip(STEP, (label, length, compute, compute - overlap, overlap, exposed, other), strict=True))


def _reported_rows(trace: TraceTable) -> list[dict[str, object]]:
    """Returns the reported times of each step, for profiles that contain only communication; null if not reported."""
    reported, rows = reported_step_times(trace), []
    for label in trace.steps.label:
        row: dict[str, object] = {**dict.fromkeys(STEP), "step": label}
        if (times := reported.get(label)) is not None:
            compute, overlap, exposed, free = times.values()
            row = _step_row(label, compute + exposed + free, compute, overlap, exposed, free)
        rows.append(row)
    return rows


def _group_rows(trace: TraceTable) -> list[dict[str, object]]:
    """Returns the process groups that the file lists, followed by groups that only appear in calls."""
    words = trace.recorder.parallel.dimensions
    rows: dict[tuple[str, str], dict[str, object]] = {}

    def add(name: str, description: str, backend: str, size: int | None, ranks: str) -> None:
        values = (name, description, backend, size, ranks, dimensions_of(description, words))
        rows.setdefault((name, ranks), dict(zip(GROUP, values, strict=True)))

    for listed in groups_of(trace.metadata):
        size = listed.get("pg_size")
        name, description, backend = (str(listed.get(key, "")) for key in ("pg_name", "pg_desc", "backend_config"))
        add(name, description, backend, size if isinstance(size, int) else None, str(listed.get("ranks", "")))
    names = {name for name, _ in rows}
    args = trace.collectives
    columns_of = (args.group_name, args.group_description, args.group_ranks, args.group_size)
    for *ids, size in sorted(set(zip(*(x.tolist() for x in columns_of), strict=True))):
        name, description, ranks = (trace.strings[text] if text >= 0 else "" for text in ids)
        if name and name not in names:
            add(name, description, "", size if size >= 0 else None, ranks)
    return [*rows.values()]


def _device_rows(trace: TraceTable) -> list[dict[str, object]]:
    """Returns the devices with recorded work, or the host if no device has recorded work.

    Node and rank come from the contents of the file or from the file name.
    """
    if not len(trace):
        return []
    rank = rank_of(trace.metadata)
    where: dict[str, object] = {
        "node": str(trace.metadata.get("host_name", "")) or _host_of_file(trace, rank),
        "process": "" if rank is None else f"rank {rank}",
    }
    used = set(trace.device[of_kind(trace.kind, *DEVICE_WORK)].tolist())
    found = [device for i, device in enumerate(trace.devices) if i in used]
    if not found:
        return [where | dict.fromkeys(DEVICE.keys() - where.keys()) | {"device": HOST}]
    return [
        where
        | {"device": d.id, "device_name": d.name, "memory_bytes": d.memory_bytes, "capability": d.capability}
        | {"link_peak": None if d.link_bandwidth is None else round(d.link_bandwidth * 10**9)}
        for d in found
    ]


def _host_of_file(trace: TraceTable, rank: int | None) -> str:
    """Returns the host in a file name such as ``host_4711`` if the number is the process id or the rank, otherwise
    "".
    """
    host, _, number = str(trace.metadata.get("file_process", "")).rpartition("_")
    return host if number in {str(rank), *(track.pid for track in trace.tracks if not track.is_device)} else ""


def blocked_ns(computing: Ranges, start: Int64, end: Int64) -> Int64:
    """Returns, for each call, the time without running compute, ns.

    If several calls overlap, the time belongs to the call that started last. So no time counts twice.
    """
    if not len(start):
        return np.zeros(0, np.int64)
    order = np.argsort(start, kind="stable")
    times = np.unique(np.concatenate((start, end)))
    left, right = times[:-1], times[1:]
    place = _last_open(end[order], np.searchsorted(start[order], left, side="right"), left)
    bare = right - left - measure_within(computing, left, right)
    owner = np.where(place >= 0, order[np.maximum(place, 0)], -1)
    return sum_by(owner, bare, len(start))


def _last_open(end: Int64, begun: Int64, time: Int64) -> Int64:
    """Returns the index of the last call that is open at each time, among the first ``begun`` calls (-1 = none)."""
    latest = [end]
    while (half := 1 << (len(latest) - 1)) * 2 <= len(end):
        latest.append(np.maximum(latest[-1][:-half], latest[-1][half:]))
    place = begun.copy()
    for level in range(len(latest) - 1, -1, -1):
        # A run of each length is skipped at most twice.
        for _ in range(2):
            at = place - (1 << level)
            over = (at >= 0) & (latest[level][np.maximum(at, 0)] <= time)
            place = np.where(over, at, place)
    return place - 1


def kernels_table(trace: TraceTable) -> pa.Table:
    """Returns the time and the number of calls of each compute kernel by step, longest kernel first.

    If the trace has no compute kernels, the rows are host operators with their self time.
    """
    rows = np.flatnonzero((trace.kind == EventKind.KERNEL) & ~trace.is_collective)
    if len(rows):
        source, time = launched_by(trace, rows).astype(np.int64), trace.dur_ns
    else:
        rows = np.flatnonzero((trace.kind == EventKind.OPERATOR) & ~trace.is_collective)
        source, time = rows, trace.self_ns
    known = source != MISSING
    begin = np.append(trace.start_ns, MISSING)[np.where(known, source, rows)]
    step = np.where(known, trace.steps.at(begin, on_host=True), trace.steps.at(begin))
    ones = group(step, trace.name[rows])
    of_step, name = step[ones.first], trace.name[rows][ones.first].astype(np.int64)
    calls, spent = ones.count(), ones.sum(time[rows])
    order = np.lexsort((name, -spent, of_step))
    begins = np.searchsorted(of_step[order], of_step[order])
    name[order[np.arange(len(order)) - begins >= MAX_KERNELS_PER_STEP]] = MISSING
    rest = group(of_step[order], name[order])
    first = order[rest.first]
    names_of_rows, label = name[first], of_step[first]
    unique, which = np.unique(names_of_rows, return_inverse=True)
    labels = pa.array(trace.steps.label, pa.string())
    return pa.table(
        {
            "step": labels.take(pa.array(label, mask=label == MISSING)),
            "kernel": pa.DictionaryArray.from_arrays(
                pa.array(which.ravel(), pa.int32()),
                pa.array([trace.strings[each] for each in unique.tolist()], pa.string()),
            ),
            "kernel_calls": pa.array(rest.sum(calls[order])),
            "kernel_ns": pa.array(rest.sum(spent[order])),
        },
        pa.schema(KERNEL),
    )


@cache
def part_shapes() -> Mapping[str, pa.Schema]:
    """Returns the schema of each table of a part.

    The function must not create arrays: the first array makes pyarrow import pandas, and TensorBoard's process
    should not load pandas.
    """
    stated = {name: {**columns, ROW: pa.int64()} for name, columns in SHAPES.items()}
    every = {**ALWAYS, **stated}
    return {name: pa.schema(list(columns.items())) for name, columns in every.items()}


@cache
def schema_hash() -> str:
    """Returns a hash that changes whenever the schema or MEANING changes."""
    text = [f"meaning {MEANING}"]
    for name, schema in sorted(part_shapes().items()):
        text += [name, *(f"{field.name} {field.type}" for field in schema)]
    return hashlib.blake2b("\n".join(text).encode(), digest_size=8).hexdigest()
