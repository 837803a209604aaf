"""Rules of the user: kernel classes and step annotations."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from tb_plugin import settings
from tb_plugin.devices.kernel_classes import VARIABLE as CLASSES_VARIABLE
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.report import Issue
from tb_plugin.model.trace.steps.annotations import own_problem, with_own
from tb_plugin.model.trace.table import RawTrace

STEPS_VARIABLE = settings.STEPS.name
# Issue code for an invalid pattern.
CODE = "step_pattern"
_MOST_BYTES = 256 * 1024
log = logging.getLogger("torch_trace")


def class_rules() -> RuleFile:
    """Returns the content of the file TORCH_TRACE_CLASSES. The file is read once and cached."""
    path = os.environ.get(CLASSES_VARIABLE, "").strip()
    return _read(path) if path else RuleFile()


@lru_cache(maxsize=8)
def _read(path: str) -> RuleFile:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        return _refused(f"{path} cannot be read: {error.strerror or error}")
    if len(content) > _MOST_BYTES:
        return _refused(f"{path} is larger than {_MOST_BYTES // 1024} KiB")
    return RuleFile(content.decode("utf-8", "replace"))


def _refused(problem: str) -> RuleFile:
    log.warning("%s: %s. Only the built-in rules are used.", CLASSES_VARIABLE, problem)
    return RuleFile(problem=problem)


def own_steps() -> str:
    """Returns the pattern in TORCH_TRACE_STEPS. An invalid pattern is logged once."""
    own = os.environ.get(STEPS_VARIABLE, "").strip()
    if own:
        _warn_once(own)
    return own


@lru_cache(maxsize=8)
def _warn_once(own: str) -> None:
    if problem := own_problem(own):
        log.warning("%s: %s. The pattern is ignored.", STEPS_VARIABLE, problem)


def with_own_steps(raw: RawTrace, own: str) -> RawTrace:
    """Returns the trace with steps found by ``own``, or with an issue if the pattern is invalid."""
    if not own:
        return raw
    if problem := own_problem(own):
        issue = Issue(CODE, "note", f"{STEPS_VARIABLE} is not a valid step pattern: {problem}", 1)
        return replace(raw, report=replace(raw.report, issues=(*raw.report.issues, issue)))
    return replace(raw, recorder=replace(raw.recorder, steps=with_own(raw.recorder.steps, own)))
