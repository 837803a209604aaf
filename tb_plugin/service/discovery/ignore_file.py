"""``torch_trace_ignore``: a file that a person puts into a log directory, of rules that findings leave out."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

log = logging.getLogger("torch_trace")

NAME = "torch_trace_ignore"
"""Its path in the log directory."""
MOST_BYTES = 64 * 1024
"""More of it is not read."""
_MOST_LINES = 200
_LONGEST = 200
"""Characters of a line."""
_LINE = re.compile(r"(?:(?P<run>.*\S)\s+)?(?P<rule>\S+)")


@dataclass(frozen=True)
class Ignore:
    """What a log directory leaves out: runs, as a pattern with ``*``, ``?`` and ``[...]``, and the id of a rule each."""

    lines: tuple[tuple[str, str], ...] = ()

    def of(self, *names: str) -> tuple[str, ...]:
        """Returns the ids of the rules that are left out of a run, sorted; it may have several names."""
        return tuple(sorted({rule for run, rule in self.lines if any(fnmatchcase(name, run) for name in names)}))


def parse(content: bytes, where: str) -> Ignore:
    """Returns what a file says: a rule a line, or a pattern of runs and a rule; ``#`` begins a remark.

    What is too long is left out, and the log says so.
    """
    told = [line.partition("#")[0].strip() for line in content[:MOST_BYTES].decode("utf-8", "replace").splitlines()]
    lines = [line for line in told if 0 < len(line) <= _LONGEST]
    kept = lines[:_MOST_LINES]
    if len(content) > MOST_BYTES or len(kept) < sum(map(bool, told)):
        log.warning("%s: only %d lines of up to %d characters are read.", where, len(kept), _LONGEST)
    found = [match for line in kept if (match := _LINE.fullmatch(line)) is not None]
    return Ignore(tuple((match["run"] or "*", match["rule"]) for match in found))
