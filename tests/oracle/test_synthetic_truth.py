"""The synthetic samples, whose right answers are known by construction: equal to the nanosecond."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders import facts, rows
from tests.conftest import SAMPLES, sample

Json = dict[str, Any]
DIFFERENT_WORDS = {"compute_exposed_ns": "compute_ns"} | {
    f"{kind}_exposed_ns": f"exposed_{kind}_ns" for kind in ("communication", "memcpy", "memset")
}


def workers() -> list[tuple[str, Json]]:
    found = []
    for path in sorted((SAMPLES / "truth").glob("*.json")):
        truth = json.loads(path.read_text())
        if "workers" not in truth or path.stem in ("synthetic_ascend", "synthetic_megengine"):
            continue  # other programs, with other truths and tests of their own
        listed = truth["workers"]
        items = listed.items() if isinstance(listed, dict) else ((f"rank{w['rank']}", w) for w in listed)
        for worker, numbers in items:
            (file,) = (SAMPLES / path.stem).glob(f"{worker}.*")
            found.append((f"{path.stem}/{file.name}", numbers))
    return found


@pytest.fixture(scope="module", params=workers(), ids=lambda w: w[0].split(".")[0])
def worker(request: pytest.FixtureRequest) -> tuple[str, Json]:
    return request.param  # type: ignore[no-any-return]


def test_counts(worker: tuple[str, Json]) -> None:
    name, truth = worker
    found = facts(sample(name))
    assert [found[f"trace.{key}"] for key in ("cpu_ops", "python_functions", "runtime_calls", "memory_events")] == [
        truth["counts"][key] for key in ("cpu_ops", "python_functions", "runtime_calls", "memory_events")
    ]


def test_devices(worker: tuple[str, Json]) -> None:
    name, truth = worker
    found = facts(sample(name))
    for device, numbers in truth["devices"].items():
        expected = {
            DIFFERENT_WORDS.get(k, k): v
            for k, v in numbers.items()
            if k not in ("window_start_ns", "communication_kernels")
        }
        assert {key: found[f"device.{device}.{key}"] for key in expected} == expected
    assert found["trace.no_operator_ns"] == truth["device_self_without_operator_ns"]


def test_steps(worker: tuple[str, Json]) -> None:
    name, truth = worker
    steps = sample(name).steps
    assert [f"ProfilerStep#{label}" for label in steps.label] == [step["name"] for step in truth["steps"]]
    host = (steps.host_end_ns - steps.host_start_ns).tolist()
    assert host == [step["dur_ns"] for step in truth["steps"]]


def test_operators(worker: tuple[str, Json]) -> None:
    name, truth = worker
    found = {r["name"]: r for r in rows(sample(name), "operators")}
    assert found.keys() - {"(no operator)"} == truth["operators"].keys()
    for operator, numbers in truth["operators"].items():
        expected = {key: numbers[key] for key in ("calls", "host_total_ns", "device_self_ns", "device_total_ns")}
        # The truth counts runtime calls as the operator's own time; here they are nested events.
        expected["host_self_ns"] = numbers["host_self_ns"] - numbers["host_runtime_ns"]
        assert {key: found[operator][key] for key in expected} == expected, operator
    device_self = {n: r["device_self_ns"] for n, r in found.items() if r["device_self_ns"]}
    assert device_self == truth["device_self_by_operator_ns"]


def test_modules(worker: tuple[str, Json]) -> None:
    name, truth = worker
    found = {r["module"]: r for r in rows(sample(name), "modules")}
    assert found.keys() == truth["modules"].keys()
    for module, numbers in truth["modules"].items():
        row = found[module]
        assert (row["calls"], row["host_total_ns"]) == (numbers["calls"], numbers["host_total_ns"])
        assert row["device_total_ns"] == numbers["forward_device_ns"], module
        assert row["backward_device_total_ns"] == numbers["backward_device_ns"], module


def test_kernels(worker: tuple[str, Json]) -> None:
    name, truth = worker
    found = {r["name"]: {"calls": r["calls"], "total_ns": r["total_ns"]} for r in rows(sample(name), "kernels")}
    assert found == truth["kernels_by_name"]


def test_collectives(worker: tuple[str, Json]) -> None:
    name, truth = worker
    table = sample(name)
    kernels = table.is_collective & (table.launch >= 0)
    assert table.dur_ns[kernels].tolist() == [c["dur_ns"] for c in truth["collectives"] if c["recorded"]]
