"""The file ``torch_trace_ignore``, which excludes rules for a log directory."""

from __future__ import annotations

import logging
import re
from fnmatch import fnmatchcase

import msgspec

log = logging.getLogger("torch_trace")

# Path in the log directory.
NAME = "torch_trace_ignore"
# Maximum bytes that are read.
MOST_BYTES = 64 * 1024
_MOST_LINES = 200
# Maximum length of a line.
_MAX_LINE_CHARACTERS = 200
_LINE = re.compile(r"(?:(?P<run>.*\S)\s+)?(?P<rule>\S+)")


class Ignore(msgspec.Struct, frozen=True):
    """Excluded rules as (run pattern, rule id) pairs. Patterns may contain ``*``, ``?`` and ``[...]``."""

    lines: tuple[tuple[str, str], ...] = ()

    def of(self, *names: str) -> tuple[str, ...]:
        """Returns the ids of the rules that are excluded for a run, sorted. ``names`` are the names of this run."""
        return tuple(sorted({rule for run, rule in self.lines if any(fnmatchcase(name, run) for name in names)}))


def lines_of(content: bytes, where: str) -> list[str]:
    """Returns the lines of a file about a log directory, without comments (``#``). Long lines are skipped."""
    told = [line.partition("#")[0].strip() for line in content[:MOST_BYTES].decode("utf-8", "replace").splitlines()]
    lines = [line for line in told if 0 < len(line) <= _MAX_LINE_CHARACTERS]
    kept = lines[:_MOST_LINES]
    if len(content) > MOST_BYTES or len(kept) < sum(map(bool, told)):
        log.warning(
            "%s: only the first %d lines of at most %d characters are used.", where, len(kept), _MAX_LINE_CHARACTERS
        )
    return kept


def parse(content: bytes, where: str) -> Ignore:
    """Parses lines of a rule, or a run pattern and a rule."""
    found = [match for line in lines_of(content, where) if (match := _LINE.fullmatch(line)) is not None]
    return Ignore(tuple((match["run"] or "*", match["rule"]) for match in found))
