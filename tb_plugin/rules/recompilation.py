"""Recompilation within steps."""

from __future__ import annotations

from tb_plugin.analysis.compiled.regions import has_regions
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.intervals import measure
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional

METRICS = COMMON.in_steps(
    ns={"recompiling_ns": ("Recompilation", "Time of repeated compilations.")},
    count={
        "recompiled": ("Recompilations", "Functions that were recompiled."),
        "failed_guards": ("Failed guards", "Guard checks followed by a compilation."),
    },
    code={"recompiled_regions": ("Regions", "Recompiled regions.")},
)


def _look(s: Scene) -> Detection | None:
    if not has_regions(s.trace):
        return None
    from tb_plugin.analysis.compiled.compiling import compilations_of, guards_of, recompilations_of

    made = compilations_of(s.trace)
    again = recompilations_of(s.trace)
    again = again[s.on_threads[made.row[again]]]
    compiling = s.covered(made.row[again])
    if not len(compiling):
        return None
    guards = guards_of(s.trace)
    failed = int((guards.compilation[s.rows[guards.row]] != MISSING).sum())
    names = [made.names[at] for at in dict.fromkeys(made.region[again[s.rows[made.row[again]]]].tolist())]
    if not names:
        return None
    notice = s.notice(
        RULE,
        text=f"{{recompiled}} {plural(len(names), 'function was', 'functions were')} recompiled, which took "
        f"{{recompiling_ns}} (regions {{recompiled_regions}})"
        + (f": {{failed_guards}} guard {plural(failed, 'check')} failed." if failed else "."),
        figures=METRICS.measured(
            recompiled=len(names),
            recompiling_ns=measure(compiling),
            **optional(failed, failed_guards=failed),
            recompiled_regions=", ".join(names),
        ),
        evidence=Link("compiled", {}, "Show the regions"),
        why="A failed guard means that a size, a type or a value changed since compilation. The bounds assume no "
        "recompilation.",
        confidence="high",
    )
    return Detection(notice, Bounds.exact(Change(compiling)), s.by_length(made.row[again]))


RULE = Rule(
    __name__,
    title="Recompilation",
    look=_look,
    order=160,
    detects="A function is recompiled within steps.",
    threshold="One function that is compiled again.",
    saving="The time of these compilations, which is also part of the saving of `compilation`.",
    needs="Regions of [compiled code](../concepts/attribution.md#compiled-code).",
    notes="""
        In the name of a recompiled region, the second number is above 0. The finding shows these regions and the number
        of failed guards. A backward pass that is compiled at its first run is no recompilation.
    """,
    has_data=has_regions,
    limits=(Limit.COMPILATION, Limit.CPU, Limit.CPU_ONLY),
)
