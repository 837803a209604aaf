"""The synthetic samples, whose right answers are known by construction: equal to the nanosecond."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tb_plugin.model.trace.table import TraceTable
from tests import synthetic
from tests.builders import facts, model, rows
from tests.conftest import SAMPLES, sample

Json = dict[str, Any]
DIFFERENT_WORDS = {"compute_exposed_ns": "compute_ns"} | {
    f"{kind}_exposed_ns": f"exposed_{kind}_ns" for kind in ("communication", "memcpy", "memset")
}


INVENTED = {
    "one stream": synthetic.Config(steps=2, streams=1, seed=3),
    "four streams": synthetic.Config(steps=2, streams=4, seed=4),
    "rocm": synthetic.Config(steps=2, streams=3, arch="rocm", seed=5),
}
"""What no sample has."""


def samples() -> list[tuple[str, Json | None]]:
    found: list[tuple[str, Json | None]] = [(name, None) for name in INVENTED]
    for path in sorted((SAMPLES / "truth").glob("*.json")):
        truth = json.loads(path.read_text())
        if "workers" not in truth or path.stem in ("synthetic_ascend", "synthetic_megengine"):
            continue  # other programs, with other truths and tests of their own
        for worker, numbers in truth["workers"].items():
            (file,) = (SAMPLES / path.stem).glob(f"{worker}.*")
            found.append((f"{path.stem}/{file.name}", numbers))
    return found


@pytest.fixture(scope="module", params=samples(), ids=lambda w: w[0].split(".")[0])
def worker(request: pytest.FixtureRequest) -> tuple[TraceTable, Json]:
    name, truth = request.param
    if truth is not None:
        return sample(name), truth
    (invented,) = synthetic.generate(INVENTED[name])
    return model("".join(invented.text()).encode()), invented.truth


def test_counts(worker: tuple[TraceTable, Json]) -> None:
    table, truth = worker
    found = facts(table)
    assert [found[f"trace.{key}"] for key in ("cpu_ops", "python_functions", "runtime_calls", "memory_events")] == [
        truth["counts"][key] for key in ("cpu_ops", "python_functions", "runtime_calls", "memory_events")
    ]


def test_devices(worker: tuple[TraceTable, Json]) -> None:
    table, truth = worker
    found = facts(table)
    for device, numbers in truth["devices"].items():
        expected = {
            DIFFERENT_WORDS.get(k, k): v
            for k, v in numbers.items()
            if k not in ("window_start_ns", "communication_kernels")
        }
        assert {key: found[f"device.{device}.{key}"] for key in expected} == expected
    assert found["trace.no_operator_ns"] == truth["device_self_without_operator_ns"]


def test_steps(worker: tuple[TraceTable, Json]) -> None:
    table, truth = worker
    steps = table.steps
    assert [f"ProfilerStep#{label}" for label in steps.label] == [step["name"] for step in truth["steps"]]
    host = (steps.host_end_ns - steps.host_start_ns).tolist()
    assert host == [step["dur_ns"] for step in truth["steps"]]


def test_operators(worker: tuple[TraceTable, Json]) -> None:
    table, truth = worker
    found = {r["name"]: r for r in rows(table, "operators")}
    assert found.keys() - {"(no operator)"} == truth["operators"].keys()
    for operator, numbers in truth["operators"].items():
        expected = {key: numbers[key] for key in ("calls", "host_total_ns", "device_self_ns", "device_total_ns")}
        # The truth counts runtime calls as the operator's own time; here they are nested events.
        expected["host_self_ns"] = numbers["host_self_ns"] - numbers["host_runtime_ns"]
        assert {key: found[operator][key] for key in expected} == expected, operator
    device_self = {n: r["device_self_ns"] for n, r in found.items() if r["device_self_ns"]}
    assert device_self == truth["device_self_by_operator_ns"]


def test_modules(worker: tuple[TraceTable, Json]) -> None:
    table, truth = worker
    found = {r["module"]: r for r in rows(table, "modules")}
    assert found.keys() == truth["modules"].keys()
    for module, numbers in truth["modules"].items():
        row = found[module]
        assert (row["calls"], row["host_total_ns"]) == (numbers["calls"], numbers["host_total_ns"])
        assert row["device_total_ns"] == numbers["forward_device_ns"], module
        assert row["backward_device_total_ns"] == numbers["backward_device_ns"], module


def test_kernels(worker: tuple[TraceTable, Json]) -> None:
    table, truth = worker
    found = {r["name"]: {"calls": r["calls"], "total_ns": r["total_ns"]} for r in rows(table, "kernels")}
    assert found == truth["kernels_by_name"]


def test_collectives(worker: tuple[TraceTable, Json]) -> None:
    table, truth = worker
    kernels = table.is_collective & (table.launch >= 0)
    assert table.dur_ns[kernels].tolist() == [c["dur_ns"] for c in truth["collectives"] if c["recorded"]]
