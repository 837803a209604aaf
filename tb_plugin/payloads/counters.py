"""Counters: quantities over time, one value per bin."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Counter(Struct, frozen=True):
    """One quantity in time bins of equal length; null = unknown.

    ``low`` and ``high`` are the minimum and maximum in each bin. ``mean`` is the time-weighted mean.
    """

    key: str
    """Identifier of the counter. It is the same in every window of the trace."""
    title: str
    subtitle: str
    metric: Metric
    device: str | None
    """Device id as in track titles; None = host."""
    process: str | None
    """Process id of a counter that the trace contains; None for a computed counter."""
    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]
    min: float
    """Minimum over the whole trace, so that the scale stays the same while panning; 0 if unknown."""
    max: float
    """Maximum over the whole trace; 0 if unknown."""


class Counters(Struct, frozen=True, tag_field="kind", tag="counters"):
    """Counters in ``bins`` bins of equal length in ``[start_ns, end_ns)``.

    Bin i starts at ``start_ns + floor((end_ns - start_ns) * i / bins)`` and ends at the start of the next bin.
    """

    start_ns: int
    end_ns: int
    bins: int
    window_start_ns: int
    window_end_ns: int
    counters: list[Counter]
    omitted: int
