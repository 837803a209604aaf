"""What torch-tb-profiler 0.4.3 answers for its own four sample traces (V100), equal up to its rounding.

Columns of a step: Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU, Other, Total, in microseconds.
"""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules import matrix_units
from tb_plugin.rules._base import Scene
from tb_plugin.rules.matrix_units import matrix_eligible
from tests.builders import facts, part, row, rows
from tests.conftest import SHARED, loaded, needs_shared

pytestmark = needs_shared

NW0 = "resnet50_num_workers_0/worker0.1623143089861"
NW0_LATER = "resnet50_num_workers_0/worker0.1623143566756"
NW4 = "resnet50_num_workers_4/worker0.1623212756351"
NW4_LATER = "resnet50_num_workers_4/worker0.1623213129365"
COSTS = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu", "other", "total")

STEPS = {
    NW0: {
        "5": (98598, 1941, 90, 0, 2796, 69317, 14091, 1115, 187948),
        "6": (98570, 1947, 89, 0, 2762, 57669, 12968, 1148, 175153),
        "7": (98596, 1931, 91, 0, 2877, 61257, 13768, 1213, 179733),
        "8": (98623, 1938, 89, 0, 2841, 56453, 13420, 1200, 174564),
        "9": (98504, 1937, 87, 0, 2788, 62690, 15025, 1141, 182172),
        "10": (98641, 1798, 88, 0, 3381, 48185, 12773, 1117, 165983),
    },
    NW4: {
        "5": (99778, 3606, 98, 0, 41028, 4341, 27460, 5995, 182306),
        "6": (99208, 2948, 98, 0, 3406, 0, 16404, 4119, 126183),
        "7": (99114, 2949, 98, 0, 3417, 6, 19521, 2076, 127181),
        "8": (99021, 2975, 97, 0, 3544, 0, 15464, 1978, 123079),
        "9": (98791, 3596, 97, 0, 8275, 1370, 43905, 7427, 163461),
        "10": (98956, 2885, 98, 0, 3714, 1400, 13235, 3910, 124198),
    },
}
TOTALS = {
    NW0_LATER: (171772, 149553, 149803, 149532, 154343, 154465),
    NW4_LATER: (170134, 122520, 123217, 118625, 119738, 202617),
}
RATIOS = {  # utilization, SM efficiency, occupancy in percent, eligible ratio
    NW0: (0.5551408517455255, 0.546790410706937, 49.128004909286396, 0.6761950325595234),
    NW0_LATER: (0.6360724629573046, 0.6265097480494307, 49.135551048783086, 0.6761517500579322),
    NW4: (0.7027034689359772, 0.6922497791013418, 48.90989093378699, 0.6780798429231358),
    NW4_LATER: (0.6935429847196304, 0.6832225935431112, 48.914377977427506, 0.6777251822846113),
}


def table(name: str) -> TraceTable:
    return loaded(f"{SHARED.name}/data/kineto/{name}.pt.trace.json.gz")


def steps(name: str) -> dict[str, tuple[float, ...]]:
    found = rows(table(name), "overview", "steps")
    return {step["step"]: tuple(step[f"{c}_ns"] / 1000 for c in COSTS) for step in found}


@pytest.mark.parametrize("name", STEPS)
def test_steps(name: str) -> None:
    assert steps(name) == STEPS[name]


@pytest.mark.parametrize("name", TOTALS)
def test_totals(name: str) -> None:
    assert tuple(costs[-1] for costs in steps(name).values()) == TOTALS[name]


def test_mean_step() -> None:
    found = facts(table(NW0))
    assert round(found["overview.step_time_mean_ns"] / 1000) == 177592
    assert found["overview.breakdown.kernel_mean_ns"] / found["overview.step_time_mean_ns"] == pytest.approx(
        0.5551, abs=5e-5
    )
    assert found["overview.breakdown.dataloader_mean_ns"] / found["overview.step_time_mean_ns"] == pytest.approx(
        0.3337, abs=5e-5
    )


@pytest.mark.parametrize("name", RATIOS)
def test_ratios(name: str) -> None:
    utilization, sm_efficiency, occupancy, eligible = RATIOS[name]
    found = facts(table(name))
    assert found["device.0.utilization"] == pytest.approx(utilization, rel=1e-12)
    assert found["device.0.sm_efficiency"] == pytest.approx(sm_efficiency, rel=1e-9)
    assert found["device.0.occupancy"] * 100 == pytest.approx(occupancy, rel=1e-9)
    assert found["device.0.tensor_core_ratio"] == 0
    assert matrix_eligible(table(name)).ratio == pytest.approx(eligible, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "operators", "by_shape", "kernels", "by_launch", "stack_names"),
    [(NW0, 76, 577, 67, 226, 52), (NW4, 69, 559, 62, 222, 44)],
)
def test_row_counts(name: str, operators: int, by_shape: int, kernels: int, by_launch: int, stack_names: int) -> None:
    found = [r for r in rows(table(name), "operators") if r["name"] != "(no operator)"]
    assert len(found) == operators
    assert sum(r["has_stack"] for r in found) == stack_names
    assert (
        len([r for r in rows(table(name), "operators", "operators_by_shape") if r["name"] != "(no operator)"])
        == by_shape
    )
    assert len(rows(table(name), "kernels")) == kernels
    assert len(rows(table(name), "kernels", "kernels_by_launch")) == by_launch


@pytest.mark.parametrize(
    ("name", "calls", "device", "host_self", "host_total"),
    [
        ("aten::cudnn_convolution_backward_weight", 318, 142461, 22804, 40246),
        ("aten::cudnn_convolution_backward_input", 312, 130967, 29324, 41445),
        ("aten::cudnn_convolution", 318, 126619, 33121, 56998),
        ("aten::cudnn_batch_norm_backward", 318, 61939, 12238, 30460),
    ],
)
def test_operators(name: str, calls: int, device: int, host_self: int, host_total: int) -> None:
    found = row(table(NW0), "operators", name=name)
    times = ("device_self_ns", "device_total_ns", "host_self_ns", "host_total_ns")
    assert (found["calls"], *(found[t] // 1000 for t in times)) == (calls, device, device, host_self, host_total)


@pytest.mark.parametrize(
    ("part_of_name", "expected"),
    [
        ("dgrad_engine<float, 512", (162, 80756, 498, 1017, 323, 42.25, 29.97)),
        ("wgrad_alg0_engine", (156, 66472, 426, 745, 345, 9.78, 38.0)),
        ("bn_bw_1C11", (264, 59642, 226, 915, 45, 4.34, 67.98)),
    ],
)
def test_kernels(part_of_name: str, expected: tuple[Any, ...]) -> None:
    found = next(r for r in rows(table(NW0), "kernels") if part_of_name in r["name"])
    assert (
        found["calls"],
        found["total_ns"] // 1000,
        round(found["mean_ns"] / 1000),
        found["max_ns"] // 1000,
        found["min_ns"] // 1000,
        round(found["mean_blocks_per_sm"], 2),
        round(found["mean_occupancy"] * 100, 2),
    ) == expected


def test_recommendations() -> None:
    def rules(name: str) -> dict[str, float]:
        notices: Any = part(table(name), "overview").payloads["findings"]
        return {notice.rule: notice.figures[0].value for notice in notices.notices}

    assert rules(NW0).keys() >= {"data_loading", "matrix_units"}
    assert rules(NW0)["data_loading"] == pytest.approx(0.334, abs=5e-4)
    assert rules(NW0)["matrix_units"] == pytest.approx(0.68, abs=5e-3)
    assert "data_loading" not in rules(NW4)
    # That plugin advises it there as well; but the steps wait for the host, and would be 1 % shorter.
    assert matrix_units.RULE.look(Scene(table(NW4))) is not None and "matrix_units" not in rules(NW4)
