"""Summary sentence, key numbers and charts of server steps."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Number
from tb_plugin.analysis.device_time import device_noun, device_word
from tb_plugin.analysis.kernel_classes import TITLES, class_slices, word_of
from tb_plugin.analysis.launches.unrecorded_work import any_unrecorded
from tb_plugin.analysis.metrics import CHOSEN_STEPS
from tb_plugin.analysis.phrases import count_with_noun, vendor_words
from tb_plugin.analysis.served_steps import tokens_per_second
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import measure_within
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.served_work import Mode
from tb_plugin.model.trace.steps.windows import INFERRED
from tb_plugin.payloads import Breakdown, Dots, Figure, Figures, Line, Metric, Notice, Payload, Scatter, Series, Slice
from tb_plugin.views.serving.metrics import METRICS, STEADY
from tb_plugin.views.serving.tables import Taken, mode_name


def _gap(found: Taken, *, told: bool = True) -> float | None:
    gap = found.numbers.gap_ns[found.of(Mode.DECODE, told=told)]
    gap = gap[gap != MISSING]
    return float(gap.mean()) if len(gap) else None


def figures_of(found: Taken) -> dict[str, float | None]:
    """Returns values by metric key. Tokens and prefill use all selected steps, decode values use ``figure_steps``."""
    decoding, numbers = found.of(Mode.DECODE, told=True), found.numbers
    time, prefill = (_recorded_time(found, steps) for steps in (decoding, found.of(Mode.PREFILL)))
    cycles = decoding[numbers.period_ns[decoding] != MISSING]
    cycle, work, earlier = (
        float(each[cycles].sum()) for each in (numbers.period_ns, numbers.work_ns, numbers.unrecorded_ns)
    )
    if not len(cycles):  # a single step
        cycle, work, earlier = (float(each.sum()) for each in (time, numbers.busy_ns[decoding], np.zeros(1)))
    known = cycle - earlier
    count = len(cycles)
    return {
        "tokens_per_second": tokens_per_second(found.trace, found.steps),
        "steady_tokens_per_second": tokens_per_second(found.trace, found.figure_steps) if found.is_steady else None,
        "decode_p50_ns": float(np.median(time)) if len(time) else None,
        "prefill_p50_ns": float(np.median(prefill)) if len(prefill) else None,
        "decode_busy_ratio": work / known if known > 0 else None,
        "decode_gap_ns": _gap(found),
        "decode_cycle_ns": cycle / count if count else None,
        "decode_work_ns": work / count if count else None,
        "decode_idle_ns": (known - work) / count if count else None,
        "decode_p95_ns": float(np.percentile(time, 95)) if len(time) > 1 else None,
    }


def _recorded_time(found: Taken, steps: Int64) -> Int64:
    """Returns the step times without unrecorded work."""
    start, end = found.trace.steps.start_ns[steps], found.trace.steps.end_ns[steps]
    return end - start - measure_within(any_unrecorded(found.trace), start, end)


_TILES = ("tokens_per_second", "decode_p50_ns", "prefill_p50_ns", "decode_busy_ratio", "decode_gap_ns")


def headline_figures(found: Taken) -> Figures:
    """Returns at most five figures. Of the steady state: its tokens per second instead of those of all steps."""
    values = figures_of(found)
    steady = values["steady_tokens_per_second"]
    figures = []
    for key in _TILES:
        if key == "tokens_per_second" and steady is not None:
            figures.append(METRICS.figure("steady_tokens_per_second", steady, note=_batch(found)))
        elif values[key] is not None:
            note = _which(found) if key == "tokens_per_second" else ""
            if key == "decode_p50_ns" and found.numbers.unrecorded_ns[found.figure_steps].any():
                note = "without unrecorded work"
            title = f"{device_word(found.trace)} busy" if key == "decode_busy_ratio" else ""
            figures.append(METRICS.figure(key, values[key], title, note=note))
    return Figures("summary", "Serving", "", figures, "headline")


def answer_of(found: Taken) -> list[Notice]:
    """Returns one notice: tokens per second, step times and gaps, then what limits these numbers."""
    numbers, trace = figures_of(found), found.trace
    word = device_noun(trace)
    figures: list[Figure] = [METRICS.figure(key, value) for key, value in numbers.items() if value is not None]
    many = "the steady state" if found.is_steady else _which(found)
    figures.append(METRICS.figure("figure_steps", len(found.figure_steps), note=many))
    earlier = int(found.numbers.unrecorded_ns[found.figure_steps].sum())
    texts = []
    if found.is_steady:
        labels, batch = trace.steps.label, _batch(found)
        where = f"steps {labels[found.figure_steps[0]]} to {labels[found.figure_steps[-1]]}" + (batch and f", {batch}")
        if numbers["steady_tokens_per_second"] is None:
            texts.append(f"The numbers below cover the steady state: {where}.")
        else:
            every = ""
            if numbers["tokens_per_second"] is not None:
                every = f"; {{tokens_per_second}} over {_which(found)}"
            texts.append(
                f"The server generates {{steady_tokens_per_second}} tokens per second in the steady state ({where}){every}."
            )
    elif numbers["tokens_per_second"] is not None and any(len(found.of(mode)) for mode in _MAKING):
        rest = ", not counting unrecorded work" if earlier and len(found.steps) == 1 else ""
        texts.append(f"The server generates {{tokens_per_second}} tokens per second over {_which(found)}{rest}.")
    texts += _step_times(found, numbers, figures, word)
    if 0 < (count := len(found.of(Mode.DECODE, told=True))) < FEW:
        waits = "" if earlier else ": the first one may mostly wait for work launched before the recording"
        number = count_with_noun(count, "decode step")
        texts.append(f"The selected steps include only {number}, which may not be typical{waits}.")
    if earlier:
        figures.append(METRICS.figure("unrecorded_ns", earlier, window=STEADY))
        if not any("{unrecorded_ns}" in text for text in texts):
            texts.append(f"For {{unrecorded_ns}} of these steps, the {word} runs unrecorded work.")
    if trace.steps.source == INFERRED:
        texts.append("Steps were inferred from repeating launches: the trace has no step markers.")
    if any(trace.steps.served.generated[found.of(mode)].min(initial=0) < 0 for mode in _MAKING):
        texts.append("Tokens per second are unknown: the tokens per request and step are not recorded.")
    todo = vendor_words(trace.recorder.todo("recording_began_mid_flight"), word) if earlier else ""
    return [Notice("serving", "info", " ".join(texts), todo, figures)] if texts else []


def _step_times(found: Taken, numbers: dict[str, float | None], figures: list[Figure], word: str) -> list[str]:
    prefill = "" if numbers["prefill_p50_ns"] is None else ", and a prefill step {prefill_p50_ns}"
    if numbers["decode_cycle_ns"] is not None:
        return [
            f"A decode step takes {{decode_cycle_ns}} from start to start{prefill}: the {word} is busy for "
            "{decode_work_ns} of a decode step ({decode_busy_ratio}) and idle for {decode_idle_ns}."
        ]
    if numbers["decode_p50_ns"] is not None:
        last = found.of(Mode.DECODE, told=True)
        figures.append(METRICS.figure("served_busy_ns", float(found.numbers.busy_ns[last].mean())))
        if len(found.figure_steps) == 1 and found.numbers.unrecorded_ns[last].any():
            figures.append(METRICS.figure("served_step_ns", float(found.time_ns[last].sum())))
            return [
                f"A decode step takes {{served_step_ns}}, of which {{unrecorded_ns}} is unrecorded work{prefill}; in the "
                f"other {{decode_p50_ns}}, the {word} is busy for {{served_busy_ns}}."
            ]
        return [
            f"A decode step takes {{decode_p50_ns}}{prefill}; the {word} is busy for {{served_busy_ns}} of a decode step."
        ]
    if not found.modes:
        return []
    most = found.of(found.modes[0])
    figures.append(METRICS.figure("mode_p50_ns", float(np.median(found.time_ns[most]))))
    what = "" if found.modes[0] == Mode.UNKNOWN else f"{mode_name(found.modes[0])} "
    article = "An" if what[:1] in ("i", "u") else "A"
    return [f"{article} {what}step takes {{mode_p50_ns}}."]


def _which(found: Taken) -> str:
    return "all steps" if len(found.steps) == len(found.trace.steps.label) else "the selected steps"


def _batch(found: Taken) -> str:
    batch = found.trace.steps.served.batch[found.figure_steps]
    low, high = (int(batch.min(initial=batch[0])), int(batch.max(initial=batch[0]))) if len(batch) else (MISSING, 0)
    return "" if low == MISSING else f"batch {low}" if low == high else f"batch {low} to {high}"


# Fewer decode steps are not representative.
FEW = 4
_MAKING = (Mode.DECODE, Mode.MIXED)


def facts(found: Taken) -> dict[str, Number]:
    numbers: dict[str, Number] = {}
    for mode in found.modes:
        time = found.time_ns[found.of(mode)]
        key = f"serving.{mode_name(mode)}"
        numbers[f"{key}.steps"] = len(time)
        numbers[f"{key}.step_time_mean_ns"] = float(time.mean())
        numbers[f"{key}.step_time_p95_ns"] = float(np.percentile(time, 95))
    numbers["serving.tokens_per_second"] = tokens_per_second(found.trace, found.steps)
    numbers["serving.decode.host_gap_mean_ns"] = _gap(found, told=False)
    return numbers


# Origin of steps, in words.
HOW = {
    "profiler": "steps of the profiler",
    "annotation": "steps by annotations of {}",
    "inferred": "steps inferred from repeating launches",
}
# Maximum number of dots; beyond it every second, third, ... step is drawn.
DOTS = 3_000


def time_by_mode(found: Taken) -> dict[str, Payload]:
    """Returns the step time by mode, if there are several modes."""
    if len(found.modes) < 2:
        return {}
    total = METRICS["mode_total_ns"]
    parts = [
        Slice(
            Metric(mode_name(mode), mode_name(mode).capitalize(), "ns", total.definition, CHOSEN_STEPS),
            category_of(mode),
            int(found.time_ns[found.of(mode)].sum()),
        )
        for mode in found.modes
    ]
    how = found.trace.steps.source
    what = HOW.get(how, f"steps as {how}").format(found.trace.steps.framework or "a server")
    return {"times": Breakdown("times", "Time by mode", what, "ns", sum(part.value for part in parts), parts)}


def category_of(mode: Mode) -> str:
    return f"mode_{mode_name(mode)}"


def kernel_classes_by_mode(found: Taken) -> dict[str, Payload]:
    """Returns the kernel classes as bars by mode; of a single mode as one breakdown."""
    times = found.class_time
    if len(times) == 1:
        ((mode, of),) = times.items()
        parts = class_slices(of, METRICS.metric("mode_class_ns"), "kernels")
        title = "Kernels by class" if mode == Mode.UNKNOWN else f"Kernels of {mode_name(mode)} steps by class"
        return {"classes": Breakdown("classes", title, "sum of durations", "ns", sum(of.values()), parts)}
    metric = METRICS["mode_class_ratio"]
    lines = [
        Line(
            Metric(word_of(each), TITLES[each], metric.unit, metric.definition, metric.window),
            word_of(each),
            [of[each] / sum(of.values()) for of in times.values()],
        )
        for each in TITLES
        if any(of[each] for of in times.values())
    ]
    labels: list[int | float | str] = [mode_name(each) for each in times]
    what = "share of the summed durations"
    bars = Series("classes", "Kernels by mode", what, METRICS.metric("mode"), labels, lines, "stacked_bars")
    return {"classes": bars} if lines else {}


def step_time_scatters(found: Taken) -> dict[str, Payload]:
    """Returns step time over batch size and over tokens. Fewer than two points are no chart."""
    served, found_scatters = found.trace.steps.served, dict[str, Payload]()
    for name, key, values in (("by_batch", "batch", served.batch), ("by_tokens", "step_tokens", served.tokens)):
        known = found.steps[values[found.steps] != MISSING]
        if len(known) < 2:
            continue
        every = -(-len(known) // DOTS)
        drawn = known[::every]
        groups = [
            Dots(
                mode_name(mode).capitalize(),
                category_of(mode),
                [found.trace.steps.label[i] for i in some.tolist()],
                values[some].tolist(),
                found.time_ns[some].tolist(),
            )
            for mode in found.modes
            if len(some := drawn[served.mode[drawn] == mode])
        ]
        title = f"Step time over {METRICS[key].title.lower()}"
        what = "" if every == 1 else f"one step of {every}"
        found_scatters[name] = Scatter(
            name, title, what, METRICS.metric(key), METRICS.metric("served_step_ns"), groups, "serving_steps"
        )
    return found_scatters
