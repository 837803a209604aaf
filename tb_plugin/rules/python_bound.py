"""Devices that wait for Python code between operators."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.advice import todo_of
from tb_plugin.analysis.backward import works_for
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import delaying_ranges
from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import EMPTY, Ranges, intersect, join, measure, measure_within, subtract, union
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._launch_starvation import FEW, launches_of

METRICS = COMMON.in_steps(
    ns={
        "python_idle_ns": ("Python idle", "Device idle time while Python runs outside operators, per step."),
        "python_host_ns": (
            "Python between operators",
            "Host time of launching threads outside operators and calls, per step.",
        ),
        "python_line_ns": ("In the line", "Python time in this line, excluding nested calls."),
    },
    ratio={"python_ratio": ("Python idle", "Python idle time divided by mean step time.")},
    code={"python_line": ("Python line", LINE.format("Python"))},
)

PYTHON_SHARE = 0.02
"""Minimum share of Python code in the step. Every program runs some Python code between operators."""
DOUBT = 0.5
"""Maximum ratio of unexplained idle time to idle time caused by Python. Above, operators may be missing."""
_UNKNOWN = (Cause.NOT_RECORDED, Cause.UNEXPLAINED)
WORST = 3
"""Maximum number of Python lines whose fix is included in the lower bound."""
LINE_SHARE = 0.1
"""Minimum share of a Python line in the Python time. Lines below this share are not reported."""


def _look(s: Scene) -> Detection | None:
    by_step = s.idle_for(Cause.PYTHON)
    # A wait in a single step is not typical.
    if not s.step_ns or np.median(by_step) < PYTHON_SHARE * s.step_ns:
        return None
    # Python between operators and launches requires both.
    if not len(s.rows_of(EventKind.OPERATOR)) or len(launches_of(s)) < FEW * len(by_step):
        return None
    idle = float(by_step.mean())
    if s.idle_for(*_UNKNOWN).mean() > DOUBT * idle:
        return None
    busy = [ranges for thread in s.threads for ranges in delaying_ranges(s.trace, thread).values()]
    free = subtract(s.host, join(*busy))
    lines, rows = _lines(s, free)
    line, line_ns = (lines[0][0], measure(lines[0][1])) if lines else ("", 0)
    with_stacks = bool((s.trace.operators.stack != MISSING).any())
    notice = s.notice(
        RULE,
        severity=severity_of(idle / s.step_ns),
        text=f"In {s.step_words}, devices wait {{python_idle_ns}} for Python"
        + (
            ". Most Python time is at {python_line} ({python_line_ns})."
            if lines
            else ". Python stacks were recorded for operators only."
            if with_stacks
            else ". No Python stacks were recorded."
        ),
        todo=s.todo(RULE) if lines or with_stacks else f"{s.todo(RULE)} {todo_of(s.trace, 'stacks_missing')}",
        figures=METRICS.measured(
            python_idle_ns=idle,
            step_time_mean_ns=s.step_ns,
            python_ratio=idle / s.step_ns,
            python_host_ns=s.per_step(measure(free)),
            **optional(lines, python_line=line, python_line_ns=s.per_step(line_ns)),
        ),
        measure="python_ratio",
        threshold=PYTHON_SHARE,
        evidence=Link("idle", {"where": "cause:Python"}, "Show the wait"),
        why="The host launches nothing while it runs Python between operators. Lower bound: the slowest lines disappear. "
        "Upper bound: all Python between operators disappears.",
        confidence="high" if lines else "medium",
    )
    worst = join(*(ranges for _, ranges in lines)) if lines else EMPTY
    return Detection(notice, Bounds(Change(worst), Change(free)), rows if lines else s.after_idle(Cause.PYTHON))


def _lines(s: Scene, free: Ranges) -> tuple[list[tuple[str, Ranges]], Int64]:
    """Returns the lines with the most time in ``free`` (with their time ranges), and the rows of the calls in them."""
    trace, lines = s.trace, code_lines(s.trace)
    # Autograd threads run no Python; the threads that wait for them do.
    threads = np.unique(works_for(trace)[list(s.threads)])
    calls = np.flatnonzero(of_kind(trace.kind, EventKind.PYTHON, EventKind.MODULE) & np.isin(trace.track, threads))
    start, end = trace.start_ns[calls], trace.start_ns[calls] + trace.dur_ns[calls]
    parent = trace.python_parent[calls]
    line, above = lines.of[calls], lines.of[parent]
    enters = (line != MISSING) & ((parent == MISSING) | (line != above))
    calls, start, end, line, above = (column[enters] for column in (calls, start, end, line, above))
    time = measure_within(free, start, end)
    own = sum_by(line, time, len(lines.texts)) - sum_by(above, time, len(lines.texts))
    large = np.flatnonzero(own >= max(LINE_SHARE * measure(free), 1))  # few, so a loop is cheap
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
    threshold=f"The GPU is idle for at least {percent(PYTHON_SHARE)} of the median step while no operator or call is "
    "running.",
    saving="Upper bound: all time during which no launching thread is in an operator or call. Lower bound: the part in the "
    "slowest Python lines, at most three, each with at least 10 % of all this time. Without recorded stacks, the lower "
    "bound is 0.",
    needs="Operators, and at least 20 launches per step.",
    notes="""
        The rule is skipped if unexplained idle time is more than half of the idle time due to Python. Operators may
        then be missing. If stacks are recorded, lines of framework code do not count.
    """,
    needs_kernels=True,
    limits=(Limit.CPU,),
)
