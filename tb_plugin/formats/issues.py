"""Counts of everything irregular, gathered while a file is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tb_plugin.model.trace.report import Issue, Outcome

MAX_EXAMPLES = 5
EXAMPLE_CHARS = 120
MAX_TEXTS = 20
"""Entries of one code that are told apart: a file may invent as many categories as it has events."""
TEXT_CHARS = 300

TEXTS = {
    "bad_utf8": "bytes that are not UTF-8 were replaced",
    "control_character": "raw control characters inside a string were escaped",
    "bad_escape": "unescaped backslashes (Windows paths) were doubled",
    "lone_surrogate": "half a surrogate pair was replaced",
    "bare_word": "bare N/A, NaN or Infinity was read as no value",
    "raw_quote": "unescaped quotes inside a string were escaped",
    "missing_quote": "a missing opening quote of a key was added",
    "far_number": "numbers beyond 64 bits count as absent",
    "long_name": "very long names were cut",
    "trailing_comma": "a trailing comma was removed",
    "odd_number": "a number in a form JSON does not know was normalised",
    "odd_type": "a field of unexpected type was converted",
    "unreadable_event": "text that could not be repaired was left out",
    "truncated_tail": "the file ends inside an event, which was left out",
    "event_too_large": "an event too large to be one was left out",
    "second_event_list": "events and steps of an earlier recording in the same file were left out: the last one counts",
    "trailing_events": "a further recording behind the first event list was left out",
    "legacy_device_rows": "device rows of the legacy autograd profiler are not analysed",
    "lost_packets": "the rest of the file was left out",
    "truncated_packet": "the file ends inside a packet, which was left out",
    "unreadable_packet": "packets that could not be decoded were left out",
    "bad_bundle": "bundles of compressed packets that are damaged or too large were left out, or their ends",
    "unreadable_annotation": "annotations that could not be decoded were left out",
    "lost_state": "packets that refer to others which were lost were left out",
    "unknown_type": "track events of an unknown type were left out",
    "unpaired_wait": "arrows between device events of which one is missing were left out",
    "bad_row": "rows that do not fit their heading, or without a name or a time, were left out",
    "bad_cell": "cells that hold no number where one belongs count as empty",
    "added_up": "totals of both allocators together are not recorded: they are the last totals of both, added up",
    "many_names": "totals of more than 2,000 allocators and components were left out",
    "many_columns": "columns beyond the first 512 were left out",
    "missing_time": "events without a readable time were left out",
    "missing_duration": "events without a duration count as 0 ns",
    "time_out_of_range": "times beyond the 64-bit nanosecond range were clamped",
    "other_arguments": "arguments under more than 128 names, or of an unusual shape, were not kept",
    "bad_counter": "counter events without a number were left out",
    "bad_counter_value": "values of counters that are no numbers were left out",
    "unmatched_begin": "begin and end events without partner were left out",
    "unmatched_end": "end events before which nothing is open were left out",
    "unfinished_range": "ranges that nothing ends last to the trace's end, of very many the later ones until the next begins",
    "many_operations": "names of asynchronous operations, those with fewest parts, share a track in each process",
    "cut_flow": "forward-backward arrows with one end missing or outside the window were left out",
    "unpaired_arrow": "arrows between events with one end missing, or outside the window, were left out",
    "unpaired_flow": "forward-backward arrows with one end missing were left out",
}

_OTHERS = {
    "unknown_category": "events of {kinds} further unknown categories were kept without a meaning",
    "not_shown": "events of {kinds} further phases are not shown",
}
"""What is told of the texts of a code beyond MAX_TEXTS."""


@dataclass
class _Entry:
    outcome: Outcome
    text: str
    count: int = 0
    first_offset: int | None = None
    examples: list[str] = field(default_factory=list)


@dataclass
class IssueLog:
    """Mutable tally; ``issues()`` gives the immutable result."""

    entries: dict[tuple[str, str], _Entry] = field(default_factory=dict)

    def add(
        self, code: str, outcome: Outcome, offset: int | None = None, example: str = "", count: int = 1, text: str = ""
    ) -> None:
        """Counts ``count`` places of ``code``; ``offset`` is a byte offset of the uncompressed text."""
        text = (text or TEXTS[code])[:TEXT_CHARS]
        entry = self.entries.setdefault((code, text), _Entry(outcome, text))
        entry.count += count
        if offset is not None and (entry.first_offset is None or offset < entry.first_offset):
            entry.first_offset = offset
        if example and len(entry.examples) < MAX_EXAMPLES:
            entry.examples.append(example[:EXAMPLE_CHARS])

    def note(self, code: str, text: str, offset: int | None = None) -> None:
        """Notes something worth telling that cost no event."""
        self.add(code, "note", offset, text=text)

    def issues(self) -> tuple[Issue, ...]:
        """Returns all of it, in an order that does not depend on how the text was cut.

        Of a code with more than MAX_TEXTS texts those with the highest counts; the others are counted together.
        """
        by_code: dict[str, list[_Entry]] = {}
        for (code, _), entry in sorted(self.entries.items(), key=lambda item: item[0]):
            by_code.setdefault(code, []).append(entry)
        return tuple(_issue(code, entry) for code, entries in by_code.items() for entry in _bounded(code, entries))


def is_packed_badly(issues: Iterable[Issue]) -> bool:
    """Returns True when the archive that a file is was cut, is damaged, or goes on as something else."""
    return any(issue.code.startswith(("gzip_", "zstd_")) for issue in issues)


def _issue(code: str, entry: _Entry) -> Issue:
    return Issue(code, entry.outcome, entry.text, entry.count, entry.first_offset, tuple(entry.examples))


def _bounded(code: str, entries: list[_Entry]) -> list[_Entry]:
    if len(entries) <= MAX_TEXTS:
        return entries
    often = sorted(entries, key=lambda entry: entry.count, reverse=True)[: MAX_TEXTS - 1]
    chosen = {entry.text for entry in often}
    others = [entry for entry in entries if entry.text not in chosen]
    offsets = [entry.first_offset for entry in others if entry.first_offset is not None]
    rest = _Entry(
        others[0].outcome,
        _OTHERS.get(code, "the same in {kinds} further ways").format(kinds=f"{len(others):,}"),
        sum(entry.count for entry in others),
        min(offsets, default=None),
        [entry.text[:EXAMPLE_CHARS] for entry in others[:MAX_EXAMPLES]],
    )
    return [*(entry for entry in entries if entry.text in chosen), rest]
