"""Basic payload types, such as numbers with units.

``kind`` distinguishes payloads. The browser formats numbers. A payload therefore never contains HTML, formatted
numbers, or sentences with numbers. A notice contains text templates and numbers.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

# ratio is 0..1; code is fixed-width text (a name from the trace); unix_ms is wall time.
Unit = Literal[
    "ns", "bytes", "count", "ratio", "bytes_per_second", "watts", "celsius", "hertz", "number", "text", "code", "bool",
    "unix_ms",
]  # fmt: skip

Scalar = int | float | str | bool | None


class Metric(Struct, frozen=True):
    key: str
    title: str
    unit: Unit
    definition: str
    window: str = ""


class Figure(Struct, frozen=True):
    metric: Metric
    value: Scalar
    note: str = ""


class Link(Struct, frozen=True):
    view: str
    params: dict[str, str]
    text: str


class WindowInfo(Struct, frozen=True):
    """The window that is open, for a trace that does not fit in memory.

    Times are nanoseconds since the start of the whole trace.
    """

    start_ns: int
    end_ns: int
    trace_ns: int
    first_step: str | None
    """Label of the first complete step in the window; None if there is none."""
    last_step: str | None
    steps: int
    trace_steps: int
    events: int
    trace_events: int
    peak_memory_bytes: int
    budget_bytes: int


class CoverageInfo(Struct, frozen=True):
    """The part of the file to which the numbers apply."""

    window_ns: int | None = None
    """Length of the covered time; None if the file contains no times."""
    fraction_read: float = 1.0
    complete: bool = True
    steps: list[str] | None = None
    """Labels of the selected steps; None = the whole trace or window."""
    window: WindowInfo | None = None
    phase: str | None = None
