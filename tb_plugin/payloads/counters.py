"""Counters: quantities over time, at the resolution of a screen."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.base import Metric


class Counter(Struct, frozen=True):
    """A counter is one quantity in the bins of a Counters: arrays as long as there are bins, null where nothing is known.

    ``low`` and ``high`` are the lowest and the highest value at any moment of a bin, ``mean`` is weighted by time.
    """

    key: str
    """Tells the counters of a trace apart, the same in every window."""
    title: str
    subtitle: str
    metric: Metric
    device: str | None
    """Id of the device it belongs to, as in the titles of the tracks; None: the host."""
    process: str | None
    """Process id of a recorded counter, as recorded; None of all others."""
    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]
    min: float
    """The lowest value of the whole trace, and..."""
    max: float
    """... the highest: what they span stays while one pans. 0 where no value is known."""


class Counters(Struct, frozen=True, tag_field="kind", tag="counters"):
    """A Counters holds what quantities did in ``bins`` equal bins of ``[start_ns, end_ns)``.

    Bin i begins at ``start_ns + floor((end_ns - start_ns) * i / bins)`` and ends where the next one begins.
    """

    start_ns: int
    end_ns: int
    bins: int
    window_start_ns: int
    """The range in which something is known: all of the trace (or of its window), as in Timeline."""
    window_end_ns: int
    counters: list[Counter]
    omitted: int
    """Further counters of the trace that are not in the list because it would be too long."""
