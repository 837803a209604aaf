"""Reported communication of all ranks: times, calls and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.job_tables.metrics import CALL_COLUMNS, STEP_COLUMNS
from tb_plugin.analysis.job_tables.slow_ranks import findings
from tb_plugin.analysis.job_tables.stages import stages_of
from tb_plugin.analysis.job_tables.steps import rank_means, stage_means, step_bars
from tb_plugin.analysis.job_tables.traffic import bytes_per_second
from tb_plugin.analysis.metrics import CHOSEN
from tb_plugin.model.trace.job_tables import GROUPS, LINKS, OPERATIONS, SCHEMAS, STEP_TIMES, job_table
from tb_plugin.payloads import Column, Line, Notice, Series
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.natural_order import in_order
from tb_plugin.views.distributed.rank.reported import BETWEEN, CALLS, MEMBERS, MOVED, STEPS, ReportedJob, sum_by_key
from tb_plugin.views.distributed.reported_links import link_maps, link_rows, link_totals

_PARTS = (
    ("transit_ns", "transfer"), ("synchronization_ns", "wait"), ("wait_rest_ns", "sync"), ("call_idle_ns", "idle"),
)  # fmt: skip
# explains why reported and measured times of the same calls differ
_WHY_TIMES_DIFFER = (
    ". Reported transit covers only data movement; the rest of a call is idle. Measured data transfer covers the whole call "
    "after its last rank arrived"
)

Row = dict[str, Any]


def job_frames(job: ReportedJob) -> dict[str, Frame]:
    """Returns the tables that have rows: steps, kinds of calls, kinds of links, and links."""
    if not job:
        return {}
    every = (
        _frame("rank_steps", "Steps, as reported", step_rows(job), ("worker", "step", "device"), "worker"),
        _frame("operation_types", "Kinds of calls", _type_rows(job), ("worker", "collective"), "collective"),
        _frame(
            "kinds_of_links", "Kinds of links", _band_rows(job), ("worker", "link_kind", "link_part_of"), "link_kind"
        ),
        _frame("links", "Links", link_rows(job), ("link_from", "link_to", "link_kind", "link_group"), "link_kind"),
    )
    return {frame.name: frame for frame in every if frame is not None}


def job_series(job: ReportedJob, *, measured: bool) -> list[Series]:
    """Returns charts of step times and call times, and maps of links.

    If ``measured``, the page also has measured wait and transfer times. Then a note explains the difference.
    """
    if not job:
        return []
    return [*_step_times(job), *_call_times(job, _WHY_TIMES_DIFFER if measured else ""), *link_maps(job)]


def job_notices(job: ReportedJob) -> list[Notice]:
    """Returns notices about missing data."""
    notices = []
    if job.without_computation:
        text = (
            f"Only communication is recorded for {', '.join(job.without_computation)}. Compute, overlap and step times come "
            "from the vendor tables."
        )
        notices.append(Notice("communication_alone", "info", text, "Keep all files of the profile.", []))
    if job.cut:
        text = (
            f"Kernels of {', '.join(job.cut)} are missing: the vendor tables report more computation than the kernels. The "
            "communication overlap of these ranks comes from the vendor tables."
        )
        todo = "Check for missing or truncated files of the profile."
        notices.append(Notice("kernels_missing", "medium", text, todo, []))
    if job.lacking:
        text = f"No communication is reported for {', '.join(job.lacking)}: tables and maps of calls and links skip it."
        notices.append(Notice("communication_unstated", "info", text, "Record all ranks with the same options.", []))
    return notices


def job_findings(job: ReportedJob) -> list[Notice]:
    """Returns findings about outliers among reported step times and links.

    The rules are those of the Cluster view.
    """
    if not job:
        return []
    times = _in_schema(STEP_TIMES, job.tables[STEPS])
    ranks = rank_means(times)
    tables = {
        STEP_TIMES: times,
        GROUPS: _in_schema(GROUPS, job.tables[MEMBERS]),
        LINKS: _in_schema(LINKS, job.tables[BETWEEN]),
        OPERATIONS: _in_schema(OPERATIONS, job.tables[CALLS]),
    }
    stages = stages_of(tables)
    return findings(ranks, stages, stage_means(times, stages), link_totals(job))


def _in_schema(name: str, table: pa.Table) -> pa.Table:
    return job_table(name, {key: table[key].combine_chunks() for key in SCHEMAS[name] if key in table.column_names})


def step_rows(job: ReportedJob) -> list[Row]:
    """Returns the reported times: one row per worker, step and device."""
    rows: dict[tuple[str, str | None], Row] = {}
    more: list[Row] = []
    for row in job.tables[STEPS].to_pylist():
        times = {shown: row[key] for key, shown in STEP_COLUMNS.items()}
        device = None if row["device"] is None else str(row["device"])
        added = {"worker": row["worker"], "step": row["step"], "device": device, **times}
        # Reported calls have no device, so they are shown with the worker's first device.
        if rows.setdefault((row["worker"], row["step"]), added) is not added:
            more.append(added)
    for row in sum_by_key(job.tables[CALLS], ("worker", "step"), (*CALL_COLUMNS, "calls", "bytes")).to_pylist():
        key = row["worker"], row["step"]
        rows.setdefault(key, {"worker": key[0], "step": key[1], "device": None}).update(_call_times_of(row))
    order = {name: place for place, name in enumerate(job.names)}
    return sorted(
        [*rows.values(), *more],
        key=lambda row: (order[row["worker"]], in_order(row["step"]), in_order(row["device"])),
    )


def _type_rows(job: ReportedJob) -> list[Row]:
    found = sum_by_key(job.tables[CALLS], ("worker", "operation"), (*CALL_COLUMNS, "calls", "bytes"))
    return [
        {
            "worker": row["worker"],
            "collective": row["operation"],
            **_call_times_of(row),
            "mean_link_bytes": _mean(row["bytes"], row["calls"]),
            "mean_elapse_ns": _mean(row["elapse_ns"], row["calls"]),
            "mean_transit_ns": _mean(row["transit_ns"], row["calls"]),
        }
        for row in found.to_pylist()
    ]


def _band_rows(job: ReportedJob) -> list[Row]:
    sums = ("bytes", "transit_ns", "packets", "large")
    found = sum_by_key(job.tables[MOVED], ("worker", "band", "part_of"), sums).to_pylist()
    inside: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        inside[row["worker"], row["part_of"]].append(row)
    rows = []
    for row in found:
        # Packets are only reported for the parts of a link kind.
        counted = [row] if row["packets"] else inside[row["worker"], row["band"]]
        packets, large = (sum(each[key] or 0 for each in counted) for key in ("packets", "large"))
        rows.append(
            {
                "worker": row["worker"],
                "link_kind": row["band"],
                "link_part_of": row["part_of"],
                "link_bytes": row["bytes"],
                "link_ns": row["transit_ns"],
                "link_bandwidth": bytes_per_second(row["bytes"], row["transit_ns"]),
                "packets": packets or None,
                "large_share": large / packets if packets else None,
            }
        )
    order = {name: place for place, name in enumerate(job.names)}
    return sorted(rows, key=lambda row: (order[row["worker"]], row["link_part_of"] or row["link_kind"] or "",
                                         row["link_part_of"] is not None, row["link_kind"] or ""))  # fmt: skip


def _step_times(job: ReportedJob) -> list[Series]:
    """Chart of the mean step, split into its parts: one bar per worker."""
    table = job.tables[STEPS]
    place = pc.index_in(table["worker"], pa.array(job.names)).cast(pa.int64())
    columns = {key: table[key].combine_chunks() for key in table.column_names if key != "worker"}
    numbered = job_table(STEP_TIMES, {**columns, "rank": place.combine_chunks()})
    means = rank_means(numbered)
    if not means:
        return []
    series = step_bars("step_times", "Step time, as reported", "mean step", "worker", means)
    names = [job.names[each.ranks[0]] for each in means]
    return [msgspec.structs.replace(series, x=[*names])]


def _call_times(job: ReportedJob, note: str) -> list[Series]:
    """Chart of communication calls per step, split into their parts: one bar per worker."""
    found = sum_by_key(job.tables[CALLS], ("worker",), (*CALL_COLUMNS, "calls", "bytes")).to_pylist()
    by_worker = {row["worker"]: _call_times_of(row) for row in found}
    names = [name for name in job.names if name in by_worker]
    if not names:
        return []
    counted = job.tables[CALLS].group_by("worker", use_threads=False).aggregate([("step", "count_distinct")])
    steps = dict(zip(counted["worker"].to_pylist(), counted["step_count_distinct"].to_pylist(), strict=True))
    lines = []
    for key, category in _PARTS:
        values = [by_worker[name].get(key) for name in names]
        lines.append(
            Line(
                METRICS.metric(key, window="mean of the selected steps"),
                category,
                [None if v is None else max(v, 0) / max(steps[name], 1) for v, name in zip(values, names, strict=True)],
            )
        )
    x = METRICS.metric("worker")
    return [
        Series(
            "call_times",
            "Communication, as reported",
            f"mean step, sum over calls{note}",
            x,
            [*names],
            lines,
            "stacked_bars",
        )
    ]


def _call_times_of(row: Row) -> Row:
    """Times of calls as columns of the page. Wait is split into synchronization and other wait."""
    times = {shown: row[key] for key, shown in CALL_COLUMNS.items()}
    wait, before = row["wait_ns"], row["synchronization_ns"]
    times["wait_rest_ns"] = None if wait is None or before is None else wait - before
    return {**times, "job_calls": row["calls"], "link_bytes": row["bytes"]}


_COLUMNS = {
    "rank_steps": (
        "worker", "step", "device", "computing_ns", "overlapped_ns", "job_communication_ns", "exposed_ns", "device_free_ns",
        "preparing_ns", "bubble_ns", "stage_ns", "job_calls", "elapse_ns", "transit_ns", "synchronization_ns",
        "wait_rest_ns", "call_idle_ns", "link_bytes",
    ),
    "operation_types": (
        "worker", "collective", "job_calls", "link_bytes", "mean_link_bytes", "elapse_ns", "mean_elapse_ns", "transit_ns",
        "mean_transit_ns", "synchronization_ns", "wait_rest_ns", "call_idle_ns",
    ),
    "kinds_of_links": (
        "worker", "link_kind", "link_part_of", "link_bytes", "link_ns", "link_bandwidth", "packets", "large_share",
    ),
    "links": ("link_from", "link_to", "link_kind", "link_group", "link_bytes", "link_ns", "link_bandwidth"),
}  # fmt: skip


def _frame(name: str, title: str, rows: Sequence[Row], keys: tuple[str, ...], named: str) -> Frame | None:
    if not rows:
        return None
    data = {
        key: pa.array([_bounded(row.get(key)) for row in rows], _TYPES[METRICS[key].unit]) for key in _COLUMNS[name]
    }
    empty = {key for key, column in data.items() if column.null_count == len(column)}
    columns = [Column(METRICS.metric(key, window=CHOSEN), hidden=key in empty) for key in data]
    return Frame(name, title, columns, pa.table(data), keys, named)


_LARGEST = 2**63 - 1
_TYPES = {
    "ns": pa.int64(), "bytes": pa.int64(), "count": pa.int64(), "bytes_per_second": pa.int64(), "ratio": pa.float64(),
    "text": pa.string(), "code": pa.string(),
}  # fmt: skip


def _bounded(value: object) -> object:
    return min(max(value, -_LARGEST), _LARGEST) if isinstance(value, int) else value


def _mean(value: int | None, count: int | None) -> int | None:
    return value // count if value is not None and count else None
