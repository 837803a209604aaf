"""Which category a block belongs to: the rule by hand and recounted, on a trace, and beside what PyTorch recorded."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.memory.categories import block_categories
from tb_plugin.analysis.memory.owners import owners_of
from tb_plugin.analysis.memory.trace_devices import devices_of
from tb_plugin.analysis.memory_categories import ORDER, Lives, When, categories_of
from tb_plugin.model.category_memory import CATEGORIES
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown
from tests.builders import model, part, trace
from tests.depth import examples
from tests.formats.sources import DATA
from tests.samples import SAMPLES

N, B, F, G, S, C = When.NEVER, When.BETWEEN, When.FORWARD, When.BACKWARD, When.STEP, When.CLEAR
Row = tuple[int, When, When, int, int, bool, bool]
"""Bytes, begin, end, passes begun at either, within one operator, within one stage."""


def lives(rows: list[Row]) -> Lives:
    columns = list(zip(*rows, strict=True)) or [()] * 7
    kinds = (np.int64, np.int8, np.int8, np.int64, np.int64, np.bool_, np.bool_)
    return Lives(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def judged(*rows: Row) -> list[str]:
    return [ORDER[code] for code in categories_of(lives(list(rows)))]


@pytest.mark.parametrize(
    ("row", "category"),
    [
        ((64, B, N, 0, 0, False, False), "parameter"),
        ((64, B, B, 0, 2, False, False), "parameter"),  # lets go after the last pass
        ((65, B, N, 0, 0, False, False), "input"),  # no gradient is as large
        ((64, B, B, 1, 2, False, False), "input"),
        ((8, B, F, 1, 2, False, False), "input"),
        ((8, B, B, 1, 1, False, True), "temporary"),
        ((8, F, G, 1, 1, False, False), "activation"),
        ((8, F, N, 1, 0, False, False), "activation"),
        ((8, F, F, 1, 1, True, True), "temporary"),
        ((8, F, F, 1, 1, False, True), "activation"),
        ((64, G, C, 1, 1, False, False), "gradient"),
        ((64, G, N, 1, 0, False, False), "gradient"),
        ((64, G, G, 1, 2, False, False), "gradient"),
        ((64, G, G, 1, 1, False, True), "autograd_detail"),
        ((8, S, N, 1, 0, False, False), "optimizer_state"),
        ((8, S, S, 1, 1, False, True), "unknown"),
        ((8, S, S, 1, 1, True, True), "temporary"),
        ((8, S, S, 1, 2, False, False), "optimizer_state"),
        ((64, N, C, 0, 1, False, False), "gradient"),
        ((64, N, G, 0, 1, False, False), "activation"),
        ((64, N, B, 0, 1, False, False), "unknown"),
    ],
)
def test_by_hand(row: Row, category: str) -> None:
    assert judged(row, (64, G, C, 2, 2, False, False))[0] == category


def test_without_gradients_what_stays_is_a_parameter_and_without_a_pass_nothing_is_known() -> None:
    assert judged((65, B, N, 0, 0, False, False), (8, F, F, 1, 1, False, True)) == ["parameter", "activation"]
    assert judged((65, B, N, 0, 0, False, False), (8, G, C, 0, 0, False, False)) == ["unknown"] * 2
    assert judged() == []


@pytest.mark.parametrize(("older", "category"), [(2, "parameter"), (3, "unknown")])
def test_what_is_older_than_the_recording_are_parameters_if_there_are_no_more_than_gradients(
    older: int, category: str
) -> None:
    """Two gradients of 64 bytes in each of two passes; a third old block may be optimizer state."""
    gradients = [(64, G, C, of, of, False, False) for of in (1, 1, 2, 2)]
    assert judged(*[(64, N, N, 0, 0, False, False)] * older, *gradients)[:older] == [category] * older
    assert judged((65, N, N, 0, 0, False, False), *gradients)[0] == "unknown"


def plain(row: Row, rows: list[Row]) -> str:
    """The rule as docs/concepts words it."""
    size, begin, end, first, last, in_operator, in_stage = row
    passes = max(n for one in rows for n in one[3:5])
    gradients = {one[0] for one in rows if one[1] == G and not one[6]}
    if passes == 0:
        return "unknown"
    if begin == N and end == N:
        alike = Counter(one[3] for one in rows if one[1] == G and not one[6] and one[0] == size)
        older = sum(one[:3] == row[:3] for one in rows)
        return "parameter" if older <= max(alike.values(), default=0) else "unknown"
    if begin == N:
        return {C: "gradient", G: "activation"}.get(end, "unknown")
    if begin == G and not in_stage:
        return "gradient"
    if in_operator:
        return "temporary"
    if begin in (G, F):
        return "autograd_detail" if begin == G else "activation"
    if begin in (S, C):
        return "unknown" if in_stage or begin == C else "optimizer_state"
    if first == 0 and ((end == N and not gradients) or (size in gradients and (end == N or last == passes))):
        return "parameter"
    return "temporary" if in_stage else "input"


stages = st.sampled_from([N, B, F, G, S, C])
row = st.tuples(
    st.sampled_from([1, 2, 3]), stages, stages, st.integers(0, 2), st.integers(0, 2), st.booleans(), st.booleans()
)


@examples(suite=20, deep=500)
@given(rows=st.lists(row, min_size=1, max_size=12))
def test_recounted(rows: list[Row]) -> None:
    assert judged(*rows) == [plain(one, rows) for one in rows]


def test_a_trace() -> None:
    """Two steps: a batch, a forward operator, its backward one, the optimizer."""
    builder = trace().memory(1, 64, Addr=1).memory(2, 40, Addr=2)  # a parameter, and a buffer of another size
    for start, seq in ((100, 1), (200, 2)):
        builder.op("aten::randn", start, 4).memory(start + 1, 10, Addr=start)
        builder.op("aten::mm", start + 10, 10, sequence=seq, forward_thread=0)
        builder.memory(start + 11, 30, Addr=start + 1).memory(start + 12, 5, Addr=start + 2).memory(
            start + 13, -5, Addr=start + 2
        )
        builder.op("autograd::engine::evaluate_function: MmBackward0", start + 30, 10)
        builder.op("MmBackward0", start + 31, 8, sequence=seq, forward_thread=1)
        builder.arrow(start + 10, start + 31, 1, 1)
        builder.memory(start + 32, 64, Addr=start + 3).memory(start + 33, 7, Addr=start + 4)
        builder.memory(start + 39, -30, Addr=start + 1)
        builder.memory(start + 42, -7, Addr=start + 4)  # between two backward operators
        builder.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", start + 43, 2)
        builder.annotation("Optimizer.step#SGD.step", start + 50, 10)
        if seq == 1:
            builder.memory(start + 51, 64, Addr=3)
        builder.op("aten::mul", start + 52, 2).memory(start + 53, 9, Addr=start + 5)
        builder.op("aten::add", start + 55, 2).memory(start + 56, -9, Addr=start + 5)
        builder.annotation("Optimizer.zero_grad#SGD.zero_grad", start + 61, 5).memory(start + 62, -64, Addr=start + 3)
        builder.memory(start + 70, -10, Addr=start)
    table = builder.table()
    device = devices_of(table)[0]
    found = block_categories(table, owners_of(table), device)
    assert found.any_pass
    told = [(int(size), ORDER[code]) for size, code in zip(device.blocks.size, found.of, strict=True)]
    step = [(10, "input"), (30, "activation"), (5, "temporary"), (64, "gradient"), (7, "autograd_detail")]
    assert told == [
        (64, "parameter"), (40, "input"), *step, (64, "optimizer_state"), (9, "unknown"), *step, (9, "unknown")
    ]  # fmt: skip
    assert "live_categories" not in part(trace().op("a", 0, 9).memory(1, 5, Addr=1).table(), "memory").payloads


CNN = Path(__file__).parent / "recorded"


def recordings() -> list[Any]:
    """Trace and memory timeline of one profiler: a transformer, a CNN, and PyTorch's in ../shared."""
    sample = SAMPLES / "memory_timeline_cpu"
    pairs = {
        "transformer": (next(sample.glob("*.pt.trace.json.gz")), next(sample.glob("*.raw.json.gz"))),
        "cnn": (CNN / "cnn.pt.trace.json.gz", CNN / "cnn.memory_timeline.raw.json.gz"),
        "torch213": (
            DATA / "torch213/verbose_stack_mem.pt.trace.json.gz",
            DATA / "torch213/memory_timeline.raw.json.gz",
        ),
    }
    absent = pytest.mark.skipif(not DATA.is_dir(), reason="the real traces of ../shared/data are not here")
    return [pytest.param(*pair, id=name, marks=absent if name == "torch213" else ()) for name, pair in pairs.items()]


def at_the_peak(path: Path, timeline: Path) -> tuple[TraceTable, Counter[str], Counter[str]]:
    """Bytes by category of what was allocated in a trace and there at the recorded peak: judged, and recorded."""
    table, rows = model(path), json.loads(gzip.decompress(timeline.read_bytes()))
    (device,) = [one for one in devices_of(table) if one.is_host]
    before, level, peak = Counter[str](), Counter[str](), (-1, 0, Counter[str]())
    for i, (time, _, size, category) in enumerate(rows):
        (before if time < 0 else level)[CATEGORIES[category]] += size
        if time >= 0 and (i + 1 == len(rows) or rows[i + 1][0] != time):
            peak = max(peak, (sum(level.values()), -time, level.copy()), key=lambda one: one[:2])
    grown = [(t, s) for t, s in zip(device.time_ns.tolist(), device.bytes.tolist(), strict=True) if s > 0]
    created = [(t, s) for t, a, s, _ in rows if a == 2]
    # Both list the same allocations; the difference of the clocks is the commonest one.
    apart = Counter(c[0] - g[0] for c in created[:30] for g in grown if c[1] == g[1]).most_common(1)[0][0]
    assert sorted(created) == sorted((t + apart, s) for t, s in grown)
    codes = block_categories(table, owners_of(table), device).of
    alive = device.blocks.live_at(device.at(-peak[1] - apart))
    judged = Counter[str]()
    for code, size in zip(codes[alive], device.blocks.size[alive], strict=True):
        judged[ORDER[code]] += int(size)
    return table, judged, +peak[2]


@pytest.mark.parametrize(("path", "timeline"), recordings())
def test_four_fifths_of_the_bytes_at_the_peak_are_as_recorded(path: Path, timeline: Path) -> None:
    _, judged, recorded = at_the_peak(path, timeline)
    total = sum(recorded.values())
    assert sum(judged.values()) == total > 0
    same = sum(min(judged[category], recorded[category]) for category in ORDER)
    assert same >= 0.9 * total, (judged, recorded)
    told = total - recorded["unknown"]
    assert sum(min(judged[each], recorded[each]) for each in ORDER if each != "unknown") >= 0.99 * told


def test_the_bar_sums_to_the_total() -> None:
    table = model(next((SAMPLES / "memory_timeline_cpu").glob("*.pt.trace.json.gz")))
    end = int(table.memory.time_ns[-1])
    for at in (None, 0, end // 3, end // 2, end):
        found = part(table, "memory", extra=() if at is None else (("at_ns", str(at)),)).payloads
        bar, other = found["live_categories"], found["live_operators"]
        assert isinstance(bar, Breakdown) and isinstance(other, Breakdown)
        assert sum(one.value for one in bar.parts) == bar.total == other.total
