"""Steps and matched calls of all workers, for selected steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Part
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import measure_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed import merge
from tb_plugin.views.distributed.clocks.lateness import Lateness, Sure, sure_of
from tb_plugin.views.distributed.clocks.offsets import Clocks, clocks_from
from tb_plugin.views.distributed.matching.keys import numbers_of
from tb_plugin.views.distributed.rank.reported import REPORTED, ReportedJob, reported_job
from tb_plugin.views.distributed.waiting import Waiting, caused_by

Row = dict[str, object]


class JobCalls(msgspec.Struct, frozen=True, eq=False):
    """Calls of all workers and the collective of each call: one row per call, sorted by worker and time.

    Unknown values are -1.
    """

    data: pa.Table
    worker: Int64
    step: Int64
    """Index into ``JobData.labels``; ``len(labels)`` for a call outside the steps."""
    start_ns: Int64
    end_ns: Int64
    bytes: Int64
    factor: Float64
    """Factor from algorithm bandwidth to bus bandwidth, as in nccl-tests; NaN if undefined."""
    rated: Bool
    """Whether the bandwidth of this call is meaningful."""
    match: Int64
    waiting: Waiting
    late: Lateness

    @property
    def transfer_start_ns(self) -> Int64:
        """Returns the start of the transfer in each call, ns."""
        return self.end_ns - self.waiting.transfer_ns

    @property
    def matched(self) -> Bool:
        return self.match >= 0

    def take(self, keep: Bool) -> JobCalls:
        w = self.waiting
        return JobCalls(
            self.data.filter(pa.array(keep)), self.worker[keep], self.step[keep], self.start_ns[keep],
            self.end_ns[keep], self.bytes[keep], self.factor[keep], self.rated[keep], self.match[keep],
            Waiting(w.workers[keep], w.last[keep], w.transfer_ns[keep], w.timing[keep]), self.late.take(keep),
        )  # fmt: skip


class JobData(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Data of all workers for the selected steps. Workers are sorted by name in natural order."""

    names: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    """Workers that are ignored, each with the reason (``comparable_profiles.py``)."""
    ranks: tuple[int | None, ...]
    labels: tuple[str, ...]
    """Labels of all steps that at least one worker has, sorted."""
    step_table: pa.Table
    """Selected steps of all workers; ``worker`` is an index into ``names``."""
    calls: JobCalls
    world_size: int | None
    process_groups: Sequence[Row]
    devices: Sequence[Row]
    reported: ReportedJob
    """Communication that the profiler of each worker reports."""
    clocks: Clocks
    """Clocks of the workers, always computed from all steps."""
    is_zero_reported: Bool
    """Whether each worker reports the clock reading at the start of its trace."""
    kernels: pa.Table | None = None
    """Kernel times of all steps; ``worker`` is an index into ``names``."""
    summary: JobData | None = None
    """The same data for all steps; None if no steps are selected."""

    @cached_property
    def sure(self) -> Sure:
        """Marks the values of Lateness that exceed the clock error."""
        return sure_of(self.calls.late, self.clocks, self.calls.worker)

    @cached_property
    def first_rows(self) -> Int64:
        """Returns the first row of each matched collective in ``calls``."""
        matched = np.flatnonzero(self.calls.matched)
        return matched[np.unique(self.calls.match[matched], return_index=True)[1]]

    def one_each(self, values: Int64) -> Int64:
        """Returns one value per matched collective: the value of one of the collective's calls."""
        return values[self.first_rows]

    @property
    def size(self) -> int | None:
        """Returns the world size, or None if unknown.

        If no world size is recorded, the size of the largest group is used.
        """
        return self.world_size or (self.reported.ranks_at_least if self.reported.ranks_at_least > 1 else None)

    @property
    def is_single(self) -> bool:
        return len(self.names) == 1

    @cached_property
    def step_places(self) -> tuple[Int64, Int64]:
        """Returns, for each row of ``step_table``, the index of the worker and the index of the step label."""
        step = pc.index_in(self.step_table["step"], value_set=pa.array(self.labels, pa.string()))
        return numbers_of(self.step_table, "worker"), step.to_numpy().astype(np.int64)

    @cached_property
    def step_counts(self) -> Int64:
        return np.bincount(self.step_places[0], minlength=len(self.names))

    @cached_property
    def times(self) -> tuple[Int64, Int64, Int64]:
        """Returns latency, wait and transfer time in ns, each with shape (workers, steps + 1).

        Overlapping calls count once. The last column is for calls outside the steps. For a single worker, wait and
        transfer time are 0.
        """
        calls, shape = self.calls, (len(self.names), len(self.labels) + 1)
        key = self._place
        latency = measure_by(key, calls.start_ns, calls.end_ns, shape[0] * shape[1])
        m = calls.matched
        transfer = measure_by(key[m], calls.transfer_start_ns[m], calls.end_ns[m], shape[0] * shape[1])
        wait = measure_by(key[m], calls.start_ns[m], calls.end_ns[m], shape[0] * shape[1]) - transfer
        return latency.reshape(shape), wait.reshape(shape), transfer.reshape(shape)

    @cached_property
    def caused(self) -> Int64:
        """Returns how long other workers wait for each worker, in ns, with shape (workers, steps + 1).

        The last column is for calls outside the steps.
        """
        calls, m, width = self.calls, self.calls.matched, len(self.labels) + 1
        cause, at, length = caused_by(
            self._place[m], calls.start_ns[m], calls.transfer_start_ns[m], calls.end_ns[m], calls.waiting.last[m]
        )
        total = sum_by(cause * width + at % width, length, len(self.names) * width)
        return total.reshape(len(self.names), width)

    @property
    def _place(self) -> Int64:
        return self.calls.worker * (len(self.labels) + 1) + self.calls.step

    def count(self, rows: Bool) -> Int64:
        """Returns, for each worker, the number of calls that ``rows`` marks."""
        return np.bincount(self.calls.worker[rows], minlength=len(self.names))


@cached_by_argument
def job_data(joined: Part, chosen: tuple[str, ...] | None) -> JobData:
    """Selects the steps ``chosen`` from the result of ``merge.join``. If ``chosen`` is None, all steps are selected."""
    tables = {name: frame.data for name, frame in joined.frames.items()}
    ranks, is_rank = tables[merge.RANKS], pc.equal(tables[merge.RANKS]["left_out"], "")
    left_out = ranks.filter(pc.invert(is_rank))
    names = tuple(ranks.filter(is_rank)["worker"].to_pylist())
    labels = tuple(tables[merge.LABELS]["step"].to_pylist())
    steps, seen = tables[merge.STEPS], _job_calls(tables[merge.CALLS])
    if chosen is not None:
        wanted = set(chosen)
        steps = steps.filter(pc.is_in(steps["step"], value_set=pa.array(chosen, pa.string())))
        seen = seen.take(np.array([*(label in wanted for label in labels), False], np.bool_)[seen.step])
    world_size = joined.facts.get("distributed.world_size")
    return JobData(
        names=names,
        ranks=tuple(ranks.filter(is_rank)["rank"].to_pylist()),
        left_out=tuple(zip(left_out["worker"].to_pylist(), left_out["left_out"].to_pylist(), strict=True)),
        labels=labels,
        step_table=steps,
        calls=seen,
        world_size=world_size if isinstance(world_size, int) else None,
        reported=reported_job({name: table for name, table in tables.items() if name in REPORTED}, names, chosen),
        process_groups=tables[merge.GROUPS].to_pylist(),
        devices=tables[merge.DEVICES].to_pylist(),
        clocks=clocks_from(tables[merge.CLOCKS]),
        is_zero_reported=tables[merge.CLOCKS]["is_zero_stated"].to_numpy(),
        kernels=tables.get(merge.KERNELS),
        summary=None if chosen is None else job_data(joined, None),
    )


def _job_calls(data: pa.Table) -> JobCalls:
    start = numbers_of(data, "start_ns")
    return JobCalls(
        data=data,
        worker=numbers_of(data, "worker"),
        step=numbers_of(data, "step_place"),
        start_ns=start,
        end_ns=start + numbers_of(data, "dur_ns"),
        bytes=numbers_of(data, "comm_bytes"),
        factor=data["bus_factor"].to_numpy(),
        rated=data["rated"].to_numpy(),
        match=numbers_of(data, "match"),
        waiting=Waiting(*(numbers_of(data, key) for key in ("matched_workers", "last", "transfer_ns", "timing"))),
        late=Lateness(*(numbers_of(data, key) for key in merge.LATE)),
    )
