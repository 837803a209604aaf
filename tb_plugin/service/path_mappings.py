"""Local paths of recorded source folders, for editor links."""

from __future__ import annotations

import logging
import os
import re
from functools import cache

from tb_plugin import settings
from tb_plugin.payloads import PathMapping, Problem

log = logging.getLogger("torch_trace")

VARIABLE = settings.PATHS.name
_ABSOLUTE = r"(?:[/\\]|[A-Za-z]:[/\\])"
_PAIR = re.compile(rf"({_ABSOLUTE}.*?)=({_ABSOLUTE}.*)", re.DOTALL)
# A colon between a letter and a slash belongs to a Windows drive, so it does not separate pairs.
_BETWEEN = {
    ":": re.compile(r":(?!(?:(?<=^[A-Za-z]:)|(?<=[=:][A-Za-z]:))[/\\])"),
    ";": re.compile(";"),
}


def path_mappings() -> tuple[list[PathMapping], list[Problem]]:
    """Returns the valid pairs of TORCH_TRACE_PATHS, and a problem for each invalid pair."""
    return _parsed(os.environ.get(VARIABLE, ""), os.pathsep)


@cache
def _parsed(text: str, separator: str) -> tuple[list[PathMapping], list[Problem]]:
    mappings, problems = [], []
    for pair in _BETWEEN[separator].split(text):
        if not (pair := pair.strip()):
            continue
        if (match := _PAIR.fullmatch(pair)) and pair.isprintable():
            mappings.append(PathMapping(match[1], match[2]))
            continue
        do = f"Write RECORDED=LOCAL with two absolute paths, such as /cluster/src=/home/me/src; separate pairs by {separator}"
        problems.append(Problem("This pair of paths is not valid, so it is ignored.", f"{VARIABLE}: {pair[:200]}", do))
        log.warning("%s: the pair %r is not valid. %s", VARIABLE, pair, do)
    return mappings, problems
