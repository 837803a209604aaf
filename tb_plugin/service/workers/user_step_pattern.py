"""User-defined pattern for step annotations."""

from __future__ import annotations

import logging
import os
from functools import lru_cache

from msgspec.structs import replace

from tb_plugin import settings
from tb_plugin.model.trace.report import Issue
from tb_plugin.model.trace.steps.annotations import own_problem, with_own
from tb_plugin.model.trace.table import RawTrace

VARIABLE = settings.STEPS.name
# Issue code for an invalid pattern.
CODE = "step_pattern"
log = logging.getLogger("torch_trace")


def own_steps() -> str:
    """Returns the pattern in TORCH_TRACE_STEPS. An invalid pattern is logged once."""
    own = os.environ.get(VARIABLE, "").strip()
    if own:
        _check(own)
    return own


@lru_cache(maxsize=8)
def _check(own: str) -> str:
    if problem := own_problem(own):
        log.warning("%s: %s. The pattern is ignored.", VARIABLE, problem)
        return problem
    return ""


def with_own_steps(raw: RawTrace, own: str) -> RawTrace:
    """Returns the trace with steps found by the pattern ``own``.

    If the pattern is invalid, adds an issue to the trace.
    """
    if not own:
        return raw
    if problem := own_problem(own):
        issue = Issue(CODE, "note", f"{VARIABLE} is not a valid step pattern: {problem}", 1)
        return replace(raw, report=replace(raw.report, issues=(*raw.report.issues, issue)))
    return replace(raw, recorder=replace(raw.recorder, steps=with_own(raw.recorder.steps, own)))
