"""Reported links between ranks, and their maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.job_tables.metrics import METRICS
from tb_plugin.payloads import Line, Metric, Series

# ranks of a map of links; with more, cells are too small
MOST_DRAWN = 64
_TOTAL = "total"
_LARGEST = 2**63 - 1


class Link(msgspec.Struct, frozen=True):
    """Traffic of one link, summed over calls. The ends are ranks as text, or positions in a group."""

    source: str
    destination: str
    transport: str | None
    moved_bytes: int
    link_ns: int

    @property
    def bandwidth(self) -> int | None:
        return bytes_per_second(self.moved_bytes, self.link_ns)


def bytes_per_second(size: int | None, time: int | None) -> int | None:
    """Returns bytes per second, rounded down; None if the size or the time is missing, or the time is 0."""
    if size is None or time is None or time <= 0:
        return None
    return max(min(size * 1_000_000_000 // time, _LARGEST), -_LARGEST)


def counted_links(links: pa.Table) -> pa.Table:
    """Returns the rows to sum, so that no call counts twice.

    A profile may report totals besides single calls: of all calls, or of each kind of call. The most aggregated rows
    of each step, group and link are used.
    """
    place, operation = links["place"], links["operation"]
    is_total = pc.fill_null(pc.equal(place, _TOTAL), False)
    level = pc.if_else(is_total, pc.if_else(pc.is_null(operation), 0, 1), pc.if_else(pc.is_null(place), 2, 3))
    rows = links.append_column("level", level).filter(pc.less(level, 3))
    names = ("step", "source", "destination", "kind", "group", "level")
    keys = list(zip(*(rows[key].to_pylist() for key in names), strict=True))
    best: dict[tuple[Any, ...], int] = {}
    for step, source, destination, _, group, number in keys:
        key = step, source, destination, group
        best[key] = min(best.get(key, number), number)
    # A total without a group covers all groups of its kind.
    whole = {tuple(pair) for *pair, group, number in keys if group is None and number == 0}
    keep = [
        best[step, source, destination, group] == number
        and (group is None or (step, source, destination, kind) not in whole)
        for step, source, destination, kind, group, number in keys
    ]
    return rows.filter(pa.array(keep, pa.bool_()))


def link_maps(links: Iterable[Link], order: Callable[[str], Any], x: Metric, window: str = "") -> list[Series]:
    """Returns maps of bandwidth and bytes between ranks, sorted by ``order``. Rows are senders, columns receivers."""
    moved: dict[tuple[str, str], tuple[int, int]] = {}
    for link in links:
        if link.source != link.destination:
            size, time = moved.get((link.source, link.destination), (0, 0))
            moved[link.source, link.destination] = size + link.moved_bytes, time + link.link_ns
    every = sorted({end for pair in moved for end in pair}, key=order)
    if not every:
        return []
    ranks = every[:MOST_DRAWN]
    subtitle = "from rank (row) to rank (column); copies within a rank are in the table"
    if len(every) > MOST_DRAWN:
        subtitle += f"; the first {MOST_DRAWN} of {len(every)} ranks"
    sources = sorted({source for source, _ in moved}, key=order)[:MOST_DRAWN]
    cells = [[moved.get((source, destination), (None, None)) for destination in ranks] for source in sources]
    bandwidth = [[bytes_per_second(*cell) for cell in row] for row in cells]
    volume = [[size or None for size, _ in row] for row in cells]
    maps = (("link_bandwidth", "Bandwidth of links", bandwidth), ("link_bytes", "Bytes over links", volume))
    return [
        rank_map(
            METRICS.metric(key, window=window),
            f"map_{key}",
            title,
            subtitle,
            dict(zip(sources, values, strict=True)),
            ranks,
            x,
        )
        for key, title, values in maps
    ]


def rank_map(
    metric: Metric, name: str, title: str, subtitle: str, rows: Mapping[str, Sequence[int | None]],
    receivers: Sequence[str], x: Metric,
) -> Series:  # fmt: skip
    """Returns a map with one line per sender of ``rows``, and the receivers as ``x``."""
    lines = [
        Line(msgspec.structs.replace(metric, key=f"rank_{sender}", title=sender), "communication", [*values])
        for sender, values in rows.items()
    ]
    return Series(name, title, subtitle, x, [*receivers], lines, "lines")
