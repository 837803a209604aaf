"""What a server's steps say first: tokens per second, the time of a decode step, and where it goes."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Number
from tb_plugin.analysis.served_steps import tokens_per_second
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.served_work import Mode
from tb_plugin.model.trace.steps.windows import INFERRED
from tb_plugin.payloads import Figure, Figures, Notice
from tb_plugin.views.serving.metrics import METRICS, STEADY
from tb_plugin.views.serving.served_selection import Taken
from tb_plugin.views.serving.tables import word


def _gap(found: Taken, *, told: bool = True) -> float | None:
    gap = found.numbers.gap_ns[found.of(Mode.DECODE, told=told)]
    gap = gap[gap != MISSING]
    return float(gap.mean()) if len(gap) else None


def figures_of(found: Taken) -> dict[str, float | None]:
    """Returns the numbers by key: tokens of the chosen steps, and of those that the figures are about tokens and decoding."""
    decoding, numbers = found.of(Mode.DECODE, told=True), found.numbers
    time = found.time_ns[decoding]
    cycles = decoding[numbers.period_ns[decoding] != MISSING]
    cycle, work, earlier = (
        float(each[cycles].sum()) for each in (numbers.period_ns, numbers.work_ns, numbers.unrecorded_ns)
    )
    known = cycle - earlier
    count = len(cycles)
    return {
        "tokens_per_second": tokens_per_second(found.trace, found.steps),
        "steady_tokens_per_second": tokens_per_second(found.trace, found.told) if found.is_steady else None,
        "decode_cycle_ns": cycle / count if count else None,
        "decode_work_ns": work / count if count else None,
        "decode_idle_ns": (known - work) / count if count else None,
        "decode_busy_ratio": work / known if known else None,
        "decode_p50_ns": float(np.median(time)) if len(time) else None,
        "decode_p95_ns": float(np.percentile(time, 95)) if len(time) > 1 else None,
        "decode_gap_ns": _gap(found),
    }


_IN_WORDS = ("decode_work_ns", "decode_idle_ns")
"""Numbers that the sentence says, and the headline does not."""


def headline(found: Taken) -> Figures:
    """Returns the numbers that a person asks for first."""
    notes = {
        "tokens_per_second": _which(found),
        "steady_tokens_per_second": _batch(found),
        "decode_busy_ratio": "step to step",
    }
    figures = [
        METRICS.figure(key, value, note=notes.get(key, ""))
        for key, value in figures_of(found).items()
        if value is not None and key not in _IN_WORDS
    ]
    if earlier := int(found.numbers.unrecorded_ns[found.told].sum()):
        figures.append(METRICS.figure("unrecorded_ns", earlier, note="in these steps", window=STEADY))
    many = "the steady state" if found.is_steady else _which(found)
    figures.append(METRICS.figure("figure_steps", len(found.told), note=many))
    return Figures("summary", "Serving", "", figures, "headline")


def answer_of(found: Taken) -> list[Notice]:
    """Returns the answer in words."""
    numbers, trace = figures_of(found), found.trace
    figures: list[Figure] = [METRICS.figure(key, value) for key, value in numbers.items() if value is not None]
    texts = []
    if numbers["tokens_per_second"] is not None and any(len(found.of(mode)) for mode in _MAKING):
        texts.append(f"Over {_which(found)} the server makes {{tokens_per_second}} new tokens a second.")
    if found.is_steady:
        labels, batch = trace.steps.label, _batch(found)
        rate = "" if numbers["steady_tokens_per_second"] is None else ": {steady_tokens_per_second} new tokens a second"
        where = f"steps {labels[found.told[0]]} to {labels[found.told[-1]]}" + (batch and f", {batch}")
        texts.append(
            f"The steady state, {where}{rate}." if rate else f"The figures below cover the steady state, {where}."
        )
    if numbers["decode_cycle_ns"] is not None:
        token = "A decode step takes" if numbers["tokens_per_second"] is None else "Each request gets a token every"
        texts.append(
            f"{token} {{decode_cycle_ns}}, from a decode step's start to that of the next step: a device works for "
            "{decode_work_ns} of it ({decode_busy_ratio}), and idles for {decode_idle_ns}."
        )
    elif numbers["decode_p50_ns"] is not None:
        last = found.of(Mode.DECODE, told=True)
        figures.append(METRICS.figure("served_busy_ns", int(found.numbers.busy_ns[last].sum())))
        texts.append("A decode step takes {decode_p50_ns}: a device runs its work for {served_busy_ns} of it.")
    elif found.modes:
        most = found.of(found.modes[0])
        figures.append(METRICS.figure("mode_p50_ns", float(np.median(found.time_ns[most]))))
        what = "" if found.modes[0] == Mode.UNKNOWN else f" of {word(found.modes[0])}"
        texts.append(f"A step{what} takes {{mode_p50_ns}}.")
    earlier = int(found.numbers.unrecorded_ns[found.told].sum())
    if 0 < (count := len(found.of(Mode.DECODE, told=True))) < FEW:
        few = "is one decode step alone, which says little"
        several = f"is of {count} decode steps, which say little"
        first = "it" if count == 1 else "the first"
        waits = "" if earlier else f": {first} may mostly wait for work from before the recording"
        texts.append(f"That {few if count == 1 else several}{waits}.")
    if earlier:
        figures.append(METRICS.figure("unrecorded_ns", earlier, window=STEADY))
        texts.append(
            "For {unrecorded_ns} of these steps a device runs unrecorded work. "
            "This time counts neither as idle time nor as work of these steps."
        )
    if trace.steps.found == INFERRED:
        texts.append("Steps were inferred from launches that repeat: nothing in the trace marks them.")
    if any(trace.steps.served.generated[found.of(mode)].min(initial=0) < 0 for mode in _MAKING):
        texts.append("Tokens per second are unknown: the tokens per request and step are not recorded.")
    todo = trace.recorder.todo("recording_began_mid_flight") if earlier else ""
    return [Notice("serving", "info", " ".join(texts), todo, figures)] if texts else []


def _which(found: Taken) -> str:
    """Which steps are chosen, in words."""
    return "all steps" if len(found.steps) == len(found.trace.steps.label) else "the chosen steps"


def _batch(found: Taken) -> str:
    """The batch of the steps that the figures are about, in words; empty where they do not state it."""
    batch = found.trace.steps.served.batch[found.told]
    low, high = (int(batch.min(initial=batch[0])), int(batch.max(initial=batch[0]))) if len(batch) else (MISSING, 0)
    return "" if low == MISSING else f"batch {low}" if low == high else f"batch {low} to {high}"


FEW = 4
"""Fewer decode steps say little."""
_MAKING = (Mode.DECODE, Mode.MIXED)


def facts(found: Taken) -> dict[str, Number]:
    """Returns the facts of the chosen steps, by mode; never of the steady state alone."""
    numbers: dict[str, Number] = {}
    for mode in found.modes:
        time = found.time_ns[found.of(mode)]
        key = f"serving.{word(mode)}"
        numbers[f"{key}.steps"] = len(time)
        numbers[f"{key}.step_time_mean_ns"] = float(time.mean())
        numbers[f"{key}.step_time_p95_ns"] = float(np.percentile(time, 95))
    numbers["serving.tokens_per_second"] = tokens_per_second(found.trace, found.steps)
    numbers["serving.decode.host_gap_mean_ns"] = _gap(found, told=False)
    return numbers
