"""A device has nothing to do for much of the time, and what the findings would save explains less than half of that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.device_time import busy_title
from tb_plugin.analysis.groupby import sum_by
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host_activity import Host
from tb_plugin.analysis.idle.metrics import METRICS as OF_IDLE
from tb_plugin.analysis.idle.metrics import TITLES
from tb_plugin.analysis.metrics import STEPS, define
from tb_plugin.analysis.step_shares import UNRECORDED
from tb_plugin.lib.intervals import measure_within, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure, Link, Notice
from tb_plugin.rules._base import Rule, Scene, Seen
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._metrics import METRICS as OF_RULES

METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ratio",
        {"idle_cause_ratio": ("Share of idle time", "Idle time of the largest cause divided by all idle time.")},
    ),
    define("", "text", {"idle_cause": ("Largest cause", "Idle cause with the most time.")}),
)

LOW_UTILIZATION = 0.5
BUSY = 0.9
"""From here on a device that no rule complains of is well used."""
EXPLAINED = 0.5
"""Share of the idle time from which on the findings that would save it say all that there is to say."""


_CASES = {Cause.UNEXPLAINED: ".unexplained", Cause.INITIALISATION: ".initialisation", Cause.CAPTURE: ".capture"}
PIECES = 200
"""So many of the longest pieces of a cause say what the host did meanwhile."""


@dataclass(frozen=True)
class _Largest:
    """The largest cause of a device's idle time: what is said of it."""

    text: str
    figures: tuple[Figure, ...]
    link: Link
    cause: Cause | None = None
    time_ns: int = 0


def is_explained(s: Scene, saving_ns: float) -> bool:
    """Returns whether findings that would save so much of each step explain most of the devices' idle time."""
    return saving_ns >= EXPLAINED * sum(float(time.mean()) for time in s.idle.values()) > 0


def _look(s: Scene) -> Seen | None:
    low = {
        d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < LOW_UTILIZATION
    }
    if not low:
        return None
    worst, window = min(low, key=lambda device: low[device] or 0.0), _window(s)
    largest = _largest(s, worst)
    case = "" if largest.cause is None else _CASES.get(largest.cause, "")
    return Seen(
        Notice(
            rule="low_utilization",
            severity="medium",
            text=(
                "{affected} of the devices run kernels less than half of "
                f"{window}; device {{device}} only {{utilization}}."
                if len(low) > 1
                else f"Device {{device}} runs kernels only {{utilization}} of {window}."
            )
            + largest.text,
            todo=_unlaunched(s, largest) or s.todo(f"low_utilization{case}") or s.todo("low_utilization"),
            figures=[
                METRICS.figure("utilization", low[worst], busy_title(s.trace, worst)),
                METRICS.figure("device", worst),
                METRICS.figure("affected", len(low), "Devices"),
                *largest.figures,
            ],
            measure="utilization",
            threshold=LOW_UTILIZATION,
            evidence=largest.link,
            references=s.references("low_utilization"),
        ),
        takes_ns=largest.time_ns,
    )


def _unlaunched(s: Scene, largest: _Largest) -> str:
    """What to do where nobody recorded who launched the work that ends most of the idle time, "" elsewhere."""
    return s.todo("low_utilization.unlaunched") if largest.cause == Cause.NOT_RECORDED else ""


def _window(s: Scene) -> str:
    window = "the steps" if s.trace.steps.recorded else "the recording"
    return f"{window} without unrecorded work" if s.breakdown.parts[UNRECORDED].any() else window


def _largest(s: Scene, device: str) -> _Largest:
    """What most of a device's idle time is due to: in words, in figures, and where to look."""
    place = next(i for i, each in enumerate(s.trace.devices) if each.id == device)
    time = idle_account(s.trace, place).by_cause(s.steps.start_ns, s.steps.end_ns)
    totals = {cause: int(each.sum()) for cause, each in time.items()}
    cause = max(totals, key=lambda each: totals[each])
    if not totals[cause]:
        return _Largest("", (), Link("idle", {}, "Show idle time"))
    title = TITLES[cause][0]
    host = _host_did(s, place, cause)
    figures = (
        METRICS.figure("idle_cause", title),
        METRICS.figure("idle_cause_ratio", totals[cause] / sum(totals.values())),
        *(OF_IDLE.figure(key, value) for key, value in host.items()),
    )
    text = " The largest cause of its idle time is {idle_cause} ({idle_cause_ratio})"
    if "idle_host" in host:
        text += ": the host is in {idle_host} meanwhile"
        text += ", called by {operator}" if "operator" in host else ""
        text += ", at {idle_line}" if "idle_line" in host else ""
    return _Largest(
        f"{text}.", figures, Link("idle", {"where": f"cause:{title}"}, "Show what waits"), cause, totals[cause]
    )


def _host_did(s: Scene, device: int, cause: Cause) -> dict[str, str]:
    """What the threads that launched the next work were in longest during the longest pieces of a cause, and around it."""
    trace, account = s.trace, idle_account(s.trace, device)
    windows = union(s.steps.start_ns, s.steps.end_ns)
    length = measure_within(windows, account.start_ns, account.end_ns)
    mine = np.flatnonzero((account.cause == cause) & (length > 0))
    mine = mine[np.lexsort((account.start_ns[mine], -length[mine]))[:PIECES]]
    begin, end = account.start_ns[mine], account.end_ns[mine]
    name, time, row = Host(trace, union(begin, end)).did_before(account.gaps.next[account.gap[mine]], begin, end)
    if not (name != MISSING).any():
        return {}
    names, of = np.unique(name[name != MISSING], return_inverse=True)
    total = sum_by(of, time[name != MISSING], len(names))
    texts = trace.strings.take(names).to_pylist()
    most = min(range(len(names)), key=lambda i: (-total[i], texts[i]))
    found = {"idle_host": str(texts[most])}
    # Of that name the longest piece tells whose it is.
    event = int(row[np.flatnonzero(name == names[most])[0]])
    around = int(trace.operator[event])
    if around != MISSING and trace.name[around] != trace.name[event]:
        found["operator"] = trace.strings[int(trace.name[around])]
    lines = code_lines(trace)
    line = int(lines.of[event])
    if line != MISSING and (text := str(lines.texts[line].as_py())) != found["idle_host"]:
        found["idle_line"] = text
    return found


def _idle_device(s: Scene) -> Seen | None:
    """A word where the findings do not explain why a device idles: silence would read as praise."""
    known = {d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < BUSY}
    if not known:
        return None
    worst = min(known, key=lambda device: known[device])
    largest = _largest(s, worst)
    return Seen(
        Notice(
            rule="idle_device",
            severity="low",
            text=f"Device {{device}} runs kernels only {{utilization}} of {_window(s)}, and no finding would save most of "
            f"its idle time.{largest.text}",
            todo=_unlaunched(s, largest)
            or "Look at the longest pieces of that cause: they say what the host did meanwhile.",
            figures=[
                METRICS.figure("utilization", known[worst], busy_title(s.trace, worst)),
                METRICS.figure("device", worst),
                *largest.figures,
            ],
            measure="utilization",
            threshold=BUSY,
            evidence=largest.link,
        ),
        takes_ns=largest.time_ns,
    )


RULE = Rule(
    "low_utilization",
    "Low utilization",
    _look,
    saves=False,
    needs_kernels=True,
    limits=(Limit.CPU, Limit.INITIALISATION, Limit.CAPTURE, Limit.CPU_NOT_RECORDED),
)
IDLE = Rule(
    "idle_device",
    "Idle time that no finding saves",
    _idle_device,
    saves=False,
    needs_kernels=True,
    limits=(Limit.CPU, Limit.INITIALISATION, Limit.CAPTURE, Limit.CPU_NOT_RECORDED),
)
