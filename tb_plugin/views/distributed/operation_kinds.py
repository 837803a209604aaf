"""Collectives of all workers by name, dtype and group purpose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group, quantile_by, sum_by
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.matching.keys import numbers_of, texts_of
from tb_plugin.views.distributed.rank.profile import frame, table
from tb_plugin.views.distributed.stragglers.report import straggler_report
from tb_plugin.views.distributed.tables import nothing_in

TABLE = "operation_kinds"
KIND = {
    "collective": pa.string(), "dtype": pa.string(), "group_description": pa.string(), "awaited_worker": pa.string(),
    "awaited_ns": pa.int64(), "held_up_by": pa.string(),
    "latency_median_ns": pa.int64(), "latency_low_ns": pa.int64(), "latency_high_ns": pa.int64(),
    "transfer_median_ns": pa.int64(), "calls": pa.int64(), "calls_least": pa.int64(), "calls_most": pa.int64(),
    "workers": pa.int64(), "same_groups": pa.int64(),
}  # fmt: skip
_KEYS = ("collective", "dtype", "group_description")


def operation_kinds(data: JobData, operations: pa.Table) -> Mapping[str, Frame]:
    """Sums the rows of ``operations`` over all workers, and returns the longest kind first.

    For a single worker, the result is empty.
    """
    if data.is_single or not operations.num_rows:
        return {}
    # Groups without a description use their name.
    described = {str(row["group"]): str(row["group_description"] or "") for row in reversed(data.process_groups)}
    titles: dict[tuple[str, str, str], int] = {}
    kind, of_call = (_kinds(each, described, titles) for each in (operations, data.calls.data))
    count = len(titles)
    calls, latency = (operations[key].to_numpy() for key in ("calls", "latency_ns"))
    is_matched = np.asarray(operations["transfer_ns"].is_valid())
    transfer = operations["transfer_ns"].drop_null().to_numpy()
    columns: dict[str, list[object]] = {
        "same_groups": _group_counts(data, of_call, count),
        "workers": np.bincount(_firsts(kind, texts_of(operations, "worker")[0]), minlength=count).tolist(),
        "calls": sum_by(kind, calls, count).tolist(),
        "transfer_median_ns": quantile_by(kind[is_matched], transfer, count, 50).tolist(),
    }
    for key, values, hundredths in (
        ("calls_least", calls, 0), ("calls_most", calls, 100), ("latency_low_ns", latency, 5),
        ("latency_median_ns", latency, 50), ("latency_high_ns", latency, 95),
    ):  # fmt: skip
        columns[key] = quantile_by(kind, values, count, hundredths).tolist()
    has_transfer = np.bincount(kind[is_matched], minlength=count) > 0
    rows: list[Row] = [
        {
            **dict.fromkeys(KIND),
            **dict(zip(_KEYS, title, strict=True)),
            **{key: column[at] for key, column in columns.items()},
        }
        for title, at in titles.items()
    ]
    report = straggler_report(data)
    for at, (worker, wait, waiting) in _most_awaited(data, of_call).items():
        awaited = {
            "awaited_worker": data.names[worker],
            "awaited_ns": wait,
            "held_up_by": report.root_of_waits(waiting),
        }
        rows[at] |= awaited
    for at in np.flatnonzero(~has_transfer).tolist():
        rows[at]["transfer_median_ns"] = None
    rows.sort(key=lambda row: (-int(str(row["latency_median_ns"])), *(str(row[key]) for key in _KEYS)))
    shown = table(KIND, rows)
    hidden = ("calls_least", "calls_most", *nothing_in(shown))
    return {TABLE: frame(TABLE, "Operations of all workers", shown, _KEYS, "collective", hidden)}


def _kinds(data: pa.Table, described: Mapping[str, str], titles: dict[tuple[str, str, str], int]) -> Int64:
    """Returns the index of each row's kind, and adds new kinds to ``titles``."""
    columns = [texts_of(data, key) for key in ("collective", "dtype", "group")]
    rows = group(*(places for places, _ in columns))
    kinds = []
    for row in rows.first.tolist():
        collective, dtype, name = (texts[places[row]] for places, texts in columns)
        kinds.append(titles.setdefault((collective, dtype, described.get(name) or name), len(titles)))
    return np.array(kinds, np.int64)[rows.of]


def _firsts(kind: Int64, *keys: Int64) -> Int64:
    """Returns the kind of each distinct combination of keys."""
    return kind[group(kind, *keys).first]


def _group_counts(data: JobData, kind: Int64, count: int) -> list[object]:
    """Returns the number of distinct groups of each kind.

    Groups are distinguished by ranks, because workers may use different names for one group. Calls without a
    reported group use the inferred group. Calls without any group count as one group.
    """
    calls = data.calls.data
    pairs = _firsts(kind, numbers_of(calls, "group_code"), texts_of(calls, "inferred_group")[0])
    return [*np.bincount(pairs, minlength=count).tolist()]


def _most_awaited(data: JobData, kind: Int64) -> dict[int, tuple[int, int, Int64]]:
    """Returns, for each kind, the worker that other workers wait for longest, the sum of the waits in ns, and the
    waiting calls.
    """
    calls, waiting = data.calls, data.calls.waiting
    chosen = np.flatnonzero((waiting.last >= 0) & (waiting.last != calls.worker) & calls.matched)
    pairs = group(kind[chosen], waiting.last[chosen])
    total = pairs.sum((calls.end_ns - calls.start_ns - waiting.transfer_ns)[chosen])
    most: dict[int, int] = {}
    for one in np.argsort(-total, kind="stable").tolist():
        if total[one] > 0:
            most.setdefault(int(kind[chosen[pairs.first[one]]]), one)
    return {
        at: (int(waiting.last[chosen[pairs.first[one]]]), int(total[one]), chosen[pairs.of == one])
        for at, one in most.items()
    }
