"""Software, hardware and profiler options that the file records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Figures, Metric

VERSIONS = {
    "cuda_runtime_version": "CUDA runtime",
    "cuda_driver_version": "CUDA driver",
    "cupti_version": "CUPTI",
    "hip_runtime_version": "HIP runtime",
    "hip_driver_version": "HIP driver",
    "rocprofiler-sdk_version": "rocprofiler",
    "roctracer_version": "roctracer",
}
OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")
PLAIN = {
    "torch_version": "PyTorch",
    "pytorch_version": "PyTorch",
    "Framework": "Framework",
    "host_name": "Host",
    "trace_id": "Trace id",
    "PT_PROFILER_JOB_NAME": "Job",
    "PT_PROFILER_JOB_VERSION": "Job version",
    "PT_PROFILER_JOB_ATTEMPT_INDEX": "Job attempt",
}
# Keys that other parts of the page show, or that describe the file instead of the run.
_SHOWN_ELSEWHERE = (
    "schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit", "baseTimeNanoseconds", "traceName",
    "stackFrames", "file_info", "file_process",
)  # fmt: skip
_MAX_EXTRA_SETTINGS = 100
LONGEST = 300
"""Maximum number of characters shown of a setting. Metadata may contain texts of any length."""


def _setting(key: str, title: str, value: object) -> Figure:
    definition = f"Key {key} of the trace file."
    return Figure(Metric(key, title, "text", definition, "the trace file"), str(value)[:LONGEST])


def configuration(trace: TraceTable) -> Figures:
    figures = _software(trace.metadata)
    options = _options(trace.metadata)
    if options or not is_range_trace(trace):
        figures.append(_setting("profiler_options", "Profiler options", options or "none recorded"))
    figures += _rest(trace.metadata)
    return Figures("configuration", "Configuration", "as recorded in the file", figures)


def _rest(data: Mapping[str, object]) -> list[Figure]:
    handled = {*PLAIN, *VERSIONS, *OPTIONS, *_SHOWN_ELSEWHERE}
    found: list[Figure] = []
    for key, value in data.items():
        if key in handled:
            continue
        members = (
            {f"{key}.{name}": member for name, member in value.items()} if isinstance(value, dict) else {key: value}
        )
        found += [_setting(name, name[:LONGEST], _text(member)) for name, member in members.items()]
    if len(found) > _MAX_EXTRA_SETTINGS:
        definition = "Further settings of the trace file."
        more = Metric("further_settings", "Further settings", "count", definition, "the trace file")
        return [*found[:_MAX_EXTRA_SETTINGS], Figure(more, len(found) - _MAX_EXTRA_SETTINGS)]
    return found


def _text(value: object) -> str:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def head_settings(head: Mapping[str, object]) -> list[Figure]:
    """Returns the settings before any event is read. None counts as missing: a later section may contain it."""
    figures = [_setting("deviceProperties", "Devices", devices)] if (devices := _devices(head)) else []
    figures += _software(head)
    if on := _options(head):
        figures.append(_setting("profiler_options", "Profiler options", on))
    return figures


def _software(data: Mapping[str, object]) -> list[Figure]:
    figures = [_setting(key, title, data[key]) for key, title in PLAIN.items() if key in data]
    figures += [_setting(key, title, _version(key, data[key])) for key, title in VERSIONS.items() if key in data]
    return figures + _distributed(data.get("distributedInfo"))


def _options(data: Mapping[str, object]) -> str:
    return ", ".join(option for option in OPTIONS if data.get(option))


def _devices(data: Mapping[str, object]) -> str:
    listed = data.get("deviceProperties")
    names = [str(item.get("name", "")) for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    counts = Counter(filter(None, names))
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def _version(key: str, value: object) -> str:
    """Returns a version number as text: 12080 is CUDA 12.8, and 60140092 is HIP 6.1.40092."""
    if (
        key.startswith(("cuda", "cupti"))
        and isinstance(value, int)
        and 1000 < value < 1_000_000
        and key != "cupti_version"
    ):
        return f"{value // 1000}.{value % 1000 // 10}"
    if key.startswith("hip") and isinstance(value, int) and value > 10_000_000:
        return f"{value // 10_000_000}.{value // 100_000 % 100}.{value % 100_000}"
    return str(value)


def _distributed(info: object) -> list[Figure]:
    if not isinstance(info, dict):
        return []
    titles = {
        "backend": "Backend",
        "rank": "Rank",
        "world_size": "World size",
        "nccl_version": "NCCL",
        "pg_count": "Groups",
    }
    return [_setting(f"distributedInfo.{key}", title, info[key]) for key, title in titles.items() if key in info]
