"""Problems found while reading a file, with their numbers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tb_plugin.model.trace.report import Issue, Outcome

MAX_EXAMPLES = 5
EXAMPLE_CHARS = 120
MAX_TEXTS = 20  # limit, because a file may have as many categories as events
TEXT_CHARS = 300

TEXTS = {
    "bad_utf8": "bytes that are not UTF-8 were replaced",
    "control_character": "control characters inside a string were escaped",
    "bad_escape": "unescaped backslashes (Windows paths) were doubled",
    "lone_surrogate": "an incomplete Unicode surrogate pair was replaced",
    "bare_word": "N/A, NaN or Infinity without quotes was read as a missing value",
    "raw_quote": "unescaped quotes inside a string were escaped",
    "missing_quote": "a missing opening quote of a key was added",
    "far_number": "numbers beyond 64 bits are treated as missing",
    "long_name": "very long names were shortened",
    "trailing_comma": "a trailing comma was removed",
    "odd_number": "a number that is not valid JSON was converted",
    "odd_type": "a field of unexpected type was converted",
    "unreadable_event": "text that could not be repaired was skipped",
    "truncated_tail": "the file ends inside an event, which was skipped",
    "event_too_large": "an oversized event was skipped",
    "second_event_list": "events and steps of earlier recordings in the file were skipped; only the last recording is used",
    "trailing_events": "another recording after the first event list was skipped",
    "legacy_device_rows": "device rows of the legacy autograd profiler are not analyzed",
    "lost_packets": "the rest of the file was skipped",
    "truncated_packet": "the file ends inside a packet, which was skipped",
    "unreadable_packet": "packets that could not be decoded were skipped",
    "bad_bundle": "damaged or oversized bundles of compressed packets were partly or completely skipped",
    "unreadable_annotation": "annotations that could not be decoded were skipped",
    "lost_state": "packets that depend on lost packets were skipped",
    "unknown_type": "track events of an unknown type were skipped",
    "unpaired_wait": "arrows between device events were skipped, because one of the two events is missing",
    "bad_row": "rows without a name or a time, or with a wrong number of cells, were skipped",
    "bad_cell": "cells without a valid number are treated as empty",
    "added_up": "the sum of both allocators was not recorded, so it was computed from the latest total of each",
    "many_names": "totals of allocators and components beyond the first 2,000 were skipped",
    "many_columns": "columns beyond the first 512 were skipped",
    "missing_time": "events without a valid time were skipped",
    "missing_duration": "events without a duration were loaded with 0 ns",
    "time_out_of_range": "times outside the range of 64-bit nanoseconds were set to the nearest limit of that range",
    "other_arguments": "arguments with unusual names, or beyond the first 128 argument names, were skipped",
    "bad_counter": "counter events without a number were skipped",
    "bad_counter_value": "counter values that are not numbers were skipped",
    "unmatched_begin": "start events without an end, or end events without a start, were skipped",
    "unmatched_end": "end events without an open range were skipped",
    "unfinished_range": ("ranges without an end were extended to the end of the trace or to the next start"),
    "many_operations": "there are too many names of asynchronous operations; the rarest names share one track per process",
    "cut_flow": "forward-backward arrows were skipped, because one of the two events is missing or outside the window",
    "unpaired_arrow": "arrows between events were skipped, because one of the two events is missing or outside the window",
    "unpaired_flow": "forward-backward arrows were skipped, because one end is missing",
}

# texts of merged entries beyond MAX_TEXTS
_SUMMARIES = {
    "unknown_category": "events of {kinds} more unknown categories were loaded, but their type is unknown",
    "not_shown": "events of {kinds} more phases are not shown",
}


class _Entry(msgspec.Struct):
    outcome: Outcome
    text: str
    count: int = 0
    first_offset: int | None = None
    examples: list[str] = msgspec.field(default_factory=list)


Entries = dict[tuple[str, str], _Entry]


class IssueLog(msgspec.Struct):
    entries: Entries = msgspec.field(default_factory=dict)

    def add(
        self, code: str, outcome: Outcome, offset: int | None = None, example: str = "", count: int = 1, text: str = ""
    ) -> None:
        """Adds ``count`` occurrences of a problem. ``offset``: byte offset in the uncompressed text."""
        text = (text or TEXTS[code])[:TEXT_CHARS]
        entry = self.entries.setdefault((code, text), _Entry(outcome, text))
        entry.count += count
        if offset is not None and (entry.first_offset is None or offset < entry.first_offset):
            entry.first_offset = offset
        if example and len(entry.examples) < MAX_EXAMPLES:
            entry.examples.append(example[:EXAMPLE_CHARS])

    def note(self, code: str, text: str, offset: int | None = None) -> None:
        """Adds a note about the file. A note does not affect any event."""
        self.add(code, "note", offset, text=text)

    def take_entries(self) -> Entries:
        """Returns and removes all problems."""
        entries, self.entries = self.entries, {}
        return entries

    def merge(self, entries: Entries) -> None:
        """Adds the problems of a later part of the file."""
        for (code, text), each in entries.items():
            self.add(code, each.outcome, each.first_offset, count=each.count, text=text)
            entry = self.entries[code, text]
            entry.examples.extend(each.examples[: MAX_EXAMPLES - len(entry.examples)])

    def issues(self) -> tuple[Issue, ...]:
        """Returns all problems, whatever the chunk size. The rarest texts beyond MAX_TEXTS per code are merged."""
        by_code: dict[str, list[_Entry]] = {}
        for (code, _), entry in sorted(self.entries.items(), key=lambda item: item[0]):
            by_code.setdefault(code, []).append(entry)
        return tuple(_issue(code, entry) for code, entries in by_code.items() for entry in _bounded(code, entries))


def is_packed_badly(issues: Iterable[Issue]) -> bool:
    """Returns True if the archive is truncated, damaged, or followed by other data."""
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
        _SUMMARIES.get(code, "{kinds} more kinds of this problem").format(kinds=f"{len(others):,}"),
        sum(entry.count for entry in others),
        min(offsets, default=None),
        [entry.text[:EXAMPLE_CHARS] for entry in others[:MAX_EXAMPLES]],
    )
    return [*(entry for entry in entries if entry.text in chosen), rest]
