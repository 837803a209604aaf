"""Counts of everything irregular, gathered while a file is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from tb_plugin.trace.report import Issue, Outcome

MAX_EXAMPLES = 5
EXAMPLE_CHARS = 120

TEXTS = {
    "bad_utf8": "bytes that are not UTF-8 were replaced",
    "control_character": "raw control characters inside a string were escaped",
    "bad_escape": "unescaped backslashes (Windows paths) were doubled",
    "lone_surrogate": "half a surrogate pair was replaced",
    "bare_word": "bare N/A, NaN or Infinity was read as no value",
    "raw_quote": "unescaped quotes inside a string were escaped",
    "missing_quote": "a missing opening quote of a key was added",
    "trailing_comma": "a trailing comma was removed",
    "odd_number": "a number in a form JSON does not know was normalised",
    "odd_type": "a field of unexpected type was converted",
    "unreadable_event": "text that could not be repaired was left out",
    "truncated_tail": "the file ends inside an event, which was left out",
    "event_too_large": "an event too large to be one was left out",
    "missing_time": "events without a readable time were left out",
    "missing_duration": "events without a duration count as 0 ns",
    "time_out_of_range": "times beyond the 64-bit nanosecond range were clamped",
    "bad_counter": "counter events without a number were left out",
    "bad_counter_value": "values of counters that are no numbers were left out",
    "unmatched_begin": "begin and end events without partner were left out",
    "cut_flow": "forward-backward arrows with one end missing or outside the window were left out",
    "unpaired_flow": "forward-backward arrows with one end missing were left out",
}


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
        """Count ``count`` places of ``code``; ``offset`` is a byte offset of the uncompressed text."""
        text = text or TEXTS[code]
        entry = self.entries.setdefault((code, text), _Entry(outcome, text))
        entry.count += count
        if offset is not None and (entry.first_offset is None or offset < entry.first_offset):
            entry.first_offset = offset
        if example and len(entry.examples) < MAX_EXAMPLES:
            entry.examples.append(example[:EXAMPLE_CHARS])

    def note(self, code: str, text: str, offset: int | None = None) -> None:
        """Something worth telling that cost no event."""
        self.add(code, "note", offset, text=text)

    def issues(self) -> tuple[Issue, ...]:
        """All of it, in an order that does not depend on how the text was cut."""
        return tuple(
            Issue(code, entry.outcome, entry.text, entry.count, entry.first_offset, tuple(entry.examples))
            for (code, _), entry in sorted(self.entries.items(), key=lambda item: item[0])
        )
