"""Sums of the communication that the profiler of a rank reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.job_tables.links import counted_links
from tb_plugin.analysis.job_tables.metrics import CALL_COLUMNS
from tb_plugin.analysis.job_tables.stages import ranks_in
from tb_plugin.analysis.job_tables.tables import sum_by_key, with_count
from tb_plugin.analysis.reported_steps import missing_computation
from tb_plugin.model.trace.job_tables import (
    BANDS,
    GROUPS,
    LINKS,
    OPERATIONS,
    PACKETS,
    SCHEMAS,
    STEP_TIMES,
    job_table,
    reported_table,
)
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.rank.collective_metadata import rank_of

# tables of a part: rank, step times, sums by call, by kind of link and by link, and groups
RANK, STEPS, CALLS, MOVED, BETWEEN, MEMBERS = (
    "stated_rank", "stated_steps", "stated_calls", "stated_bands", "stated_links", "stated_groups",
)  # fmt: skip
REPORTED = (RANK, STEPS, CALLS, MOVED, BETWEEN, MEMBERS)
ROW = "sum_row"
# columns of each table, without ROW
SHAPES: Mapping[str, Mapping[str, pa.DataType]] = {
    RANK: {"rank": pa.int64(), "alone": pa.bool_(), "kernels_missing": pa.bool_(), "ranks_at_least": pa.int64()},
    STEPS: SCHEMAS[STEP_TIMES],
    CALLS: {
        "step": pa.string(), "kind": pa.string(), "operation": pa.string(), "group": pa.string(),
        "elapse_ns": pa.int64(), "transit_ns": pa.int64(), "wait_ns": pa.int64(), "synchronization_ns": pa.int64(),
        "idle_ns": pa.int64(), "calls": pa.int64(), "bytes": pa.int64(),
    },
    MOVED: {
        "step": pa.string(), "kind": pa.string(), "group": pa.string(), "band": pa.string(), "part_of": pa.string(),
        "bytes": pa.int64(), "transit_ns": pa.int64(), "packets": pa.int64(), "large": pa.float64(),
    },
    BETWEEN: {
        "step": pa.string(), "kind": pa.string(), "group": pa.string(), "source": pa.int64(), "destination": pa.int64(),
        "in_group": pa.bool_(), "transport": pa.string(), "bytes": pa.int64(), "transit_ns": pa.int64(),
    },
    MEMBERS: SCHEMAS[GROUPS],
}  # fmt: skip
_CALL = ("step", "kind", "operation", "group")


def reported_frames(trace: TraceTable) -> dict[str, Frame]:
    """Returns the reported tables of a rank. Without reported communication and step times, the result is empty."""
    names = (STEP_TIMES, OPERATIONS, BANDS, PACKETS, LINKS, GROUPS)
    found = [reported_table(trace.reported_tables, name) for name in names]
    if all(table is None for table in found):
        return {}
    times, calls, bands, packets, links, groups = (
        job_table(name, {}) if table is None else table for name, table in zip(names, found, strict=True)
    )
    only_communication = lacks_computation(trace)
    rank = {
        "rank": pa.array([rank_of(trace.metadata)], pa.int64()),
        "alone": pa.array([only_communication]),
        "kernels_missing": pa.array([not only_communication and missing_computation(trace) is not None]),
        "ranks_at_least": pa.array([_least(links, groups)], pa.int64()),
    }
    keys = ("step", "kind", "group", "source", "destination", "in_group", "transport")
    tables = {
        RANK: pa.table(rank),
        STEPS: times,
        CALLS: _calls(calls, bands),
        MOVED: _moved(bands, packets),
        BETWEEN: sum_by_key(counted_links(links), keys, ("bytes", "transit_ns")),
        MEMBERS: groups,
    }
    return {name: number_rows(name, table) for name, table in tables.items()}


def lacks_computation(trace: TraceTable) -> bool:
    """Returns whether every event in the profile is a communication kernel."""
    return len(trace) > 0 and bool((trace.is_collective & (trace.kind == EventKind.KERNEL)).all())


def reported_step_times(trace: TraceTable) -> dict[str | None, dict[str, int]]:
    table = reported_table(trace.reported_tables, STEP_TIMES)
    keys = ("computing_ns", "overlapped_ns", "exposed_ns", "free_ns")
    return {
        row["step"]: {key: row[key] for key in keys}
        for row in (table.to_pylist() if table is not None else ())
        if all(row[key] is not None for key in keys)
    }


class ReportedJob(msgspec.Struct, frozen=True, eq=False):
    """Reported tables of all workers for the selected steps. The first column of each table is ``worker``."""

    names: tuple[str, ...]
    lacking: tuple[str, ...]
    """Workers that report no communication, if some other worker does."""
    without_computation: tuple[str, ...]
    """Workers whose profile contains only communication."""
    cut: tuple[str, ...]
    """Workers with missing kernels. The overlap of their communication is unknown."""
    ranks: Mapping[str, int]
    ranks_at_least: int
    tables: Mapping[str, pa.Table]

    @property
    def transit_ns_by_worker(self) -> Mapping[str, int]:
        """Returns the reported transit time of each worker that reports one, ns."""
        if not self:
            return {}
        sums = sum_by_key(self.tables[CALLS], ("worker",), ("transit_ns",)).to_pylist()
        return {row["worker"]: row["transit_ns"] or 0 for row in sums}

    def __bool__(self) -> bool:
        return bool(self.tables)


def reported_tables(parts: Sequence[Part], names: Sequence[str]) -> dict[str, pa.Table]:
    """Concatenates the reported tables of all workers, and adds a first column ``worker``.

    If no worker reports communication or step times, the result is empty.
    """
    having = [(name, part) for name, part in zip(names, parts, strict=True) if RANK in part.frames]
    tables = {key: [(name, part.frames[key].data) for name, part in having] for key in REPORTED if having}
    return {
        key: pa.concat_tables(
            [table.add_column(0, "worker", pa.array([name] * table.num_rows, pa.string())) for name, table in every]
        )
        for key, every in tables.items()
    }


def ranks_at_least(tables: Mapping[str, pa.Table]) -> int:
    """Returns a lower bound of the world size from the reported groups, or 0 without reported groups."""
    return max(tables[RANK]["ranks_at_least"].to_pylist(), default=0) if tables else 0


def reported_job(tables: Mapping[str, pa.Table], names: Sequence[str], chosen: tuple[str, ...] | None) -> ReportedJob:
    """Selects the steps ``chosen`` (None = all) from the result of ``reported_tables``."""
    by_worker = {row["worker"]: row for row in tables[RANK].to_pylist()} if tables else {}
    reporting = set(tables[CALLS]["worker"].to_pylist()) if tables else set()
    selected = {key: table for key, table in tables.items() if key != RANK}
    if chosen is not None:
        steps = pa.array(chosen, pa.string())
        for key, table in selected.items():
            if "step" in table.column_names:
                selected[key] = table.filter(pc.is_in(table["step"], steps))
    return ReportedJob(
        names=tuple(names),
        lacking=tuple(name for name in names if name not in reporting) if reporting else (),
        without_computation=tuple(name for name, row in by_worker.items() if row["alone"]),
        cut=tuple(name for name, row in by_worker.items() if row["kernels_missing"]),
        ranks={name: row["rank"] for name, row in by_worker.items() if row["rank"] is not None},
        ranks_at_least=ranks_at_least(tables),
        tables=selected,
    )


def number_rows(name: str, table: pa.Table) -> Frame:
    """Converts a table to an internal frame whose key is the row number."""
    data = table.append_column(ROW, pa.array(np.arange(table.num_rows)))
    return Frame(name, name.replace("_", " ").capitalize(), METRICS.columns(ROW), data, (ROW,), ROW)


def _least(links: pa.Table, groups: pa.Table) -> int:
    """Returns the size of the largest group, by its list of ranks or by the ends of its links."""
    sizes = [len(ranks_in(ranks)) for ranks in groups["ranks"].drop_null().to_pylist()]
    ends = [links.select(["group", key]).rename_columns(["group", "end"]) for key in ("source", "destination")]
    counts = pa.concat_tables(ends).group_by("group", use_threads=False).aggregate([("end", "count_distinct")])
    found: int = max([1, *sizes, *counts["end_count_distinct"].to_pylist()])
    return found


def _calls(operations: pa.Table, bands: pa.Table) -> pa.Table:
    """Sums calls by step, kind, operation and group. Bytes are summed over links."""
    moved = bands.filter(pc.is_null(bands["part_of"])).select([*_CALL, "bytes"])
    every = pa.concat_tables(
        [with_count(operations).select([*_CALL, *CALL_COLUMNS, "calls"]), moved], promote_options="default"
    )
    encoded = every["operation"].combine_chunks().dictionary_encode()
    names = pa.array([collective_name(name) for name in encoded.dictionary.to_pylist()], pa.string())
    every = every.set_column(_CALL.index("operation"), "operation", names.take(encoded.indices))
    sums = sum_by_key(every, _CALL, (*CALL_COLUMNS, "calls", "bytes"))
    # Calls without link data moved no bytes over links.
    size = pc.fill_null(sums["bytes"], 0) if bands.num_rows else sums["bytes"]
    return sums.set_column(sums.column_names.index("bytes"), "bytes", size)


def _moved(bands: pa.Table, packets: pa.Table) -> pa.Table:
    """Sums by step, kind of call, group and kind of link, with the number of packets and of large packets."""
    keys = (*_CALL, "band")
    counts = sum_by_key(packets, keys, ("count",))
    count_of = {tuple(row[key] for key in keys): row["count"] for row in counts.to_pylist()}
    rows = zip(*(bands[key].to_pylist() for key in (*keys, "large_ratio")), strict=True)
    known = [None if ratio is None else count_of.get(tuple(key)) for *key, ratio in rows]
    bands = bands.append_column("packets", pa.array(known, pa.int64()))
    bands = bands.append_column("large", pc.multiply(bands["packets"].cast(pa.float64()), bands["large_ratio"]))
    return sum_by_key(bands, ("step", "kind", "group", "band", "part_of"), ("bytes", "transit_ns", "packets", "large"))
