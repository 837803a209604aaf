"""Step selection in a request, such as ``5,7-9`` or ``decode``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tb_plugin.errors import BadRequest
from tb_plugin.payloads import StepInfo

_RANGE = re.compile(r"([0-9]+)-([0-9]+)")
_NUMBER = re.compile(r"[0-9]+")
_SHOWN = 10
# Characters of the request quoted in an error message.
_MAX_REPEATED_CHARACTERS = 100


def chosen_steps(text: str, steps: Sequence[StepInfo]) -> tuple[str, ...] | None:
    """Returns the selected labels in trace order; None = all steps. Raises BadRequest."""
    if not text.strip():
        return None
    labels = [step.label for step in steps]
    modes: dict[str, set[str]] = {}
    for step in steps:
        if step.mode:
            modes.setdefault(step.mode, set()).add(step.label)
    chosen: set[str] = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        hits = _hits(item, labels) or modes.get(item, set())
        if not hits:
            what = f"The trace has {_step_list(labels)}." + (
                f" You can also specify a mode: {', '.join(modes)}." if modes else ""
            )
            raise BadRequest(f"The trace has no step {item[:_MAX_REPEATED_CHARACTERS]}.", "steps", what)
        chosen |= hits
    if not chosen:
        raise BadRequest("The steps parameter selects no step.", "steps", "Use labels and ranges, such as 5,7-9.")
    return tuple(label for label in labels if label in chosen)


def window_of(
    text: str, steps: Sequence[StepInfo], start_ns: int | None, end_ns: int | None
) -> tuple[int | None, int | None]:
    """Returns the selected steps within the bounds (None = unbounded). Raises BadRequest if it is empty."""
    labels = chosen_steps(text, steps)
    if labels is not None:
        inside = [step for step in steps if step.label in labels]
        first, last = min(step.start_ns for step in inside), max(step.end_ns for step in inside)
        start_ns = first if start_ns is None else max(first, start_ns)
        end_ns = last if end_ns is None else min(last, end_ns)
    if start_ns is not None and end_ns is not None and start_ns >= end_ns:
        raise BadRequest("The window is empty.", "start_ns, end_ns", "Choose an end after the start.")
    return start_ns, end_ns


def _step_list(labels: Sequence[str]) -> str:
    if len(labels) > _SHOWN:
        return f"{len(labels):,} steps, {labels[0]} to {labels[-1]}"
    return ("the steps " if len(labels) > 1 else "the step ") + ", ".join(labels) if labels else "none"


def _hits(item: str, labels: Sequence[str]) -> set[str]:
    if item in labels:
        return {item}
    bounds = _RANGE.fullmatch(item)
    if bounds is None:
        return set()
    low, high = _order(bounds.group(1)), _order(bounds.group(2))
    return {label for label in labels if _NUMBER.fullmatch(label) and low <= _order(label) <= high}


def _order(digits: str) -> tuple[int, str]:
    digits = digits.lstrip("0")
    return len(digits), digits
