"""No saving is larger than the waits that go and the idle time after them, nor than the kernel time that it touches."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tb_plugin.analysis.reported_steps import missing_computation
from tb_plugin.model.trace.schema import DEVICE_WORK
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules import regular_rules
from tb_plugin.rules._base import Bounds, Scene
from tb_plugin.rules._ordered_findings import Findings, findings_of
from tb_plugin.rules._verdict import Limit
from tests import faults
from tests.builders import TraceBuilder, kernel, memcpy, model, trace
from tests.conftest import SHARED, UNLIKE
from tests.depth import DEEP, sampled
from tests.samples import made

MS = 1000


def high(findings: Findings, rule: str) -> float:
    """Upper bound in microseconds; 0 where the rule tells nothing."""
    found = [each.notice.saving for each in findings.all if each.rule.id == rule]
    return found[0].high_ns / 1000 if found and found[0] is not None else 0.0


def convolution(wait: int = 24, kernels: bool = True) -> TraceBuilder:
    """A convolution of 30 ms waits shortly: streams and launches take the rest (cases/sync_upper_whole_operator)."""
    builder = trace().op("aten::uniform_", 0, 20 * MS).op("aten::conv2d", 22 * MS, 30 * MS)
    builder.call(22_100, 13 * MS, name="cudaStreamCreateWithFlags").call(36 * MS, wait, name="cudaMemcpy")
    work = [kernel("conv", 50, 49 * MS)] if kernels else []
    builder.launches(*work, at=37 * MS, dur=12 * MS).op("aten::relu", 53 * MS, 2 * MS)
    return builder.launches(*([kernel("relu", 50, 54_200)] if kernels else []), at=53_100, dur=MS)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("wait", [24, 616, 900])
def test_a_short_wait_in_a_long_operator_saves_no_more_than_itself(wait: int, kernels: bool) -> None:
    """The convolution takes 30 ms whether it waits or not. 1 % of 55 ms is 550 us."""
    found = high(findings_of(convolution(wait, kernels).table(), None), "synchronising_calls")
    assert found == 0 if wait < 550 else wait <= found <= 1.03 * wait


def test_an_operator_that_is_there_for_its_wait_goes_with_it_while_the_device_idles() -> None:
    """``aten::item`` takes 100 us, waits in [110, 180), and the device is busy until 170: 70 us of wait, 20 after it."""
    builder = trace().step(1, 0, 1000).op("aten::mm", 0, 20).launches(kernel("a", 140, 30), at=5, dur=5)
    builder.op("aten::item", 100, 100).call(110, 70, name="cudaStreamSynchronize")
    builder.op("aten::mm", 210, 20).launches(kernel("b", 700, 240), at=215, dur=5)
    assert high(findings_of(builder.table(), None), "synchronising_calls") == pytest.approx(1.03 * 90)


def test_a_saving_is_no_longer_than_the_idle_time() -> None:
    """The data loader takes 500 us, the device is busy for 450 of them and for 450 later on."""
    builder = trace().step(1, 0, 1000).op("aten::mm", 0, 10).launches(kernel("a", 450, 10), at=0, dur=5)
    builder.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 500)
    builder.op("aten::mm", 515, 10).launches(kernel("b", 450, 530), at=515, dur=5)
    assert 0 < high(findings_of(builder.table(), None), "data_loading") <= 1000 - 900


def test_what_makes_kernels_shorter_saves_no_more_than_they_take() -> None:
    builder = trace().step(1, 0, 500).op("aten::mm", 0, 10).launches(kernel("a", 400, 10), at=0, dur=5)
    builder.op("aten::to", 12, 10).launches(memcpy(200, 410), at=14, dur=5, name="cudaMemcpyAsync")
    builder.op("aten::mm", 25, 10).launches(kernel("b", 390, 610), at=27, dur=5)
    assert high(findings_of(builder.table(), None), "exposed_copies") == 200


def test_code_that_is_loaded_once_is_saved_by_no_finding() -> None:
    """A chain of three elementwise kernels of 10 us each: the launch of the second one loads code for 5 ms."""
    builder = trace().step(1, 0, 8000)
    for i in range(20):
        builder.op("aten::mm", 20 * i, 15).launches(kernel("gemm", 10, 20 * i + 30), at=20 * i + 2, dur=5)
    at = 500
    for name, dur in (("mul", 5), ("add", 5000), ("exp", 5)):
        builder.op(f"aten::{name}", at, dur + 10)
        builder.launches(kernel(f"vectorized_elementwise_kernel<{name}>", 10, at + dur + 20), at=at + 2, dur=dur)
        at += dur + 20
    findings = findings_of(builder.table(), None)
    assert max((high(findings, each.rule.id) for each in findings.all), default=0) < 3000
    assert findings.verdict is not None and findings.verdict.limit is Limit.INITIALISATION


# -- all rules, over everything there is

INVENTED = [fault for fault in faults.FAULTS if any(rule.id == fault for rule in regular_rules())]
RECORDED = [
    str(path)
    for folder in ("hta", "kineto", "megengine", "tracelens")
    for path in sorted(SHARED.glob(f"data/{folder}/**/*.json*"))
    if DEEP
]


def covered(start: np.ndarray, end: np.ndarray) -> int:
    """Length of a union of intervals, in plain Python."""
    total, last = 0, -(2**62)
    for a, b in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        total += max(0, b - max(a, last))
        last = max(last, b)
    return total


def check(table: TraceTable) -> int:
    """Each upper bound against the idle time of every device and the work that the rule shortens; how many there are."""
    scene, count = Scene(table), 0
    if missing_computation(table) is not None:
        return 0
    start, end = scene.steps.start_ns, scene.steps.end_ns
    length = int((end - start).sum())
    work = np.isin(table.kind, [int(kind) for kind in DEVICE_WORK])
    for each in findings_of(table, None).all:
        seen = each.rule.look(scene)
        saving = each.notice.saving
        if saving is None or seen is None or not isinstance(seen.saving, Bounds):
            continue
        count += 1
        change = seen.saving.most
        assert saving.low_ns <= saving.high_ns
        known = int(change.step_ns.clip(0).sum())
        limits = [length]
        for device in np.unique(table.device[work]).tolist():
            rows = work & (table.device == device)
            begin, stop = table.start_ns[rows], table.ends(np.flatnonzero(rows))
            busy = sum(covered(begin.clip(a, b), stop.clip(a, b)) for a, b in zip(start, end, strict=True))
            mine = (table.device[change.row] == device) & (change.less_ns > 0)
            idle = length - busy if len(change.host) or change.worth > 1 else 0
            if each.rule.id == "decode_gaps":  # which speaks of time between steps as well
                gaps = [(a, b) for a, b in zip(end[:-1], start[1:], strict=True) if a < b]
                idle += sum(b - a - covered(begin.clip(a, b), stop.clip(a, b)) for a, b in gaps)
            limits.append(idle + int(change.less_ns[mine].sum()) + known)
        allowed = min(limits) if seen.takes_ns is None else min(*limits, seen.takes_ns)
        assert saving.high_ns * len(start) <= allowed + len(start), each.rule.id
    return count


@cache
def planted(fault: str) -> TraceTable:
    return model(faults.run(faults.Config(seed=4, steps=4, fault=fault)).text().encode())


@pytest.mark.parametrize("fault", sampled(INVENTED, INVENTED[::3]))
def test_bounds_of_planted_faults(fault: str) -> None:
    assert (
        check(planted(fault)) or fault in faults.COSTLESS or not any(r.id == fault and r.saves for r in regular_rules())
    )


@pytest.mark.parametrize("name", UNLIKE)
def test_bounds_of_samples(name: str) -> None:
    check(made(name))


@pytest.mark.parametrize("name", RECORDED)
def test_bounds_of_recordings(name: str) -> None:
    check(model(Path(name)))
