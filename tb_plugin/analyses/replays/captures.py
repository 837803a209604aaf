"""What one recording tells of graphs that another one replays."""

from __future__ import annotations

from tb_plugin.trace.captured import Captured
from tb_plugin.trace.table import TraceTable


def captured_in(trace: TraceTable) -> Captured:
    """Returns what a recording tells of graphs; its ids count into the strings of that recording."""
    return Captured()
