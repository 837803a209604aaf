"""The figures of a moment, where it lies in the history, and which moment is shown unless one is chosen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.segments.metrics import SHOWN
from tb_plugin.analyses.segments.running_out import RunningOut
from tb_plugin.analyses.snapshot.held import Held, devices_of, levels_of, ooms_of
from tb_plugin.analyses.snapshot.moment import Moment, stuck_of
from tb_plugin.analyses.snapshot.words import address_texts, stack_words, texts_of
from tb_plugin.payloads import Figure, Figures, Series
from tb_plugin.payloads.series import Line
from tb_plugin.snapshot.table import Action, Snapshot
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]

KINDS: dict[str, tuple[Action, ...]] = {
    "alloc": (Action.ALLOC,),
    "free": (Action.FREE_REQUESTED, Action.FREE_COMPLETED),
    "segment": (Action.SEGMENT_ALLOC, Action.SEGMENT_FREE, Action.SEGMENT_MAP, Action.SEGMENT_UNMAP),
    "oom": (Action.OOM,),
}
"""Kinds of events that one steps along."""
_CHUNK = 1 << 20


def usual_event(held: Held) -> int:
    """Returns the event that is shown unless one is chosen.

    The last at which memory ran out; else, of those with most reserved bytes, the first with least of them allocated.
    """
    return _usual(held.snapshot, held.place)


@remembered
def _usual(snapshot: Snapshot, place: int) -> int:
    devices = devices_of(snapshot)
    if not devices:
        return MISSING
    held = devices[place]
    ooms = ooms_of(held)
    if len(ooms):
        return int(ooms[-1])
    levels = levels_of(held)
    most = np.flatnonzero(levels.reserved == levels.reserved.max())
    return int(most[np.argmin(levels.allocated[most])]) - 1


def usual_request(moment: Moment, oom: RunningOut | None) -> int:
    """Returns the size that gaps are measured against unless one is chosen."""
    return oom.asked if oom else int(moment.size.max(initial=0))


def summary_of(moment: Moment) -> Figures:
    """Returns the headline of a moment."""
    held, free, largest = moment.held, moment.free, moment.largest_gap
    outside = held.block("size")[moment.outside]
    requested = held.block("requested")[moment.block]
    known = (requested != MISSING) & ~moment.is_pending
    figures = [
        SHOWN.figure("segment_bytes", moment.reserved, note=f"{len(moment.rows):,} segments"),
        SHOWN.figure("allocated_now_bytes", moment.allocated, note=f"{int((~moment.is_pending).sum()):,} blocks"),
        SHOWN.figure("pending_now_bytes", moment.pending),
        SHOWN.figure("free_now_bytes", free, note=f"in {len(moment.gaps.size):,} gaps"),
        SHOWN.figure("widest_gap_bytes", largest),
        SHOWN.figure("scattered_ratio", 1 - largest / free if free else None),
        SHOWN.figure("stuck_bytes", int(stuck_of(moment).sum())),
        SHOWN.figure(
            "rounding_bytes",
            int((moment.size - requested)[known].sum()) if known.any() else None,
            note=f"of {int(known.sum()):,} blocks",
        ),
    ]
    if len(outside):
        figures.append(SHOWN.figure("unknown_place_bytes", int(outside.sum()), note=f"{len(outside):,} blocks"))
    return Figures("moment", held.name, "", figures, "headline")


def oom_of(one: RunningOut) -> Figures:
    """Returns what an event met at which memory ran out."""
    runs = one.obstacles
    found = len(runs.row) > 0
    figures = [
        SHOWN.figure("asked_bytes", one.asked),
        SHOWN.figure("device_free_bytes", one.device_free),
        SHOWN.figure("pool_free_bytes", one.pool_free),
        SHOWN.figure("pool_gap_bytes", one.pool_gap),
        SHOWN.figure("fits_joined", one.fits_joined),
        SHOWN.figure("in_way_bytes", int(runs.live_bytes[0]) if found else None),
        SHOWN.figure("in_way_blocks", int(runs.count[0]) if found else None),
    ]
    return Figures("oom", "Out of memory", "", figures)


def place_of(held: Held, at: int) -> Figures:
    """Returns the chosen event and the next and previous one of each kind: what one steps along."""
    figures = [SHOWN.figure("event_number", at), SHOWN.figure("history_events", held.count)]
    if at >= 0:
        events, row = held.snapshot.events, held.events.start + at
        is_oom = events.action[row] == Action.OOM
        words = stack_words(held.snapshot)
        figures += [
            SHOWN.figure("event_action", Action(int(events.action[row])).name.lower()),
            SHOWN.figure("asked_bytes" if is_oom else "event_bytes", int(events.size[row])),
            SHOWN.figure("address", None if is_oom else address_texts(events.address[row : row + 1])[0].as_py()),
            SHOWN.figure("allocation_line", texts_of(words.line, events.stack[row : row + 1])[0].as_py()),
            SHOWN.figure("event_ns", int(events.time_ns[row]) if held.snapshot.has_times else None),
        ]
    for kind, actions in KINDS.items():
        figures.append(_step("previous_event", kind, _before(held, at, actions)))
        figures.append(_step("next_event", kind, _after(held, at, actions)))
    return Figures("place", "Chosen event", "", figures)


def _step(key: str, kind: str, event: int | None) -> Figure:
    return SHOWN.figure(key, event, title=kind)


def _after(held: Held, at: int, actions: tuple[Action, ...]) -> int | None:
    action = held.action
    for low in range(at + 1, held.count, _CHUNK):
        found = np.flatnonzero(np.isin(action[low : low + _CHUNK], actions))
        if len(found):
            return low + int(found[0])
    return None


def _before(held: Held, at: int, actions: tuple[Action, ...]) -> int | None:
    action = held.action
    for high in range(max(at, 0), 0, -_CHUNK):
        low = max(high - _CHUNK, 0)
        found = np.flatnonzero(np.isin(action[low:high], actions))
        if len(found):
            return low + int(found[-1])
    return None


def gap_sizes_of(moment: Moment) -> tuple[Series, Series]:
    """Returns the bytes of the gaps by their size, in powers of two, and how many they are."""
    size = moment.gaps.size
    power = np.frexp(size.astype(np.float64))[1] - 1  # exact: sizes are below 2**53
    low, high = (int(power.min()), int(power.max())) if len(size) else (9, 9)
    bins = high - low + 1
    total = np.zeros(bins, np.int64)
    np.add.at(total, power - low, size)
    count = np.bincount(power - low, minlength=bins).astype(np.int64)
    edges: list[int | float | str] = [1 << p for p in range(low, high + 2)]
    x = SHOWN.metric("gap_from_bytes")
    return (
        Series("gap_sizes", "Free bytes by size of the gap", "", x, edges,
               [Line(SHOWN.metric("gaps_bytes"), "memcpy", [*total.tolist()])], "histogram"),
        Series("gap_counts", "Gaps by size", "", x, edges,
               [Line(SHOWN.metric("gaps_now"), "kernel", [*count.tolist()])], "histogram"),
    )  # fmt: skip
