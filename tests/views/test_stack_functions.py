"""Functions of stacks, and notes about frames without calls."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.flame.nodes import FlameGraph
from tb_plugin.errors import NotFoundError
from tb_plugin.model.trace.table import TraceTable
from tests.builders import kernel, part, trace
from tests.conftest import SAMPLE_FILES, sample
from tests.megengine.test_timeline import called, operator, span, table
from tests.views.test_stacks import paths, places


def functions(table: TraceTable, **extra: str) -> dict[str, dict[str, Any]]:
    found = part(table, "stacks", extra=tuple(extra.items())).frames["functions"].data.to_pylist()
    assert len({row["name"] for row in found}) == len(found)
    return {row["name"]: row for row in found}


def trees(table: TraceTable, function: str, **extra: str) -> tuple[Any, Any]:
    found = part(table, "stacks", extra=(("function", function), *extra.items()))
    return found.payloads["callers"], found.payloads["callees"]


def lines(tree: Any, key: str) -> list[tuple[str, int]]:
    """Paths of a tree and a number of each, in microseconds."""
    texts: list[str] = []
    for row, above in zip(tree.rows, tree.parent, strict=True):
        texts.append(row["name"] if above < 0 else f"{texts[above]}<{row['name']}")
    return [(text, row[key] // 1000) for text, row in zip(texts, tree.rows, strict=True)]


def recursive() -> TraceTable:
    """walk > walk > leaf, and leaf from main; another walk from other."""
    builder = trace().python("main", 0, 100).python("walk", 10, 40).python("walk", 15, 30).python("leaf", 20, 10)
    builder.op("aten::mm", 22, 4).launches(kernel("k", 7)).python("leaf", 60, 5)
    return builder.python("other", 70, 20).python("walk", 75, 10).table()


@pytest.mark.parametrize(
    ("weight", "found"), [("host", ("train.py(3): fit", 90_000)), ("device", ("net.py(5): run", 7_000))]
)
def test_the_answer_is_the_user_function_with_the_library_code_that_it_calls(
    weight: str, found: tuple[str, int]
) -> None:
    builder = trace().python("train.py(3): fit", 0, 100).python("torch/optim/adam.py(9): step", 10, 60)
    builder.python("net.py(5): run", 80, 10).python("torch/nn/modules/linear.py(7): forward", 81, 8)
    table = builder.op("aten::mm", 82, 4).launches(kernel("k", 7)).table()
    payloads: Any = part(table, "stacks", extra=(("weight", weight),)).payloads
    (notice,) = payloads["answer"].notices
    name, time, _ = (figure.value for figure in notice.figures)
    assert (name, time) == found and "with library code" in notice.text


def test_without_user_code_the_answer_is_any_function() -> None:
    payloads: Any = part(trace().op("aten::mm", 0, 4).op("aten::add", 5, 9).table(), "stacks").payloads
    assert "Your own code was not recorded" in payloads["answer"].notices[0].text
    assert payloads["answer"].notices[0].figures[0].value == "aten::add"


def test_recursion_counts_once() -> None:
    found = functions(recursive())
    assert [
        (name, row["calls"], row["function_host_self_ns"] // 1000, row["function_host_ns"] // 1000, row["function_device_ns"])
        for name, row in found.items()
    ] == [
        ("walk", 3, 40, 50, 7_000), ("main", 1, 35, 100, 7_000), ("leaf", 2, 11, 15, 7_000), ("other", 1, 10, 20, 0),
        ("aten::mm", 1, 4, 4, 7_000), ("cudaLaunchKernel", 1, 0, 0, 0),
    ]  # fmt: skip


def test_backward_time_stands_beside_the_forward_time_of_the_function() -> None:
    """The engine's thread runs 30 and 8 of the host, and 25 of the device, for what layer and main did."""
    builder = trace().python("main", 0, 100).python("layer", 5, 20).op("aten::mm", 7, 6, sequence=1)
    builder.launches(kernel("mm", 4, 14)).op("aten::relu", 40, 5, sequence=2)
    for name, at, dur, sequence in (("ReluBackward0", 50, 8, 2), ("MmBackward0", 60, 30, 1)):
        builder.op(f"autograd::engine::evaluate_function: {name}", at, dur, tid=2, sequence=sequence, forward_thread=1)
    table = builder.launches(kernel("mm_backward", 25, 70)).op("OtherBackward0", 95, 2, tid=2).table()
    found = functions(table)
    times = {name: (row["backward_host_ns"] // 1000, row["backward_device_ns"] // 1000) for name, row in found.items()}
    assert {name: times[name] for name in ("main", "layer", "aten::mm", "aten::relu")} == {
        "main": (38, 25), "layer": (30, 25), "aten::mm": (30, 25), "aten::relu": (8, 0),
    }  # fmt: skip
    assert functions(table, of="python")["layer"]["backward_host_ns"] == 30_000
    assert found["layer"]["function_device_ns"] == 4_000, "forward alone"


def test_who_called_a_function_and_whom_it_called() -> None:
    callers, callees = trees(recursive(), "walk")
    assert lines(callers, "caller_host_ns") == [
        ("walk", 50), ("walk<main", 40), ("walk<other", 10), ("walk<other<main", 10),
    ]  # fmt: skip
    assert [row["caller_calls"] for row in callers.rows] == [2, 1, 1, 1]
    assert lines(callees, "host_ns") == [
        ("walk", 50), ("walk<walk", 30), ("walk<walk<leaf", 10), ("walk<walk<leaf<aten::mm", 4),
    ]  # fmt: skip
    callers, callees = trees(recursive(), "leaf", weight="device")
    assert [row["caller_device_ns"] for row in callers.rows] == [7_000] * 4, "leaf, walk, walk, main"
    assert callees.value_columns == ["device_ns"] and callers.value_columns == ["caller_device_ns"]


def test_a_function_that_there_is_not_is_said() -> None:
    for name in ("nobody", "<b>"):
        with pytest.raises(NotFoundError, match="No frame is called"):
            trees(recursive(), name)


def recount(found: FlameGraph) -> tuple[dict[str, int], dict[str, int]]:
    """Own and total host time by name, one place at a time."""
    own: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    around: list[set[str]] = []
    for name, above, mine, whole in zip(
        found.name, found.parent.tolist(), found.host_ns.tolist(), found.host_total_ns.tolist(), strict=True
    ):
        names = around[above] if above >= 0 else set()
        around.append(names | {name})
        own[name] += mine
        total[name] += 0 if name in names else whole
    return own, total


def check(table: TraceTable) -> None:
    found = places(table)
    own, total = recount(found)
    rows = functions(table)
    timed = {name: row for name, row in rows.items() if row["function_host_ns"]}
    assert {name: row["function_host_self_ns"] for name, row in timed.items()} == own
    assert {name: row["function_host_ns"] for name, row in timed.items()} == total
    assert sum(own.values()) == found.host_ns.sum()
    texts = paths(found)
    for name in sorted(timed, key=lambda name: -total[name])[:6]:
        callers, callees = trees(table, name)
        assert callers.rows[0]["caller_host_ns"] == callees.rows[0]["host_ns"] == total[name]
        if callees.total_nodes == len(callees.rows):
            assert sum(row["host_own_ns"] for row in callees.rows) == total[name]
        direct: dict[str, int] = defaultdict(int)
        for place, text in enumerate(texts):
            if found.name[place] == name and name not in text.split(";")[:-1] and found.parent[place] >= 0:
                direct[found.name[found.parent[place]]] += int(found.host_total_ns[place])
        sent = {row["name"]: 0 for row, above in zip(callers.rows, callers.parent, strict=True) if above == 0}
        for row, above in zip(callers.rows, callers.parent, strict=True):
            if above == 0:
                sent[row["name"]] += row["caller_host_ns"]
        assert {k: v for k, v in direct.items() if v} == sent


calls = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 15), st.sampled_from("fgh")), max_size=15
)


@given(calls)
def test_any_functions_recounted(some: list[tuple[int, int, int, str]]) -> None:
    builder = trace()
    for which, at, dur, name in some:
        match which:
            case 0:
                builder.python(name, at, dur)
            case 1:
                builder.op(name, at, dur)
            case _:
                builder.annotation(name, at, dur)
    check(builder.table())


@pytest.mark.parametrize(
    "name", [n for n in SAMPLE_FILES if n.startswith(("transformer", "synthetic_gpu", "resnet_cpu"))]
)
def test_functions_of_a_sample_recounted(name: str) -> None:
    check(sample(name))


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
