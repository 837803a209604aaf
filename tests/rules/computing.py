"""Steps in which the device runs one kernel after another, all launched long before, and what rules say of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tb_plugin.analysis.simulate import Change, time_saved
from tb_plugin.findings import finding
from tb_plugin.rules import regular_rules
from tb_plugin.rules._base import Bounds, Rule, Scene
from tests.builders import TraceBuilder, kernel, trace

FLOAT, HALF = "float", "c10::BFloat16"
ADD = "void at::native::vectorized_elementwise_kernel<4, add>"


@dataclass(frozen=True)
class Op:
    """An operator (inside of others, the outermost first) and its kernel; microseconds."""

    names: str
    dur: float
    kernel: str = ADD
    shapes: Any = None
    type: str | None = None


@dataclass
class Program:
    """One step: operators begin 2 us after another, kernels run from 10,000 us on without a gap."""

    builder: TraceBuilder = field(default_factory=trace)
    now: float = 1
    free: float = 10_000

    def run(self, *ops: Op) -> Program:
        for op in ops:
            types = [op.type] * len(op.shapes or [()]) if op.type else None
            for depth, name in enumerate(op.names.split(" > ")):
                at = self.now + depth / 10
                self.builder.op(name, at, 1.5 - depth / 5, shapes=op.shapes, **{"Input type": types})
            self.builder.launches(kernel(op.kernel, op.dur, self.free), dur=0.5)
            self.now, self.free = self.now + 2, self.free + op.dur
        return self

    def done(self) -> TraceBuilder:
        return self.builder.step(1, 0, self.now)


@dataclass(frozen=True)
class Said:
    """What a rule says: its text, and what goes at least and at best (microseconds of the device), None = nobody knows."""

    text: str
    least: float | None
    most: float | None


def said(rule: str, builder: TraceBuilder) -> Said | None:
    """What a rule says about a trace; whatever the order of its events it is the same."""
    answers = []
    for order in (1, -1):
        builder.events = builder.events[::order]
        (look,) = [each.look for each in regular_rules() if each.id == rule]
        seen = look(Scene(builder.table()))
        if seen is None:
            answers.append(None)
            continue
        bounds = (seen.saving.least, seen.saving.most) if isinstance(seen.saving, Bounds) else (None, None)
        answers.append(Said(finding(seen.notice).text, *map(total, bounds)))
    assert answers[0] == answers[1], "the order of events says nothing"
    return answers[0]


def saving(rule: Rule, builder: TraceBuilder) -> tuple[float, float]:
    """What all steps save together at least and at most, microseconds."""
    table = builder.table()
    found, steps = rule.look(Scene(table)), Scene(table).steps
    assert found is not None and isinstance(found.saving, Bounds)
    (low,) = time_saved(table, steps, [found.saving.least], careful=True)
    (high,) = time_saved(table, steps, [found.saving.most], careful=False)
    return float(low) / 1000, float(high) / 1000


def total(change: Change | None) -> float | None:
    return None if change is None else int(change.less_ns.sum()) / 1000
