"""What a server's steps say first: tokens per second, the time of a decode step, and where it goes."""

from __future__ import annotations

import numpy as np

from tb_plugin.analyses.base import Number
from tb_plugin.analyses.served_steps import tokens_per_second
from tb_plugin.analyses.serving.metrics import METRICS
from tb_plugin.analyses.serving.tables import word
from tb_plugin.analyses.serving.taken import Taken
from tb_plugin.payloads import Figure, Figures, Notice
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.served import Mode
from tb_plugin.trace.steps import INFERRED


def _gap(found: Taken, *, told: bool = True) -> float | None:
    gap = found.numbers.gap_ns[found.of(Mode.DECODE, told=told)]
    gap = gap[gap != MISSING]
    return float(gap.mean()) if len(gap) else None


def figures_of(found: Taken) -> dict[str, float | None]:
    """Returns the numbers of decoding by key, over the steps that the figures are about."""
    decoding = found.of(Mode.DECODE, told=True)
    time, period = found.time_ns[decoding], found.numbers.period_ns[decoding]
    gap = found.numbers.gap_ns[decoding]
    total = int(time.sum())
    return {
        "tokens_per_second": tokens_per_second(found.trace, found.told),
        "decode_p50_ns": float(np.median(time)) if len(time) else None,
        "decode_p95_ns": float(np.percentile(time, 95)) if len(time) > 1 else None,
        "decode_gap_ns": _gap(found),
        "decode_busy_ratio": int(found.numbers.busy_ns[decoding].sum()) / total if total else None,
        "decode_gap_ratio": int(gap[gap != MISSING].sum()) / int(period.sum()) if (gap != MISSING).any() else None,
    }


def headline(found: Taken) -> Figures:
    """Returns the numbers that a person asks for first."""
    figures = [
        METRICS.figure(key, value)
        for key, value in figures_of(found).items()
        if value is not None and key != "decode_gap_ratio"
    ]
    many = "the steady state" if found.is_steady else "all chosen steps"
    figures.append(METRICS.figure("figure_steps", len(found.told), note=many))
    return Figures("summary", "Serving", "", figures, "headline")


def answer_of(found: Taken) -> list[Notice]:
    """Returns the answer in words."""
    numbers = figures_of(found)
    figures: list[Figure] = [METRICS.figure(key, value) for key, value in numbers.items() if value is not None]
    texts = []
    if numbers["tokens_per_second"] is not None:
        texts.append("The server makes {tokens_per_second} new tokens a second.")
    if numbers["decode_p50_ns"] is not None:
        busy = "" if numbers["decode_busy_ratio"] is None else ": the device works for {decode_busy_ratio} of the time"
        gaps = "" if numbers["decode_gap_ns"] is None else ", and idles for {decode_gap_ns} between two of them"
        texts.append(f"A decode step takes {{decode_p50_ns}}{busy}{gaps}.")
    elif found.modes:
        most = found.of(found.modes[0])
        figures.append(METRICS.figure("mode_p50_ns", float(np.median(found.time_ns[most]))))
        what = "" if found.modes[0] == Mode.UNKNOWN else f" of {word(found.modes[0])}"
        texts.append(f"A step{what} takes {{mode_p50_ns}}.")
    if found.is_steady:
        labels = found.trace.steps.label
        texts.append(f"That is the steady state, steps {labels[found.told[0]]} to {labels[found.told[-1]]}.")
    if found.trace.steps.found == INFERRED:
        texts.append("Steps were inferred from launches that repeat: nothing in the trace marks them.")
    if any(found.trace.steps.served.generated[found.of(mode, told=True)].min(initial=0) < 0 for mode in _MAKING):
        texts.append("Tokens a second are left out: nobody knows how many a request got in a step.")
    return [Notice("serving", "info", " ".join(texts), "", figures)] if texts else []


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
