"""The limit of a program."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import numpy as np

from tb_plugin.analysis.blocking_calls import profiler_waits
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.graphs.captures import captures
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import delaying_ranges, is_host_recorded
from tb_plugin.analysis.kernel_classes import classify_kernels
from tb_plugin.analysis.launches.unrecorded_work import unrecorded_work
from tb_plugin.analysis.out_of_memory import chosen_failures
from tb_plugin.analysis.recorded_share import is_sampled, operators_recorded
from tb_plugin.analysis.simulate import Change
from tb_plugin.analysis.step_shares import CATEGORIES, UNRECORDED, active_rows, shares
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import EMPTY, Ranges, intersect, join, measure, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, CallRole, EventKind, KernelClass, of_kind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.rules._base import Limit, Scene

MIN_SHARE = 0.2
"""Minimum share of the steps that the limiting cause takes. This minimum does not apply to kernels."""
MIN_UNRECORDED = 0.5
"""If at least this share of kernel launches has no recorded kernel, idle time is unknown."""
MIN_UNKNOWN = 0.5
"""If kernels of unknown classes take at least this share of the kernel time, the limit of the program is unknown kernels."""
_WAITING: Mapping[Limit, tuple[str, ...]] = MappingProxyType(
    {
        Limit.DATA_LOADING: ("dataloader",),
        Limit.COMMUNICATION: ("communication",),
        Limit.COPIES: ("memcpy", "memset"),
        Limit.CPU: ("runtime", "cpu", "other"),
    }
)
_PROGRAM = (
    EventKind.OPERATOR, EventKind.PYTHON, EventKind.MODULE, EventKind.ANNOTATION, EventKind.RUNTIME, EventKind.UNKNOWN,
)  # fmt: skip
"""Event kinds that show host activity."""
_ONCE: Mapping[Limit, Cause] = MappingProxyType(
    {
        Limit.INITIALISATION: Cause.INITIALISATION,
        Limit.CAPTURE: Cause.CAPTURE,
        Limit.COMPILATION: Cause.COMPILATION,
    }
)
"""Host work that is done once before the steady state, and is therefore not CPU overhead."""
_NAMED_BY: Mapping[Limit, tuple[str, ...]] = MappingProxyType({Limit.INITIALISATION: ("runtime",)})


class Verdict(msgspec.Struct, frozen=True, eq=False):
    """The limit of a program, and times summed over all steps."""

    limit: Limit
    category: str
    """Largest of the categories in the step breakdown that belong to the limit."""
    part_ns: int
    total_ns: int
    mix: Mapping[KernelClass, int]
    """Kernel time by class, excluding communication."""
    earlier: Ranges
    """Time ranges in which a device runs unrecorded work during the steps."""
    recorded: float = 1.0
    """Share of the operators, or of the launched kernels, that is recorded. 1 for limits that do not depend on this share."""


@cached_by_argument
def verdict_of(trace: TraceTable, chosen: tuple[str, ...] | None) -> Verdict | None:
    """Returns the limit of the program in these steps (None: all), None if these steps take no time."""
    s = Scene(trace, chosen)
    total = int(s.breakdown.total.sum())
    if len(chosen_failures(trace, chosen).row):
        return Verdict(Limit.MEMORY, "", 0, total, {}, EMPTY)
    if not total:
        return None
    within = earlier_work(trace, s.steps)
    parts = _parts(s)
    mix = _mix(s)

    def verdict(limit: Limit, *categories: str, part_ns: int | None = None) -> Verdict:
        largest = max(categories, key=lambda each: parts[each], default="")
        time = sum(parts[each] for each in categories) if part_ns is None else part_ns
        recorded = {Limit.RECORDING: operators_recorded(trace), Limit.GPU_NOT_RECORDED: 1 - _unmatched(trace)}
        return Verdict(limit, largest, time, total, mix, within, recorded.get(limit, 1.0))

    if not trace.report.complete:
        # The CPU's part of a step is known.
        loads = parts["dataloader"] >= MIN_SHARE * total
        return verdict(Limit.TRUNCATED, *(_WAITING[Limit.DATA_LOADING] if loads else ()))
    unmatched = _unmatched(trace) if trace.coverage.full is None else 0.0
    work = of_kind(trace.kind, *DEVICE_WORK)
    if unmatched and not work.any():
        return verdict(Limit.GPU_NOT_RECORDED)
    if operators_recorded(trace) < 1:
        return verdict(Limit.RECORDING)
    earlier = parts[UNRECORDED]
    if earlier >= MIN_SHARE * total:
        return verdict(Limit.STARTED_LATE, part_ns=earlier)
    profiler = total - sum(parts.values())
    if profiler >= MIN_SHARE * total:
        return verdict(Limit.PROFILER, part_ns=profiler)
    once = _done_once(s)
    waits = _waits(parts, once, bool(work.any()))
    limit = max(waits, key=lambda each: waits[each])
    if waits[limit] < MIN_SHARE * total:
        if not (work | of_kind(trace.kind, *_PROGRAM)).any():
            return verdict(Limit.CPU_NOT_RECORDED, part_ns=total)
        if not work.any():
            silent = _silent_ns(s)
            if 2 * silent >= total:
                return verdict(Limit.CPU_NOT_RECORDED, "cpu", "other", part_ns=silent)
            return verdict(Limit.CPU_ONLY, max(("cpu", "other"), key=lambda each: parts[each]))
        is_unknown = mix.get(KernelClass.OTHER, 0) >= MIN_UNKNOWN * sum(mix.values())
        return verdict(Limit.UNKNOWN_KERNELS if mix and is_unknown else Limit.GPU, "kernel")
    if is_sampled(trace) or (limit is Limit.CPU and unmatched >= MIN_UNRECORDED):
        limit = Limit.GPU_NOT_RECORDED
    elif limit is Limit.CPU and ((trace.launch[work] == MISSING).all() or not _is_cause_recorded(s)):
        limit = Limit.CPU_NOT_RECORDED
    if limit in once:
        return verdict(limit, *_NAMED_BY.get(limit, ()), part_ns=once[limit])
    return verdict(limit, *_WAITING.get(limit, _WAITING[Limit.CPU]))


def _silent_ns(s: Scene) -> int:
    """Returns the time of the steps in which no CPU call is recorded; 0 if the Python stack is recorded.

    Ranges only say in which part of the program the time passed.
    """
    if of_kind(s.trace.kind, EventKind.PYTHON, EventKind.MODULE).any():
        return 0
    calls = np.flatnonzero(of_kind(s.trace.kind, EventKind.OPERATOR, EventKind.RUNTIME))
    loads = shares(s.trace)["dataloader"]
    busy = join(union(s.trace.start_ns[calls], s.trace.ends(calls)), loads)
    return measure(subtract(union(s.steps.start_ns, s.steps.end_ns), busy))


def _is_cause_recorded(s: Scene) -> bool:
    """Returns whether the CPU is recorded during at least half of the idle time of all devices."""
    if not is_host_recorded(s.trace, s.threads):
        return False
    total = not_recorded = 0
    for device in device_busy(s.trace):
        for cause, time in s.idle_account(device).by_cause(s.steps.start_ns, s.steps.end_ns).items():
            total += int(time.sum())
            not_recorded += int(time.sum()) if cause == Cause.NOT_RECORDED else 0
    return 2 * not_recorded <= total


def _waits(parts: Mapping[str, int], once: Mapping[Limit, int], has_work: bool) -> dict[Limit, int]:
    waits = {each: sum(parts[category] for category in group) for each, group in _WAITING.items()}
    waits[Limit.CPU] = waits[Limit.CPU] - sum(once.values()) if has_work else 0
    return waits | {**once}


def limit_after(trace: TraceTable, chosen: tuple[str, ...] | None, change: Change, left_ns: int) -> tuple[Limit, int]:
    """Returns what limits the program after a change, and the time of this limit; both for all steps.

    ``left_ns`` is the simulated time of the steps after the change. Device work that becomes shorter than the simulation
    saves leaves the device idle: this time is CPU overhead.
    """
    s = Scene(trace, chosen)
    steps = union(s.steps.start_ns, s.steps.end_ns)
    host = subtract(intersect(change.host, steps), profiler_waits(trace))
    parts, once, of = _parts(s), _done_once(s, host), shares(trace)
    rest, shorter_ns = measure(host), 0
    for category, ranges in of.items():
        active = active_rows(trace, category)
        mine = active[change.row]
        rows, gone = change.row[mine], measure(intersect(host, ranges))
        alone = intersect(union(trace.start_ns[rows], trace.ends(rows)), intersect(ranges, steps))
        cut = min(int(change.less_ns[mine].sum()), measure(alone))
        rest -= gone
        shorter_ns += max(cut, 0)
        parts[category] -= cut if of_kind(trace.kind[active], *DEVICE_WORK).any() else gone
    parts["other"] -= rest
    parts = {each: max(time, 0) // change.worth for each, time in parts.items()}
    parts["runtime"] += min(shorter_ns, max(left_ns - sum(parts.values()), 0))
    for limit, time in once.items():
        once[limit] = min(time, sum(parts[each] for each in _WAITING[Limit.CPU]))
    work = bool(of_kind(trace.kind, *DEVICE_WORK).any())
    waits = _waits(parts, once, work)
    largest = max(waits, key=lambda each: waits[each])
    if waits[largest] >= MIN_SHARE * left_ns:
        return largest, waits[largest]
    return (Limit.GPU, parts["kernel"]) if work else (Limit.CPU_ONLY, parts["cpu"] + parts["other"])


def _done_once(s: Scene, without: Ranges = EMPTY) -> dict[Limit, int]:
    """Returns the time of one-time host work while devices and profiler are idle, each moment for one limit only.

    The time ranges ``without`` do not count.
    """
    of = shares(s.trace)
    others = (of[each] for each in ("kernel", "memcpy", "memset", "communication", UNRECORDED, "dataloader"))
    left = subtract(union(s.steps.start_ns, s.steps.end_ns), join(profiler_waits(s.trace), without, *others))
    found = {}
    for limit, cause in _ONCE.items():
        doing = join(EMPTY, *(delaying_ranges(s.trace, thread)[cause] for thread in s.threads))
        found[limit] = measure(intersect(doing, left))
        left = subtract(left, doing)
    return found


def earlier_work(trace: TraceTable, steps: Steps) -> Ranges:
    """Returns the time ranges in which a device runs unrecorded work during these steps, excluding waits for the profiler."""
    ranges = [unrecorded_work(trace, device) for device in device_busy(trace)]
    within = intersect(join(EMPTY, *ranges), union(steps.start_ns, steps.end_ns))
    return subtract(within, profiler_waits(trace))


def _parts(s: Scene) -> dict[str, int]:
    held = intersect(profiler_waits(s.trace), union(s.steps.start_ns, s.steps.end_ns))
    less = {category: measure(intersect(held, each)) for category, each in shares(s.trace).items()} | {"other": 0}
    return {each: int(s.breakdown.parts[each].sum()) - less[each] for each in CATEGORIES}


def _mix(s: Scene) -> dict[KernelClass, int]:
    rows = s.kernels[~s.trace.is_collective[s.kernels]]
    of = classify_kernels(s.trace).of(s.trace.name[rows])
    time = sum_by(of.astype(np.int64), s.trace.dur_ns[rows], len(KernelClass))
    return {KernelClass(each): int(ns) for each, ns in enumerate(time.tolist()) if ns}


def _unmatched(trace: TraceTable) -> float:
    """Returns the share of kernel launches, except in graph captures, whose kernel is not recorded."""
    calls = np.setdiff1d(np.flatnonzero(trace.calls_that(CallRole.LAUNCH)), captures(trace).source)
    work = of_kind(trace.kind, *DEVICE_WORK)
    launches = np.zeros(len(trace) + 1, np.bool_)  # the last entry is for work without a launch
    launches[trace.launch[work]] = True
    return 1 - float(launches[calls].mean()) if len(calls) else 0.0
