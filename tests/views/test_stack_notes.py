"""What the page of stacks says of its numbers: frames of several threads that are one place, and frames without calls."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.model.trace.table import TraceTable
from tests.builders import part, trace
from tests.conftest import sample
from tests.megengine.test_timeline import called, operator, span, table

WHERE = "Python Backtrace: train.py , line 61, in main\n"


def notes(table: TraceTable, **choice: str) -> dict[str, dict[str, Any]]:
    """The figures of each note."""
    found: Any = part(table, "stacks", extra=tuple(choice.items())).payloads.get("data_quality")
    return {each.rule: {f.metric.key: f.value for f in each.figures} for each in found.notices} if found else {}


def of_megengine(*, scopes: bool = True, backtrace: bool = False) -> TraceTable:
    scope = [*span("fc", 0, 40, tid=1), *span("fc", 5, 60)] if scopes else span("fc", 5, 60)
    stated = {"python_backtrace": WHERE} if backtrace else {}
    return table(
        called("worker", 0), called("interpreter", 1), *scope, *operator("A", 1, 70),
        *span("TensorWaitProp", 41, 90, tid=1, **stated),
    )  # fmt: skip


def test_scopes_of_two_threads_are_said_to_be_one_place() -> None:
    expected = {"shared_scopes": 1, "shared_threads": "interpreter", "counted_threads": "worker"}
    assert notes(of_megengine()) == {"shared_scopes": expected}
    assert notes(of_megengine(), of="python") == {"shared_scopes": expected}
    assert not notes(of_megengine(), of="operators"), "no scope is a frame"
    assert not notes(of_megengine(), thread="worker"), "one thread alone"
    assert not notes(of_megengine(scopes=False))


def test_frames_of_backtraces_are_said_to_count_no_calls() -> None:
    assert set(notes(of_megengine(scopes=False, backtrace=True))) == {"backtrace_frames"}
    assert set(notes(of_megengine(backtrace=True))) == {"shared_scopes", "backtrace_frames"}
    assert not notes(of_megengine(scopes=False, backtrace=True), of="operators")


@pytest.mark.parametrize(
    "name", ["resnet_cpu/worker0.1795200788569794381.pt.trace.json.gz", "viztracer_cpu/result.json.gz"]
)
def test_other_traces_have_no_such_note(name: str) -> None:
    assert not notes(sample(name))


def test_a_function_and_a_range_of_one_name_on_one_thread_need_no_note() -> None:
    assert not notes(trace().python("train", 0, 90).annotation("train", 10, 50).op("aten::mm", 20, 5).table())
