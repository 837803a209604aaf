"""The largest cause of a device's idle time."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.device_time import busy_title
from tb_plugin.analysis.idle.causes import METRICS as OF_IDLE
from tb_plugin.analysis.idle.causes import TITLES, Cause
from tb_plugin.analysis.step_shares import UNRECORDED
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import measure_within, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure, Link, Severity
from tb_plugin.rules._base import COMMON, NO_SAVING, Detection, Rule, Scene

METRICS = COMMON.in_steps(
    ratio={"idle_cause_ratio": ("Share of idle time", "Share of idle time due to the largest cause.")}
).defining({("", "text"): {"idle_cause": ("Largest cause", "Idle cause with the most time.")}})

PIECES = 200
"""Number of idle periods, longest first, for which the host activity is collected."""


class LeastBusy(msgspec.Struct, frozen=True):
    """The device with the lowest utilization, and the largest cause of its idle time."""

    device: str
    utilization: float
    count: int
    """Number of devices below the threshold."""
    window: str
    """Words for the time range to which the utilization refers."""
    cause: Cause | None
    time_ns: int
    words: str
    """Sentence about the cause; "" if the device is never idle."""
    figures: list[Figure]
    link: Link


def least_busy(s: Scene, threshold: float) -> LeastBusy | None:
    """Returns the device with the lowest utilization, None if no utilization is below the threshold."""
    known = {device: ratio.utilization for device, ratio in s.ratios.items() if ratio.utilization is not None}
    low = {device: value for device, value in known.items() if value < threshold}
    if not low:
        return None
    device = min(low, key=lambda each: low[each])
    window = "the steps" if s.trace.steps.recorded else "the recording"
    if s.breakdown.parts[UNRECORDED].any():
        window += ", excluding unrecorded work"
    place = next(i for i, each in enumerate(s.trace.devices) if each.id == device)
    totals = {
        cause: int(time.sum())
        for cause, time in s.idle_account(place).by_cause(s.steps.start_ns, s.steps.end_ns).items()
    }
    cause = max(totals, key=lambda each: totals[each])
    if not totals[cause]:
        link = Link("idle", {}, "Show idle time")
        return LeastBusy(device, low[device], len(low), window, None, 0, "", [], link)
    title = TITLES[cause][0]
    host = _host_did(s, place, cause)
    figures = [
        *METRICS.measured(idle_cause=title, idle_cause_ratio=totals[cause] / sum(totals.values())),
        *(OF_IDLE.figure(key, value) for key, value in host.items()),
    ]
    words = " The largest cause of its idle time is {idle_cause} ({idle_cause_ratio})"
    if cause == Cause.NOT_RECORDED:
        words = " The recording does not contain the cause of most of its idle time ({idle_cause_ratio})"
    if "idle_host" in host:
        words += ": the host is in {idle_host}"
        words += ", called by {operator}" if "operator" in host else ""
        words += ", at {idle_line}" if "idle_line" in host else ""
    link = Link("idle", {"where": f"cause:{title}"}, "Show the wait")
    return LeastBusy(device, low[device], len(low), window, cause, totals[cause], f"{words}.", figures, link)


def idle_detection(
    s: Scene, rule: Rule, found: LeastBusy, threshold: float, severity: Severity, text: str, todo: str, *more: Figure
) -> Detection:
    utilization = METRICS.figure("utilization", found.utilization, busy_title(s.trace, found.device))
    notice = s.notice(
        rule,
        severity=severity,
        text=text + found.words,
        todo=todo,
        figures=[utilization, METRICS.figure("device", found.device), *more, *found.figures],
        measure="utilization",
        threshold=threshold,
        evidence=found.link,
        confidence="",
    )
    return Detection(notice, NO_SAVING, takes_ns=found.time_ns)


def _host_did(s: Scene, device: int, cause: Cause) -> dict[str, str]:
    """Returns the host event, operator and line with the most time in the longest idle periods with this cause."""
    trace, account = s.trace, s.idle_account(device)
    windows = union(s.steps.start_ns, s.steps.end_ns)
    length = measure_within(windows, account.start_ns, account.end_ns)
    mine = np.flatnonzero((account.cause == cause) & (length > 0))
    mine = mine[np.lexsort((account.start_ns[mine], -length[mine]))[:PIECES]]
    begin, end = account.start_ns[mine], account.end_ns[mine]
    from tb_plugin.analysis.idle.host_activity import Host

    name, time, row = Host(trace, union(begin, end)).main_activity_before(
        account.gaps.next[account.gap[mine]], begin, end
    )
    if not (name != MISSING).any():
        return {}
    names, of = np.unique(name[name != MISSING], return_inverse=True)
    total = sum_by(of, time[name != MISSING], len(names))
    texts = trace.strings.take(names).to_pylist()
    most = min(range(len(names)), key=lambda i: (-total[i], texts[i]))
    found = {"idle_host": str(texts[most])}
    # The longest event of that name gives operator and line.
    event = int(row[np.flatnonzero(name == names[most])[0]])
    around = int(trace.operator[event])
    if around != MISSING and trace.name[around] != trace.name[event]:
        found["operator"] = trace.strings[int(trace.name[around])]
    lines = code_lines(trace)
    line = int(lines.of[event])
    if line != MISSING and (text := str(lines.texts[line].as_py())) != found["idle_host"]:
        found["idle_line"] = text
    return found
