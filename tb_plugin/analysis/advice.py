"""What to do about findings, in the words of a trace's recorder that fit a training, or a model that is only run."""

from __future__ import annotations

from tb_plugin.analysis.phrases import references_of
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Reference

_RUN = ".inference"
"""Ends the names of advice for a model that is only run."""


@remembered
def is_inference(trace: TraceTable) -> bool:
    """Returns whether a model is only run: operators were recorded, and nothing of a backward pass or an optimizer."""
    if not ((trace.kind == EventKind.OPERATOR) & ~trace.is_collective).any():
        return False
    told = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.KERNEL)
    return not bool((name_matches(trace, trace.recorder.operators.learning) & told).any())


def todo_of(trace: TraceTable, finding: str) -> str:
    """Returns what to do about a finding."""
    recorder = trace.recorder
    return (recorder.todo(finding + _RUN) if is_inference(trace) else "") or recorder.todo(finding)


def read_more(trace: TraceTable, finding: str) -> list[Reference]:
    """Returns documents worth reading about a finding."""
    recorder = trace.recorder
    return (references_of(recorder, finding + _RUN) if is_inference(trace) else []) or references_of(recorder, finding)
