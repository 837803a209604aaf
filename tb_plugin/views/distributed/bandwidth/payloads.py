"""Tables, chart and findings of collective bandwidth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.outlying_ranks import MIN_EXCESS, outlier_rows
from tb_plugin.lib.groupby import codes
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.payloads import Line, Notice, Series, Severity
from tb_plugin.views.distributed.bandwidth.measured import bandwidth_fits, classes_of, measured_collectives
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.rank.profile import frame, table

_BANDWIDTH = {
    "group_description": pa.string(), "collective": pa.string(), "comm_bytes": pa.int64(), "group_size": pa.int64(),
    "nodes": pa.string(), "met": pa.int64(), "median_transfer_ns": pa.int64(), "algorithm_bandwidth": pa.float64(),
    "bus_bandwidth": pa.float64(), "link_share": pa.float64(), "group": pa.string(), "group_ranks": pa.string(),
    "source_rank": pa.int64(), "destination_rank": pa.int64(),
}  # fmt: skip
_FIT = {
    "group_description": pa.string(), "collective": pa.string(), "group_size": pa.int64(), "fit_sizes": pa.int64(),
    "fit_latency_ns": pa.float64(), "fit_bandwidth": pa.float64(), "fit_deviation": pa.float64(),
}  # fmt: skip
_NODES = {
    "nodes": pa.string(), "node_count": pa.int64(), "met": pa.int64(), "slowdown": pa.float64(),
    "bus_bandwidth": pa.float64(),
}  # fmt: skip
# maximum number of lines in the chart, most time first
MAX_LINES = 5
MAX_SIZES = 200
# smaller transfers, in bytes, only show latency and would stretch both axes
MIN_BYTES = 512
# of more nodes, only the first and the last are named
MAX_LISTED_NODES = 4
# maximum number of findings per number of nodes
MAX_FINDINGS = 3


@cached_by_argument
def bandwidth_frames(data: JobData) -> Mapping[str, Frame]:
    """Returns three tables: bandwidth by group, collective and size; linear fits; and a comparison of nodes."""
    keys = ("group", "group_ranks", "source_rank", "destination_rank", "collective", "comm_bytes")
    rows = {"bandwidths": table(_BANDWIDTH, _bandwidth_rows(data)), "nodes": table(_NODES, node_rows(data))}
    fits = table(_FIT, [dict(zip(_FIT, fit, strict=True)) for fit in bandwidth_fits(data)])
    fit_keys = ("group_description", "collective", "group_size")
    return {
        "bandwidths": frame(
            "bandwidths", "Bandwidths", rows["bandwidths"], keys, "group_description", ("group_ranks",)
        ),
        "bandwidth_fits": frame("bandwidth_fits", "Latency and bandwidth", fits, fit_keys, "group_description"),
        "nodes": frame("nodes", "Nodes", rows["nodes"], ("nodes",), "nodes"),
    }


def _bandwidth_rows(data: JobData) -> list[Row]:
    found = measured_collectives(data)
    if not len(found):
        return []
    classes = classes_of(found, found.group, found.collective, found.bytes)
    at = classes.first
    calls = data.calls.data.take(pa.array(found.row[at]))
    texts = {key: calls[key].to_pylist() for key in ("group", "group_ranks", "source_rank", "destination_rank")}
    peaks = _peaks(data)
    rows: list[Row] = []
    for i, one in enumerate(at.tolist()):
        nodes = found.nodes[int(found.group[one])]
        size, count, total = int(found.bytes[one]), int(classes.count[i]), int(classes.total_ns[i])
        bus = size * count * 1e9 / total * float(found.factor[one])
        peak = peaks.get(nodes[0]) if len(nodes) == 1 else None
        rows.append(
            {
                "group_description": found.kinds[int(found.kind[one])],
                "collective": found.collectives[int(found.collective[one])],
                "comm_bytes": size,
                "group_size": int(found.size[one]),
                "nodes": nodes_short(nodes) or None,
                "met": count,
                "median_transfer_ns": int(classes.transfer_ns[i]),
                "algorithm_bandwidth": size * count * 1e9 / total,
                "bus_bandwidth": bus,
                "link_share": bus / peak if peak else None,
                **{key: values[i] for key, values in texts.items()},
            }
        )
    return rows


def nodes_short(nodes: Sequence[str]) -> str:
    """Returns the node names as text. A long list is shortened to the number of nodes, the first and the last name."""
    return ", ".join(nodes) if len(nodes) <= MAX_LISTED_NODES else f"{len(nodes)} nodes: {nodes[0]} … {nodes[-1]}"


def _peaks(data: JobData) -> dict[str, int]:
    """Returns the peak link bandwidth of each node. Nodes with unlike devices or without a known peak are omitted."""
    found: dict[str, set[object]] = defaultdict(set)
    for row in data.devices:
        found[str(row["node"] or "")].add(row.get("link_peak"))
    return {node: peak for node, peaks in found.items() if len(peaks) == 1 and isinstance(peak := peaks.pop(), int)}


@cached_by_argument
def node_rows(data: JobData) -> list[Row]:
    """Returns one row per set of nodes that share a group, slowest set first.

    ``slowdown`` is the median transfer time of the set, divided by the median over all sets with equally many
    nodes. The slowdown is computed for each kind of collective (kind of group, name, ranks, bytes). The row has the
    median over the kinds.
    """
    every = measured_collectives(data)
    places = sorted({nodes for nodes in every.nodes if nodes})
    if not places:
        return []
    number = {nodes: at for at, nodes in enumerate(places)}
    place = np.array([number.get(nodes, -1) for nodes in every.nodes], np.int64)[every.group]
    found, place = every.take(np.flatnonzero(place >= 0)), place[place >= 0]
    kind = codes(
        found.kind, found.collective, found.size, found.bytes, np.array([len(nodes) for nodes in places])[place]
    )
    classes = classes_of(found, kind, place)
    times: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for at, time in zip(classes.first.tolist(), classes.transfer_ns.tolist(), strict=True):
        times[int(kind[at])].append((int(place[at]), time))
    ratios: dict[int, list[float]] = defaultdict(list)
    for mine in times.values():
        if len(mine) > 1:
            middle = median(time for _, time in mine)
            for where, time in mine:
                ratios[where].append(time / middle)
    short = [nodes_short(nodes) for nodes in places]
    uses = Counter(short)
    # Names must be unique.
    names = [one if uses[one] == 1 else ", ".join(nodes) for one, nodes in zip(short, places, strict=True)]
    moved = np.bincount(place, weights=found.bytes * found.factor, minlength=len(places))
    time = np.bincount(place, weights=found.transfer_ns, minlength=len(places))
    count = np.bincount(place, minlength=len(places))
    rows: list[Row] = [
        {
            "nodes": names[at],
            "node_count": len(nodes),
            "met": int(count[at]),
            "slowdown": median(ratios[at]) if ratios[at] else None,
            "bus_bandwidth": float(moved[at] * 1e9 / time[at]),
        }
        for at, nodes in enumerate(places)
    ]
    return sorted(rows, key=lambda row: (row["slowdown"] is None, -_number(row["slowdown"]), str(row["nodes"])))


def _number(value: object) -> float:
    return value if isinstance(value, float) else 0.0


def slow_nodes(data: JobData) -> list[Notice]:
    """Returns findings about single nodes or pairs of nodes with slower collectives than other nodes."""
    by_count: dict[object, list[Row]] = defaultdict(list)
    for row in node_rows(data):
        if row["slowdown"] is not None:
            by_count[row["node_count"]].append(row)
    notices = []
    todo = "Check the cables, ports and switches of these nodes, and other traffic on the network."
    for rows in by_count.values():
        values = np.array([_number(row["slowdown"]) for row in rows])
        for at in outlier_rows(values[:, None])[:MAX_FINDINGS]:
            row = rows[at]
            figures = [
                METRICS.figure("nodes", str(row["nodes"])),
                METRICS.figure("slowdown", _number(row["slowdown"])),
                METRICS.figure("bus_bandwidth", _number(row["bus_bandwidth"])),
                METRICS.figure("node_sets", len(rows)),
            ]
            where = "Between {nodes}" if row["node_count"] == 2 else "On {nodes}"
            text = (
                f"{where}, data moves slowly: collectives take {{slowdown}} times as long as the median of the same "
                "collectives on {node_sets} sets of nodes (bus bandwidth: {bus_bandwidth})."
            )
            severity: Severity = "high" if values[at] > 1.2 * np.median(values) else "medium"
            notices.append(Notice("slow_nodes", severity, text, todo, figures, "slowdown", 1 + MIN_EXCESS))
    return notices


def bandwidth_series(data: JobData) -> list[Series]:
    """Returns the chart of bandwidth by size, with fits, for the kinds of collectives with the longest total time."""
    every = measured_collectives(data)
    if not len(every):
        return []
    large = np.flatnonzero(every.bytes >= MIN_BYTES)
    found = every.take(large) if len(large) else every
    pool = codes(found.kind, found.size, found.collective)
    time = np.bincount(pool, weights=found.transfer_ns)
    shown = sorted(np.unique(pool).tolist(), key=lambda number: -time[number])[:MAX_LINES]
    classes = classes_of(found, pool, found.bytes)
    pool_of_class = pool[classes.first]
    sizes = np.unique(found.bytes[classes.first[np.isin(pool_of_class, shown)]])
    subtitle = "points: median transfer time per size; lines: fit of latency and bandwidth over all sizes"
    if len(found) < len(every):
        subtitle += "; sizes below 512 B (latency only) are in the table Bandwidths"
    if len(sizes) > MAX_SIZES:
        drawn = np.isin(pool, shown)
        time_of = np.bincount(np.searchsorted(sizes, found.bytes[drawn]), weights=found.transfer_ns[drawn])
        sizes = np.sort(sizes[np.argsort(-time_of, kind="stable")[:MAX_SIZES]])
        subtitle += f"; the {MAX_SIZES} sizes with most time"
    fits = {(fit.kind, fit.collective, fit.group_size): fit for fit in bandwidth_fits(data)}
    lines = []
    for place, number in enumerate(shown):
        at = classes.first[pool_of_class == number]
        head = int(at[0])
        speed = found.bytes[at] * found.factor[at] * 1e9 / classes.transfer_ns[pool_of_class == number]
        values = dict(zip(found.bytes[at].tolist(), speed.tolist(), strict=True))
        kind, collective = found.kinds[int(found.kind[head])], found.collectives[int(found.collective[head])]
        count = int(found.size[head])
        title = f"{collective}, {kind} of {count}" if kind else f"{collective} of {count}"
        metric = METRICS.metric("typical_bus_bandwidth", title)
        lines.append(Line(metric, f"slice{place}", [values.get(size) for size in sizes.tolist()]))
        fit = fits[kind, collective, count]
        if fit.latency_ns is not None and fit.bandwidth:
            moved = sizes * float(found.factor[head])
            fitted = moved * 1e9 / (fit.latency_ns + moved * 1e9 / fit.bandwidth)
            inside = (sizes >= min(values)) & (sizes <= max(values))
            points = [value if is_in else None for value, is_in in zip(fitted.tolist(), inside.tolist(), strict=True)]
            lines.append(Line(METRICS.metric("fitted_bus_bandwidth", f"{title}, fit"), f"slice{place}", points))
    x = METRICS.metric("comm_bytes")
    return [Series("bandwidth", "Bus bandwidth by size", subtitle, x, [*sizes.tolist()], lines, "lines")]
