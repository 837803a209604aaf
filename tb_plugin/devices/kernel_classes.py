"""What kernels do, by their names: the rules of kernel_classes.txt, those of a person before them, and whom they match.

All regexes run in RE2 (pyarrow): linear in the text, whoever wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin import settings
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.schema import KernelClass

VARIABLE = settings.CLASSES.name
"""Environment variable: a file with rules of a person's own."""
OPERATOR = "operator:"
MOST_RULES = 1000
_LONGEST_LINE = 2000
_LONGEST_NAME = 8192
"""Characters of a name that are looked at: a trace may hold any text."""
_KEPT_NAMES = 2000
_KEPT_LENGTH = 500
"""So many names, and of this length, are known again when the next trace has them: ranks of a job have the same."""
_CLASSES = {each.name.lower(): each for each in KernelClass}

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rule:
    """A rule names the class of what its regex is found in."""

    kernel_class: KernelClass
    regex: str
    of_operator: bool
    text: str
    """As it is told."""
    is_own: bool


def ours() -> tuple[Rule, ...]:
    """Returns the rules of the package. Raises ValueError where a line is none: a test looks, also at the expressions."""
    rules, problems = _ours()
    if problems:
        raise ValueError("; ".join(problems))
    return rules


@cache
def _ours() -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    return parse_rules(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"), is_own=False)


def own_rules(file: RuleFile) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Returns the rules of a person's file, and what is wrong with it, each with the number of its line."""
    if file.problem:
        return (), (file.problem,)
    return parse_rules(file.text, is_own=True)


@cache
def parse_rules(text: str, is_own: bool) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Returns the rules in lines ``class = regex``, and what is wrong with other lines. Lines after ``#`` are left out."""
    rules: list[Rule] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if len(rules) == MOST_RULES:
            problems.append(f"line {number} and what follows: more than {MOST_RULES:,} rules")
            break
        rule = _rule(line, number, is_own)
        if isinstance(rule, Rule):
            rules.append(rule)
        else:
            problems.append(f"line {number}: {rule}")
    return tuple(rules), tuple(problems)


def _rule(line: str, number: int, is_own: bool) -> Rule | str:
    """The rule in a line, or what is wrong with it."""
    word, found, regex = (part.strip() for part in line.partition("="))
    if not found or not regex:
        return "no class = regex"
    if word.lower() not in _CLASSES:
        return f"no such class: {word[:40]}; there are {', '.join(_CLASSES)}"
    if len(line) > _LONGEST_LINE:
        return f"longer than {_LONGEST_LINE:,} characters"
    of_operator = regex.startswith(OPERATOR)
    regex = regex.removeprefix(OPERATOR).strip()
    if is_own and (problem := regex_problem(regex)):
        return problem
    where = f"{VARIABLE}, line {number}: " if is_own else ""
    return Rule(
        _CLASSES[word.lower()], regex, of_operator, f"{where}{word.lower()} = {line.partition('=')[2].strip()}", is_own
    )


def regex_problem(regex: str) -> str:
    """Returns what is wrong with a regex of a rule, "" for nothing. Of the package's own a test asks it, no process."""
    try:
        matches_empty = bool(_found(pa.array([""], pa.large_string()), regex)[0])
    except pa.ArrowInvalid as error:
        return re.sub(r"\s+", " ", str(error))[:200]
    return "the regex is found in every name" if matches_empty else ""


def _found(names: pa.Array, regex: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.match_substring_regex(names, regex).to_numpy(zero_copy_only=False)
    return found


def matching_rules(names: Sequence[str], rules: Sequence[Rule]) -> Int64:
    """Returns for each name the position of the first rule that is found in it, -1 where none is."""
    if len(names) > _KEPT_NAMES:
        return _searched(names, rules)
    kept = _kept(tuple(rules))
    first = [kept.get(name) for name in names]
    new = [name for name, position in zip(names, first, strict=True) if position is None]
    told = dict(zip(new, _searched(new, rules).tolist(), strict=True))
    if len(kept) + len(told) > _KEPT_NAMES:
        kept.clear()
    kept.update((name, position) for name, position in told.items() if len(name) <= _KEPT_LENGTH)
    return np.array([told[name] if at is None else at for name, at in zip(names, first, strict=True)], np.int64)


@lru_cache(maxsize=8)
def _kept(rules: tuple[Rule, ...]) -> dict[str, int]:
    """What these rules have said of names: to compile so many expressions takes longer than to read a small trace."""
    return {}


def _searched(names: Sequence[str], rules: Sequence[Rule]) -> Int64:
    """The position of the first rule that is found in each name, -1 where none is."""
    first = np.full(len(names), -1, np.int64)
    if not len(names) or not rules:
        return first
    texts = pa.array([name[:_LONGEST_NAME] for name in names], pa.large_string())
    # One look tells those that no rule knows: a file may invent as many names as it has events.
    try:
        left = np.flatnonzero(_found(texts, "|".join(f"(?:{rule.regex})" for rule in rules)))
    except pa.ArrowInvalid:  # together they are more than the engine takes
        left = np.arange(len(names))
    for position, rule in enumerate(rules):
        if not len(left):
            break
        hit = _found(texts.take(pa.array(left)), rule.regex)
        first[left[hit]] = position
        left = left[~hit]
    return first
