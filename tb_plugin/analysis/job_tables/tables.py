"""Sums of reported tables by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.metrics import Metrics
from tb_plugin.payloads import Column

Columns = Mapping[str, pa.ChunkedArray | pa.Array]


def sum_by_key(table: pa.Table, keys: Sequence[str], sums: Sequence[str]) -> pa.Table:
    """Sums columns by key, in order of first appearance. A sum is null if all summed values are null."""
    found = table.group_by(list(keys), use_threads=False).aggregate([(key, "sum") for key in sums])
    return found.rename_columns({f"{key}_sum": key for key in sums})


def with_count(table: pa.Table) -> pa.Table:
    """Adds the column ``calls`` of ones, so that calls can be summed like times."""
    return table.append_column("calls", pa.array(np.ones(table.num_rows, np.int64)))


def job_frame(
    metrics: Metrics, name: str, title: str, data: Columns, keys: tuple[str, ...], named: str, window: str = ""
) -> Frame:
    """Returns a table of the page, in which columns without values are hidden."""
    empty = {key for key, column in data.items() if column.null_count == len(column) > 0}
    columns = [Column(metrics.metric(key, window=window), hidden=key in empty) for key in data]
    return Frame(name, title, columns, pa.table(dict(data)), keys, named)
