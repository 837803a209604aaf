"""Memory numbers after an event, and the event's position in the history."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.phrases import count_with_noun
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.labels import address_texts, stack_words, texts_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.moment import Moment, stuck_of
from tb_plugin.analysis.snapshot.out_of_memory import RunningOut, figures_of
from tb_plugin.model.snapshot.table import Action
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure, Figures, Series
from tb_plugin.payloads.charts import Line

# Kinds of events for the previous and next buttons.
KINDS: dict[str, tuple[Action, ...]] = {
    "alloc": (Action.ALLOC,),
    "free": (Action.FREE_REQUESTED, Action.FREE_COMPLETED),
    "segment": (Action.SEGMENT_ALLOC, Action.SEGMENT_FREE, Action.SEGMENT_MAP, Action.SEGMENT_UNMAP),
    "oom": (Action.OOM,),
}
_CHUNK = 1 << 20


def usual_request(moment: Moment, oom: RunningOut | None) -> int:
    return oom.requested if oom else int(moment.size.max(initial=0))


def summary_of(moment: Moment) -> Figures:
    device, free, largest = moment.levels, moment.free, moment.largest_gap
    outside = device.block("size")[moment.outside]
    requested = device.block("requested")[moment.block]
    known = (requested != MISSING) & ~moment.is_pending
    figures = [
        METRICS.figure("segment_bytes", moment.reserved, note=count_with_noun(len(moment.rows), "segment")),
        METRICS.figure(
            "allocated_now_bytes", moment.allocated, note=count_with_noun(int((~moment.is_pending).sum()), "block")
        ),
        *([METRICS.figure("pending_now_bytes", moment.pending)] if moment.pending else []),
        METRICS.figure("free_now_bytes", free, note=f"in {count_with_noun(len(moment.gaps.size), 'gap')}"),
        METRICS.figure("widest_gap_bytes", largest),
        METRICS.figure("stuck_bytes", int(stuck_of(moment).sum())),
        METRICS.figure("scattered_ratio", 1 - largest / free if free else None),
        METRICS.figure(
            "rounding_bytes",
            int((moment.size - requested)[known].sum()) if known.any() else None,
            note=f"of {count_with_noun(int(known.sum()), 'block')}",
        ),
    ]
    if len(outside):
        figures.append(
            METRICS.figure("unknown_place_bytes", int(outside.sum()), note=count_with_noun(len(outside), "block"))
        )
    return Figures("moment", device.name, "", figures, "headline")


def oom_of(one: RunningOut) -> Figures:
    return Figures("oom", "Out of memory", "", figures_of(one))


def place_of(device: DeviceLevels, at: int) -> Figures:
    figures = [METRICS.figure("event_number", at), METRICS.figure("history_events", device.count)]
    if at >= 0:
        events, row = device.snapshot.events, device.events.start + at
        is_oom = events.action[row] == Action.OOM
        words = stack_words(device.snapshot)
        figures += [
            METRICS.figure("event_action", Action(int(events.action[row])).name.lower()),
            METRICS.figure("asked_bytes" if is_oom else "event_bytes", int(events.size[row])),
            METRICS.figure("address", None if is_oom else address_texts(events.address[row : row + 1])[0].as_py()),
            METRICS.figure("allocation_line", texts_of(words.line, events.stack[row : row + 1])[0].as_py()),
            METRICS.figure("event_ns", int(events.time_ns[row]) if device.snapshot.has_times else None),
        ]
    for kind, actions in KINDS.items():
        figures.append(_step("previous_event", kind, _before(device, at, actions)))
        figures.append(_step("next_event", kind, _after(device, at, actions)))
    return Figures("place", "Chosen event", "", figures)


def _step(key: str, kind: str, event: int | None) -> Figure:
    return METRICS.figure(key, event, title=kind)


def _after(device: DeviceLevels, at: int, actions: tuple[Action, ...]) -> int | None:
    action = device.action
    for low in range(at + 1, device.count, _CHUNK):
        found = np.flatnonzero(np.isin(action[low : low + _CHUNK], actions))
        if len(found):
            return low + int(found[0])
    return None


def _before(device: DeviceLevels, at: int, actions: tuple[Action, ...]) -> int | None:
    action = device.action
    for high in range(max(at, 0), 0, -_CHUNK):
        low = max(high - _CHUNK, 0)
        found = np.flatnonzero(np.isin(action[low:high], actions))
        if len(found):
            return low + int(found[-1])
    return None


def gap_sizes_of(moment: Moment) -> tuple[Series, Series]:
    """Returns two histograms of gaps by size: total bytes and number of gaps. The bins are powers of two."""
    size = moment.gaps.size
    power = np.frexp(size.astype(np.float64))[1] - 1  # exact: sizes are below 2**53
    low, high = (int(power.min()), int(power.max())) if len(size) else (9, 9)
    bins = high - low + 1
    total = np.zeros(bins, np.int64)
    np.add.at(total, power - low, size)
    count = np.bincount(power - low, minlength=bins).astype(np.int64)
    edges: list[int | float | str] = [1 << p for p in range(low, high + 2)]
    x = METRICS.metric("gap_from_bytes")
    return (
        Series("gap_sizes", "Free bytes by gap size", "", x, edges,
               [Line(METRICS.metric("gaps_bytes"), "memcpy", [*total.tolist()])], "histogram"),
        Series("gap_counts", "Gaps by size", "", x, edges,
               [Line(METRICS.metric("gaps_now"), "kernel", [*count.tolist()])], "histogram"),
    )  # fmt: skip
