"""Reported communication of all ranks: times, calls and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.job_tables.findings import findings
from tb_plugin.analysis.job_tables.links import Link, bytes_per_second, link_maps
from tb_plugin.analysis.job_tables.metrics import CALL_COLUMNS, STEP_COLUMNS
from tb_plugin.analysis.job_tables.stages import stages_of
from tb_plugin.analysis.job_tables.steps import call_bars, rank_means, step_bars
from tb_plugin.analysis.job_tables.tables import Columns, job_frame, sum_by_key
from tb_plugin.analysis.metrics import CHOSEN
from tb_plugin.model.trace.job_tables import GROUPS, LINKS, OPERATIONS, SCHEMAS, STEP_TIMES, job_table
from tb_plugin.payloads import Notice, Series
from tb_plugin.views.distributed.matching.groups import ranks_in
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.natural_order import in_order, is_number
from tb_plugin.views.distributed.rank.reported import BETWEEN, CALLS, MEMBERS, MOVED, STEPS, ReportedJob

# explains why reported and measured times of the same calls differ
_WHY_TIMES_DIFFER = "; transit is data movement only"
_CALL_SUMS = (*CALL_COLUMNS, "calls", "bytes")

Row = dict[str, Any]


class GroupLink(msgspec.Struct, frozen=True):
    """A link and the title of its group."""

    link: Link
    group: str


def job_frames(job: ReportedJob) -> dict[str, Frame]:
    """Returns the non-empty tables: steps, kinds of calls, kinds of links, and links."""
    if not job:
        return {}
    every = (
        _frame("rank_steps", "Steps, as reported", _steps(job), ("worker", "step", "device"), "worker"),
        _frame("operation_types", "Kinds of calls", _types(job), ("worker", "collective"), "collective"),
        _frame("kinds_of_links", "Kinds of links", _bands(job), ("worker", "link_kind", "link_part_of"), "link_kind"),
        _frame("links", "Links", _links(job), ("link_from", "link_to", "link_kind", "link_group"), "link_kind"),
    )
    return {frame.name: frame for frame in every if frame.data.num_rows}


def _frame(name: str, title: str, data: Columns, keys: tuple[str, ...], named: str) -> Frame:
    return job_frame(METRICS, name, title, data, keys, named, CHOSEN)


def job_series(job: ReportedJob, *, measured: bool) -> list[Series]:
    """Returns charts of step times and call times, and maps of links.

    If ``measured``, the page also shows measured wait and transfer times, so a note explains the difference from
    reported times.
    """
    if not job:
        return []
    worker, found = METRICS.metric("worker"), []
    table = job.tables[STEPS]
    place = pc.index_in(table["worker"], pa.array(job.names)).cast(pa.int64())
    times = _in_schema(STEP_TIMES, table.set_column(table.column_names.index("rank"), "rank", place))
    if means := [(job.names[each.ranks[0]], each) for each in rank_means(times)]:
        found.append(step_bars("step_times", "Step time, as reported", "mean step", worker, means))
    text = f"mean step, sum over calls{_WHY_TIMES_DIFFER if measured else ''}"
    window = "mean of the selected steps"
    title = "Communication, as reported"
    if (calls := call_bars("call_times", title, text, worker, job.tables[CALLS], "worker", window)) is not None:
        found.append(calls)
    links = [each.link for each in job_links(job)]
    return [*found, *link_maps(links, in_order, METRICS.metric("link_to", "To"), CHOSEN)]


def job_notices(job: ReportedJob) -> list[Notice]:
    """Returns notices about missing communication data."""
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
        text = f"No communication is reported for {', '.join(job.lacking)}. "
        text += "Tables and maps of calls and links skip these workers."
        notices.append(Notice("communication_unstated", "info", text, "Record all ranks with the same options.", []))
    return notices


def job_findings(job: ReportedJob) -> list[Notice]:
    """Returns findings about outliers among reported step times and links, by the rules of the Cluster view."""
    if not job:
        return []
    sources = {STEP_TIMES: STEPS, GROUPS: MEMBERS, LINKS: BETWEEN, OPERATIONS: CALLS}
    tables = {name: _in_schema(name, job.tables[key]) for name, key in sources.items()}
    stages = stages_of(tables)
    totals: dict[tuple[str, str, str | None], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for each in job_links(job):
        link = each.link
        if is_number(link.source) and is_number(link.destination):
            size, time = totals[link.source, link.destination, link.transport]
            totals[link.source, link.destination, link.transport] = size + link.moved_bytes, time + link.link_ns
    links = [Link(*key, *sums) for key, sums in totals.items()]
    return findings(tables[STEP_TIMES], stages, links)


def _in_schema(name: str, table: pa.Table) -> pa.Table:
    return job_table(name, {key: table[key].combine_chunks() for key in SCHEMAS[name] if key in table.column_names})


def _call_columns(sums: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Returns the times of calls as page columns. Wait is split into synchronization and other wait."""
    columns = {shown: sums[key] for key, shown in CALL_COLUMNS.items() if shown not in ("call_wait_ns", "call_idle_ns")}
    rest = pc.subtract(sums["wait_ns"], sums["synchronization_ns"])
    return {**columns, "wait_rest_ns": rest, "call_idle_ns": sums["idle_ns"]}


def _steps(job: ReportedJob) -> Columns:
    """Returns the reported times: one row per worker, step and device.

    Reported calls have no device, so they are shown with the worker's first device.
    """
    sums = sum_by_key(job.tables[CALLS], ("worker", "step"), _CALL_SUMS)
    calls = pa.table(
        {"worker": sums["worker"], "step": sums["step"], "job_calls": sums["calls"], **_call_columns(sums),
         "link_bytes": sums["bytes"]}
    )  # fmt: skip
    of_step = {(row["worker"], row["step"]): row for row in calls.to_pylist()}
    rows: list[Row] = []
    for row in job.tables[STEPS].to_pylist():
        device = None if row["device"] is None else str(row["device"])
        times = {shown: row[key] for key, shown in STEP_COLUMNS.items()}
        rows.append({"worker": row["worker"], "step": row["step"], "device": device, **times})
        rows[-1] |= of_step.pop((row["worker"], row["step"]), {})
    rows += of_step.values()
    order = {name: place for place, name in enumerate(job.names)}
    rows.sort(key=lambda row: (order[row["worker"]], in_order(row["step"]), in_order(row.get("device"))))
    texts = ("worker", "step", "device")
    keys = (*texts, *STEP_COLUMNS.values(), *calls.column_names[2:])
    kinds = {key: pa.string() if key in texts else pa.int64() for key in keys}
    return {key: pa.array([row.get(key) for row in rows], kind) for key, kind in kinds.items()}


def _types(job: ReportedJob) -> Columns:
    sums = sum_by_key(job.tables[CALLS], ("worker", "operation"), _CALL_SUMS)
    count = sums["calls"]

    def mean(key: str) -> pa.Array:
        pairs = zip(sums[key].to_pylist(), count.to_pylist(), strict=True)
        return pa.array([value // calls if value is not None and calls else None for value, calls in pairs], pa.int64())

    elapse, transit, *rest = _call_columns(sums).items()
    return {
        "worker": sums["worker"],
        "collective": sums["operation"],
        "job_calls": count,
        "link_bytes": sums["bytes"],
        "mean_link_bytes": mean("bytes"),
        **dict(
            [elapse, ("mean_elapse_ns", mean("elapse_ns")), transit, ("mean_transit_ns", mean("transit_ns")), *rest]
        ),
    }


def _bands(job: ReportedJob) -> Columns:
    sums = ("bytes", "transit_ns", "packets", "large")
    rows = sum_by_key(job.tables[MOVED], ("worker", "band", "part_of"), sums).to_pylist()
    inside: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        inside[row["worker"], row["part_of"]].append(row)
    order = {name: place for place, name in enumerate(job.names)}
    rows.sort(key=lambda row: (order[row["worker"]], row["part_of"] or row["band"] or "",
                               row["part_of"] is not None, row["band"] or ""))  # fmt: skip
    packets: list[int | None] = []
    shares: list[float | None] = []
    for row in rows:
        # Packets are only reported for the parts of a link kind.
        counted = [row] if row["packets"] else inside[row["worker"], row["band"]]
        count, large = (sum(each[key] or 0 for each in counted) for key in ("packets", "large"))
        packets.append(count or None)
        shares.append(large / count if count else None)
    return {
        "worker": pa.array([row["worker"] for row in rows], pa.string()),
        "link_kind": pa.array([row["band"] for row in rows], pa.string()),
        "link_part_of": pa.array([row["part_of"] for row in rows], pa.string()),
        "link_bytes": pa.array([row["bytes"] for row in rows], pa.int64()),
        "link_ns": pa.array([row["transit_ns"] for row in rows], pa.int64()),
        "link_bandwidth": pa.array([bytes_per_second(row["bytes"], row["transit_ns"]) for row in rows], pa.int64()),
        "packets": pa.array(packets, pa.int64()),
        "large_share": pa.array(shares, pa.float64()),
    }


def _links(job: ReportedJob) -> Columns:
    found = job_links(job)
    links = [each.link for each in found]
    return {
        "link_from": pa.array([link.source for link in links], pa.string()),
        "link_to": pa.array([link.destination for link in links], pa.string()),
        "link_kind": pa.array([link.transport for link in links], pa.string()),
        "link_group": pa.array([each.group for each in found], pa.string()),
        "link_bytes": pa.array([link.moved_bytes for link in links], pa.int64()),
        "link_ns": pa.array([link.link_ns for link in links], pa.int64()),
        "link_bandwidth": pa.array([link.bandwidth for link in links], pa.int64()),
    }


def job_links(job: ReportedJob) -> list[GroupLink]:
    """Returns the traffic by link and group, with ranks as ends, or positions in the group if ranks are unknown.

    If both ranks report a link, the report of the sending rank is used.
    """
    rank_at, names = _group_members(job)

    def end(row: Row, key: str) -> str:
        if not row["in_group"]:
            return str(row[key])
        rank = rank_at.get((row["group"] or "", row[key]))
        return f"{row[key]} in {_title(row['group'], names)}" if rank is None else str(rank)

    reported: dict[tuple[str, str], list[Row]] = defaultdict(list)
    keys = ("worker", "group", "source", "destination", "in_group", "transport")
    for row in sum_by_key(job.tables[BETWEEN], keys, ("bytes", "transit_ns")).to_pylist():
        reported[end(row, "source"), end(row, "destination")].append(row)
    sums: dict[tuple[str, str, str | None, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for (source, destination), rows in reported.items():
        own = [row for row in rows if str(job.ranks.get(row["worker"])) == source]
        for row in own or rows:
            key = source, destination, row["transport"], _title(row["group"], names)
            size, time = sums[key]
            sums[key] = size + (row["bytes"] or 0), time + (row["transit_ns"] or 0)
    found = [
        GroupLink(Link(source, destination, transport, *both), title)
        for (source, destination, transport, title), both in sums.items()
    ]
    return sorted(found, key=lambda one: (in_order(one.link.source), in_order(one.link.destination), one.group))


def _group_members(job: ReportedJob) -> tuple[Mapping[tuple[str, int], int], Mapping[str, str]]:
    """Returns the rank at each position of each group, and the name of each group."""
    rank_at: dict[tuple[str, int], int] = {}
    names = {}
    for row in job.tables[MEMBERS].to_pylist():
        group, listed = row["group"], ranks_in(row["ranks"] or "")
        if row["name"]:
            names[group] = row["name"]
        if listed.listed and not listed.cut:
            rank_at |= {(group, place): rank for place, rank in enumerate(listed.listed)}
        elif row["group_rank"] is not None and row["worker"] in job.ranks:
            rank_at[group, row["group_rank"]] = job.ranks[row["worker"]]
    return rank_at, names


def _title(group: str | None, names: Mapping[str, str]) -> str:
    return names.get(group or "") or (f"…{group[-3:]}" if group and len(group) > 3 else group or "a group")
