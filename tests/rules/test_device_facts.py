"""Findings about what only some profiles state of their kernels: planted in an invented one of NPUs, not told without."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from tb_plugin.model.trace.job_tables import PACKETS, as_reported_table, job_table
from tb_plugin.payloads import Notice
from tb_plugin.profilers import TORCH_NPU
from tb_plugin.rules._ordered_findings import Findings, findings_of
from tests.builders import kernel, part, trace
from tests.formats.ascend.folders import Files, table_of
from tests.synthetic_ascend import generator

RULES = ("fallback_cores", "conversions", "low_frequency", "memory_bound")
STEPS = 2
CORES = {"TransData", "Cast"}


@dataclass(frozen=True)
class Rank:
    """What a rank did, and what was found in its files."""

    process: Any
    findings: Findings

    @property
    def kernels(self) -> list[Any]:
        return [task for task in self.process.kernels if task.step is not None]

    def notice(self, rule: str) -> Notice | None:
        return next((each.notice for each in self.findings.all if each.rule.id == rule), None)

    def figures(self, rule: str) -> dict[str, Any]:
        notice = self.notice(rule)
        assert notice is not None
        return {figure.metric.key: figure.value for figure in notice.figures}


def told(process: Any) -> Rank:
    return Rank(process, findings_of(table_of(Files(generator.texts(process))), None))


@pytest.fixture(scope="module")
def ranks() -> list[Rank]:
    return [told(process) for process in generator.play(generator.Config(steps=STEPS))]


def summed(tasks: list[Any]) -> float:
    return sum(task.end_ns - task.start_ns for task in tasks) / STEPS


def test_kernels_on_fallback_cores(ranks: list[Rank]) -> None:
    for rank in ranks:
        planted = [task for task in rank.kernels if task.core == "AI_CPU"]
        assert rank.figures("fallback_cores") == {
            "fallback_kernels": len(planted) / STEPS,
            "fallback_core": "AI CPU",
            "fallback_ns": summed(planted),
            "fallback_operation": "NonZero",
            "fallback_operator": "aclnnNonzeroV2",
        }
        (found,) = [each for each in rank.findings.all if each.rule.id == "fallback_cores"]
        assert found.event_count == len(planted) == STEPS


def test_conversions(ranks: list[Rank]) -> None:
    for rank in ranks:
        planted = [task for task in rank.kernels if task.type in CORES]
        found = rank.figures("conversions")
        assert found["conversions"] == len(planted) / STEPS and found["conversions_ns"] == summed(planted)
        assert found["conversion_ratio"] == pytest.approx(summed(planted) / summed(rank.kernels))
        assert found["conversion_operation"] == "TransData"


def test_cores_below_their_frequency(ranks: list[Rank]) -> None:
    fast, slow = ranks
    assert fast.notice("low_frequency") is None
    (_, low, back) = slow.process.frequency
    meanwhile = [(max(task.start_ns, low[0]), min(task.end_ns, back[0])) for task in slow.kernels]
    ranges = generator.merged(each for each in meanwhile if each[0] < each[1])
    found = slow.figures("low_frequency")
    busy = generator.merged((task.start_ns, task.end_ns) for task in slow.kernels)
    length = sum(end - start for start, end in ranges)
    assert length > 0 and found["low_frequency_ns"] == length / STEPS
    assert found["low_frequency_ratio"] == pytest.approx(length / sum(end - start for start, end in busy))
    assert (found["lowest_hertz"], found["normal_hertz"]) == (1200e6, 1800e6)


def test_kernels_bound_by_memory(ranks: list[Rank]) -> None:
    for rank in ranks:
        planted = [task for task in rank.kernels if task.bound == "mte2"]
        found = rank.figures("memory_bound")
        assert found["memory_bound_kernels"] == len(planted) / STEPS and found["memory_bound_ns"] == summed(planted)
        assert found["memory_bound_operation"] == "ApplyAdamWV2"


PACKETS_OF = {
    "step": ["12", "12", "12", "12", "13"],
    "operation": ["send_1", "sum_2", "sum_3", "rdma_4", "send_5"],
    "band": ["HCCS", "HCCS", "PCIE", "RDMA", "HCCS"],
    "packet_bytes": [2_000_000, 16_000_000, 4096, 1, 3_000_000],
    "count": [1, 1, 8, 999, 1],
    "transit_ns": [100_000, 1_000_000, 20_000, 9_000_000, 180_000],
}  # fmt: skip


def packets(**columns: Any) -> dict[str, Any] | None:
    """What is found in two steps of a device that states these packets."""
    builder = trace().device(0, name="Ascend910B")
    for number, at in ((12, 0), (13, 100)):
        builder.step(number, at, 90).op("aten::mm", at, 9).launches(kernel("k", 20, at + 30))
    table = job_table(PACKETS, {**PACKETS_OF, **columns})
    notices = findings_of(replace(builder.table(), reported_tables=(as_reported_table(PACKETS, table),)), None).notices
    told = [notice for notice in notices if notice.rule == "small_packets"]
    return {figure.metric.key: figure.value for figure in told[0].figures} if told else None


def test_small_packets() -> None:
    """16 MB are large enough; RDMA is not what the maker speaks of; 300 of 1,300 us are of small ones."""
    assert packets() == {
        "small_packets": 5, "packet_links": "HCCS, PCIE", "large_packet_bytes": 16_000_000, "small_packets_ns": 150_000,
        "small_packets_ratio": pytest.approx(0.3 / 1.3), "packet_call": "sum_3", "most_packets": 8, "packet_bytes": 4096,
        "small_packets_rate": pytest.approx((2e6 + 8 * 4096 + 3e6) / 300e-6), "large_packets_rate": pytest.approx(16e9),
    }  # fmt: skip


def test_packets_of_other_steps_and_few_small_ones() -> None:
    only = packets(step=["12"] * 4 + ["14"])
    assert only is not None and only["small_packets_ns"] == 60_000 and only["small_packets"] == 4.5
    assert packets(transit_ns=[1_000, 1_000_000, 20_000, 0, 1_000]) is None
    assert packets(packet_bytes=[2**62] * 5, count=[2**62] * 5) is None
    assert packets(packet_bytes=[None] * 5) is None and packets(band=["RDMA"] * 5) is None


def test_advice_is_of_the_recorder(ranks: list[Rank]) -> None:
    """Every rule has something to say to people with NPUs, and none of it about what they do not have."""
    for rule in RULES:
        notice = ranks[1].notice(rule)
        assert notice is not None and notice.todo and "cuda" not in notice.todo.lower()


def test_no_advice_for_npus_is_about_gpus() -> None:
    words = re.compile(
        r"cuda|cudnn|nccl|nvidia|cupti|rocm|tensor core|tf32|inductor|channels_last|reduce-overhead", re.I
    )
    told = {key: f"{each.todo} {each.references}" for key, each in TORCH_NPU.advice.items()}
    assert {key for key, text in told.items() if words.search(text)} == set()
    assert {"conversions", "fallback_cores", "low_frequency", "memory_bound", "small_packets"} <= told.keys()


def without_fallback(process: Any) -> None:
    process.tasks = [task for task in process.tasks if task.core != "AI_CPU"]


def without_conversions(process: Any) -> None:
    process.tasks = [task for task in process.tasks if task.type not in CORES]


def without_dips(process: Any) -> None:
    process.frequency = process.frequency[:1]


def without_bounds(process: Any) -> None:
    process.tasks = [dataclasses.replace(task, bound="mac") for task in process.tasks]


@pytest.mark.parametrize(
    ("rule", "mend"),
    list(zip(RULES, (without_fallback, without_conversions, without_dips, without_bounds), strict=True)),
)
def test_what_was_mended_is_not_told(ranks: list[Rank], rule: str, mend: Callable[[Any], None]) -> None:
    process = generator.play(generator.Config(steps=STEPS))[1]
    mend(process)
    mended = told(process)
    assert ranks[1].notice(rule) is not None and mended.notice(rule) is None
    assert all(mended.notice(other) is not None for other in RULES if other != rule)


def test_a_chip_with_another_normal_frequency_is_not_called_slow() -> None:
    process = generator.play(generator.Config(steps=1))[1]
    process.frequency = [(at, min(mhz, 1650)) for at, mhz in process.frequency]
    assert told(process).notice("low_frequency") is None


def test_what_is_no_frequency_is_none() -> None:
    process = generator.play(generator.Config(steps=1))[1]
    process.frequency = [(at, 10**12) for at, _ in process.frequency]
    rank = told(process)
    assert rank.notice("low_frequency") is None
    assert not [fact for fact in part(table_of(Files(generator.texts(process))), "overview").facts if "hertz" in fact]


def test_findings_are_of_the_chosen_steps(ranks: list[Rank]) -> None:
    """The dip is in the last step, and covers most of its kernels' time."""
    table = table_of(Files(generator.texts(ranks[1].process)))
    first, last = ({each.rule.id: each.notice for each in findings_of(table, (step,)).all} for step in ("12", "13"))
    assert "low_frequency" not in first and "low_frequency" in last
    told_last = {figure.metric.key: figure.value for figure in last["low_frequency"].figures}
    assert told_last["low_frequency_ns"] == STEPS * ranks[1].figures("low_frequency")["low_frequency_ns"]
    assert {"fallback_cores", "conversions", "memory_bound"} <= first.keys() & last.keys()


def test_other_traces_have_no_word_of_it() -> None:
    table = trace().step(1, 0, 99).op("aten::mm", 0, 9).launches(kernel("TransData", 20, 30)).table()
    facts = part(table, "findings").facts
    assert "findings.launch_bound.saving_high_ns" in facts
    assert not [fact for fact in facts if any(rule in fact for rule in RULES)]
