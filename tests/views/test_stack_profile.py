"""The page of a file of stacks: the numbers of the Stacks page, in the units of the file."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.payloads import Tree
from tb_plugin.views.stack_profile.view import StackProfileAnalysis
from tests.stack_profiles import samples_of, speedscope, stack_profile

TEXT = "main;load 30\nmain;step;mm 10\nmain;step 5\nmain;step;step;mm 3\nother;mm 1\n"


def part(text: Any = TEXT, name: str = "x.folded", **extra: str) -> Any:
    return StackProfileAnalysis().part(stack_profile(text, name), Params(extra=tuple(extra.items())))


def functions(found: Any) -> dict[str, tuple[int, int]]:
    rows = found.frames["functions"].data.to_pylist()
    key = next(key for key in rows[0] if key.startswith("stack_self_"))
    return {row["name"]: (row[key], row[key.replace("_self", "")]) for row in rows}


def test_functions_and_places() -> None:
    found = part()
    # Where a function calls itself the outermost call counts.
    assert functions(found) == {"load": (30, 30), "mm": (14, 14), "step": (5, 18), "main": (0, 48), "other": (0, 1)}
    tree = found.payloads["stacks"]
    assert isinstance(tree, Tree) and tree.value_columns == ["stack_value"]
    assert [(row["name"], row["stack_value"], row["stack_self_value"]) for row in tree.rows][:4] == [
        ("main", 48, 0), ("load", 30, 30), ("step", 18, 5), ("mm", 10, 10),
    ]  # fmt: skip
    assert found.facts == {"stacks.total_value": 49, "stacks.functions": 5, "stacks.listed": 5}
    rules = [notice.rule for notice in found.payloads["answer"].notices]
    assert rules == ["stacks_most", "stacks_unit"]


def test_callers_and_callees() -> None:
    found = part(function="mm")
    callers = [(row["name"], row["stack_value"]) for row in found.payloads["callers"].rows]
    assert callers == [("mm", 14), ("step", 13), ("main", 10), ("step", 3), ("main", 3), ("other", 1)]
    callees = part(function="step").payloads["callees"].rows
    assert [(row["name"], row["stack_value"]) for row in callees] == [("step", 18), ("mm", 10), ("step", 3), ("mm", 3)]
    with pytest.raises(NotFoundError):
        part(function="nobody")


@pytest.mark.parametrize(
    ("content", "name", "unit", "key"),
    [
        (TEXT, "w.self_cpu_time_total.txt", "ns", "stack_ns"),
        (speedscope(["a"], samples_of([[0]], [5], "bytes")), "p.json", "bytes", "stack_bytes"),
        (speedscope(["a"], samples_of([[0]], [5], "none")), "p.json", "count", "stack_samples"),
        (TEXT, "x.folded", "count", "stack_value"),
    ],
)
def test_numbers_have_the_unit_of_the_file(content: Any, name: str, unit: str, key: str) -> None:
    found = part(content, name)
    columns = {column.metric.key: column.metric.unit for column in found.payloads["stacks"].columns}
    assert columns[key] == unit and "calls" not in columns and "host_ns" not in columns
    assert ("stacks_unit" in [notice.rule for notice in found.payloads["answer"].notices]) is (key == "stack_value")


def test_profiles_of_a_file_are_apart_when_asked_for() -> None:
    document = speedscope(
        ["a", "b"], samples_of([[0, 1]], [5], name="one"), samples_of([[0], [0, 1]], [1, 2], name="two")
    )
    assert functions(part(document, "p.json")) == {"a": (1, 8), "b": (7, 7)}
    assert functions(part(document, "p.json", thread="1")) == {"b": (2, 2), "a": (1, 3)}
    rows = part(document, "p.json").frames["stack_threads"].data.to_pylist()
    assert [tuple(row.values()) for row in rows] == [("one", "0", 5), ("two", "1", 3)]
    with pytest.raises(BadRequest):
        part(document, "p.json", thread="2")
