"""Text tables that fit a given width.

Long names are shortened in the middle. If the table is still too wide, the last columns are dropped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import Literal

import msgspec

# Names are shortened in the middle, prose is wrapped, numbers are never shortened and are right-aligned.
Kind = Literal["name", "number", "prose"]
MARK = "…"
_GAP = 2
_FRAME = re.compile(r"(?P<path>[^(]*\.py)\(\d+\)(?=: |$)")
# Characters shown of a difference between texts that differ again later.
_EXCERPT_CELLS = 4
# Minimum width of a column, in characters.
_MIN_CELLS = {"name": 12, "prose": 24}
# Minimum width of the column that identifies rows, in characters.
_MIN_NAME_CELLS = 32


class Heading(msgspec.Struct, frozen=True):
    title: str
    kind: Kind = "name"


class Fitted(msgspec.Struct, frozen=True):
    """Lines of a table, starting with the heading, and the titles of dropped columns."""

    heading: list[str]
    lines: list[str]
    left_out: list[str]


def fit_table(
    headings: Sequence[Heading], rows: Sequence[Sequence[str]], width: int, keep: Collection[int] = (0,)
) -> Fitted:
    """Formats a table of at most ``width`` characters. Drops columns from the right, except ``keep``."""
    cells = [[row[i] for row in rows] for i in range(len(headings))]
    shown = list(range(len(headings)))
    natural = {i: _natural(headings[i], cells[i]) for i in shown}
    least = {i: _least(headings[i], natural[i], i == min(keep, default=0)) for i in shown}
    while sum(least[i] + _GAP for i in shown) - _GAP > width and (free := [i for i in shown if i not in keep]):
        shown.remove(free[-1])
    widths = _share_out({i: natural[i] for i in shown}, {i: least[i] for i in shown}, width - _GAP * (len(shown) - 1))
    columns = [_column(headings[i], cells[i], widths[i]) for i in shown]
    titles = [wrapped(headings[i].title, widths[i]) for i in shown]
    kinds = [headings[i].kind for i in shown]
    sized = [widths[i] for i in shown]
    rule = "  ".join("─" * size for size in sized)
    lines = [line for row in range(len(rows)) for line in _lines([column[row] for column in columns], sized, kinds)]
    left_out = [heading.title for i, heading in enumerate(headings) if i not in shown]
    return Fitted([*_lines(titles, sized, kinds), rule], lines, left_out)


def elide_texts(texts: Sequence[str], width: int) -> list[str]:
    """Shortens texts to ``width`` characters; if possible, different texts stay different."""
    short = {text: without_middle(_short_frame(text, width), width) for text in texts}
    for group in _alike(short):
        short |= _distinguished(group, _head(group[0], max(1, width // 4)) + MARK, width)
    return [short[text] for text in texts]


def _alike(short: Mapping[str, str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for text, shown in short.items():
        groups.setdefault(shown, []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def _distinguished(group: Sequence[str], before: str, width: int) -> dict[str, str]:
    at, room = _common(group), width - size_of(before)
    if room < _EXCERPT_CELLS + 2:
        return {}
    short = {
        text: before + (text[at:] if size_of(text[at:]) <= room else _head(text[at:], room - 1) + MARK)
        for text in group
    }
    for still in _alike(short):
        short |= _distinguished(still, before + _head(still[0][at:], _EXCERPT_CELLS) + MARK, width)
    return short


def _common(texts: Sequence[str]) -> int:
    low, high = min(texts), max(texts)
    return next((i for i, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))


def _short_frame(text: str, width: int) -> str:
    found = _FRAME.match(text)
    if found is None or size_of(text) <= width:
        return text
    folders = [at + 1 for at, char in enumerate(found["path"]) if char in "\\/"] or [0]
    tails = [text[at:] for at in folders] + [text[folders[-1] : found.end()]]
    return next((tail for tail in tails if size_of(tail) <= width), tails[-1])


def without_middle(text: str, width: int) -> str:
    if size_of(text) <= width:
        return text
    if width < 4:
        return _head(text, width)
    tail = (width - 1) // 2
    return _head(text, width - 1 - tail) + MARK + _tail(text, tail)


def size_of(text: str) -> int:
    """Returns the width of a text in terminal cells. A wide character has two cells, a combining character has none."""
    if text.isascii():
        return len(text)
    return sum(_size(char) for char in text)


def _size(char: str) -> int:
    return 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _head(text: str, width: int) -> str:
    if text.isascii():
        return text[: max(0, width)]
    used = 0
    for i, char in enumerate(text):
        used += _size(char)
        if used > width:
            return text[:i]
    return text


def _tail(text: str, width: int) -> str:
    return _head(text[::-1], width)[::-1]


def _natural(heading: Heading, cells: Sequence[str]) -> int:
    return max([_longest_word(heading.title), *(size_of(cell) for cell in cells), 1])


def _least(heading: Heading, natural: int, first: bool) -> int:
    if heading.kind == "number":
        return natural
    return min(natural, _MIN_NAME_CELLS if first else max(_MIN_CELLS[heading.kind], _longest_word(heading.title)))


def _longest_word(title: str) -> int:
    return max((size_of(word) for word in title.split(" ")), default=0)


def _share_out(natural: Mapping[int, int], least: Mapping[int, int], room: int) -> dict[int, int]:
    widths = dict(least)
    if sum(widths.values()) > room:  # the remaining columns are still too wide, so names are shortened
        widths = {i: min(size, max(8, room // len(widths))) for i, size in widths.items()}
    wanting = [i for i in widths if widths[i] < natural[i]]
    spare = room - sum(widths.values())
    while wanting and spare > 0:
        each = max(1, spare // len(wanting))
        for i in wanting:
            more = min(each, natural[i] - widths[i], spare)
            widths[i] += more
            spare -= more
        wanting = [i for i in wanting if widths[i] < natural[i]]
    return widths


def _column(heading: Heading, cells: Sequence[str], width: int) -> list[list[str]]:
    if heading.kind == "prose":
        return [wrapped(cell, width) for cell in cells]
    return [[cell] for cell in (elide_texts(cells, width) if heading.kind == "name" else cells)]


def wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if size_of(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        while size_of(word) > width:
            start = _head(word, width) or word[:1]
            lines[-1] = start
            lines.append("")
            word = word[len(start) :]
        lines[-1] = word
    return lines


def _lines(cells: Sequence[Sequence[str]], widths: Sequence[int], kinds: Sequence[Kind]) -> list[str]:
    lines = []
    for parts in zip_longest(*cells, fillvalue=""):
        padded = []
        for part, size, kind in zip(parts, widths, kinds, strict=True):
            blank = " " * max(0, size - size_of(part))
            padded.append(blank + part if kind == "number" else part + blank)
        lines.append((" " * _GAP).join(padded).rstrip())
    return lines
