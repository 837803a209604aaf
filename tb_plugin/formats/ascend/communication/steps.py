"""Step times from the vendor's tool or from row labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.formats.ascend.communication_titles import STEP_TITLES
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.kernel_details import Kernels
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.extra_columns import ReportedSteps
from tb_plugin.model.trace.job_tables import STEP_TIMES, job_table
from tb_plugin.model.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]

STEP_OF_KERNEL = "Step Id"
_DEVICE, _STEP = "Device_id", "Step"


def step_times(table: CsvTable, rank: int | None, log: IssueLog) -> pa.Table | None:
    """Returns the step times of a table, or None if there are none. Logs unknown columns."""
    if not any(table.has(title) for title in STEP_TITLES.values()):
        log.add("missing_columns", "note", text="the file has no time column, so it is not shown")
        return None
    unknown = [title for title in table.titles if title not in (_DEVICE, _STEP, *STEP_TITLES.values())]
    if unknown:
        log.add("unknown_column", "note", text=f"columns that are not shown: {', '.join(unknown)}")
    times = {key: table.nanoseconds(title) for key, title in STEP_TITLES.items()}
    device = table.integers(_DEVICE)
    return job_table(
        STEP_TIMES,
        {
            "rank": pa.array([rank] * table.rows, pa.int64()),
            "device": pa.array(device, mask=device == MISSING),
            "step": table.texts(_STEP),
            **{key: pa.array(values, mask=~has_value) for key, (values, has_value) in times.items()},
        },
    )


def steps_of(label: Sequence[str | None], start_ns: Int64, end_ns: Int64) -> ReportedSteps | None:
    """Returns steps from the step labels of rows, or None if no row has a label.

    A step lasts from the start of its first row to the end of its last row. It ends no later than the start of the
    next step.
    """
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
