"""Texts of the product in plain English: short sentences, in the words of the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.metrics import ALL

MAX_WORDS = 20
STARTS = re.compile(r"(Of|What|Where|Whom|So many|So much|Its?|How|By how much|Whether|Why)\b")
BANNED = re.compile(
    r"\b(mend\w*|nobody|somebody|meanwhile|so many|as far as|of it|nothing hides|hidden|in sight|worth a word|outermost"
    r"|starved|stands?|stood|lies? (?:in|under|at)|tells?|told|whom?|of each step|in each step|a mean over the steps"
    r"|beg[iau]ns?|beginning|finish\w*|passed over|left out|at hand|held|holds|let go|nothing to do|states?d|chosen"
    r"|whole trace|behind it|kept|keeps?|beside|a step)\b",
    re.IGNORECASE,
)
MAX_TITLE = 6
"""Words of a title, which heads a column."""


def sentences(text: str) -> Iterator[str]:
    """Sentences of a definition, without the values that some of them explain (``bound: ...``)."""
    for part in re.split(r"(?<=[.!?;])\s+", text.strip()):
        yield re.sub(r"^[a-z][\w ,]*: ", "", part)


def faults(text: str) -> list[str]:
    """Sentences that break a rule, each with the rule."""
    found = []
    for sentence in sentences(text):
        if len(sentence.split()) > MAX_WORDS:
            found.append(f"{len(sentence.split())} words: {sentence}")
        if STARTS.match(sentence):
            found.append(f"start: {sentence}")
        if word := BANNED.search(sentence):
            found.append(f"{word[0]!r}: {sentence}")
    return found


def test_definitions_are_plain() -> None:
    assert {metric.key: found for metric in ALL.values() if (found := faults(metric.definition))} == {}
    assert [metric.key for metric in ALL.values() if not metric.definition.endswith(".")] == []


def test_titles_are_short() -> None:
    assert [metric.title for metric in ALL.values() if len(metric.title.split()) > MAX_TITLE] == []
    assert {metric.key: metric.title for metric in ALL.values() if STARTS.match(metric.title)} == {}


def test_definitions_are_formulas() -> None:
    """Eight words on average: exceptions belong in docs/concepts."""
    words = [len(metric.definition.split()) for metric in ALL.values()]
    assert sum(words) / len(words) < 8


def test_the_rules_find_what_they_are_about() -> None:
    assert faults("Kernel time divided by step time.") == []
    assert faults("Of the operator what it launched.")[0].startswith("start")
    assert faults("Time in which nobody waits.")[0].startswith("'nobody'")
    assert faults("Time " + "of kernels " * 10 + "in a range.")[0].startswith("24 words")
