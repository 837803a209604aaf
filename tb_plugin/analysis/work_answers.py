"""First sentences of views about device work."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tb_plugin.analysis.demangle import readable_names
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.kernel_classes import TITLES, class_time, classify_kernels
from tb_plugin.analysis.metrics import CHOSEN, SHARED, SUM, define
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import Whole, group
from tb_plugin.model.trace.schema import MISSING, KernelClass
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Notice, Notices, Scalar

METRICS = SHARED.adding(
    define(
        CHOSEN,
        "ns",
        {
            "class_ns": ("Class time", "Time of the kernels of the class with the most time.", SUM),
            "all_kernels_ns": ("Kernel time", "Summed time of all kernels.", SUM),
            "leading_ns": ("Largest time", "Time of the named row.", SUM),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "class_ratio": ("Class share", "Time of the class divided by the time of all kernels."),
            "leading_ratio": ("Largest share", "Time of the named row divided by the total."),
        },
    ),
    define("", "code", {"leading_name": ("Name", "Row with the most time.")}),
)


def answer(rule: str, text: str, figures: list[Figure], *more: Notice) -> Notices:
    """Returns the sentence that answers the question of a page, as a payload."""
    return Notices("answer", "Answer", "answer", [Notice(rule, "info", text, "", figures), *more])


def device_word(trace: TraceTable) -> str:
    """Returns "GPU" or "NPU", or "device" without a single word for the devices of the trace."""
    words = {device.word for device in trace.devices}
    return words.pop() if len(words) == 1 and words != {"Device"} else "device"


def leading(ids: Whole, dur: Int64) -> tuple[int, int]:
    """Returns the id with the largest sum of ``dur`` and that sum. ``ids`` must not be empty."""
    groups = group(ids)
    total = groups.sum(dur)
    place = int(np.argmax(total))
    return int(ids[groups.first[place]]), int(total[place])


def class_sentence(trace: TraceTable, times: Mapping[KernelClass, int]) -> tuple[str, list[Figure]]:
    """Returns which class of kernels takes most device time, as a sentence without its full stop."""
    total, most = sum(times.values()), max(times, key=lambda each: times[each])
    text = f"{TITLES[most]} kernels take {{class_ratio}} of {device_word(trace)} kernel time"
    text += " ({class_ns} of {all_kernels_ns})"
    values = {"class_ratio": times[most] / total, "class_ns": times[most], "all_kernels_ns": total}
    return text, METRICS.figures(values)


def operators_answer(trace: TraceTable, kernels: Int64) -> Notices | None:
    """Returns which class of kernels takes most device time, and its operator. None without kernel time."""
    times = class_time(trace, kernels)
    if not any(times.values()):
        return None
    text, figures = class_sentence(trace, times)
    most = max(times, key=lambda each: times[each])
    mine = kernels[classify_kernels(trace).of(trace.name[kernels]) == most]
    name, time = leading(operator_names(trace, mine), trace.dur_ns[mine])
    if name == MISSING:
        return answer("class_answer", f"{text}. Most of these kernels have no recorded operator.", figures)
    figures += METRICS.figures({"leading_name": trace.strings[name], "leading_ns": time})
    return answer("class_answer", f"{text}, {{leading_ns}} of it launched by {{leading_name}}.", figures)


def kernels_answer(trace: TraceTable, kernels: Int64, times: Mapping[KernelClass, int]) -> Notices | None:
    """Returns which class of kernels takes most device time, and the longest kernel. None without kernel time."""
    if not any(times.values()):
        return None
    text, figures = class_sentence(trace, times)
    name, time = leading(trace.name[kernels], trace.dur_ns[kernels])
    recorded = trace.strings[name]
    values: dict[str, Scalar] = {"leading_name": readable_names([recorded])[0] or recorded, "leading_ns": time}
    values["leading_ratio"] = time / sum(times.values())
    text += ". The kernel with the most time is {leading_name}: {leading_ns}, {leading_ratio}."
    return answer("class_answer", text, [*figures, *METRICS.figures(values)])
