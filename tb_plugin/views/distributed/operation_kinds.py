"""Collectives of all workers by name, dtype and group purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.lib.groupby import codes, group_sorted, quantile_by
from tb_plugin.views.distributed.job_data import JobCalls, JobData, Row
from tb_plugin.views.distributed.matching.keys import numbers_of, texts_of
from tb_plugin.views.distributed.rank.profile import frame, table
from tb_plugin.views.distributed.stragglers.report import straggler_report
from tb_plugin.views.distributed.tables import nothing_in

Int64 = npt.NDArray[np.int64]
_Titles = tuple[str, str, str]
_Title = Callable[[int], _Titles]

TABLE = "operation_kinds"
KIND = {
    "collective": pa.string(), "dtype": pa.string(), "group_description": pa.string(), "awaited_worker": pa.string(),
    "awaited_ns": pa.int64(), "held_up_by": pa.string(),
    "latency_median_ns": pa.int64(), "latency_low_ns": pa.int64(), "latency_high_ns": pa.int64(),
    "transfer_median_ns": pa.int64(), "calls": pa.int64(), "calls_least": pa.int64(), "calls_most": pa.int64(),
    "workers": pa.int64(), "same_groups": pa.int64(),
}  # fmt: skip
_KEYS = ("collective", "dtype", "group_description")
_HUNDREDTHS = (5, 50, 95)


def operation_kinds(data: JobData, operations: pa.Table) -> Mapping[str, Frame]:
    """Sums the table ``operations`` over all workers, longest kind first. Empty for a single worker."""
    if data.is_single or not operations.num_rows:
        return {}
    described = {str(row["group"]): str(row["group_description"] or "") for row in reversed(data.process_groups)}
    # Groups without a description use their name.
    of_row, titles = _kinds(operations, described)
    kinds = group_sorted(of_row)
    first, kind, count = kinds.first, kinds.of, len(kinds)
    calls, latency = (operations[key].to_numpy() for key in ("calls", "latency_ns"))
    is_matched = np.asarray(operations["transfer_ns"].is_valid())
    transfer = quantile_by(
        kind[is_matched], operations["transfer_ns"].filter(pa.array(is_matched)).to_numpy(), count, 50
    ).tolist()
    has_match = (np.bincount(kind[is_matched], minlength=count) > 0).tolist()
    low, middle, high = (quantile_by(kind, latency, count, hundredths).tolist() for hundredths in _HUNDREDTHS)
    least, most = (quantile_by(kind, calls, count, hundredths).tolist() for hundredths in (0, 100))
    places = {titles(row): at for at, row in enumerate(first.tolist())}
    of_call, called = _kinds(data.calls.data, described)
    workers = _distinct_counts(kind, texts_of(operations, "worker")[0], count)
    groups = _group_counts(data.calls, of_call, called, places)
    every = np.bincount(kind, weights=calls, minlength=count).astype(np.int64).tolist()
    awaited, report = _most_awaited(data.calls, of_call, called, places), straggler_report(data)
    rows: list[Row] = [
        {
            **dict(zip(_KEYS, titles(row), strict=True)),
            "same_groups": groups[at],
            "workers": workers[at],
            "calls": every[at],
            "calls_least": least[at],
            "calls_most": most[at],
            "latency_low_ns": low[at],
            "latency_median_ns": middle[at],
            "latency_high_ns": high[at],
            "transfer_median_ns": transfer[at] if has_match[at] else None,
            "awaited_worker": data.names[awaited[at][0]] if at in awaited else None,
            "awaited_ns": awaited[at][1] if at in awaited else None,
            "held_up_by": report.root_of_waits(awaited[at][2]) if at in awaited else None,
        }
        for at, row in enumerate(first.tolist())
    ]
    rows.sort(key=lambda row: (-int(str(row["latency_median_ns"])), *(str(row[key]) for key in _KEYS)))
    shown = table(KIND, rows)
    hidden = ("calls_least", "calls_most", *nothing_in(shown))
    return {TABLE: frame(TABLE, "Operations of all workers", shown, _KEYS, "collective", hidden)}


def _kinds(data: pa.Table, described: Mapping[str, str]) -> tuple[Int64, _Title]:
    """Code of each row's kind, and a function that returns the titles of a row's kind."""
    (collective, titles), (dtype, types), (group, names) = (
        texts_of(data, key) for key in ("collective", "dtype", "group")
    )
    place: dict[str, int] = {}
    of_group = np.array([place.setdefault(described.get(name) or name, len(place)) for name in names], np.int64)
    labels, label = list(place), of_group[group]
    return codes(collective, dtype, label), lambda row: (titles[collective[row]], types[dtype[row]], labels[label[row]])


def _distinct_counts(kind: Int64, values: Int64, count: int) -> list[int]:
    first = group_sorted(kind, values).first
    found: list[int] = np.bincount(kind[first], minlength=count).tolist()
    return found


def _group_counts(seen: JobCalls, kind: Int64, titles: _Title, places: Mapping[_Titles, int]) -> list[int]:
    """Number of distinct groups of each kind.

    Groups are distinguished by their ranks, because workers may name them differently. Calls without a reported
    group use the inferred group. Calls without any group count as one group.
    """
    inferred, _ = texts_of(seen.data, "inferred_group")
    first = group_sorted(kind, numbers_of(seen.data, "group_code"), inferred).first
    found = [0] * len(places)
    for row in first.tolist():
        found[places[titles(row)]] += 1
    return found


def _most_awaited(
    seen: JobCalls, kind: Int64, titles: _Title, places: Mapping[_Titles, int]
) -> dict[int, tuple[int, int, Int64]]:
    """For each kind: the worker that others wait for longest, the sum of these waits in ns, and the waiting calls."""
    chosen = np.flatnonzero((seen.waiting.last >= 0) & (seen.waiting.last != seen.worker) & seen.matched)
    if not len(chosen):
        return {}
    wait = (seen.end_ns - seen.start_ns - seen.waiting.transfer_ns)[chosen]
    pairs = group_sorted(kind[chosen], seen.waiting.last[chosen])
    first, total = pairs.first, pairs.sum(wait)
    most: dict[int, int] = {}
    for one, row in enumerate(chosen[first].tolist()):
        at = places[titles(row)]
        if total[one] > (total[most[at]] if at in most else 0):
            most[at] = one
    return {
        at: (int(seen.waiting.last[chosen[first[one]]]), int(total[one]), chosen[pairs.of == one])
        for at, one in most.items()
    }
