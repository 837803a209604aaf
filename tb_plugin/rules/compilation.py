"""Compilation or autotuning within steps."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.compiled.regions import has_regions
from tb_plugin.analysis.graphs.captures import captured_by
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import rows_in
from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.intervals import EMPTY, join, measure, measure_within, subtract
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional

METRICS = COMMON.in_steps(
    ns={"compiling_ns": ("Compilation", "Compilation and tuning time on launching threads.")},
    count={"compiling_steps": ("Compiling steps", "Steps with compilation or tuning.")},
    code={"compiling_line": ("Python line", LINE.format("compilation"))},
)


def _look(s: Scene) -> Detection | None:
    rows = rows_in(s.trace, Cause.COMPILATION)
    rows = rows[s.on_threads[rows]]
    if not len(rows):
        return None
    captured = join(EMPTY, *(captured_by(s.trace, thread) for thread in s.threads))
    compiling = subtract(s.covered(rows), captured)
    if not len(compiling):
        return None
    steps = s.steps
    within = np.flatnonzero(measure_within(compiling, steps.host_start_ns, steps.host_end_ns))
    line = s.line(rows)
    recorded = s.trace.steps.recorded
    at = f"in {{compiling_steps}} {plural(len(within), 'step')}" if recorded else "while recording"
    if recorded and within.tolist() == [0] and len(steps.label) > 1:
        at += ", the first one"
    notice = s.notice(
        RULE,
        case="first" if _is_first(s) else "",
        text=f"Compilation or tuning takes {{compiling_ns}} {at}" + (", mostly at {compiling_line}." if line else "."),
        figures=METRICS.measured(
            compiling_ns=measure(compiling),
            **optional(recorded, compiling_steps=len(within)),
            **optional(line, compiling_line=line),
        ),
        evidence=Link("idle", {"where": "cause:Compilation"}, "Show the wait"),
        why="The host waits for the compiler, which is normal in the first steps. In later steps, compilation means that a "
        "shape, a flag or a function has changed. The bounds assume no compilation.",
        confidence="high",
    )
    return Detection(notice, Bounds.exact(Change(compiling)), s.by_length(rows[s.rows[rows]]))


def _is_first(s: Scene) -> bool:
    """Returns whether the recording shows what was compiled, and nothing was compiled again."""
    if not has_regions(s.trace):
        return False
    from tb_plugin.analysis.compiled.compiling import recompilations_of

    return not len(recompilations_of(s.trace))


RULE = Rule(
    __name__,
    title="Compilation during steps",
    look=_look,
    order=150,
    detects="Code is compiled or tuned within steps.",
    threshold="One compilation on a launching thread.",
    saving="The compilation time within steps, except while the thread captures a graph.",
    notes="""
        The advice is to warm up (`first`) if the trace has regions of compiled code and no recompilation.
    """,
    cases=("", "first"),
    needs="Events of Dynamo, Inductor or Triton.",
    limits=(Limit.COMPILATION, Limit.CPU, Limit.CPU_ONLY),
)
