"""Findings with their savings, largest first."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params
from tb_plugin.analysis.launches.unrecorded_work import device_occupied
from tb_plugin.analysis.metrics import Metrics, define
from tb_plugin.analysis.reported_steps import missing_computation
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change, merge_changes, time_saved
from tb_plugin.analysis.timeline_links import at_event
from tb_plugin.errors import PartFailed
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import measure, measure_within, subtract, union
from tb_plugin.lib.isolation import Isolation
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link, Notice, Saving, Severity
from tb_plugin.rules import regular_rules, rule_ids
from tb_plugin.rules._base import MIN_SHARE, Bounds, Detection, Limit, NoSaving, Rule, Scene
from tb_plugin.rules._verdict import Verdict, limit_after, verdict_of
from tb_plugin.rules.idle_device import RULE as IDLE
from tb_plugin.rules.low_utilization import RULE as LOW
from tb_plugin.rules.low_utilization import is_explained

MEDIUM_SHARE = 0.05
MARGIN = 0.03
"""Share by which each bound is moved outwards, because durations differ between runs."""
EVENTS = 100
"""Maximum number of events shown per finding."""
_LOUDEST: tuple[Severity, ...] = ("high", "medium", "low", "info")
METRICS = Metrics(define("", "text", {"ignored_rules": ("Names", "Unknown rule ids in ``torch_trace_ignore``.")}))


class LeftOut(msgspec.Struct, frozen=True):
    """Ids of rules to skip. The ids in ``ignored`` come from the log directory; some of them may be unknown."""

    dismissed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def __contains__(self, rule: str) -> bool:
        return rule in self.dismissed or rule in self.ignored


def left_out(params: Params) -> LeftOut:
    """Returns the rules to skip: those of the query parameter ``without`` and those of the log directory."""
    named = {rule for text in params.values("without") for rule in text.split(",")}
    return LeftOut(tuple(sorted(named & set(rule_ids()))), params.ignored)


def unknown_notices(out: LeftOut) -> list[Notice]:
    """Returns a notice if the log directory's list of ignored rules contains unknown ids."""
    unknown = [rule for rule in out.ignored if rule not in rule_ids()]
    if not unknown:
        return []
    return [
        Notice(
            rule="ignored_unknown",
            severity="low",
            text="The file torch_trace_ignore contains unknown rule ids: {ignored_rules}.",
            todo="Correct these ids. docs/reference/rules.md lists all rule ids.",
            figures=METRICS.measured(ignored_rules=", ".join(unknown)),
        )
    ]


NOTHING = LeftOut()
_SIMULATED = (
    Limit.DATA_LOADING, Limit.CPU, Limit.INITIALISATION, Limit.CAPTURE, Limit.COMPILATION, Limit.GPU, Limit.COPIES,
    Limit.COMMUNICATION, Limit.CPU_ONLY, Limit.UNKNOWN_KERNELS,
)  # fmt: skip
"""Limits that are parts of the step. The others are properties of the recording, which no fix of the program changes."""


class Finding(msgspec.Struct, frozen=True, eq=False):
    """A finding with the rows of its most important events, most important first."""

    rule: Rule
    notice: Notice
    events: Int64
    event_count: int
    """Number of events that show the problem, including events that are not displayed."""
    time_ns: float
    """Upper bound of the saving per step; without a saving, the time of the problem per step (0 if unknown)."""
    table: Frame | None = None

    @property
    def expected_ns(self) -> float:
        """Returns the middle of both bounds of the saving; without a saving, ``time_ns``."""
        saving = self.notice.saving
        return (saving.low_ns + saving.high_ns) / 2 if saving else self.time_ns


class Findings(msgspec.Struct, frozen=True, eq=False):
    """Findings of the selected steps, largest expected saving first, and the saving of all fixes together per step."""

    all: tuple[Finding, ...]
    combined: Saving
    step_ns: float
    left_out: tuple[Finding, ...] = ()
    """Dismissed findings. They have no savings and do not contribute to ``combined``."""
    looked: int = 0
    """Number of rules that were applied to the trace."""
    utilization: float | None = None
    """Mean utilization of the devices that ran kernels; None if unknown."""
    silent: tuple[Rule, ...] = ()
    """Rules that were skipped because kernels are missing."""
    counted: frozenset[str] = frozenset()
    """Ids of the rules that can estimate a saving for this trace."""
    failures: tuple[PartFailed, ...] = ()
    verdict: Verdict | None = None
    """Limit of the program. None if there are no steps, or if kernels are missing."""

    @classmethod
    def without(cls, verdict: Verdict | None) -> Findings:
        """Returns an empty ``Findings`` with this verdict."""
        return cls((), Saving(0.0, 0.0, 0.0, 0.0), 0.0, verdict=verdict)

    @property
    def notices(self) -> list[Notice]:
        return [replace(each.notice, events=each.events.tolist(), event_count=each.event_count) for each in self.all]


@cached_by_argument
def findings_of(trace: TraceTable, chosen: tuple[str, ...] | None, out: LeftOut = NOTHING) -> Findings:
    """Returns the findings for these steps (None: all), none for a truncated file. Raises BadRequest for unknown steps."""
    scene = Scene(trace, chosen)
    parts = Isolation()
    verdict = None
    if missing_computation(trace) is None:
        verdict = parts.run("Verdict", partial(verdict_of, trace, chosen), None)
    no_saving = Saving(0.0, 0.0, 0.0, scene.step_ns)
    if not trace.report.complete:
        return Findings((), no_saving, scene.step_ns, failures=tuple(parts.failures), verdict=verdict)
    looks = {rule: parts.run(rule.title, partial(_look, scene, rule), None) for rule in regular_rules()}
    every = [(rule, look.detection) for rule, look in looks.items() if look is not None and look.detection is not None]
    seen = [(rule, found) for rule, found in every if rule.id not in out]
    changes = [(each.saving, each.takes_ns) for _, each in seen if isinstance(each.saving, Bounds)]
    unknown: tuple[list[Saving | None] | None, Saving] = (None, no_saving)
    savings, whole = parts.run("Savings of findings", lambda: _savings(scene, changes), unknown)
    given = iter(savings or [None] * len(changes))
    told = [(rule, each, next(given) if isinstance(each.saving, Bounds) else None) for rule, each in seen]
    worth = [
        (rule, each, saving)
        for rule, each, saving in told
        if rule.stays_without_saving or isinstance(each.saving, NoSaving) or saving is not None or savings is None
    ]
    without = [(rule, found, None) for rule, found in every if rule.id in out]
    is_low = any(rule is LOW for rule, _, _ in worth)
    idle_unknown = verdict is not None and verdict.limit is Limit.GPU_NOT_RECORDED
    if idle_unknown or parts.run(LOW.title, partial(is_explained, scene, whole.high_ns), False):
        worth = [each for each in worth if each[0] is not LOW]
    elif not (without or is_low):
        idle = parts.run(IDLE.title, partial(_look, scene, IDLE), None)
        if idle is not None and idle.detection is not None:
            (without if IDLE.id in out else worth).append((IDLE, idle.detection, None))
    found = _told(scene, worth, parts)
    limit = verdict.limit if verdict is not None else None
    found.sort(
        key=lambda each: (limit not in each.rule.limits, -each.expected_ns, _LOUDEST.index(each.notice.severity))
    )
    if verdict is not None and verdict.limit is Limit.GPU and not found and not parts.failures:
        verdict = replace(verdict, limit=Limit.NOTHING)
    silent = tuple(rule for rule, look in looks.items() if look is not None and look.is_silent)
    looked = sum(look is not None and not look.is_silent and rule.id not in out for rule, look in looks.items())
    return Findings(
        tuple(found),
        whole,
        scene.step_ns,
        tuple(_told(scene, without, parts)),
        looked,
        parts.run("GPU utilization", partial(_utilization, scene), None),
        silent,
        frozenset(rule.id for rule, look in looks.items() if look is not None and look.is_counted),
        tuple(parts.failures),
        verdict,
    )


class _Look(NamedTuple):
    detection: Detection | None
    is_silent: bool
    is_counted: bool


def _look(scene: Scene, rule: Rule) -> _Look:
    if rule.is_silent(scene.trace):
        return _Look(None, True, False)
    is_counted = rule.saves and (rule.has_data is None or rule.has_data(scene.trace))
    detection = rule.look(scene)
    if detection is not None and isinstance(detection.saving, Bounds) and not rule.saves:
        raise ValueError(f"{rule.id} declares no saving but returns one.")
    return _Look(detection, False, is_counted)


def _told(scene: Scene, seen: Iterable[tuple[Rule, Detection, Saving | None]], parts: Isolation) -> list[Finding]:
    found = [parts.run(rule.title, partial(_finding, scene, rule, each, saving), None) for rule, each, saving in seen]
    return [each for each in found if each is not None]


def _utilization(scene: Scene) -> float | None:
    busy = [ratio.utilization for ratio in scene.ratios.values() if ratio.utilization is not None]
    return sum(busy) / len(busy) if busy and missing_computation(scene.trace) is None else None


def _savings(scene: Scene, seen: list[tuple[Bounds, int | None]]) -> tuple[list[Saving | None], Saving]:
    """Returns the bounds per step of each finding (None if not significant), and of all these findings together."""
    trace, steps = scene.trace, scene.steps
    changes = [(_repeated(scene, saving.least), _repeated(scene, saving.most)) for saving, _ in seen]
    low = time_saved(trace, steps, [least for least, _ in changes], careful=True)
    high = np.maximum(time_saved(trace, steps, [most for _, most in changes], careful=False), low)
    enough = max(MIN_SHARE * scene.step_ns, 1)
    limits = [_limit(scene, most, takes_ns) for (_, most), (_, takes_ns) in zip(changes, seen, strict=True)]
    bounds = [_bounds(scene, int(low[i]), int(high[i]), 0, limits[i]) for i in range(len(seen))]
    worth = [i for i, each in enumerate(bounds) if each.high_ns >= enough]
    savings: list[Saving | None] = [None] * len(changes)
    if not worth:
        return savings, Saving(0.0, 0.0, 0.0, scene.step_ns)
    least, most = [changes[i][0] for i in worth], [changes[i][1] for i in worth]
    others = [merge_changes(most[:i] + most[i + 1 :]) for i in range(len(most))]
    low_all = int(time_saved(trace, steps, [merge_changes(least)], careful=True)[0])
    high_all, *without = time_saved(trace, steps, [merge_changes(most), *others], careful=False).tolist()
    # With a larger batch (``worth`` above 1) or shorter steps, the combination may save less than some of the changes.
    low_all = max(low_all, *(int(low[i]) for i in worth))
    on_work = [each for each in least if not each.step_ns.any()]
    if 0 < len(on_work) < len(least):
        low_all = max(low_all, int(time_saved(trace, steps, [merge_changes(on_work)], careful=True)[0]))
    high_all = max(high_all, low_all, *(int(high[i]) for i in worth))
    for i, rest in zip(worth, without, strict=True):
        alone = max(high_all - rest, 0)
        savings[i] = _bounds(scene, int(low[i]), int(high[i]), max(int(high[i]) - alone, 0), limits[i])
    whole = min(_limit(scene, merge_changes(most)), sum(limits[i] for i in worth))
    return savings, _bounds(scene, low_all, high_all, 0, whole)


class AfterFixes(NamedTuple):
    """Effect of several fixes together, from one simulation with all their changes."""

    saving: Saving
    limit: Limit | None
    """Limit of the program after the fixes; None = unknown."""
    limit_ns: float
    """Time of this limit per step."""
    without_saving: tuple[Finding, ...]
    """Fixes that the simulation cannot estimate."""


def after_fixes(trace: TraceTable, chosen: tuple[str, ...] | None, out: LeftOut, fixed: frozenset[str]) -> AfterFixes:
    """Returns the effect of fixing the findings of these rules together. Other rule ids are ignored."""
    findings, scene = findings_of(trace, chosen, out), Scene(trace, chosen)
    chosen_ones = [each for each in findings.all if each.rule.id in fixed]
    seen: list[tuple[Bounds, int | None]] = []
    for each in chosen_ones:
        detection = each.rule.look(scene) if each.notice.saving is not None else None
        if detection is not None and isinstance(detection.saving, Bounds):
            seen.append((detection.saving, detection.takes_ns))
    saving = _savings(scene, seen)[1]
    limit, limit_ns = None, 0
    if findings.verdict is not None and findings.verdict.limit in _SIMULATED:
        steps = max(len(scene.steps.label), 1)
        change = merge_changes([_repeated(scene, bounds.most) for bounds, _ in seen])
        limit, limit_ns = limit_after(trace, chosen, change, int((scene.step_ns - saving.high_ns) * steps))
    unknown = tuple(each for each in chosen_ones if each.notice.saving is None)
    return AfterFixes(saving, limit, scene.per_step(limit_ns), unknown)


def _repeated(scene: Scene, change: Change) -> Change:
    """Returns the change, excluding host time for work that occurs once per run, such as code loading."""
    if not len(change.host) or not len(scene.set_up_ranges):
        return change
    return replace(change, host=subtract(change.host, scene.set_up_ranges))


def _limit(scene: Scene, change: Change, takes_ns: int | None = None) -> int:
    """Returns an upper bound of the time that a change saves in all steps, in nanoseconds.

    The saving on the host includes idle time after the removed work, but is at most the idle time of a device. The
    saving on a device is at most the time in which the changed kernels run.
    """
    trace, steps = scene.trace, scene.steps
    length = int((steps.end_ns - steps.start_ns).sum())
    all_of_it = length if takes_ns is None else min(takes_ns, length)
    if missing_computation(trace) is not None:
        return all_of_it
    host = length if change.worth > 1 else measure(scene.with_idle(change.host))
    between = subtract(change.host, union(steps.start_ns, steps.end_ns))
    limits = [] if device_occupied(trace) else [host]
    for device, busy in device_occupied(trace).items():
        idle = length - int(measure_within(busy, steps.start_ns, steps.end_ns).sum()) + measure(subtract(between, busy))
        shorter = (trace.device[change.row] == device) & (change.less_ns > 0)
        rows = change.row[shorter]
        less = int(change.less_ns[shorter].sum())
        if len(rows):  # side by side, kernels take less time than their sum
            less = min(less, measure(union(trace.start_ns[rows], trace.ends(rows))))
        limits.append(min(host, idle) + less)
    return min(all_of_it, min(limits) + int(np.maximum(change.step_ns, 0).sum()))


def _bounds(scene: Scene, low_ns: int, high_ns: int, shared_ns: int, limit_ns: int) -> Saving:
    """Returns the mean bounds per step, widened by ``MARGIN``. No bound exceeds the step time, or ``limit_ns`` per step."""
    all_of_it = min(scene.per_step(limit_ns), scene.step_ns)
    high, shared = (min(scene.per_step(each) * (1 + MARGIN), all_of_it) for each in (high_ns, shared_ns))
    return Saving(min(scene.per_step(low_ns) * (1 - MARGIN), high), high, shared, scene.step_ns)


def _finding(scene: Scene, rule: Rule, seen: Detection, saving: Saving | None) -> Finding:
    events = seen.events[:EVENTS].copy()
    notice = replace(seen.notice, title=rule.title, evidence=_shown(scene, seen.notice.evidence, events))
    time_ns = scene.per_step(seen.takes_ns or 0)
    if saving is not None:
        time_ns = saving.high_ns
        share = time_ns / scene.step_ns if scene.step_ns else 0.0
        notice = replace(notice, saving=saving, severity=severity_of(share) if share >= MEDIUM_SHARE else "low")
    return Finding(rule, notice, events, len(seen.events), time_ns, seen.table)


def _shown(scene: Scene, link: Link | None, events: Int64) -> Link | None:
    if link is None or link.view != "timeline" or link.params or not len(events):
        return link
    return Link(link.view, at_event(scene.trace, int(events[0])), link.text)
