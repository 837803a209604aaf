"""The largest cause of a device's idle time."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.idle.causes import METRICS as OF_IDLE
from tb_plugin.analysis.idle.causes import TITLES, Cause
from tb_plugin.analysis.step_shares import UNRECORDED
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import measure_within, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure, Link
from tb_plugin.rules._base import FINDING_METRICS, Scene

METRICS = FINDING_METRICS.in_steps(
    ratio={"idle_cause_ratio": ("Share of idle time", "Share of idle time due to the largest cause.")}
).defining({("", "text"): {"idle_cause": ("Largest cause", "Idle cause with the most time.")}})

PIECES = 200
"""Number of idle periods, longest first, for which the host activity is collected."""


class LargestCause(msgspec.Struct, frozen=True):
    """The largest cause of idle time, with a sentence, metrics and a link for the finding."""

    text: str
    figures: tuple[Figure, ...]
    link: Link
    cause: Cause | None = None
    time_ns: int = 0


def window_words(s: Scene) -> str:
    """Returns the words for the time range to which the utilization refers."""
    words = "the steps" if s.trace.steps.recorded else "the recording"
    return f"{words}, excluding unrecorded work" if s.breakdown.parts[UNRECORDED].any() else words


def largest_cause(s: Scene, device: str) -> LargestCause:
    """Returns the idle cause to which most of a device's idle time is attributed."""
    place = next(i for i, each in enumerate(s.trace.devices) if each.id == device)
    time = s.idle_account(place).by_cause(s.steps.start_ns, s.steps.end_ns)
    totals = {cause: int(each.sum()) for cause, each in time.items()}
    cause = max(totals, key=lambda each: totals[each])
    if not totals[cause]:
        return LargestCause("", (), Link("idle", {}, "Show idle time"))
    title = TITLES[cause][0]
    host = _host_did(s, place, cause)
    figures = (
        METRICS.figure("idle_cause", title),
        METRICS.figure("idle_cause_ratio", totals[cause] / sum(totals.values())),
        *(OF_IDLE.figure(key, value) for key, value in host.items()),
    )
    text = " The largest cause of its idle time is {idle_cause} ({idle_cause_ratio})"
    if "idle_host" in host:
        text += ": the host is in {idle_host}"
        text += ", called by {operator}" if "operator" in host else ""
        text += ", at {idle_line}" if "idle_line" in host else ""
    return LargestCause(
        f"{text}.", figures, Link("idle", {"where": f"cause:{title}"}, "Show the wait"), cause, totals[cause]
    )


def _host_did(s: Scene, device: int, cause: Cause) -> dict[str, str]:
    """Returns the host event, operator and Python line that take the most time during the longest idle periods with
    this cause.
    """
    trace, account = s.trace, s.idle_account(device)
    windows = union(s.steps.start_ns, s.steps.end_ns)
    length = measure_within(windows, account.start_ns, account.end_ns)
    mine = np.flatnonzero((account.cause == cause) & (length > 0))
    mine = mine[np.lexsort((account.start_ns[mine], -length[mine]))[:PIECES]]
    begin, end = account.start_ns[mine], account.end_ns[mine]
    from tb_plugin.analysis.idle.host_activity import Host

    name, time, row = Host(trace, union(begin, end)).did_before(account.gaps.next[account.gap[mine]], begin, end)
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
