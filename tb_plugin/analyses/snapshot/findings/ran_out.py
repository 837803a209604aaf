"""Out of memory: what was asked for, what was free and where, and who held most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin.analyses.snapshot.definitions import RAN_OUT
from tb_plugin.analyses.snapshot.free import SMALL_BLOCK, free_of
from tb_plugin.analyses.snapshot.held import Held, levels_of, ooms_of
from tb_plugin.analyses.snapshot.lines import line_numbers
from tb_plugin.analyses.snapshot.metrics import METRICS
from tb_plugin.analyses.snapshot.words import NO_STACK
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Link, Notice
from tb_plugin.trace.schema import MISSING

MOST_EVENTS = 5
"""A program that tries again runs out of memory many times; the table lists all."""


def ran_out(held: Held) -> Iterator[Notice]:
    """Yields a notice for each of the first events at which memory ran out."""
    levels, events = levels_of(held), held.snapshot.events
    lines = line_numbers(held.snapshot)
    for event in ooms_of(held)[:MOST_EVENTS].tolist():
        row = held.events.start + event
        asked, device_free = int(events.size[row]), int(events.address[row])
        cached = int(levels.reserved[event + 1] - levels.active[event + 1])
        free = free_of(held, event)
        usable = free.stream == events.stream[row]
        if events.pool[row] != MISSING:  # older files do not state it
            usable &= (free.pool == events.pool[row]) | (free.pool == MISSING)
        usable &= free.is_small == (asked <= SMALL_BLOCK)
        blocks = held.allocated(event)
        by_line = np.bincount(lines.of(held.block("stack")[blocks]), held.block("size")[blocks], len(lines.text))
        most = int(by_line.argmax()) if len(blocks) else len(lines.text) - 1
        figures = [
            METRICS.figure("asked_bytes", asked),
            METRICS.figure("cache_free_bytes", cached),
            METRICS.figure("device_free_bytes", device_free),
            METRICS.figure("usable_gap_bytes", free.largest(usable)),
            METRICS.figure("allocated_bytes", int(levels.allocated[event + 1]), window=RAN_OUT),
            METRICS.figure("holding_line", lines.text[most] or NO_STACK),
            METRICS.figure("line_held_bytes", int(by_line[most])),
            METRICS.figure("event_number", event),
        ]
        text = "Memory ran out at event {event_number}: {asked_bytes} were asked for, {cache_free_bytes} were free "
        text += (
            "in the cache with {usable_gap_bytes} as the largest gap for it, and {device_free_bytes} on the device. "
        )
        fragmented = cached + device_free >= asked
        if fragmented:
            text += "There was enough in sum: it lay in pieces. "
        else:
            text += "There was not enough, in pieces or not. "
        text += "Of {allocated_bytes} that were allocated {holding_line} held most, {line_held_bytes}."
        recorder = held.snapshot.recorder
        yield Notice(
            "snapshot_out_of_memory",
            "high",
            text,
            recorder.todo("snapshot_out_of_memory.pieces" if fragmented else "snapshot_out_of_memory"),
            figures,
            evidence=Link("segments", {"device": held.name, "at": str(event)}, "Show its segments then"),
            references=references_of(recorder, "snapshot_out_of_memory"),
        )
