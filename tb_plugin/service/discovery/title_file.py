"""The file ``torch_trace_titles``, which names the runs of a log directory."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import msgspec

from tb_plugin.service.discovery.ignore_file import lines_of

# Path in the log directory.
NAME = "torch_trace_titles"
_LINE = re.compile(r"(?P<run>.*?\S)\s*:\s+(?P<marks>(?:\((?:first|invented)\)\s*)*)(?P<title>.*)")


class Title(msgspec.Struct, frozen=True):
    text: str = ""
    is_first: bool = False
    """Whether the run opens first."""
    is_invented: bool = False
    """Whether the run was simulated. It never opens first."""


class Titles(msgspec.Struct, frozen=True):
    """Titles as (run pattern, title) pairs. Patterns may contain ``*``, ``?`` and ``[...]``."""

    lines: tuple[tuple[str, Title], ...] = ()

    def of(self, *names: str) -> Title:
        """Returns the first title whose pattern matches one of the names of a run."""
        return next((title for run, title in self.lines if any(fnmatchcase(name, run) for name in names)), Title())


def parse(content: bytes, where: str) -> Titles:
    """Parses lines ``run: title``; marks in front of the title are ``(first)`` and ``(invented)``."""
    found = [match for line in lines_of(content, where) if (match := _LINE.fullmatch(line)) is not None]
    return Titles(
        tuple(
            (one["run"], Title(one["title"].strip(), "(first)" in one["marks"], "(invented)" in one["marks"]))
            for one in found
        )
    )
