"""Step times from the vendor's tool or from row labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tb_plugin.formats.ascend.communication.calls import step_label
from tb_plugin.formats.ascend.communication.groups import rank_of, ranks_text
from tb_plugin.formats.ascend.communication.schema import DEVICE, INDEX, INDEX_TITLES, KIND, STEP, STEP_TITLES
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.kernel_details import Kernels
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.extra_columns import ReportedSteps
from tb_plugin.model.trace.job_tables import STEP_TIMES, job_table

STEP_OF_KERNEL = "Step Id"


def step_times(table: CsvTable, rank: int | None, log: IssueLog) -> pa.Table | None:
    """Returns the step times of a profile, or None if there are none. Logs unknown columns."""
    if not any(table.has(title) for title in STEP_TITLES.values()):
        log.add("missing_columns", "note", text="the file has no time column, so it is not shown")
        return None
    unknown = [title for title in table.titles if title not in (DEVICE, STEP, *STEP_TITLES.values())]
    if unknown:
        log.add("unknown_column", "note", text=f"columns that are not shown: {', '.join(unknown)}")
    columns = {"rank": pa.array([rank] * table.rows, pa.int64()), "step": table.texts(STEP)}
    return job_table(STEP_TIMES, columns | {"device": _integers(table, DEVICE)} | _times(table))


def job_step_times(table: CsvTable, log: IssueLog) -> pa.Table:
    """Returns the step times in a job analysis: one row per rank or pipeline stage. Logs all other rows."""
    kinds, indexes, steps = (table.texts(title).to_pylist() for title in (KIND, INDEX, STEP))
    ranks = [rank_of(index) if kind == "rank" else None for kind, index in zip(kinds, indexes, strict=True)]
    stages = [ranks_text(index) if kind == "stage" else None for kind, index in zip(kinds, indexes, strict=True)]
    columns: dict[str, Any] = {
        "rank": ranks,
        "stage_ranks": stages,
        "step": [None if step is None else step_label(step) for step in steps],
        **{key: _integers(table, title) for key, title in INDEX_TITLES.items()},
        **_times(table),
    }
    is_known = [rank is not None or stage is not None for rank, stage in zip(ranks, stages, strict=True)]
    if not all(is_known):
        log.add("bad_row", "dropped", count=is_known.count(False))
    return job_table(STEP_TIMES, columns).filter(pa.array(is_known, pa.bool_()))


def _times(table: CsvTable) -> dict[str, pa.Array]:
    times = {key: table.nanoseconds(title) for key, title in STEP_TITLES.items()}
    return {key: pa.array(values, mask=~has_value) for key, (values, has_value) in times.items()}


def _integers(table: CsvTable, title: str) -> pa.Array:
    values = table.integers(title)
    return pa.array(values, mask=values < 0)


def steps_of(label: Sequence[str | None], start_ns: Int64, end_ns: Int64) -> ReportedSteps | None:
    """Returns steps from the labels of rows, or None without labels. A step ends before the next one starts."""
    texts = np.array(["" if text is None else text for text in label], dtype=object)
    names, place = np.unique(texts, return_inverse=True)
    start = np.full(len(names), np.iinfo(np.int64).max)
    end = np.full(len(names), np.iinfo(np.int64).min)
    np.minimum.at(start, place, start_ns)
    np.maximum.at(end, place, end_ns)
    known = np.flatnonzero(names != "")
    if not len(known):
        return None
    known = known[np.argsort(start[known], kind="stable")]
    start, end = start[known], end[known]
    end[:-1] = np.minimum(end[:-1], start[1:])
    return ReportedSteps(tuple(names[known].tolist()), start, end)


def kernel_steps(kernels: Kernels, texts: Sequence[str]) -> ReportedSteps | None:
    """Returns steps from the step labels of kernels, or None if no kernel has a label."""
    column = next((fact for fact in kernels.facts if fact.key == STEP_OF_KERNEL), None)
    if column is None:
        return None
    label = [texts[value] if column.is_text else f"{value:g}" for value in column.value.tolist()]
    start = kernels.start_ns[column.row]
    return steps_of(label, start, start + kernels.dur_ns[column.row])
