"""Every number of samples and of real traces, against an independent slow count from the file."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.builders import facts, rows
from tests.conftest import REPO, SHARED, UNLIKE, loaded
from tests.depth import sampled
from tests.oracle.recount import Recount, recount
from tests.samples import OURS

REAL = [
    "hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "hta/nccl_parser_config/nccl_data.json.gz",
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta/critical_path/simple_add/benchmark_result_493459_1694039959_trace.json.gz",
    "tracelens/mi300/resnet_act_checkpoint.json.gz",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/mi210/gpu_only_trace.json.gz",
    "kineto/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "torch213/with_modules_eager.pt.trace.json.gz",
]
KINETO = [sample.name for sample in OURS if sample.reader.id == "kineto"]
SAMPLE_PATHS = [f"{REPO.name}/samples/{name}" for name in sampled(KINETO, [name for name in KINETO if name in UNLIKE])]
REPLAYED = "samples/synthetic_graphs/"
"""Operators of its capture stand behind its replays: tests/views/test_replayed_truth.py has their numbers."""
SHARED_PATHS = [f"{SHARED.name}/data/{name}" for name in REAL]


@functools.lru_cache(maxsize=2)
def counted(path: str) -> Recount:
    return recount(REPO.parent / path)


@pytest.fixture(scope="module", params=SAMPLE_PATHS + SHARED_PATHS)
def path(request: pytest.FixtureRequest) -> str:
    if not Path(REPO.parent / request.param).is_file():
        pytest.skip("no corpus of real traces at ../shared (it is not part of the repository)")
    return str(request.param)


def assert_rows(found: list[dict[str, Any]], key: str, expected: dict[str, dict[str, Any]]) -> None:
    """The same rows, equal in every column that both have; columns we leave out must be 0 everywhere."""
    ours = {row[key]: row for row in found}
    assert len(ours) == len(found) and ours.keys() == expected.keys()
    for name, columns in expected.items():
        got = {column: ours[name].get(column, 0) for column in columns}
        assert got == pytest.approx(columns, rel=1e-12, abs=0), name


def of_this_trace(path: str) -> None:
    if REPLAYED in path:
        pytest.skip("operators of its capture stand behind its replays")


def test_counts(path: str) -> None:
    found = facts(loaded(path))
    assert {key: found[key] for key in counted(path).counts} == counted(path).counts


def test_device_partition(path: str) -> None:
    of_this_trace(path)
    found, devices = facts(loaded(path)), counted(path).devices
    assert {key.split(".")[1] for key in found if key.startswith("device.")} == devices.keys()
    for device, expected in devices.items():
        assert {key: found[f"device.{device}.{key}"] for key in expected} == expected


def test_step_breakdown(path: str) -> None:
    assert_rows(rows(loaded(path), "overview", "steps"), "step", counted(path).steps)


def test_operators(path: str) -> None:
    of_this_trace(path)
    assert_rows(rows(loaded(path), "operators"), "name", counted(path).operators)


def test_kernels(path: str) -> None:
    assert_rows(rows(loaded(path), "kernels"), "name", counted(path).kernels)


def test_modules(path: str) -> None:
    of_this_trace(path)
    columns = [
        "calls", "host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "backward_device_self_ns",
        "backward_device_total_ns", "backward_host_total_ns", "operators",
    ]  # fmt: skip
    ours = Counter((r["module"], *(r.get(c, 0) for c in columns)) for r in rows(loaded(path), "modules"))
    expected = counted(path).modules
    assert ours == Counter((name.rpartition("|")[0], *(row[c] for c in columns)) for name, row in expected.items())
