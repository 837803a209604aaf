"""Where blocks come from: their line of Python, phase and step, what each step keeps, and what was live by them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.annotations import phases_of
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.memory.owners import owners_of, tracks_of
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, analysis, part, rows, trace
from tests.conftest import UNLIKE, WITH_MEMORY, sample

RECORDED = [name for name in UNLIKE if name in WITH_MEMORY]
KEPT = ("kept_blocks", "kept_bytes", "kept_to_end_blocks", "kept_to_end_bytes")


def got(builder: TraceBuilder, at: int, address: int, size: int, tid: int = 1) -> None:
    builder.memory(at, size, 1, 0, tid=tid, Addr=address, **{"Total Allocated": 1000 + at, "Total Reserved": 2000})


def training() -> TraceBuilder:
    """Two steps with phases; backward on a thread of its own; an own function inside of an operator."""
    builder = trace()
    for step in (0, 1):
        at = 1000 * step
        builder.step(step, at, 1000).annotation(f"forward {step}", at + 10, 200)
        builder.python("train.py(5): loop", at + 5, 900).python("torch/nn/functional.py(7): linear", at + 20, 100)
        builder.op("aten::linear", at + 30, 50, sequence=7 + step)
        builder.op("MyFunction", at + 130, 60).python("model.py(3): forward", at + 140, 20)
        got(builder, at + 35, 10 + step, 64)
        got(builder, at + 145, 20 + step, 32)
        got(builder, at + 165, 30 + step, 16)
        builder.annotation(f"backward {step}", at + 300, 200)
        builder.op("LinearBackward0", at + 310, 40, tid=2, sequence=7 + step, forward_thread=1)
        got(builder, at + 320, 40 + step, 8, tid=2)
        got(builder, at + 320, 10 + step, -64, tid=2)
        got(builder, at + 950, 50 + step, 4)
    got(builder, 1100, 20, -32)
    return builder


def test_each_block_has_a_line_a_phase_and_a_step() -> None:
    found = {
        r["block_bytes"]: tuple(r[key] for key in ("name", "allocation_frame", "allocation_phase", "outlives_step"))
        for r in rows(training().table(), "memory", "memory_events")
        if r["allocation_step"] == "0"
    }
    assert found == {
        64: ("aten::linear", "train.py(5): loop", "forward *", False),
        32: ("MyFunction", "model.py(3): forward", "forward *", True),
        16: ("MyFunction", "train.py(5): loop", "forward *", True),
        # On a thread without Python: the line of its forward operator, the phase of the thread that it works for.
        8: ("LinearBackward0", "train.py(5): loop", "backward *", True),
        4: ("(no operator)", None, None, True),
    }


def test_what_each_step_keeps() -> None:
    found = rows(training().table(), "memory", "memory_steps")
    assert [
        (r["allocation_step"], r["name"], r["allocation_frame"], *(r[key] for key in KEPT)) for r in found
    ] == [
        ("0", "MyFunction", "train.py(5): loop", 1, 16, 1, 16),
        ("0", "LinearBackward0", "train.py(5): loop", 1, 8, 1, 8),
        ("0", "(no operator)", None, 1, 4, 1, 4),
        ("0", "MyFunction", "model.py(3): forward", 1, 32, 0, 0),
        # What comes after the last step may release it.
        ("1", "MyFunction", "model.py(3): forward", 1, 32, None, None),
        ("1", "MyFunction", "train.py(5): loop", 1, 16, None, None),
        ("1", "LinearBackward0", "train.py(5): loop", 1, 8, None, None),
        ("1", "(no operator)", None, 1, 4, None, None),
    ]  # fmt: skip
    assert {r["allocation_step"] for r in rows(training().table(), "memory", "memory_steps", steps=("1",))} == {"1"}


def test_a_row_of_a_step_leads_to_its_blocks() -> None:
    table = training().table()
    found = part(table, "memory")
    for r in rows(table, "memory", "memory_steps"):
        where = [(key, r[key] or "") for key in ("allocation_step", "name", "module", "allocation_frame")]
        page: Any = analysis("memory").answer(
            [found], Params(table="memory_events", where=(*where, ("outlives_step", "true")))
        )
        assert (page.matched_rows, sum(b["block_bytes"] for b in page.rows)) == (r["kept_blocks"], r["kept_bytes"])


def test_live_by_line_and_phase() -> None:
    found = part(training().table(), "memory", extra=(("at_ns", "200000"),))
    bars = {
        name: {p.metric.title: p.value for p in found.payloads[name].parts} for name in ("live_frames", "live_phases")
    }
    rest = 1000 + 165 - 112
    assert bars == {
        "live_frames": {"train.py(5): loop": 80, "model.py(3): forward": 32, "before the trace": rest},
        "live_phases": {"forward *": 112, "before the trace": rest},
    }
    live = found.frames["memory_peak"]
    assert [c.metric.key for c in live.columns][:5] == [
        "name", "outermost_operator", "module", "allocation_frame", "allocation_phase"
    ]  # fmt: skip


def test_what_a_trace_does_not_tell_has_no_column() -> None:
    builder = trace().op("a", 0, 100)
    got(builder, 10, 1, 8)
    found = part(builder.table(), "memory")
    keys = {column.metric.key for frame in found.frames.values() for column in frame.columns}
    assert not keys & {"allocation_frame", "allocation_phase", "allocation_step", "outlives_step"}
    assert not {"live_frames", "live_phases", "live_modules"} & found.payloads.keys()


@pytest.mark.parametrize("name", RECORDED)
def test_lines_and_phases_of_samples_recounted(name: str) -> None:
    """Event by event: of what is open on its thread, the operator or Python call that began last, and the annotation."""
    table = sample(name)
    lines, phases, owners = code_lines(table), phases_of(table), owners_of(table)
    start, end = table.start_ns.tolist(), table.end_ns.tolist()
    by_track = defaultdict(list)
    for row, (track, kind) in enumerate(zip(table.track.tolist(), table.kind.tolist(), strict=True)):
        by_track[track].append((row, kind))
    expected: Counter[tuple[Any, ...]] = Counter()
    sizes, tracks = table.memory.bytes.tolist(), tracks_of(table).tolist()
    every = [i for i, size in enumerate(sizes) if size > 0 and table.memory.address[i] not in (0, MISSING)]
    chosen = every[:: max(1, len(every) // 60)]
    for i in chosen:
        at = int(table.memory.time_ns[i])
        there = [(r, k) for r, k in by_track[tracks[i]] if start[r] <= at < end[r]]
        calls = [r for r, k in there if k in (EventKind.OPERATOR, EventKind.PYTHON, EventKind.MODULE)]
        line = int(lines.of[calls[-1]]) if calls else MISSING
        line = int(lines.of[owners.forward[i]]) if line == MISSING else line
        names = [table.strings[int(table.name[r])] for r, k in there if k == EventKind.ANNOTATION]
        names = [text for text in names if not STEP_NAME.match(text)]
        phase = phases.labels[int(phases.of[table.strings.find(names[-1])])] if names else None
        expected[at, sizes[i], lines.texts[line].as_py() if line != MISSING else None, phase] += 1
    times = {int(table.memory.time_ns[i]) for i in chosen}
    found = Counter(
        (r["allocated_at_ns"], r["block_bytes"], r["allocation_frame"], r["allocation_phase"])
        for r in rows(table, "memory", "memory_events")
        if r["allocated_at_ns"] in times
    )
    assert all(found[key] >= count for key, count in expected.items()), expected - found


def kept_of(table: TraceTable) -> Counter[tuple[Any, ...]]:
    """Blocks and bytes that outlive their step, and of these what nothing releases, one event at a time."""
    found: Counter[tuple[Any, ...]] = Counter()
    open_at: dict[tuple[int, int, int], tuple[int, int, bool]] = {}
    steps = list(
        zip(table.steps.label, table.steps.host_start_ns.tolist(), table.steps.host_end_ns.tolist(), strict=True)
    )
    memory = table.memory
    blocks = []
    for at, size, address, kind, number in zip(
        memory.time_ns.tolist(), memory.bytes.tolist(), memory.address.tolist(), memory.device_type.tolist(),
        memory.device_id.tolist(), strict=True,
    ):  # fmt: skip
        if not size or address in (0, MISSING):
            continue
        key = (kind, -1 if kind == 0 else number, address)
        if size > 0:
            # An address that is got twice in a row: nobody knows how long the first one lived.
            open_at[key] = (at, size, True)
        elif key in open_at:
            begin, bytes_, _ = open_at.pop(key)
            blocks.append((begin, bytes_, at))
    blocks += [(begin, bytes_, None) for begin, bytes_, _ in open_at.values()]
    for begin, size, end in blocks:
        for label, start, stop in steps if table.steps.recorded else ():
            if start <= begin < stop and (end is None or end >= stop):
                found[label, "blocks"] += 1
                found[label, "bytes"] += size
                found[label, "to end"] += size * (end is None and label != steps[-1][0])
    return +found


def kept_in(table: TraceTable) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for r in rows(table, "memory", "memory_steps"):
        for key, column in (("blocks", "kept_blocks"), ("bytes", "kept_bytes"), ("to end", "kept_to_end_bytes")):
            found[r["allocation_step"], key] += r[column] or 0
    return +found


@pytest.mark.parametrize("name", RECORDED)
def test_what_steps_of_samples_keep_recounted(name: str) -> None:
    assert kept_in(sample(name)) == kept_of(sample(name))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6), st.integers(0, 40)), max_size=25))
def test_what_any_steps_keep_recounted(blocks: list[tuple[int, int, int]]) -> None:
    """Blocks with addresses of their own: (when, size, how long; 40 = for ever), three steps of ten microseconds and gaps."""
    builder = trace().op("a", 0, 60)
    for step in range(3):
        builder.step(step, 2 + step * 12, 10)
    events = []
    for address, (at, size, life) in enumerate(blocks, 1):
        events.append((at, address, size))
        if life < 40:
            events.append((at + life, address, -size))
    for at, address, size in sorted(events, key=lambda event: event[0]):
        builder.memory(at, size, 1, 0, Addr=address)
    if blocks:
        table = builder.table()
        assert kept_in(table) == kept_of(table)
