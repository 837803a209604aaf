"""Sums of the communication that the profiler of a rank reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.job_tables.metrics import CALL_COLUMNS
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
_CALL = ["step", "kind", "operation", "group"]
TOTAL = "total"


def reported_frames(trace: TraceTable) -> dict[str, Frame]:
    """Returns the reported tables. Without reported communication and step times, the result is empty."""
    found = {
        name: reported_table(trace.reported_tables, name)
        for name in (STEP_TIMES, OPERATIONS, BANDS, PACKETS, LINKS, GROUPS)
    }
    if all(table is None for table in found.values()):
        return {}
    tables = {name: job_table(name, {}) if table is None else table for name, table in found.items()}
    alone = lacks_computation(trace)
    cut = not alone and missing_computation(trace) is not None
    return {
        name: number_rows(name, table) for name, table in _tables(tables, rank_of(trace.metadata), alone, cut).items()
    }


def _tables(tables: Mapping[str, pa.Table], rank: int | None, alone: bool, cut: bool) -> dict[str, pa.Table]:
    """Returns the reported tables of a rank.

    ``alone`` means that the profile contains only communication. ``cut`` means that kernels are missing.
    """
    links = tables[LINKS]
    who = pa.table(
        {
            "rank": pa.array([rank], pa.int64()),
            "alone": pa.array([alone]),
            "kernels_missing": pa.array([cut]),
            "ranks_at_least": pa.array([_least(links, tables[GROUPS])], pa.int64()),
        }
    )
    return {
        RANK: who,
        STEPS: tables[STEP_TIMES],
        CALLS: _calls(tables[OPERATIONS], tables[BANDS]),
        MOVED: _moved(tables[BANDS], tables[PACKETS]),
        BETWEEN: _between(links),
        MEMBERS: tables[GROUPS],
    }


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


def sum_by_key(table: pa.Table, keys: Sequence[str], sums: Sequence[str]) -> pa.Table:
    """Sums columns by key. Columns are not renamed. A sum is null if all summed values are null."""
    found = table.group_by(list(keys), use_threads=False).aggregate([(key, "sum") for key in sums])
    return found.rename_columns({f"{key}_sum": key for key in sums})


class ReportedJob(msgspec.Struct, frozen=True, eq=False, dict=True):
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

    @cached_property
    def moving_ns(self) -> Mapping[str, int]:
        """Returns an upper bound of the transit time of each worker, ns. Times of parallel links are added up."""
        if not self:
            return {}
        bands, calls = self.tables[MOVED], self.tables[CALLS]
        found: dict[str, int] = {}
        for table in (bands.filter(pc.is_null(bands["part_of"])), calls):
            for row in sum_by_key(table, ("worker",), ("transit_ns",)).to_pylist():
                found[row["worker"]] = max(found.get(row["worker"], 0), row["transit_ns"] or 0)
        return found

    def __bool__(self) -> bool:
        return bool(self.tables)


def reported_tables(parts: Sequence[Part], names: Sequence[str]) -> dict[str, pa.Table]:
    """Concatenates the reported tables of all workers, and adds a first column ``worker``.

    If no worker reports communication or step times, the result is empty.
    """
    having = [(name, part) for name, part in zip(names, parts, strict=True) if RANK in part.frames]
    if not having:
        return {}
    return {key: pa.concat_tables([_of(name, part.frames[key].data) for name, part in having]) for key in REPORTED}


def ranks_at_least(tables: Mapping[str, pa.Table]) -> int:
    """Returns a lower bound of the world size from the reported groups, or 0 without reported groups."""
    return max(tables[RANK]["ranks_at_least"].to_pylist(), default=0) if tables else 0


def reported_job(tables: Mapping[str, pa.Table], names: Sequence[str], chosen: tuple[str, ...] | None) -> ReportedJob:
    """Selects the steps ``chosen`` from the result of ``reported_tables``.

    If ``chosen`` is None, all steps are selected.
    """
    by_worker = {row["worker"]: row for row in tables[RANK].to_pylist()} if tables else {}
    reporting = set(tables[CALLS]["worker"].to_pylist()) if tables else set()
    steps = None if chosen is None else pa.array(chosen, pa.string())
    return ReportedJob(
        names=tuple(names),
        lacking=tuple(name for name in names if name not in reporting) if reporting else (),
        without_computation=tuple(name for name, row in by_worker.items() if row["alone"]),
        cut=tuple(name for name, row in by_worker.items() if row["kernels_missing"]),
        ranks={name: row["rank"] for name, row in by_worker.items() if row["rank"] is not None},
        ranks_at_least=ranks_at_least(tables),
        tables={
            key: table.filter(pc.is_in(table["step"], steps))
            if steps is not None and "step" in table.column_names
            else table
            for key, table in tables.items()
            if key != RANK
        },
    )


def number_rows(name: str, table: pa.Table) -> Frame:
    """Converts a table to an internal frame whose key is the row number."""
    data = table.append_column(ROW, pa.array(np.arange(table.num_rows)))
    return Frame(name, name.replace("_", " ").capitalize(), METRICS.columns(ROW), data, (ROW,), ROW)


def _least(links: pa.Table, groups: pa.Table) -> int:
    sizes = [len(ranks.split(",")) for ranks in groups["ranks"].drop_null().to_pylist()]
    ends = pa.table(
        {
            "group": pa.concat_arrays([*links["group"].chunks, *links["group"].chunks] or [pa.array([], pa.string())]),
            "end": pa.concat_arrays(
                [*links["source"].chunks, *links["destination"].chunks] or [pa.array([], pa.int64())]
            ),
        }
    )
    counts = ends.group_by("group", use_threads=False).aggregate([("end", "count_distinct")])
    found: int = max([1, *sizes, *counts["end_count_distinct"].to_pylist()])
    return found


def _calls(operations: pa.Table, bands: pa.Table) -> pa.Table:
    """Sums calls by step, kind, operation and group. Bytes are summed over links."""
    counted = operations.append_column("calls", pa.array(np.ones(operations.num_rows, np.int64)))
    sums = sum_by_key(_spelled(counted), _CALL, (*CALL_COLUMNS, "calls"))
    whole = sum_by_key(_spelled(bands.filter(pc.is_null(bands["part_of"]))), _CALL, ("bytes",))
    bytes_of = dict(
        zip(zip(*(whole[key].to_pylist() for key in _CALL), strict=True), whole["bytes"].to_pylist(), strict=True)
    )
    keys = zip(*(sums[key].to_pylist() for key in _CALL), strict=True)
    # Calls without link data moved no bytes over links.
    moved = [bytes_of.get(key, 0 if bands.num_rows else None) for key in keys]
    return sums.append_column("bytes", pa.array(moved, pa.int64()))


def _spelled(table: pa.Table) -> pa.Table:
    encoded = table["operation"].combine_chunks().dictionary_encode()
    names = pa.array([collective_name(name) for name in encoded.dictionary.to_pylist()], pa.string())
    return table.set_column(table.column_names.index("operation"), "operation", names.take(encoded.indices))


def _moved(bands: pa.Table, packets: pa.Table) -> pa.Table:
    """Sums by step, kind of call, group and kind of link, with the number of packets and the number of large
    packets.
    """
    keys = [*_CALL, "band"]
    counts = sum_by_key(packets, keys, ("count",))
    count_of = dict(
        zip(zip(*(counts[key].to_pylist() for key in keys), strict=True), counts["count"].to_pylist(), strict=True)
    )
    count = [count_of.get(key) for key in zip(*(bands[key].to_pylist() for key in keys), strict=True)]
    ratios = bands["large_ratio"].to_pylist()
    large = [None if n is None or ratio is None else n * ratio for n, ratio in zip(count, ratios, strict=True)]
    known = [None if ratio is None else n for n, ratio in zip(count, ratios, strict=True)]
    columns = bands.append_column("packets", pa.array(known, pa.int64())).append_column(
        "large", pa.array(large, pa.float64())
    )
    return sum_by_key(
        columns, ("step", "kind", "group", "band", "part_of"), ("bytes", "transit_ns", "packets", "large")
    )


def _between(links: pa.Table) -> pa.Table:
    """Sums by link, step and group.

    If the profiler reports totals, only totals are used, so that no call counts twice.
    """
    place = links["place"]
    chosen = links.filter(pc.or_(pc.is_null(place), pc.fill_null(pc.equal(place, TOTAL), False)))
    keys = ("step", "kind", "group", "source", "destination", "in_group", "transport")
    return sum_by_key(chosen, keys, ("bytes", "transit_ns"))


def _of(name: str, table: pa.Table) -> pa.Table:
    return table.add_column(0, "worker", pa.array([name] * table.num_rows, pa.string()))
