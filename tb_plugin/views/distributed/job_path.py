"""Critical path of a job over its ranks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.tables import sorted_by
from tb_plugin.payloads import Sort
from tb_plugin.views.distributed.job_data import JobCalls, JobData, job_data
from tb_plugin.views.distributed.matching.keys import numbers_of
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.rank.path import PATH_CALLS, PATH_STEPS

JOB_PATH = "job_path"
# Parameter, because the paths of all ranks take time.
PATH = "path"
# Columns of the path, after the time of each rank.
_KINDS = ("job_path_device_ns", "job_path_host_ns", "job_path_communication_ns", "job_path_lag_ns")


def job_path_frame(joined: Part, chosen: tuple[str, ...] | None) -> Frame:
    """Returns the time of each rank on the critical path, mean per step. Raises BadRequest without steps or ``path=1``.

    The path starts at the end of the rank whose step ends last. At a collective, it continues on the rank that arrived
    last, which is the rank with the shortest call.
    """
    if PATH_CALLS not in joined.frames:
        raise BadRequest("The table needs the critical paths of all ranks.", JOB_PATH, f"Add {PATH}=1.")
    data, calls = job_data(joined, chosen), job_data(joined, None).calls
    if not calls.data["on_device"].to_numpy().any():
        raise BadRequest("The collectives run on the CPU.", JOB_PATH, "The path follows collectives on devices only.")
    to_calls, to_steps = joined.frames[PATH_CALLS].data, joined.frames[PATH_STEPS].data
    times = np.stack([numbers_of(to_calls, key) for key in ("device_ns", "host_ns", "lag_ns")], axis=1)
    first = np.searchsorted(calls.worker, np.arange(len(data.names)))
    previous = numbers_of(to_calls, "previous")
    previous = np.where(previous >= 0, first[calls.worker] + previous, -1)
    arrives_last = _last_arrivals(calls)
    ends = _last_ends(data, to_steps, chosen)
    spent = np.zeros((len(data.names), len(_KINDS)), np.int64)
    for row in ends:
        worker = int(to_steps["worker"][row].as_py())
        spent[worker, [0, 1, 3]] += [int(to_steps[key][row].as_py()) for key in ("device_ns", "host_ns", "lag_ns")]
        before = int(to_steps["previous"][row].as_py())
        call = int(first[worker]) + before if before >= 0 else -1
        for _ in range(len(previous)):  # a path through contradictory clocks could turn in circles
            if call < 0:
                break
            other = int(arrives_last[call])
            length = calls.waiting.transfer_ns[call] if other >= 0 else calls.end_ns[call] - calls.start_ns[call]
            spent[calls.worker[call], 2] += length
            call = other if other >= 0 else call
            spent[calls.worker[call], [0, 1, 3]] += times[call]
            call = int(previous[call])
    mean = spent / len(ends)
    columns = {"job_path_ns": mean.sum(axis=1), **dict(zip(_KINDS, mean.T, strict=True))}
    table = {
        "worker": pa.array(data.names, pa.string()),
        **{key: pa.array(np.rint(values).astype(np.int64)) for key, values in columns.items()},
    }
    listed = METRICS.columns(*table, share=("job_path_ns",))
    ordered = sorted_by(pa.table(table), [("job_path_ns", "descending")])
    return Frame(
        JOB_PATH, "Critical path of the job", listed, ordered, ("worker",), "worker", Sort("job_path_ns", True)
    )


def _last_arrivals(calls: JobCalls) -> Int64:
    """Returns, for each call, the call of the rank that arrived last in its collective; -1 if it is not matched."""
    of_last = np.flatnonzero((calls.match >= 0) & (calls.worker == calls.waiting.last))
    by_match = np.full(int(calls.match.max(initial=-1)) + 2, -1, np.int64)  # the last entry is for -1
    by_match[calls.match[of_last]] = of_last
    return by_match[calls.match]


def _last_ends(data: JobData, to_steps: pa.Table, chosen: tuple[str, ...] | None) -> list[int]:
    """Returns, for each step, the row of the rank whose step ends last."""
    worker, end = numbers_of(to_steps, "worker"), numbers_of(to_steps, "end_ns")
    ends = data.clocks.corrected(worker, end)
    labels = to_steps["step"].to_pylist()
    found: dict[str, int] = {}
    for row in np.argsort(ends, kind="stable").tolist():
        if chosen is None or labels[row] in chosen:
            found[labels[row]] = row
    if not found:
        raise BadRequest("The job has no steps.", "job_path", "Record steps.")
    return list(found.values())
