"""Counters: quantities over time, at the resolution of a screen."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Counter(Struct, frozen=True):
    """A counter is one quantity in the bins of a Counters, null where unknown.

    ``low`` and ``high`` are the lowest and highest value in a bin, ``mean`` is weighted by time.
    """

    key: str
    """Identifies a counter of the trace, the same in every window."""
    title: str
    subtitle: str
    metric: Metric
    device: str | None
    """Id of its device, as in track titles; None: the host."""
    process: str | None
    """Process id of a recorded counter, as recorded; None for others."""
    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]
    min: float
    """The lowest value of the whole trace, so that the scale stays while panning. 0 if unknown."""
    max: float
    """The highest value of the whole trace. 0 if unknown."""


class Counters(Struct, frozen=True, tag_field="kind", tag="counters"):
    """A Counters has quantities in ``bins`` equal bins of ``[start_ns, end_ns)``.

    Bin i starts at ``start_ns + floor((end_ns - start_ns) * i / bins)`` and ends at the start of the next one.
    """

    start_ns: int
    end_ns: int
    bins: int
    window_start_ns: int
    """The time range with data: the whole trace (or its window), as in Timeline."""
    window_end_ns: int
    counters: list[Counter]
    omitted: int
    """Number of counters omitted because the list is limited."""
