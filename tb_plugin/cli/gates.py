"""Limits for ``torch-trace diff --fail-on``, used in CI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Interval

Facts = Mapping[str, int | float | None]

ALIASES = {"step_time": "overview.step_time_mean_ns"}
_GATE = re.compile(r"\s*([^<>\s]+)\s*([<>])\s*([+-]?\d+(?:\.\d+)?)\s*(%|ns|us|ms|B|KiB|MiB)\s*", re.ASCII)
_UNITS = {
    "ns": ("_ns", 1), "us": ("_ns", 10**3), "ms": ("_ns", 10**6),
    "B": ("_bytes", 1), "KiB": ("_bytes", 2**10), "MiB": ("_bytes", 2**20),
}  # fmt: skip


class Gate(msgspec.Struct, frozen=True):
    """A limit for the change of a fact. The gate fails above the limit (``>``) or below the limit (``<``)."""

    text: str
    fact: str
    above: bool
    limit: Fraction
    """Limit in the unit of the fact. If ``relative``, a fraction of the baseline."""
    relative: bool


class Verdict(msgspec.Struct, frozen=True):
    """The result of a gate. ``change`` is relative for a relative gate, and None if it does not fit a float."""

    gate: Gate
    baseline: int | float
    experiment: int | float
    change: float | None
    passed: bool
    interval: Interval | None = None
    """95 % interval of the change, ns; None if noise is unknown."""

    @property
    def is_significant(self) -> bool | None:
        return None if self.interval is None else self.interval.is_significant


def parse_gate(text: str) -> Gate:
    """Parses a gate. Raises BadRequest if its syntax or unit is invalid."""
    match = _GATE.fullmatch(text)
    if match is None:
        raise BadRequest(
            "The gate is not valid.",
            text,
            "Write FACT>NUMBER or FACT<NUMBER, followed by %, ns, us, ms, B, KiB or MiB.",
        )
    name, sign, number, unit = match.groups()
    fact = ALIASES.get(name, name)
    if unit == "%":
        return Gate(text, fact, sign == ">", Fraction(number) / 100, relative=True)
    ending, factor = _UNITS[unit]
    if not fact.endswith(ending):
        raise BadRequest(
            f"{name} is not measured in {unit}.", text, "The unit is in the name of the fact; % works for every fact."
        )
    return Gate(text, fact, sign == ">", Fraction(number) * factor, relative=False)


def judge(
    gate: Gate, baseline: Facts, experiment: Facts, interval: Interval | None = None, *, strict: bool = False
) -> Verdict:
    """Evaluates a gate with exact arithmetic. Raises BadRequest if a profile does not have the fact.

    A change within noise does not fail a gate, except with ``strict``, or if the gate demands an improvement
    (``step_time>-5%``).
    """
    before, after = _value(gate, baseline, "baseline"), _value(gate, experiment, "experiment")
    change = Fraction(after) - Fraction(before)
    if gate.relative:
        if before == 0 and change != 0:
            # A change from zero exceeds every relative limit.
            failed = change > 0 if gate.above else change < 0
            return Verdict(gate, before, after, None, not failed, interval)
        change = change / abs(Fraction(before)) if before else Fraction(0)
    is_excused = not strict and interval is not None and not interval.is_significant and not _exceeds(gate, Fraction(0))
    return Verdict(gate, before, after, _float(change), is_excused or not _exceeds(gate, change), interval)


def _exceeds(gate: Gate, change: Fraction) -> bool:
    return change > gate.limit if gate.above else change < gate.limit


def _float(value: Fraction) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _value(gate: Gate, facts: Facts, side: str) -> int | float:
    value = facts.get(gate.fact)
    if value is None:
        what = "is unknown" if gate.fact in facts else "is not a fact"
        raise BadRequest(
            f"{gate.fact} {what} of the {side}.", gate.text, "torch-trace report --format json lists the facts."
        )
    return value
