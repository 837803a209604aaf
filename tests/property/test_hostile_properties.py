"""Traces of nonsense: any JSON value in any field. Every view answers with JSON a page can parse; parts still sum."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.payloads.export import to_json
from tests.builders import model, rows
from tests.depth import examples
from tests.samples import OF_TRACES

odd_numbers = st.sampled_from(
    [0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 1e18, 1e300, 0.0005, -0.5, 1e-9]
)
odd_texts = st.sampled_from(["", "0", "-1", "7", "1.5", "NaN", "stream 7", "π\u0000", "a" * 300, "²", "ProfilerStep#1"])
odd = st.none() | st.booleans() | odd_numbers | odd_texts | st.just([]) | st.just({}) | st.just([[1, None], "x"])
times = st.integers(0, 300) | st.integers(0, 300).map(str) | odd
CATEGORIES = [
    "cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset",
    "gpu_user_annotation", "cuda_sync", "overhead", "Trace", "Operator", "ac2g", "fwdbwd", "novelty", "",
]  # fmt: skip
NAMES = [
    "aten::mm",
    "ProfilerStep#1",
    "ProfilerStep#x",
    "ProfilerStep#99999999999999999999",
    "[memory]",
    "nn.Module: M_0",
]
ARGS = [
    "External id", "correlation", "device", "stream", "Python id", "Python parent id", "Python module id", "grid", "block",
    "blocks per SM", "est. achieved occupancy %", "registers per thread", "shared memory", "bytes", "Input Dims",
    "Call stack",
    "Sequence number", "Fwd thread id", "Collective name", "Group size", "Bytes", "Addr", "Total Allocated", "Device Type",
    "Device Id",
]  # fmt: skip


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    args = draw(st.dictionaries(st.sampled_from(ARGS), st.integers(0, 4) | odd, max_size=5))
    event = {
        "ph": draw(st.sampled_from(["X", "X", "X", "i", "s", "f", "M", "B", "E"])),
        "cat": draw(st.sampled_from(CATEGORIES)),
        "name": draw(st.sampled_from(NAMES) | odd_texts),
        "pid": draw(st.integers(0, 1) | odd),
        "tid": draw(st.integers(1, 2) | odd),
        "ts": draw(times),
        "dur": draw(times),
        "id": draw(st.integers(0, 2) | odd),
        "args": args,
    }
    for key in draw(st.lists(st.sampled_from(["cat", "name", "pid", "tid", "dur", "args"]), max_size=2)):
        event.pop(key, None)
    return event


@given(
    st.lists(events(), max_size=12), st.dictionaries(st.sampled_from(["deviceProperties", "distributedInfo", "x"]), odd)
)
@examples(suite=25, deep=500)
def test_every_view_answers(listed: list[dict[str, Any]], root: dict[str, Any]) -> None:
    table = model(json.dumps({**root, "traceEvents": listed}).encode())
    for analysis in OF_TRACES:
        analysis.missing(table)
        view = analysis.answer([analysis.part(table, Params())], Params())
        json.loads(to_json(view), parse_constant=pytest.fail)
        if table.steps.label:
            analysis.part(table, Params(steps=table.steps.label[:1]))
    for step in rows(table, "overview", "steps"):
        parts = [value for key, value in step.items() if key not in ("step", "total_ns")]
        assert sum(parts) == step["total_ns"] and min(parts) >= 0
    assert (table.end_ns >= table.start_ns).all() and (table.self_ns >= 0).all()


PROPERTY = {"id": odd, "name": odd, "totalGlobalMem": odd, "computeMajor": odd, "computeMinor": odd, "numSms": odd}


@given(st.lists(st.fixed_dictionaries({}, optional=PROPERTY) | odd, max_size=3))
@examples(suite=15, deep=200)
def test_device_properties_of_nonsense(properties: list[Any]) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 5, "args": {"device": 0}}
    table = model(json.dumps({"deviceProperties": properties, "traceEvents": [kernel]}).encode())
    for analysis in OF_TRACES:
        to_json(analysis.answer([analysis.part(table, Params())], Params()))
