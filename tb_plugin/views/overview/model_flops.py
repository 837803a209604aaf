"""Model FLOPs utilization (MFU) of steps."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.recomputation import recomputations
from tb_plugin.analysis.selection import chosen_steps, select_rows, steps_of_rows
from tb_plugin.analysis.step_shares import StepShares
from tb_plugin.analysis.work.operator_work import launched_computation, operator_work
from tb_plugin.analysis.work.rates import nullable
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure
from tb_plugin.views.overview.metrics import METRICS

# With less kernel time in operators with known FLOPs and peaks, the utilization is not shown.
MIN_COVERED_RATIO = 0.8


class ModelFlops(msgspec.Struct, frozen=True, eq=False):
    """Least times of matrix products, convolutions and attention at peak FLOP rates, one value per step."""

    least_ns: Float64
    """Without recomputation."""
    recomputed_ns: Float64
    covered_ns: Int64
    """Kernel time of operators with known FLOPs and peaks."""
    kernel_ns: Int64
    """Kernel time without collectives."""
    step_ns: Int64
    """Duration of the step, multiplied by the number of devices."""

    @property
    def covered_ratio(self) -> float:
        return int(self.covered_ns.sum()) / max(int(self.kernel_ns.sum()), 1)

    @property
    def is_covered(self) -> bool:
        return self.covered_ratio > MIN_COVERED_RATIO and bool(self.least_ns.any())

    def columns(self) -> dict[str, pa.Array]:
        """Returns the utilization of each step, null where too little kernel time is covered."""
        if not self.is_covered:
            return {}
        usable = (self.covered_ns > MIN_COVERED_RATIO * self.kernel_ns) & (self.step_ns > 0)
        length = np.where(usable, self.step_ns, np.nan)
        found = {"mfu": nullable(self.least_ns / length)}
        if self.recomputed_ns.any():
            found["hfu"] = nullable((self.least_ns + self.recomputed_ns) / length)
        return found

    def figures(self, window: str) -> list[Figure]:
        """Returns the utilization over all steps; empty if too little kernel time is covered."""
        length = int(self.step_ns.sum())
        if not self.is_covered or not length:
            return []
        least, again = float(self.least_ns.sum()), float(self.recomputed_ns.sum())
        note = f"{100 * self.covered_ratio:.0f} % of kernel time covered, without communication"
        found = [METRICS.figure("mfu", least / length, note=note, window=window)]
        if again:
            found.append(METRICS.figure("hfu", (least + again) / length, note="with recomputation", window=window))
        return found


def model_flops(trace: TraceTable, steps: tuple[str, ...] | None, breakdown: StepShares) -> ModelFlops:
    """Returns the utilization of the steps in ``breakdown``."""
    kernels = select_rows(trace, steps).of(trace, EventKind.KERNEL)
    kernels = kernels[launched_computation(trace, kernels)]
    work = operator_work(trace, steps)
    count = len(breakdown.label)
    place = np.full(len(trace.steps.label) + 1, MISSING, np.int64)  # the last entry is for events outside steps
    place[chosen_steps(trace, steps)] = np.arange(count)
    if not trace.steps.recorded:
        place[:] = 0
    step = place[steps_of_rows(trace)]
    compute_ns = np.where(work.is_matrix, work.compute_ns, 0.0)
    has_peak = ~np.isnan(compute_ns)
    again = np.isin(work.row, recomputations(trace).operator)

    def total(of: Bool) -> Float64:
        some = of & has_peak & (step[work.row] != MISSING)
        found: Float64 = np.bincount(step[work.row[some]], compute_ns[some], count).astype(np.float64)
        return found

    return ModelFlops(
        least_ns=total(~again),
        recomputed_ns=total(again),
        covered_ns=sum_by(step[work.row], np.where(has_peak, work.kernel_ns, 0), count),
        kernel_ns=sum_by(step[kernels], trace.dur_ns[kernels], count),
        step_ns=breakdown.total * len(np.unique(trace.device[(trace.kind == EventKind.KERNEL) & ~trace.is_collective])),
    )
