"""Marks of servers that no pattern reads, and advice for servers without marks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder, kernel, part, trace


def notices(builder: TraceBuilder) -> dict[str, Any]:
    payload: Any = part(builder.table(), "overview").payloads["data_quality"]
    return {notice.rule: notice for notice in payload.notices}


def iterations(*names: str) -> TraceBuilder:
    builder = trace().device(0)
    for number, name in enumerate(names):
        builder.annotation(name, 1000 * number, 900).op("aten::mm", 1000 * number + 10, 40)
        builder.launches(kernel("gemm", 500, 1000 * number + 100))
    return builder


PREFILL, DECODE = "execute_context_1(888_788544)_generation_0(0)", "execute_context_0(0)_generation_4(4)"


def test_prefill_of_todays_vllm_is_a_step() -> None:
    builder = iterations(DECODE, PREFILL, DECODE, PREFILL, DECODE)
    table = builder.table()
    assert len(table.steps.label) == 5
    served = table.steps.served
    assert served.tokens.tolist() == [4, 888, 4, 888, 4] and served.generated.tolist() == [4, 0, 4, 0, 4]
    assert "server_steps_unread" not in notices(builder)


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("execute_context_7[brand new]", "vLLM"),
        ("step[DECODE of another form", "SGLang"),
        ("[Executor] _forward_step of another form", "TensorRT-LLM"),
    ],
)
def test_an_unknown_form_of_a_known_server_is_named(name: str, framework: str) -> None:
    found = notices(iterations(DECODE, name, name))["server_steps_unread"]
    assert framework in found.text and "TORCH_TRACE_STEPS" in found.todo
    values = {f.metric.key: f.value for f in found.figures}
    assert values["unread_mark"] == name and 1 in values.values()


def test_a_server_without_marks_is_not_told_to_call_the_profiler() -> None:
    served = notices(trace().op("vllm::unified_attention", 0, 10).launches(kernel("k", 10, 20)))["steps_missing"]
    assert "prof.step" not in served.todo and "TORCH_TRACE_STEPS" in served.todo
    trained = notices(trace().op("aten::mm", 0, 10).launches(kernel("k", 10, 20)))["steps_missing"]
    assert "prof.step" in trained.todo
