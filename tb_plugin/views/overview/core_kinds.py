"""Kernel time and frequency by kind of device core."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from tb_plugin.analysis.base import Number
from tb_plugin.analysis.core_frequency import core_frequency
from tb_plugin.analysis.device_facts import facts_of, has_device_facts
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.analysis.metrics import FULL_TRACE, define
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import intersect, measure, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.hardware import DeviceFacts
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Figure, Metric, Slice
from tb_plugin.rules.low_frequency import METRICS as OF_RULE

METRICS = OF_RULE.adding(
    define(FULL_TRACE, "ns", {"core_ns": ("Cores", "Kernel time on this core type; concurrent kernels add up.")}),
    define(FULL_TRACE, "hertz", {"core_hertz": ("Core frequency", "Mean frequency during non-communication kernels.")}),
)
UNKNOWN = "Not reported"
_REST = "Other cores"
# Real devices have eight kinds.
_MAX_CORE_KINDS = 9
_COLOURS = 10
_SLUG = re.compile(r"[^a-z0-9]+")


@cached_by_argument
def core_time(trace: TraceTable, device: int) -> dict[str, int]:
    """Returns kernel time (ns) by display name of the core, longest first; empty if the profiler does not report cores."""
    facts = facts_of(trace)
    if facts is None or not has_device_facts(trace, trace.recorder.kernels.core):
        return {}
    rows = np.flatnonzero((trace.kind == EventKind.KERNEL) & (trace.device == device))
    if not len(rows):
        return {}
    kind, of = np.unique(first_reported_text(trace, trace.recorder.kernels.core, rows), return_inverse=True)
    time = sum_by(of, trace.dur_ns[rows], len(kind))
    titles = dict(facts.cores)
    order = np.argsort(-time, kind="stable").tolist()
    found: dict[str, int] = {}
    for place in order:
        word = trace.strings[int(kind[place])]
        title = UNKNOWN if kind[place] == MISSING else titles.get(word, word)
        title = title if title in found or len(found) < _MAX_CORE_KINDS else _REST
        found[title] = found.get(title, 0) + int(time[place])
    return found


def cores_breakdown(trace: TraceTable, device: int) -> Breakdown | None:
    """Returns the kernel time of a device by kind of core, or None if the profiler does not report the kind."""
    times = core_time(trace, device)
    if not sum(times.values()) or times.keys() == {UNKNOWN}:
        return None
    facts = facts_of(trace)
    name, plain = trace.devices[device].id, METRICS["core_ns"]
    parts = [
        Slice(
            Metric(f"core_{_slug(title)}", title, plain.unit, plain.definition, plain.window),
            _colour(title, facts),
            time,
        )
        for title, time in times.items()
    ]
    return Breakdown(
        f"device_cores_{name}",
        "Kernel time by core type",
        f"device {name}, durations summed, communication included",
        "ns",
        sum(times.values()),
        parts,
        "bar",
    )


def _colour(title: str, facts: DeviceFacts | None) -> str:
    known = list(dict.fromkeys(name for _, name in facts.cores)) if facts else []
    if title in (UNKNOWN, _REST):
        return "rest"
    return f"slice{known.index(title) % _COLOURS}" if title in known else title


def _slug(text: str) -> str:
    if text == UNKNOWN:
        return "not_stated"  # part of a public fact key
    return _SLUG.sub("_", text.lower()).strip("_") or "unnamed"


def frequency_of(trace: TraceTable, device: int) -> Mapping[str, float]:
    """Returns the mean core frequency while kernels run, and the share of kernel time below the normal frequency."""
    frequency = core_frequency(trace, device)
    if frequency is None:
        return {}
    rows = np.flatnonzero((trace.kind == EventKind.KERNEL) & (trace.device == device) & ~trace.is_collective)
    work = union(trace.start_ns[rows], trace.ends(rows))
    mean = frequency.mean(work)
    if mean is None:
        return {}
    return {"core_hertz": mean, "low_frequency_ratio": measure(intersect(work, frequency.low)) / measure(work)}


def frequency_figures(trace: TraceTable, device: int) -> list[Figure]:
    return [METRICS.figure(key, value, window=FULL_TRACE) for key, value in frequency_of(trace, device).items()]


def core_facts(trace: TraceTable, device: int) -> dict[str, Number]:
    """Returns the core frequency and the kernel time by kind of core. The times of unknown kinds are added up."""
    name, stated = trace.devices[device].id, facts_of(trace)
    known = {UNKNOWN, *(title for _, title in (stated.cores if stated else ()))}
    facts: dict[str, Number] = {}
    for title, time in core_time(trace, device).items():
        # Text from a file must not become the name of a fact.
        key = f"device.{name}.core.{_slug(title if title in known else _REST)}_ns"
        facts[key] = int(facts.get(key) or 0) + time
    return facts | {f"device.{name}.{key}": value for key, value in frequency_of(trace, device).items()}
