"""Kernel classes by name, with built-in and user rules.

All regexes run in RE2 (pyarrow), which takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin import settings
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.schema import KernelClass

VARIABLE = settings.CLASSES.name  # environment variable: a file with the user's rules
OPERATOR = "operator:"
MOST_RULES = 1000
_MAX_LINE_CHARS = 2000
_MAX_NAME_CHARS = 8192  # a trace may contain any text
_MAX_CACHED_NAMES = 2000
_MAX_CACHED_NAME_CHARS = 500  # results are cached for the next trace: ranks of a job have the same names
_CLASSES = {each.name.lower(): each for each in KernelClass}


class Rule(msgspec.Struct, frozen=True):
    """Assigns a kernel class to all names that match a regex."""

    kernel_class: KernelClass
    regex: str
    of_operator: bool
    text: str  # the rule as displayed
    is_own: bool


def built_in_rules() -> tuple[Rule, ...]:
    """Returns the built-in rules. Raises ValueError for an invalid line."""
    rules, problems = _ours()
    if problems:
        raise ValueError("; ".join(problems))
    return rules


@cache
def _ours() -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    return parse_rules(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"), is_own=False)


def own_rules(file: RuleFile) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Returns the rules in the user's file and the problems found in the file, with line numbers."""
    if file.problem:
        return (), (file.problem,)
    return parse_rules(file.text, is_own=True)


@cache
def parse_rules(text: str, is_own: bool) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Parses lines ``class = regex`` (``#`` comments) to rules and problems of invalid lines."""
    rules: list[Rule] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if len(rules) == MOST_RULES:
            problems.append(f"line {number} and later lines: more than {MOST_RULES:,} rules")
            break
        rule = _rule(line, number, is_own)
        if isinstance(rule, Rule):
            rules.append(rule)
        else:
            problems.append(f"line {number}: {rule}")
    return tuple(rules), tuple(problems)


def _rule(line: str, number: int, is_own: bool) -> Rule | str:
    word, found, regex = (part.strip() for part in line.partition("="))
    if not found or not regex:
        return "not of the form class = regex"
    if word.lower() not in _CLASSES:
        return f"unknown class: {word[:40]}; known are {', '.join(_CLASSES)}"
    if len(line) > _MAX_LINE_CHARS:
        return f"longer than {_MAX_LINE_CHARS:,} characters"
    of_operator = regex.startswith(OPERATOR)
    regex = regex.removeprefix(OPERATOR).strip()
    if is_own and (problem := regex_problem(regex)):
        return problem
    where = f"{VARIABLE}, line {number}: " if is_own else ""
    return Rule(
        _CLASSES[word.lower()], regex, of_operator, f"{where}{word.lower()} = {line.partition('=')[2].strip()}", is_own
    )


def regex_problem(regex: str) -> str:
    """Returns an error message for an invalid regex, "" for a valid one. Built-in rules are checked only by a test."""
    try:
        matches_empty = bool(_is_match(pa.array([""], pa.large_string()), regex)[0])
    except pa.ArrowInvalid as error:
        return re.sub(r"\s+", " ", str(error))[:200]
    return "the regex matches every name" if matches_empty else ""


def _is_match(names: pa.Array, regex: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.match_substring_regex(names, regex).to_numpy(zero_copy_only=False)
    return found


def matching_rules(names: Sequence[str], rules: Sequence[Rule]) -> Int64:
    """Returns, for each name, the index of the first matching rule; -1 = none."""
    if len(names) > _MAX_CACHED_NAMES:
        return _searched(names, rules)
    cached = _cached_positions(tuple(rules))
    first = [cached.get(name) for name in names]
    new = [name for name, position in zip(names, first, strict=True) if position is None]
    positions = dict(zip(new, _searched(new, rules).tolist(), strict=True))
    if len(cached) + len(positions) > _MAX_CACHED_NAMES:
        cached.clear()
    cached.update((name, position) for name, position in positions.items() if len(name) <= _MAX_CACHED_NAME_CHARS)
    return np.array([positions[name] if at is None else at for name, at in zip(names, first, strict=True)], np.int64)


@lru_cache(maxsize=8)
def _cached_positions(rules: tuple[Rule, ...]) -> dict[str, int]:
    """Returns the cache of matches. Compiling the regexes may take longer than reading a small trace."""
    return {}


def _searched(names: Sequence[str], rules: Sequence[Rule]) -> Int64:
    first = np.full(len(names), -1, np.int64)
    if not len(names) or not rules:
        return first
    texts = pa.array([name[:_MAX_NAME_CHARS] for name in names], pa.large_string())
    # One combined search removes names that no rule matches: a file may have as many names as events.
    try:
        left = np.flatnonzero(_is_match(texts, "|".join(f"(?:{rule.regex})" for rule in rules)))
    except pa.ArrowInvalid:  # the combined regex is too large for the engine
        left = np.arange(len(names))
    for position, rule in enumerate(rules):
        if not len(left):
            break
        hit = _is_match(texts.take(pa.array(left)), rule.regex)
        first[left[hit]] = position
        left = left[~hit]
    return first
