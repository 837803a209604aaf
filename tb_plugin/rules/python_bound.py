"""Devices wait for Python code between operators."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.advice import todo_of
from tb_plugin.analysis.backward import works_for
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import occupied
from tb_plugin.analysis.metrics import LINE, STEPS, define
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import EMPTY, Ranges, intersect, join, measure, measure_within, subtract, union
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.payloads import Link
from tb_plugin.rules._base import Bounds, Detection, Rule, Scene, percent
from tb_plugin.rules._launch_starvation import FEW, launches_of
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._metrics import METRICS as OF_RULES

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {
            "python_idle_ns": ("Python idle", "Device idle time during Python outside operators, per step."),
            "python_host_ns": (
                "Python between operators",
                "Host time of launching threads outside operators and calls, per step.",
            ),
            "python_line_ns": ("In the line", "Python time in this line, without the lines that it calls."),
        },
    ),
    define(STEPS, "ratio", {"python_ratio": ("Python idle", "Python idle divided by mean step time.")}),
    define(
        STEPS,
        "code",
        {"python_line": ("Python line", LINE.format("Python"))},
    ),
)

PYTHON_SHARE = 0.02
"""Share of the step: below, Python is what any program needs between its operators."""
DOUBT = 0.5
"""Where devices wait that long, beside the time in Python, for what nobody knows, operators may be missing as well."""
_UNKNOWN = (Cause.NOT_RECORDED, Cause.UNEXPLAINED)
WORST = 3
"""So many lines are told to be mended."""
LINE_SHARE = 0.1
"""Share of Python's time from which on a line is worth mending by itself."""


def _look(s: Scene) -> Detection | None:
    by_step = s.idle_for(Cause.PYTHON)
    # What one step waits for is no matter of the others.
    if not s.step_ns or np.median(by_step) < PYTHON_SHARE * s.step_ns:
        return None
    # Python lies between operators and launches: there have to be some.
    if not len(s.of(EventKind.OPERATOR)) or len(launches_of(s)) < FEW * len(by_step):
        return None
    idle = float(by_step.mean())
    if s.idle_for(*_UNKNOWN).mean() > DOUBT * idle:
        return None
    busy = [ranges for thread in s.threads for ranges in occupied(s.trace, thread).values()]
    free = subtract(s.host, join(*busy))
    lines, rows = _lines(s, free)
    told: dict[str, float | str] = {
        "python_idle_ns": idle,
        "step_time_mean_ns": s.step_ns,
        "python_ratio": idle / s.step_ns,
        "python_host_ns": s.per_step(measure(free)),
        **({"python_line": lines[0][0], "python_line_ns": s.per_step(measure(lines[0][1]))} if lines else {}),
    }
    with_stacks = bool((s.trace.operators.stack != MISSING).any())
    step = "step" if s.trace.steps.recorded else "recording"
    notice = s.notice(
        RULE,
        severity=severity_of(idle / s.step_ns),
        text=f"Devices wait for Python {{python_idle_ns}} of each {{step_time_mean_ns}} {step}"
        + (
            ". Most Python time is at {python_line} ({python_line_ns})."
            if lines
            else ". Python stacks were recorded for operators only."
            if with_stacks
            else ". No Python stacks were recorded."
        ),
        todo=s.todo(RULE) if lines or with_stacks else f"{s.todo(RULE)} {todo_of(s.trace, 'stacks_missing')}",
        figures=[METRICS.figure(key, value) for key, value in told.items()],
        measure="python_ratio",
        threshold=PYTHON_SHARE,
        evidence=Link("idle", {"where": "cause:Python"}, "Show the wait"),
        why=(
            "The host launches nothing while it runs Python between operators. Lower bound: the slowest "
            "lines disappear. Upper bound: all Python between operators disappears."
        ),
        confidence="high" if lines else "medium",
    )
    worst = join(*(ranges for _, ranges in lines)) if lines else EMPTY
    return Detection(notice, Bounds(Change(worst), Change(free)), rows if lines else s.after_idle(Cause.PYTHON))


def _lines(s: Scene, free: Ranges) -> tuple[list[tuple[str, Ranges]], Int64]:
    """The lines that most of this time lies under, with that time, and their calls; none without recorded Python."""
    trace, lines = s.trace, code_lines(s.trace)
    # Threads of the autograd engine have no Python of their own: who waits for them has.
    threads = np.unique(works_for(trace)[list(s.threads)])
    calls = np.flatnonzero(of_kind(trace.kind, EventKind.PYTHON, EventKind.MODULE) & np.isin(trace.track, threads))
    start, end = trace.start_ns[calls], trace.start_ns[calls] + trace.dur_ns[calls]
    parent = trace.python_parent[calls]
    line, above = lines.of[calls], lines.of[parent]
    enters = (line != MISSING) & ((parent == MISSING) | (line != above))
    calls, start, end, line, above = (column[enters] for column in (calls, start, end, line, above))
    time = measure_within(free, start, end)
    own = sum_by(line, time, len(lines.texts)) - sum_by(above, time, len(lines.texts))
    large = np.flatnonzero(own >= max(LINE_SHARE * measure(free), 1))  # so few that a loop is cheap
    texts = lines.texts.take(pa.array(large)).to_pylist()
    worst = sorted(zip((-own[large]).tolist(), texts, large.tolist(), strict=True))[:WORST]
    found = []
    for _, text, number in worst:
        mine, others = line == number, above == number
        inside = subtract(union(start[mine], end[mine]), union(start[others], end[others]))
        found.append((text, intersect(inside, free)))
    mine = np.isin(line, [number for _, _, number in worst])
    order = np.lexsort((start[mine], -time[mine]))
    return found, calls[mine][order]


RULE = Rule(
    __name__,
    title="Python overhead",
    look=_look,
    order=120,
    detects="The GPU waits for Python code between operators.",
    threshold=f"The GPU idles for {percent(PYTHON_SHARE)} of the median step or more while no operator and no call is open.",
    saving=(
        "At most all time in which none of the launching threads is in an operator or a call. At least the "
        "part of it under the worst lines of Python: at most three, each with 10 % of that time or more. "
        "Without recorded stacks the lower bound is 0."
    ),
    needs="Operators, and 20 launches per step or more.",
    notes="""
        The rule is silent if unknown causes of idle time take more than half as long: operators may be missing
        too. Lines of the framework do not count if stacks show whose lines they are.
    """,
    needs_kernels=True,
    limits=(Limit.CPU,),
)
