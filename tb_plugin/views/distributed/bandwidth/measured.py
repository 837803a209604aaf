"""Bandwidth of collectives by group, kind and size, with a linear fit.

Collectives with missing ranks are not used, because their transfer time is only an upper bound. The transfer time
is the duration of the call on the rank that arrives last (``waiting.py``).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.collective_names import POINT_TO_POINT
from tb_plugin.lib.arrays import Float64, Int64
from tb_plugin.lib.groupby import codes, distinct_rows
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.matching.keys import is_one_of, numbers_of, texts_of
from tb_plugin.views.distributed.waiting import MEASURED, TIMINGS

MIN_SIZES = 3
# minimum ratio of largest to smallest size, to separate latency from bandwidth
MIN_SIZE_RATIO = 4
# maximum number of sizes to fit; more are thinned evenly
MAX_FITTED_SIZES = 64
# maximum 75th percentile of the relative deviation. The median would be 0 for three sizes, as the line passes through two.
MAX_DEVIATION = 0.2


class MeasuredCollectives(msgspec.Struct, frozen=True, eq=False):
    """Collectives with a known size and bus factor, and with all ranks loaded: one row per collective."""

    row: Int64
    """Row of one call of the collective: the call with most bytes. If sizes are equal, the sender's call."""
    bytes: Int64
    factor: Float64
    transfer_ns: Int64
    group: Int64
    """Code of the process group. For point-to-point calls, it also identifies the sender and the receiver."""
    kind: Int64
    """Index into ``kinds``, which contains group descriptions. A group without a description has its name there."""
    kinds: list[str]
    collective: Int64
    """Index into ``collectives``."""
    collectives: list[str]
    size: Int64
    nodes: list[tuple[str, ...]]
    """Sorted nodes of each group; empty if the node of a member is unknown."""

    def __len__(self) -> int:
        return len(self.row)

    def take(self, rows: Int64) -> MeasuredCollectives:
        per_row = ("row", "bytes", "factor", "transfer_ns", "group", "kind", "collective", "size")
        return msgspec.structs.replace(self, **{key: getattr(self, key)[rows] for key in per_row})


class Fit(NamedTuple):
    """Linear fit: transfer time = ``latency_ns`` + bus bytes / ``bandwidth`` (bytes per second)."""

    kind: str
    collective: str
    group_size: int
    sizes: int
    latency_ns: float | None
    bandwidth: float | None
    deviation: float | None
    """75th percentile of the relative deviation from the fit; None if there is no good fit."""


def line_of(moved: Float64, time_ns: Float64) -> tuple[float, float, float] | None:
    """Fits a line to transfer times, and returns latency (ns), time per byte (ns) and relative deviation.

    The fit minimizes the sum of |time - line| / time, so that large sizes do not dominate. A best line passes
    through two points, or through the origin and one point, so all lines of this form are tried. The deviation is
    the 75th percentile. Returns None if there are too few sizes, if sizes are too similar, or if time decreases
    with size.
    """
    if len(moved) < MIN_SIZES or moved.max() < MIN_SIZE_RATIO * moved.min():
        return None
    if len(moved) > MAX_FITTED_SIZES:
        chosen = np.unique(np.linspace(0, len(moved) - 1, MAX_FITTED_SIZES).round().astype(np.int64))
        order = np.argsort(moved, kind="stable")[chosen]
        moved, time_ns = moved[order], time_ns[order]
    one, other = np.triu_indices(len(moved), 1)
    size_difference = moved[other] - moved[one]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(size_difference != 0, (time_ns[other] - time_ns[one]) / size_difference, -1.0)
    intercept = time_ns[one] - slope * moved[one]
    slope, intercept = np.append(slope, time_ns / moved), np.append(intercept, np.zeros(len(moved)))
    is_valid = (slope > 0) & (intercept >= 0)
    if not is_valid.any():
        return None
    slope, intercept = slope[is_valid], intercept[is_valid]
    deviations = np.abs(intercept[:, None] + slope[:, None] * moved - time_ns) / time_ns
    best = int(np.argmin(deviations.sum(axis=1)))
    line = intercept[best] + slope[best] * moved
    return (
        float(intercept[best]),
        float(slope[best]),
        float(np.sort(np.abs(time_ns - line) / line)[(3 * len(line) - 1) // 4]),
    )


@cached_by_argument
def measured_collectives(data: JobData) -> MeasuredCollectives:
    """Returns the collectives with measurable bandwidth in the selected steps."""
    calls = data.calls
    usable = (
        (calls.match >= 0)
        & (calls.waiting.timing == TIMINGS.index(MEASURED))
        & (calls.bytes > 0)
        & (calls.waiting.transfer_ns > 0)
        & calls.rated
        & ~np.isnan(calls.factor)
        & (calls.factor > 0)
        # The kernel time of a single coalesced call is unknown.
        & calls.data["batch"].is_null().to_numpy()
    )
    rows = np.flatnonzero(usable)
    collective, names = texts_of(calls.data, "collective")
    received = is_one_of(collective, names, {"recv"})
    # In a tie, the sender of a transfer comes first.
    order = rows[np.lexsort((received[rows], -calls.bytes[rows], calls.match[rows]))]
    row = order[np.flatnonzero(np.diff(calls.match[order], prepend=-1))]
    some = calls.data.take(pa.array(row))
    name, names = texts_of(some, "group")
    ranks, listed = texts_of(some, "group_ranks")
    described = {(each["group"], each["group_ranks"]): each["group_description"] for each in data.process_groups}
    by_name = {each["group"]: each["group_description"] for each in reversed(data.process_groups)}
    collective, collectives = texts_of(some, "collective")
    two_ended = is_one_of(collective, collectives, POINT_TO_POINT)
    ends = (np.where(two_ended, numbers_of(some, key), -1) for key in ("source_rank", "destination_rank"))
    group = codes(name, ranks, *ends) if len(row) else name
    _, first, which = np.unique(group, return_index=True, return_inverse=True)
    titles = [
        str(described.get((names[name[at]], listed[ranks[at]])) or by_name.get(names[name[at]]) or names[name[at]])
        for at in first.tolist()
    ]
    kinds = sorted(set(titles))
    place = {title: at for at, title in enumerate(kinds)}
    return MeasuredCollectives(
        row=row,
        bytes=calls.bytes[row],
        factor=calls.factor[row],
        transfer_ns=calls.waiting.transfer_ns[row],
        group=which.astype(np.int64),
        kind=np.array([place[title] for title in titles], np.int64)[which],
        kinds=kinds,
        collective=collective,
        collectives=collectives,
        size=calls.waiting.workers[row],
        nodes=_nodes(data, calls.match[row], which.astype(np.int64), len(first)),
    )


def _nodes(data: JobData, match: Int64, group: Int64, groups: int) -> list[tuple[str, ...]]:
    calls = data.calls
    group_of_match = np.full(int(calls.match.max(initial=-1)) + 2, -1, np.int64)
    group_of_match[match] = group
    group_of_call = group_of_match[calls.match]
    named = {str(row["worker"]): str(row["node"] or "") for row in data.devices}
    found: list[set[str]] = [set() for _ in range(groups)]
    for which, worker in zip(*distinct_rows(group_of_call, calls.worker), strict=True):
        if which >= 0:
            found[which].add(named.get(data.names[worker], ""))
    return [() if "" in nodes else tuple(sorted(nodes)) for nodes in found]


class Classes(msgspec.Struct, frozen=True, eq=False):
    """Collectives in classes of equal keys: one row per class, sorted by key."""

    first: Int64
    """Index of one collective of the class in MeasuredCollectives."""
    count: Int64
    transfer_ns: Int64
    """Median transfer time; the lower one of two middle values."""
    total_ns: Int64


def classes_of(found: MeasuredCollectives, *keys: Int64) -> Classes:
    code = codes(*keys) if len(found) else np.empty(0, np.int64)
    order = np.lexsort((found.transfer_ns, code))
    begin = np.flatnonzero(np.diff(code[order], prepend=-1))
    count = np.diff(np.append(begin, len(order)))
    time = found.transfer_ns[order]
    total = np.add.reduceat(time, begin) if len(begin) else time
    return Classes(order[begin], count, time[begin + (count - 1) // 2], total)


@cached_by_argument
def bandwidth_fits(data: JobData) -> list[Fit]:
    """Returns one fit per kind of group, group size and collective, sorted by total transfer time, longest first."""
    found = measured_collectives(data)
    pool = codes(found.kind, found.size, found.collective) if len(found) else np.empty(0, np.int64)
    classes = classes_of(found, pool, found.bytes)
    pool_of_class = pool[classes.first]
    time = np.bincount(pool, weights=found.transfer_ns)
    rows = []
    for number in sorted(np.unique(pool_of_class).tolist(), key=lambda number: -time[number]):
        mine = np.flatnonzero(pool_of_class == number)
        at = classes.first[mine]
        head = int(at[0])
        line = line_of(found.bytes[at] * found.factor[at], classes.transfer_ns[mine].astype(np.float64))
        is_good = line is not None and line[2] <= MAX_DEVIATION
        rows.append(
            Fit(
                kind=found.kinds[found.kind[head]],
                collective=found.collectives[found.collective[head]],
                group_size=int(found.size[head]),
                sizes=len(mine),
                latency_ns=line[0] if line and is_good else None,
                bandwidth=1e9 / line[1] if line and is_good else None,
                deviation=line[2] if line and is_good else None,
            )
        )
    return rows
