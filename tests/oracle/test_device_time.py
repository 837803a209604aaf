"""Numbers of ../shared/oracle/device_time.json: an independent script's, on every real trace of the corpus."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders import facts, rows
from tests.conftest import SHARED, loaded

ORACLE = SHARED / "oracle" / "device_time.json"
EXPECTED: dict[str, Any] = json.loads(ORACLE.read_text()) if ORACLE.is_file() else {"(no corpus at ../shared)": None}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_device_time(name: str) -> None:
    expected = EXPECTED[name]
    if expected is None:
        pytest.skip("no corpus of real traces at ../shared (it is not part of the repository)")
    table = loaded(f"{SHARED.name}/{name}")
    assert table.report.complete and not table.report.events_dropped
    found = facts(table)
    assert {key: found[f"trace.{key}"] for key in ("cpu_ops", "runtime_calls", "python_functions")} == {
        key: expected[key] for key in ("cpu_ops", "runtime_calls", "python_functions")
    }
    operators = {row["name"]: row for row in rows(table, "operators")}
    for operator, calls in expected["top_ops_by_calls"]:
        # Old traces wrote annotations with the category of operators; here they are no operators.
        assert operators.get(operator, {"calls": calls})["calls"] == calls, operator
    device_self = expected["operator_device_self_ns"]
    assert {operator: operators[operator]["device_self_ns"] for operator in device_self} == device_self
    kernels = {row["name"]: row for row in rows(table, "kernels")}
    statistics = ("calls", "total_ns", "min_ns", "max_ns")
    listed = expected["kernels_count_total_min_max_ns"]
    assert {kernel: [kernels[kernel][key] for key in statistics] for kernel in listed} == listed
    assert {key.split(".")[1] for key in found if key.startswith("device.")} == set(expected["devices"])
    for device, numbers in expected["devices"].items():
        ours = {key: found[f"device.{device}.{key}"] for key in ("window_ns", "busy_ns", "idle_ns")}
        ours["idle_ns"] += found.get(f"device.{device}.unrecorded_ns", 0)  # the oracle knows recorded work alone
        assert ours == {key: numbers[key] for key in ours}
        counts = {kind: found[f"device.{device}.{kind}s"] for kind in ("kernel", "memcpy", "memset")}
        assert counts == {kind: numbers["counts"].get(kind, 0) for kind in counts}
