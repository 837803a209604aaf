"""The sentence that stands first: what of a moment is free, and where memory ran out."""

from __future__ import annotations

from tb_plugin.analysis.phrases import noun
from tb_plugin.analysis.snapshot.device_levels import levels_of, ooms_of
from tb_plugin.analysis.snapshot.labels import NO_HISTORY
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.moment import Moment, pinned_by, stuck_of
from tb_plugin.analysis.snapshot.out_of_memory import RunningOut, sentence_of
from tb_plugin.payloads import Link, Notice, Notices


def answer_of(moment: Moment, here: RunningOut | None) -> Notices:
    """Returns what a moment is and what of it is free; ``here`` is what it met if memory ran out at it."""
    if here is not None:
        text, figures = sentence_of(here)
        notices = [Notice("segments_moment", "high", text, "", figures)]
    else:
        notices = [_free(moment), *_other_oom(moment)]
    return Notices("answer", "Answer", "answer", notices)


def _free(moment: Moment) -> Notice:
    held, gaps = moment.held, len(moment.gaps.size)
    stuck = int(stuck_of(moment).sum())
    when = (
        "After event {event_number}" if moment.event >= 0 else "Before the first recorded event" if held.count else ""
    )
    if held.count and moment.event == levels_of(held).peak():
        when += ", the peak of allocated bytes"
    if moment.free:
        text = f"{{free_now_bytes}} of {{segment_bytes}} reserved are free: in {{gaps_now}} {noun(gaps, 'gap')}"
        text += ", the largest of {widest_gap_bytes}" if gaps > 1 else ""
        text += "; {stuck_bytes} cannot go back to the driver, for blocks lie in the same segments" if stuck else ""
        text += ", and no block alone keeps any of them" if stuck and not pinned_by(moment).any() else ""
    else:
        text = "all of {segment_bytes} reserved is in use" if moment.reserved else "nothing is reserved"
    text = f"{when}, {text}" if when else f"{text[0].upper()}{text[1:]}"
    if not held.count:
        text = f"{NO_HISTORY} {text}"
    figures = [
        METRICS.figure("event_number", moment.event),
        METRICS.figure("free_now_bytes", moment.free),
        METRICS.figure("segment_bytes", moment.reserved),
        METRICS.figure("gaps_now", gaps),
        METRICS.figure("widest_gap_bytes", moment.largest_gap),
        METRICS.figure("stuck_bytes", stuck),
    ]
    return Notice("segments_moment", "info", f"{text}.", "", figures)


def _other_oom(moment: Moment) -> list[Notice]:
    """The way to where memory ran out first, from any other moment."""
    ooms = ooms_of(moment.held)
    if not len(ooms):
        return []
    event = int(ooms[0])
    text = "Memory ran out at event {event_number}."
    if len(ooms) > 1:
        text = "Memory ran out {oom_count} times, at event {event_number} first."
    figures = [METRICS.figure("event_number", event), METRICS.figure("oom_count", len(ooms))]
    link = Link("segments", {"device": moment.held.name, "at": str(event)}, "Show that moment")
    return [Notice("segments_ran_out", "high", text, "", figures, evidence=link)]
