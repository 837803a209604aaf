"""What goes on the wire: plain numbers with units, discriminated by ``kind``; how they look is decided by the browser.

A payload never holds HTML, a formatted number or a sentence with numbers baked in: a notice carries a text template
and named figures.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Unit = Literal[
    "ns", "bytes", "count", "ratio", "bytes_per_second", "watts", "celsius", "hertz", "number", "text", "code", "bool",
    "unix_ms",
]  # fmt: skip
"""ratio is 0..1; code is text in a fixed-width font (a name from the trace); unix_ms is wall time."""

Scalar = int | float | str | bool | None


class Metric(Struct, frozen=True):
    """A metric says what a number is, in which unit, and over which window: what a person sees on hover."""

    key: str
    title: str
    unit: Unit
    definition: str
    window: str = ""


class Figure(Struct, frozen=True):
    """A figure is one number with its definition."""

    metric: Metric
    value: Scalar
    note: str = ""


class Link(Struct, frozen=True):
    """A link leads to a place inside the product: a view and the URL state to open it with."""

    view: str
    params: dict[str, str]
    text: str


class WindowInfo(Struct, frozen=True):
    """A window is the part of a trace that was opened because all of it does not fit into the memory.

    Times are nanoseconds from the start of the trace, also of what was not opened.
    """

    start_ns: int
    end_ns: int
    trace_ns: int
    """Length of the whole trace."""
    first_step: str | None
    """Label of the first step wholly inside, None when there is none."""
    last_step: str | None
    steps: int
    """Number of steps wholly inside."""
    trace_steps: int
    events: int
    trace_events: int
    need_bytes: int
    """Memory that opening the whole trace would take, estimated."""
    budget_bytes: int
    """Memory that the readers may take (TORCH_TRACE_MEMORY_MB)."""


class CoverageInfo(Struct, frozen=True):
    """A coverage says how much of the file stands behind the numbers."""

    window_ns: int | None = None
    """Length of what was looked at; None where there is no time."""
    fraction_read: float = 1.0
    complete: bool = True
    steps: list[str] | None = None
    """Labels of the chosen steps, None = the whole trace (or the whole window)."""
    window: WindowInfo | None = None
    """None when all of the file was opened."""
    phase: str | None = None
    """The phase in whose calls everything lies, None = any."""
