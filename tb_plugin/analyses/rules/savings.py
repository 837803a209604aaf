"""What rules see, with what mending each would save, the most first: one answer for Findings and Overview."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.analyses.rules import RULES
from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.low_utilization import IDLE, is_explained
from tb_plugin.analyses.rules.low_utilization import RULE as LOW
from tb_plugin.analyses.severity import severity_of
from tb_plugin.analyses.what_if import Change, saved, together
from tb_plugin.payloads import Notice, Saving, Severity
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]

WORTH = 0.01
"""Share of the step that a finding has to save at best: less is lost in the noise of steps."""
MEDIUM_SHARE = 0.05
EVENTS = 100
"""So many events of a finding are listed."""
_LOUDEST: tuple[Severity, ...] = ("high", "medium", "low", "info")


@dataclass(frozen=True, eq=False)
class Finding:
    """One finding: the rule, what is told, and the events that show it (rows, what matters most first)."""

    rule: Rule
    notice: Notice
    events: Int64


@dataclass(frozen=True, eq=False)
class Findings:
    """All findings of some steps, most to save first, and what mending all of them would save a step (nanoseconds)."""

    found: tuple[Finding, ...]
    together: Saving
    step_ns: float

    @property
    def notices(self) -> list[Notice]:
        """Returns what is told, in order."""
        return [each.notice for each in self.found]


@remembered
def findings_of(trace: TraceTable, chosen: tuple[str, ...] | None) -> Findings:
    """Returns the findings of the steps with these labels (None: all). None speaks about a file that ends early.

    Raises BadRequest for unknown steps.
    """
    scene = Scene(trace, chosen)
    if not trace.report.complete:
        return Findings((), Saving(0.0, 0.0, 0.0), scene.step_ns)
    seen = [(rule, found) for rule in RULES if (found := rule.look(scene)) is not None]
    changes = [(each.least, each.most or each.least) for _, each in seen if each.least is not None]
    least, most = [a for a, _ in changes if a is not None], [b for _, b in changes if b is not None]
    savings, whole = _savings(scene, least, most)
    given = iter(savings)
    every = [_finding(scene, rule, each, None if each.least is None else next(given)) for rule, each in seen]
    worth = [each for each in every if _is_worth(each, scene.step_ns)]
    if is_explained(scene, whole.high_ns):
        worth = [each for each in worth if each.rule is not LOW]
    elif all(each.rule is not LOW for each in worth) and (idle := IDLE.look(scene)) is not None:
        worth.append(_finding(scene, IDLE, idle, None))
    worth.sort(key=lambda each: (-(each.notice.saving.high_ns if each.notice.saving else 0.0),
                                 _LOUDEST.index(each.notice.severity)))  # fmt: skip
    return Findings(tuple(worth), whole, scene.step_ns)


def _is_worth(finding: Finding, step_ns: float) -> bool:
    saving = finding.notice.saving
    return saving is None or saving.high_ns >= max(WORTH * step_ns, 1)


def _savings(scene: Scene, least: list[Change], most: list[Change]) -> tuple[list[Saving], Saving]:
    """What each change saves a step, and all of them together."""
    if not most:
        return [], Saving(0.0, 0.0, 0.0)
    others = [together(most[:i] + most[i + 1 :]) for i in range(len(most))]
    low = saved(scene.trace, scene.steps, [*least, together(least)], careful=True)
    high = saved(scene.trace, scene.steps, [*most, together(most), *others], careful=False)
    n = len(most)
    # A step with more work in it (worth several) may save less beside others than these alone.
    low[n] = low.max()
    high[: n + 1] = np.maximum(high[: n + 1], low)
    high[n] = high[: n + 1].max()
    alone = np.maximum(high[n] - high[n + 1 :], 0)
    shared = np.clip(high[:n] - alone, 0, high[:n])
    mean = scene.per_step
    each = [Saving(mean(int(a)), mean(int(b)), mean(int(c))) for a, b, c in zip(low[:n], high[:n], shared, strict=True)]
    return each, Saving(mean(int(low[n])), mean(int(high[n])), 0.0)


def _finding(scene: Scene, rule: Rule, seen: Seen, saving: Saving | None) -> Finding:
    notice = seen.notice
    if saving is not None:
        share = saving.high_ns / scene.step_ns if scene.step_ns else 0.0
        notice = replace(notice, saving=saving, severity=severity_of(share) if share >= MEDIUM_SHARE else "low")
    events = seen.events[:EVENTS]
    return Finding(rule, replace(notice, title=rule.title, events=events.tolist()), events)
