"""Communication of a job by group, kind of link, and link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.job_tables.metrics import CALL_COLUMNS, METRICS
from tb_plugin.model.trace.job_tables import BANDS, GROUPS, OPERATIONS
from tb_plugin.payloads import Line, Metric, Series

# ranks of the map of links; with more, cells are too small
MOST_DRAWN = 64
MAPS = {"link_bandwidth": "Bandwidth of links", "link_bytes": "Bytes over links"}


class LinkTotal(msgspec.Struct, frozen=True):
    """Traffic of one link, summed over all calls."""

    source: int
    destination: int
    transport: str | None
    moved_bytes: int
    link_ns: int

    @property
    def bandwidth(self) -> int | None:
        """Returns the bandwidth in bytes per second, rounded down; None if no time was recorded."""
        return bytes_per_second(self.moved_bytes, self.link_ns)


def bytes_per_second(size: int | None, time: int | None) -> int | None:
    """Returns bytes per second, rounded down; None if the size or the time is missing, or the time is 0."""
    return size * 1_000_000_000 // time if size is not None and time is not None and time > 0 else None


def communication_frame(tables: Mapping[str, pa.Table]) -> Frame:
    """Returns the table of communication: one row per group and rank."""
    calls = tables[OPERATIONS]
    keys = ["group", "kind", "rank"]
    found = calls.group_by(keys, use_threads=False).aggregate(
        [("rank", "count"), *((key, "sum") for key in CALL_COLUMNS)]
    )
    found = found.sort_by([(key, "ascending") for key in keys])
    names, members = _names_and_ranks(tables[GROUPS])
    groups = found["group"].to_pylist()
    data = {
        "group": found["group"],
        "group_name": pa.array([names.get(group) for group in groups], pa.string()),
        "members": pa.array([members.get(group) for group in groups], pa.string()),
        "group_kind": found["kind"],
        "job_rank": found["rank"],
        "job_calls": found["rank_count"],
        **{shown: found[f"{key}_sum"] for key, shown in CALL_COLUMNS.items()},
    }
    return _frame("job_communication", "Communication", data, ("group", "group_kind", "job_rank"), "group")


def band_frame(tables: Mapping[str, pa.Table]) -> Frame:
    """Returns the table of link kinds: one row per group, rank and kind."""
    bands = tables[BANDS]
    keys = ["group", "kind", "rank", "band", "part_of"]
    found = bands.group_by(keys, use_threads=False).aggregate([("bytes", "sum"), ("transit_ns", "sum")])
    found = found.sort_by([(key, "ascending") for key in keys])
    names, members = _names_and_ranks(tables[GROUPS])
    groups = found["group"].to_pylist()
    data = {
        "link_kind": found["band"],
        "link_part_of": found["part_of"],
        "group": found["group"],
        "group_name": pa.array([names.get(group) for group in groups], pa.string()),
        "members": pa.array([members.get(group) for group in groups], pa.string()),
        "group_kind": found["kind"],
        "job_rank": found["rank"],
        "link_bytes": found["bytes_sum"],
        "link_ns": found["transit_ns_sum"],
        "link_bandwidth": _bandwidth(found["bytes_sum"], found["transit_ns_sum"]),
    }
    return _frame("job_bands", "Kinds of links", data, ("group", "group_kind", "job_rank", "link_kind"), "link_kind")


def link_totals(links: pa.Table) -> list[LinkTotal]:
    """Returns the traffic of each link, summed over all calls.

    If the profile reports a total over all calls of a group, this total is used. Otherwise, totals per kind of call
    are summed. If there are none, single calls are summed.
    """
    known = pc.and_(pc.is_valid(links["source"]), pc.is_valid(links["destination"]))
    rows = links.filter(pc.and_(known, pc.invert(pc.fill_null(links["in_group"], False))))
    is_total = pc.equal(pc.fill_null(rows["place"], ""), "total")
    level = pc.if_else(pc.and_(is_total, pc.is_null(rows["operation"])), 0, pc.if_else(is_total, 1, 2))
    # The best and the worst call of a kind are already in the sums.
    level = pc.if_else(pc.and_(pc.is_valid(rows["place"]), pc.invert(is_total)), 3, level)
    rows = rows.append_column("level", level).filter(pc.less(level, 3))
    keys = ["step", "group", "source", "destination"]
    best = rows.group_by(keys, use_threads=False).aggregate([("level", "min")])
    found = _counting_rows(rows, best, keys)
    sums = found.group_by(["source", "destination", "transport"], use_threads=False).aggregate(
        [("bytes", "sum"), ("transit_ns", "sum")]
    )
    return sorted(
        (
            LinkTotal(
                row["source"], row["destination"], row["transport"], row["bytes_sum"] or 0, row["transit_ns_sum"] or 0
            )
            for row in sums.to_pylist()
        ),
        key=lambda link: (link.source, link.destination, link.transport or ""),
    )


def link_frame(totals: list[LinkTotal]) -> Frame:
    data = {
        "link_source": pa.array([link.source for link in totals], pa.int64()),
        "link_destination": pa.array([link.destination for link in totals], pa.int64()),
        "link_kind": pa.array([link.transport for link in totals], pa.string()),
        "link_bytes": pa.array([link.moved_bytes for link in totals], pa.int64()),
        "link_ns": pa.array([link.link_ns for link in totals], pa.int64()),
        "link_bandwidth": pa.array([link.bandwidth for link in totals], pa.int64()),
    }
    keys = ("link_source", "link_destination", "link_kind")
    return _frame("job_links", "Links", data, keys, "link_kind")


def link_maps(totals: list[LinkTotal]) -> list[Series]:
    """Returns heat maps of bandwidth and bytes between ranks. Rows are senders, columns are receivers."""
    between = [link for link in totals if link.source != link.destination]
    ranks = sorted({rank for link in between for rank in (link.source, link.destination)})
    if not ranks:
        return []
    place = {rank: number for number, rank in enumerate(ranks[:MOST_DRAWN])}
    moved, took = (np.zeros((len(place), len(place)), np.int64) for _ in range(2))
    for link in between:
        if link.source in place and link.destination in place:
            moved[place[link.source], place[link.destination]] += link.moved_bytes
            took[place[link.source], place[link.destination]] += link.link_ns
    subtitle = "from rank (row) to rank (column)"
    if len(ranks) > MOST_DRAWN:
        subtitle += f", the first {MOST_DRAWN} of {len(ranks)} ranks"
    bandwidth = [list(map(bytes_per_second, *row)) for row in zip(moved.tolist(), took.tolist(), strict=True)]
    volume = [[size or None for size in row] for row in moved.tolist()]
    return [
        _map(key, title, subtitle, list(place), values)
        for key, title, values in (
            ("link_bandwidth", MAPS["link_bandwidth"], bandwidth),
            ("link_bytes", MAPS["link_bytes"], volume),
        )
    ]


def _map(key: str, title: str, subtitle: str, ranks: list[int], values: list[list[int | None]]) -> Series:
    metric = METRICS[key]
    lines = [
        Line(Metric(f"rank_{rank}", str(rank), metric.unit, metric.definition, metric.window), "communication", [*row])
        for rank, row in zip(ranks, values, strict=True)
    ]
    return Series(
        f"map_{key}", title, subtitle, METRICS.metric("link_destination", "To"), [*map(str, ranks)], lines, "lines"
    )


def _counting_rows(rows: pa.Table, best: pa.Table, keys: list[str]) -> pa.Table:
    """Drops rows whose traffic is also included in another row, so that it is not counted twice.

    In each group, only the most aggregated rows are used. A total over all groups replaces the rows of single
    groups.
    """
    level = dict(zip(_rows(best, keys), best["level_min"].to_pylist(), strict=True))
    sums = [*keys, "kind", "level"]
    # A sum without a group covers all groups of its kind.
    whole = {
        (step, source, destination, kind)
        for step, group, source, destination, kind, number in _rows(rows, sums)
        if group is None and number == 0
    }
    keep = [
        level[step, group, source, destination] == number
        and (group is None or (step, source, destination, kind) not in whole)
        for step, group, source, destination, kind, number in _rows(rows, sums)
    ]
    return rows.filter(pa.array(keep, pa.bool_()))


def _rows(table: pa.Table, keys: list[str]) -> Iterator[tuple[Any, ...]]:
    yield from zip(*(table[key].to_pylist() for key in keys), strict=True)


def _names_and_ranks(groups: pa.Table) -> tuple[dict[str, str], dict[str, str]]:
    rows = list(zip(*(groups[key].to_pylist() for key in ("group", "name", "ranks")), strict=True))
    names = {group: name for group, name, _ in rows if group and name}
    return names, {group: ranks for group, _, ranks in rows if group and ranks}


def _bandwidth(moved: pa.ChunkedArray, took: pa.ChunkedArray) -> pa.Array:
    pairs = zip(moved.to_pylist(), took.to_pylist(), strict=True)
    return pa.array([bytes_per_second(*pair) for pair in pairs], pa.int64())


def _frame(
    name: str, title: str, data: dict[str, pa.ChunkedArray | pa.Array], keys: tuple[str, ...], named: str
) -> Frame:
    empty = tuple(key for key, column in data.items() if column.null_count == len(column) and key not in keys)
    return Frame(name, title, METRICS.columns(*data, hidden=empty), pa.table(data), keys, named)
