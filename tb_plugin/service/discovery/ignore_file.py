"""``torch_trace_ignore``: rules to exclude, listed in a log directory."""

from __future__ import annotations

import logging
import re
from fnmatch import fnmatchcase

import msgspec

log = logging.getLogger("torch_trace")

# Its path in the log directory.
NAME = "torch_trace_ignore"
# Bytes read of it.
MOST_BYTES = 64 * 1024
_MOST_LINES = 200
# Characters of a line.
_MAX_LINE_CHARACTERS = 200
_LINE = re.compile(r"(?:(?P<run>.*\S)\s+)?(?P<rule>\S+)")


class Ignore(msgspec.Struct, frozen=True):
    """Pairs of a run pattern (with ``*``, ``?`` and ``[...]``) and the id of an excluded rule."""

    lines: tuple[tuple[str, str], ...] = ()

    def of(self, *names: str) -> tuple[str, ...]:
        """Returns the sorted ids of the rules excluded for a run, which may have several names."""
        return tuple(sorted({rule for run, rule in self.lines if any(fnmatchcase(name, run) for name in names)}))


def parse(content: bytes, where: str) -> Ignore:
    """Parses the file: one rule per line, or a run pattern and a rule; ``#`` starts a comment.

    Lines that are too long are skipped and logged.
    """
    told = [line.partition("#")[0].strip() for line in content[:MOST_BYTES].decode("utf-8", "replace").splitlines()]
    lines = [line for line in told if 0 < len(line) <= _MAX_LINE_CHARACTERS]
    kept = lines[:_MOST_LINES]
    if len(content) > MOST_BYTES or len(kept) < sum(map(bool, told)):
        log.warning("%s: only %d lines of up to %d characters are read.", where, len(kept), _MAX_LINE_CHARACTERS)
    found = [match for line in kept if (match := _LINE.fullmatch(line)) is not None]
    return Ignore(tuple((match["run"] or "*", match["rule"]) for match in found))
