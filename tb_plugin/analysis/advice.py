"""Advice for findings, for training or inference.

The profiler that recorded the trace provides the texts.
"""

from __future__ import annotations

from tb_plugin.analysis.phrases import references_of
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Reference

# Suffix of advice keys for inference.
_INFERENCE_SUFFIX = ".inference"


@cached_by_argument
def is_inference(trace: TraceTable) -> bool:
    """Returns whether a trace has operators, but no backward pass and no optimizer."""
    if not ((trace.kind == EventKind.OPERATOR) & ~trace.is_collective).any():
        return False
    evidence = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.KERNEL)
    return not bool((name_matches(trace, trace.recorder.operators.learning) & evidence).any())


def todo_of(trace: TraceTable, finding: str) -> str:
    recorder = trace.recorder
    return (recorder.todo(finding + _INFERENCE_SUFFIX) if is_inference(trace) else "") or recorder.todo(finding)


def snippet_of(trace: TraceTable, *findings: str) -> str:
    """Returns the code of the fix: of the first of these advice keys that has code, "" without any."""
    recorder = trace.recorder
    suffix = _INFERENCE_SUFFIX if is_inference(trace) else ""
    keys = [key + suffix if key + suffix in recorder.advice else key for key in findings]
    return next(filter(None, map(recorder.snippet, keys)), "")


def read_more(trace: TraceTable, finding: str) -> list[Reference]:
    """Returns links to documentation that explains a finding."""
    recorder = trace.recorder
    own = references_of(recorder, finding + _INFERENCE_SUFFIX) if is_inference(trace) else []
    return own or references_of(recorder, finding)
