"""Notices about clock offsets and clock accuracy."""

from __future__ import annotations

import numpy as np

from tb_plugin.payloads import Notice
from tb_plugin.views.distributed.clocks.lateness import BEGAN_LATER
from tb_plugin.views.distributed.clocks.offsets import FEWEST
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.metrics import METRICS

# smaller offsets do not matter when timelines are compared side by side
MIN_OFFSET_NS = 1_000_000
# smaller residuals are invisible when timelines are compared side by side
MIN_RESIDUAL_NS = 50_000


def clock_notices(data: JobData) -> list[Notice]:
    """Returns notices about the clocks of the workers, and about the effect of clock errors on the selected steps."""
    if data.is_single or not data.calls.matched.any():
        return []
    every = (
        _offsets_notice(data),
        _residuals_notice(data),
        _unknown_notice(data),
        _late_start_notice(data),
    )
    return [notice for notice in every if notice is not None]


def _offsets_notice(data: JobData) -> Notice | None:
    clocks = data.clocks
    found = clocks.offset_ns[clocks.comparable & data.is_zero_reported & (clocks.connected == 0)]
    difference = int(found.max() - found.min()) if len(found) else 0
    residual = int(clocks.residual_ns.max(initial=0))
    if difference <= max(MIN_OFFSET_NS, residual):
        return None
    text = (
        "The clocks of the workers differ by up to {clock_range_ns}. Times are compared with corrected clocks, accurate to "
        "{clock_residual_ns}."
    )
    advice = "To compare the traces in other tools, synchronize the host clocks (PTP, NTP)."
    figures = [METRICS.figure("clock_range_ns", difference), METRICS.figure("clock_residual_ns", residual)]
    return Notice("clocks_apart", "info", text, advice, figures)


def _residuals_notice(data: JobData) -> Notice | None:
    """Returns a notice about clocks whose error exceeds their offset, so a correction does not improve the
    alignment.
    """
    clocks = data.clocks
    offset = clocks.offset_ns[clocks.comparable & data.is_zero_reported & (clocks.connected == 0)]
    difference = int(offset.max() - offset.min()) if len(offset) else 0
    rough = clocks.comparable & (clocks.connected == 0) & (clocks.residual_ns > max(difference, MIN_RESIDUAL_NS))
    if len(offset) < 2 or not rough.any():
        return None
    text = (
        "Ranks can only be aligned to about {clock_residual_ns}. On {clocks_rough} of {workers} workers, the end times of "
        "collectives vary by more than the clocks differ ({clock_range_ns})."
    )
    figures = [
        METRICS.figure("clocks_rough", int(rough.sum())),
        METRICS.figure("workers", len(data.names)),
        METRICS.figure("clock_residual_ns", int(clocks.residual_ns[rough].max())),
        METRICS.figure("clock_range_ns", difference),
    ]
    advice = "Waiting times are reliable. Arrival order is not known for calls closer than {clock_residual_ns}."
    return Notice("clocks_rough", "info", text, advice, figures)


def _unknown_notice(data: JobData) -> Notice | None:
    """Returns a notice about workers with unknown clocks, which share too few collectives with most other workers."""
    unknown = np.flatnonzero(data.clocks.connected != 0)
    if not len(unknown) or len(data.first_rows) < FEWEST:
        return None
    text = (
        "The clocks of {clocks_unknown} of {workers} workers cannot be compared with other clocks. "
        "These workers share fewer than three synchronizing collectives with other workers. Late arrivals "
        "at collectives with these workers are not known."
    )
    figures = [METRICS.figure("clocks_unknown", len(unknown)), METRICS.figure("workers", len(data.names))]
    return Notice("clocks_unknown", "low", text, "Record more steps, on all ranks.", figures)


def _late_start_notice(data: JobData) -> Notice | None:
    later = int((data.one_each(data.calls.late.arrival) == BEGAN_LATER).sum())
    if not later:
        return None
    begin = data.clocks.begin_ns[data.clocks.comparable]
    text = (
        "The traces start up to {trace_begins_ns} apart. If a trace starts later than other traces, "
        "lateness at its first collective is ignored ({arrivals_later} times): the profiler may have "
        "started late."
    )
    figures = [METRICS.figure("trace_begins_ns", int(begin.max())), METRICS.figure("arrivals_later", later)]
    return Notice("recording_later", "info", text, "Start the profilers of all ranks at the same step.", figures)
