"""What one worker contributes: its collectives, its steps, its process groups and its devices, as small tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa

from tb_plugin.analyses.base import Frame, Params, Part
from tb_plugin.analyses.communication import communicating, computing, exposed
from tb_plugin.analyses.distributed.blocking import blocked_ns
from tb_plugin.analyses.distributed.calls import Call, calls_of, groups_of
from tb_plugin.analyses.distributed.metrics import METRICS
from tb_plugin.analyses.distributed.stated import only_communicates, stated_frames, stated_step_times
from tb_plugin.analyses.grouping import group as numbered
from tb_plugin.analyses.selection import chosen_steps, select_rows
from tb_plugin.trace.intervals import intersect, measure_within
from tb_plugin.trace.schema import DEVICE_WORK, of_kind
from tb_plugin.trace.table import TraceTable

Schema = dict[str, pa.DataType]

CALL = {
    "call": pa.int64(), "step": pa.string(), "collective": pa.string(), "dtype": pa.string(), "elements": pa.int64(),
    "comm_bytes": pa.int64(), "group": pa.string(), "group_ranks": pa.string(), "group_size": pa.int64(),
    "sequence": pa.int64(), "source_rank": pa.int64(), "destination_rank": pa.int64(), "start_ns": pa.int64(),
    "dur_ns": pa.int64(), "on_device": pa.bool_(),
}  # fmt: skip
STEP = {
    "step": pa.string(), "step_total_ns": pa.int64(), "compute_ns": pa.int64(), "compute_alone_ns": pa.int64(),
    "overlap_ns": pa.int64(), "exposed_communication_ns": pa.int64(), "step_other_ns": pa.int64(),
}  # fmt: skip
GROUP = {
    "group": pa.string(), "group_description": pa.string(), "backend": pa.string(), "group_size": pa.int64(),
    "group_ranks": pa.string(),
}  # fmt: skip
DEVICE = {
    "node": pa.string(), "process": pa.string(), "device": pa.string(), "device_name": pa.string(),
    "memory_bytes": pa.int64(), "capability": pa.string(),
}  # fmt: skip


def profile_part(trace: TraceTable, params: Params) -> Part:
    """Returns everything about one worker that an answer needs. Raises BadRequest for unknown steps."""
    chosen_steps(trace, params.steps)
    calls = calls_of(trace)
    info = trace.metadata.get("distributedInfo")
    world = info.get("world_size") if isinstance(info, dict) else None
    return Part(
        coverage=select_rows(trace, params.steps).coverage,
        facts={"distributed.world_size": world if isinstance(world, int) else None, "distributed.calls": len(calls)},
        frames={
            "collectives": frame(
                "collectives", "Collectives", with_blocked(trace, calls_table(calls)), ("call",), "collective"
            ),
            "steps": frame("steps", "Steps", table(STEP, _step_rows(trace)), ("step",), "step"),
            "process_groups": frame(
                "process_groups", "Process groups", table(GROUP, _group_rows(trace)), ("group", "group_ranks"), "group"
            ),
            "devices": frame("devices", "Devices", table(DEVICE, _device_rows(trace)), ("device",), "device"),
            **stated_frames(trace),
        },
        steps=tuple(trace.steps.label) if trace.steps.recorded else (),
    )


def frame(
    name: str, title: str, data: pa.Table, key: tuple[str, ...], name_column: str, hidden: tuple[str, ...] = ()
) -> Frame:
    """Returns a table whose columns are all metrics."""
    return Frame(name, title, METRICS.columns(*data.column_names, hidden=hidden), data, key, name_column)


def table(schema: Schema, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Returns a table of rows that all have the keys of ``schema``."""
    return pa.table({key: pa.array([row[key] for row in rows], kind) for key, kind in schema.items()})


def calls_table(calls: Sequence[Call]) -> pa.Table:
    """Returns calls by number; what is not known is null."""
    return table(CALL, [_call_row(i, call) for i, call in enumerate(calls)])


def with_blocked(trace: TraceTable, calls: pa.Table) -> pa.Table:
    """Returns the calls with the time in which each alone keeps its worker from computing."""
    start = calls["start_ns"].to_numpy()
    end = start + calls["dur_ns"].to_numpy()
    groups = group(
        *(calls[key].combine_chunks().dictionary_encode().indices.to_numpy() for key in ("group", "group_ranks"))
    )
    return calls.append_column("blocked_ns", pa.array(blocked_ns(computing(trace), start, end, groups.of)))


def _call_row(number: int, call: Call) -> dict[str, object]:
    row: dict[str, object] = {**asdict(call), "call": number}
    for key in ("elements", "group_size", "sequence", "source_rank", "destination_rank"):
        row[key] = None if row[key] == -1 else row[key]
    return row | {"comm_bytes": call.bytes, "group_ranks": call.ranks}


def _step_rows(trace: TraceTable) -> list[dict[str, object]]:
    """Compute and communication of each step, where they overlap, and the communication that the Overview shows."""
    if only_communicates(trace):
        return _stated_rows(trace)
    compute, alone = computing(trace), exposed(trace)
    start, end = trace.steps.start_ns, trace.steps.end_ns
    both = intersect(compute, communicating(trace))
    sets = (measure_within(ranges, start, end) for ranges in (compute, both, alone))
    numbers = zip(*(x.tolist() for x in (end - start, *sets)), strict=True)
    return [
        {
            "step": label,
            "step_total_ns": length,
            "compute_ns": busy,
            "compute_alone_ns": busy - overlap,
            "overlap_ns": overlap,
            "exposed_communication_ns": talking,
            "step_other_ns": length - busy - talking,
        }
        for label, (length, busy, overlap, talking) in zip(trace.steps.label, numbers, strict=True)
    ]


def _stated_rows(trace: TraceTable) -> list[dict[str, object]]:
    """The same as the profile states it, where it has rows of nothing but communication; null where it does not."""
    stated, rows = stated_step_times(trace), []
    for label in trace.steps.label:
        row: dict[str, object] = dict.fromkeys(STEP)
        row["step"] = label
        if (times := stated.get(label)) is not None:
            computing, overlap, exposed_ns, free = times.values()
            row |= {
                "step_total_ns": computing + exposed_ns + free,
                "compute_ns": computing,
                "compute_alone_ns": computing - overlap,
                "overlap_ns": overlap,
                "exposed_communication_ns": exposed_ns,
                "step_other_ns": free,
            }
        rows.append(row)
    return rows


def _group_rows(trace: TraceTable) -> list[dict[str, object]]:
    """Process groups that the file lists, then those that only calls name."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    names = set()
    for group in groups_of(trace.metadata):
        name, ranks, size = str(group.get("pg_name", "")), str(group.get("ranks", "")), group.get("pg_size")
        names.add(name)
        rows[name, ranks] = {
            "group": name,
            "group_description": str(group.get("pg_desc", "")),
            "backend": str(group.get("backend_config", "")),
            "group_size": size if isinstance(size, int) else None,
            "group_ranks": ranks,
        }
    args = trace.collectives
    columns_of = (args.group_name, args.group_description, args.group_ranks, args.group_size)
    for *texts, size in sorted(set(zip(*(x.tolist() for x in columns_of), strict=True))):
        name, description, ranks = (trace.strings[text] if text >= 0 else "" for text in texts)
        if name and name not in names:
            rows.setdefault(
                (name, ranks),
                {
                    "group": name,
                    "group_description": description,
                    "backend": "",
                    "group_size": size if size >= 0 else None,
                    "group_ranks": ranks,
                },
            )
    return list(rows.values())


def _device_rows(trace: TraceTable) -> list[dict[str, object]]:
    """Devices that worked, or the host alone; with the node and the rank that the file states."""
    if not len(trace):
        return []
    info = trace.metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    where: dict[str, object] = {
        "node": str(trace.metadata.get("host_name", "")),
        "process": "" if rank is None else f"rank {rank}",
    }
    used = set(trace.device[of_kind(trace.kind, *DEVICE_WORK)].tolist())
    found = [device for i, device in enumerate(trace.devices) if i in used]
    if not found:
        nothing: dict[str, object] = {"device": "CPU", "device_name": None, "memory_bytes": None, "capability": None}
        return [where | nothing]
    return [
        where | {"device": d.id, "device_name": d.name, "memory_bytes": d.memory_bytes, "capability": d.capability}
        for d in found
    ]
