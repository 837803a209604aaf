"""Traces of unknown tools that contain only ranges."""

from __future__ import annotations

from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import ON_DEVICE, OP_TREE, of_kind
from tb_plugin.model.trace.table import TraceTable


@cached_by_argument
def is_range_trace(trace: TraceTable) -> bool:
    """Returns whether a trace comes from an unknown tool and has no operators, modules, devices or steps."""
    known = bool(trace.recorder.id) or trace.steps.recorded or bool(trace.devices)
    return not known and not bool(of_kind(trace.kind, *OP_TREE, *ON_DEVICE).any())
