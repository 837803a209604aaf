"""Memory that is retained per step, and changes between two events."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Params, Part, int_param
from tb_plugin.analysis.memory.growth import WARM_UP, live_of, rise_of
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of, levels_of, levels_of_device, moment_of
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.steps import Steps, growth_of_device, rise_figures, steps_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import NotFoundError
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import CoverageInfo, Figures, Line, Link, Notice, Notices, Payload, Series
from tb_plugin.views.growth import VIEW
from tb_plugin.views.growth.tables import blocks_frame, changes_frame, growth_frame, steps_frame

# Label of the last moment, the end of the last step.
END = "end"


class GrowthAnalysis(DeclaredView, entry=VIEW):
    own = ("device", "stack", "at", "against")

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        device = levels_of_device(snapshot, params)
        steps = steps_of(device)
        first, second = _moments(device, steps, params)
        payloads: dict[str, Payload] = {
            "answer": Notices("answer", "Answer", "answer", [_answer(device, steps)]),
            "summary": _summary(device, steps),
        }
        if len(steps):
            payloads["live"] = _live(device, steps, params)
        compared = [METRICS.figure("event_number", event, title) for title, event in (("From", first), ("To", second))]
        payloads["compared"] = Figures("compared", "Compared", "", compared)
        devices = [METRICS.figure("history_events", each.count, each.name) for each in devices_of(snapshot)]
        payloads["devices"] = Figures("devices", "Devices", "", devices)
        frames = {
            "growth_stacks": growth_frame(device),
            "changed_stacks": changes_frame(device, first, second),
            "changed_blocks": blocks_frame(device, first, second),
            "growth_steps": steps_frame(device, steps, [*steps.labels, END] if len(steps) else []),
        }
        return Part(CoverageInfo(complete=snapshot.report.complete), {}, frames, payloads, (*payloads, *frames))


def _moments(device: DeviceLevels, steps: Steps, params: Params) -> tuple[int, int]:
    known = len(steps) > WARM_UP
    at, against = moment_of(device, params), moment_of(device, params, "against")
    if at is None:
        at = int(steps.moments[-1]) if known else device.count - 1
    if against is None:
        against = int(steps.moments[WARM_UP]) if known else MISSING
    return min(at, against), max(at, against)


def _summary(device: DeviceLevels, steps: Steps) -> Figures:
    if not len(steps):
        return Figures("summary", device.name, "", [], "headline")
    growth = growth_of_device(device)
    leaks = growth.leaks()
    live = live_of(device.table, steps.moments)[0]
    change = int(live[-1] - live[WARM_UP]) if len(steps) > WARM_UP else None
    figures = [
        METRICS.figure("snapshot_steps", len(steps), note="annotations"),
        METRICS.figure("delta_live_bytes", change),
        METRICS.figure("growing_stacks", len(leaks)),
        METRICS.figure("step_growth_bytes", float(growth.step_bytes[leaks].sum())),
    ]
    return Figures("summary", device.name, "", figures, "headline")


def _answer(device: DeviceLevels, steps: Steps) -> Notice:
    growth = growth_of_device(device)
    leaks = growth.leaks()
    if not len(steps):
        text = "No steps were recorded. Choose two events below to compare memory after them."
        return Notice("growth", "info", text, "")
    if not len(leaks):
        rise = rise_of(levels_of(device).allocated, steps.moments)
        if rise is not None:
            text = "Retained memory does not grow, but peak memory rises by {peak_growth_bytes} per step, "
            text += "from {first_peak_bytes} to {last_peak_bytes} in {peak_steps} steps."
            return Notice("growth", "info", text, "", rise_figures(rise))
        text = "No stack grows from step to step. Allocated memory changes by {delta_live_bytes} from the end of the first "
        text += "step to the end of the last step."
        return Notice("growth", "info", text, "", [_summary(device, steps).figures[1]])
    stack, counted = int(growth.owner[leaks[0]]), int(growth.counted[leaks[0]])
    text = "{allocation_line} grows by {step_growth_bytes} per step: {left_bytes} in {counted_steps} "
    text += f"{plural(counted, 'step')}."
    figures = METRICS.figures(
        {
            "allocation_line": stack_words(device.snapshot).line[stack].as_py() or NO_STACK,
            "step_growth_bytes": float(growth.step_bytes[leaks[0]]),
            "left_bytes": int(growth.left_bytes[leaks[0]]),
            "counted_steps": counted,
        }
    )
    if len(leaks) > 1:
        text += " This is the largest of {growing_stacks} growing stacks."
        figures.append(METRICS.figure("growing_stacks", len(leaks)))
    evidence = Link("growth", {"stack": str(stack), "row": str(stack)}, "Show its curve")
    return Notice("growth", "info", text, "", figures, evidence=evidence)


def _live(device: DeviceLevels, steps: Steps, params: Params) -> Series:
    growth = growth_of_device(device)
    requested = int_param(params, "stack")
    leaks = growth.leaks()
    stack = requested if requested is not None else int(growth.owner[leaks[0]]) if len(leaks) else None
    if stack is not None and not (device.block("stack") == stack).any():
        raise NotFoundError(f"No block has the stack {stack}.", "stack", "Choose one from the table growth_stacks.")
    blocks = device.table
    if stack is not None:
        blocks = blocks.take(np.flatnonzero(blocks.owner == stack))
    live, _ = live_of(blocks, steps.moments)
    words = "all stacks" if stack is None else stack_words(device.snapshot).line[stack].as_py() or NO_STACK
    metric = METRICS.metric("live_bytes_at_step")
    return Series("live", "Live memory at the start of every step", words, METRICS.metric("snapshot_step"),
                  [*steps.labels, END], [Line(metric, "kernel", live.tolist())], "lines")  # fmt: skip
