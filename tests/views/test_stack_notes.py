"""What the page of stacks says of its numbers: frames without calls."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.model.trace.table import TraceTable
from tests.builders import part, trace
from tests.conftest import sample
from tests.megengine.test_timeline import called, operator, span, table

WHERE = "Python Backtrace: train.py , line 61, in main\n"


def notes(table: TraceTable, **choice: str) -> set[str]:
    found: Any = part(table, "stacks", extra=tuple(choice.items())).payloads.get("data_quality")
    return {each.rule for each in found.notices} if found else set()


def test_frames_of_backtraces_are_said_to_count_no_calls() -> None:
    calls = (called("worker", 0), called("interpreter", 1), *span("fc", 5, 60), *operator("A", 1, 70))
    recorded = table(*calls, *span("TensorWaitProp", 41, 90, tid=1, python_backtrace=WHERE))
    assert notes(recorded) == notes(recorded, of="python") == {"backtrace_frames"}
    assert not notes(recorded, of="operators")
    assert not notes(table(*calls))


@pytest.mark.parametrize(
    "name", ["resnet_cpu/worker0.1795200788569794381.pt.trace.json.gz", "viztracer_cpu/result.json.gz"]
)
def test_other_traces_have_no_such_note(name: str) -> None:
    assert not notes(sample(name))


def test_a_function_and_a_range_of_one_name_on_one_thread_need_no_note() -> None:
    assert not notes(trace().python("train", 0, 90).annotation("train", 10, 50).op("aten::mm", 20, 5).table())
