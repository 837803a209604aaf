"""Charts of server steps: times, kernels, batch and tokens."""

from __future__ import annotations

from tb_plugin.analysis.kernel_classes import TITLES, word_of
from tb_plugin.analysis.metrics import CHOSEN_STEPS
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.served_work import Mode
from tb_plugin.payloads import Breakdown, Dots, Line, Metric, Payload, Scatter, Series, Slice
from tb_plugin.views.serving.metrics import METRICS
from tb_plugin.views.serving.served_selection import Taken
from tb_plugin.views.serving.tables import mode_name

# Origin of steps, in words.
HOW = {
    "profiler": "steps of the profiler",
    "annotation": "steps by annotations of {}",
    "inferred": "steps inferred from repeating launches",
}
# Maximum number of dots; beyond it every second, third, ... step is drawn.
DOTS = 3_000


def time_by_mode(found: Taken) -> Breakdown:
    """Returns the time of the selected steps by mode."""
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
    return Breakdown("times", "Time by mode", what, "ns", sum(part.value for part in parts), parts)


def category_of(mode: Mode) -> str:
    """Returns the color category that charts use for a mode."""
    return f"mode_{mode_name(mode)}"


def kernel_classes_by_mode(found: Taken) -> Series:
    """Returns kernel time by class, one bar per mode."""
    times = found.class_time
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
    return Series("classes", "Kernels by mode", what, METRICS.metric("mode"), labels, lines, "stacked_bars")


def step_time_scatters(found: Taken) -> dict[str, Payload]:
    """Returns two charts: step time over batch size, and step time over tokens.

    A chart is omitted if fewer than two steps record its size.
    """
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
