"""What is to be said of clocks: how far apart they are, what they cannot tell, and where two estimates of transfer differ."""

from __future__ import annotations

import numpy as np

from tb_plugin.payloads import Notice
from tb_plugin.views.distributed.clocks.lateness import BEGAN_LATER, BELOW, KNOWN
from tb_plugin.views.distributed.clocks.offsets import FEWEST
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.waiting import ESTIMATED, TIMINGS

APART_NS = 1_000_000
"""Clocks that differ less disturb nobody who looks at traces beside each other."""
ROUGH_NS = 50_000
"""Who lays timelines beside each other sees calls that are so far apart."""
SUPPRESSED_SHARE = 0.5
TRANSFER_DIFFERENCE = 0.2


def clock_notices(data: JobData) -> list[Notice]:
    """Returns notices about the clocks of several workers and about what they tell of the chosen steps."""
    if data.alone or not data.seen.matched.any():
        return []
    every = (_apart(data), _rough(data), _unknown(data), _suppressed(data), _begins_later(data), _transfer(data))
    return [notice for notice in every if notice is not None]


def _apart(data: JobData) -> Notice | None:
    clocks = data.clocks
    found = clocks.offset_ns[clocks.known & data.is_zero_stated & (clocks.connected == 0)]
    apart = int(found.max() - found.min()) if len(found) else 0
    residual = int(clocks.residual_ns.max(initial=0))
    if apart <= max(APART_NS, residual):
        return None
    text = (
        "The clocks of the workers are up to {clock_range_ns} apart. Times are compared by corrected clocks, which are right "
        "to {clock_residual_ns}."
    )
    advice = "Synchronize the clocks of the hosts (PTP, NTP) where other tools shall compare the traces."
    figures = [METRICS.figure("clock_range_ns", apart), METRICS.figure("clock_residual_ns", residual)]
    return Notice("clocks_apart", "info", text, advice, figures)


def _rough(data: JobData) -> Notice | None:
    """Clocks that are known less well than they differ: correcting them aligns ranks no better than leaving them alone."""
    clocks = data.clocks
    offset = clocks.offset_ns[clocks.known & data.is_zero_stated & (clocks.connected == 0)]
    apart = int(offset.max() - offset.min()) if len(offset) else 0
    rough = clocks.known & (clocks.connected == 0) & (clocks.residual_ns > max(apart, ROUGH_NS))
    if len(offset) < 2 or not rough.any():
        return None
    text = (
        "Ranks are aligned to about {clock_residual_ns} only: on {clocks_rough} of {workers} workers the ends of collectives "
        "scatter by that much, more than clocks differ ({clock_range_ns})."
    )
    figures = [
        METRICS.figure("clocks_rough", int(rough.sum())),
        METRICS.figure("workers", len(data.names)),
        METRICS.figure("clock_residual_ns", int(clocks.residual_ns[rough].max())),
        METRICS.figure("clock_range_ns", apart),
    ]
    advice = "Believe waiting, which needs no clocks. Who began first is not known where begins are closer than that."
    return Notice("clocks_rough", "info", text, advice, figures)


def _unknown(data: JobData) -> Notice | None:
    """Workers that share no collectives with those of the largest set."""
    lost = np.flatnonzero(data.clocks.connected != 0)
    if not len(lost) or len(data.first_rows) < FEWEST:
        return None
    text = (
        "The clocks of {clocks_unknown} of {workers} workers cannot be compared with the others': fewer than three "
        "collectives that all ranks leave together connect them. Who came late to collectives across them is not known."
    )
    figures = [METRICS.figure("clocks_unknown", len(lost)), METRICS.figure("workers", len(data.names))]
    return Notice("clocks_unknown", "low", text, "Record more steps, on all ranks.", figures)


def _suppressed(data: JobData) -> Notice | None:
    arrival = data.one_each(data.seen.late.arrival)
    below, known = (int((arrival == code).sum()) for code in (BELOW, KNOWN))
    if below <= SUPPRESSED_SHARE * (below + known):
        return None
    text = (
        "At {arrivals_suppressed} of {arrivals} collectives the workers came closer together than their clocks can tell "
        "({clock_residual_ns}): nobody is called late there."
    )
    figures = [
        METRICS.figure("arrivals_suppressed", below),
        METRICS.figure("arrivals", below + known),
        METRICS.figure("clock_residual_ns", int(data.clocks.residual_ns.max(initial=0))),
    ]
    return Notice("arrivals_suppressed", "info", text, "Nothing is wrong: wait and transfer need no clocks.", figures)


def _begins_later(data: JobData) -> Notice | None:
    later = int((data.one_each(data.seen.late.arrival) == BEGAN_LATER).sum())
    if not later:
        return None
    begin = data.clocks.begin_ns[data.clocks.known]
    text = (
        "Recordings begin up to {trace_begins_ns} after each other: so much of the lateness at the first collective of one "
        "that begins later ({arrivals_later} of them) may be that its profiler was started later, and counts as nobody's."
    )
    figures = [METRICS.figure("trace_begins_ns", int(begin.max())), METRICS.figure("arrivals_later", later)]
    return Notice("recording_later", "info", text, "Start the profilers of all ranks at the same step.", figures)


def _transfer(data: JobData) -> Notice | None:
    """Both estimates of transfer, where they differ: the shortest call, and from the last begin to the last end."""
    seen, first = data.seen, data.first_rows
    both = first[data.sure.moved[first] & (seen.waiting.timing[first] != TIMINGS.index(ESTIMATED))]
    # A clock may be wrong by its residual in each of them: less is no difference.
    slack = int(data.clocks.residual_ns[seen.worker[both]].sum())
    shortest, by_clocks = int(seen.waiting.transfer_ns[both].sum()), int(seen.late.moved_ns[both].sum())
    if abs(by_clocks - shortest) <= max(TRANSFER_DIFFERENCE * max(shortest, by_clocks), slack):
        return None
    text = (
        "How long data moved is uncertain: {transfer_ns} by the shortest call of each of {arrivals} collectives, "
        "{arrival_transfer_ns} from the last begin to the last end. Ranks do not end these collectives together."
    )
    figures = [
        METRICS.figure("transfer_ns", shortest),
        METRICS.figure("arrivals", len(both)),
        METRICS.figure("arrival_transfer_ns", by_clocks),
    ]
    advice = (
        "Believe bandwidths as far as both agree: see the columns Transfer and Transfer by clocks of the table Single "
        "collectives."
    )
    return Notice("transfer_estimates", "info", text, advice, figures)
