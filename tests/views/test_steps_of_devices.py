"""Steps on devices and kinds of cores on the Overview: computed, and as a profile states them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, rows_of
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.job_tables import STEP_TIMES, as_reported_table, job_table
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.profilers import TORCH_NPU
from tb_plugin.rules import communication, regular_rules
from tb_plugin.service.workers.parse import read_info
from tb_plugin.views.diff.view import Diff
from tests.builders import TraceBuilder, analysis, kernel, memcpy, part, trace, whole_part
from tests.formats.ascend.folders import ALEXNET, QWEN, Files, folder, needs_recorded, table_of
from tests.synthetic_ascend import generator

PARTS = (
    "step_preparing_ns", "compute_alone_ns", "overlap_ns", "exposed_communication_ns", "step_free_ns", "step_finishing_ns",
)  # fmt: skip
NAMED = {
    "computing_ns": "compute_ns",
    "not_overlapped_ns": "exposed_communication_ns",
    "overlapped_ns": "overlap_ns",
    "bubble_ns": "step_receiving_ns",
}
"""What the truth calls what the table has."""


def steps(table: TraceTable, name: str = "steps_of_devices", **params: Any) -> list[dict[str, Any]]:
    frame = part(table, "overview", **params).frames[name]
    return rows_of(frame.data, [column.metric.key for column in frame.columns])


def npu() -> TraceBuilder:
    return trace().device(0, name="Ascend910B")


@pytest.fixture(scope="module")
def processes() -> list[Any]:
    found: list[Any] = generator.play(generator.Config(steps=3, seed=5))
    return found


@pytest.fixture(scope="module")
def tables(processes: list[Any]) -> list[TraceTable]:
    return [table_of(Files(generator.texts(process))) for process in processes]


def test_every_time_is_the_one_that_was_planted(processes: list[Any], tables: list[TraceTable]) -> None:
    for process, table in zip(processes, tables, strict=True):
        found = steps(table)
        assert [row["step"] for row in found] == [str(step.number) for step in process.steps]
        for row, step in zip(found, process.steps, strict=True):
            truth = generator.times_of(process, step)
            assert {key: row[name] for key, name in NAMED.items()} == {key: truth[key] for key in NAMED}
            assert sum(row[key] for key in PARTS) == row["step_total_ns"]
            assert row["compute_alone_ns"] + row["overlap_ns"] == row["compute_ns"]
        # The free bar after the last kernel of a step counts for that step in the statement; the last step has none.
        assert found[-1]["step_free_ns"] == generator.times_of(process, process.steps[-1])["free_ns"]


def test_the_bar_is_the_mean_of_the_table(tables: list[TraceTable]) -> None:
    view = part(tables[0], "overview")
    bar: Any = view.payloads["device_steps_0"]
    found = steps(tables[0])
    told = {one.metric.key: one.value for one in bar.parts}
    told["exposed_communication_ns"] = told.pop("step_exposed_rest_ns") + told["step_receiving_ns"]
    assert told == {key: pytest.approx(np.mean([row[key] for row in found])) for key in (*PARTS, "step_receiving_ns")}
    assert bar.total == pytest.approx(sum(one.value for one in bar.parts))
    assert view.facts["device.0.step.overlap_mean_ns"] == np.mean([row["overlap_ns"] for row in found])
    one = part(tables[0], "overview", steps=("13",))
    assert one.facts["device.0.step.overlap_mean_ns"] == found[1]["overlap_ns"]


def test_kernels_overlap_in_every_way() -> None:
    """A step of 100 us: kernels 10 to 30 and 50 to 60, communication 20 to 40 (hidden until 30), a copy 40 to 45."""
    builder = npu().step(1, 0, 100).op("aten::mm", 0, 9)
    builder.launches(
        kernel("a", 20, 10), kernel("hcom_allReduce__1", 20, 20, stream=20), kernel("b", 10, 50), memcpy(5, 40)
    )
    (row,) = steps(builder.table())
    assert {key: row[key] / 1000 for key in (*PARTS, "compute_ns", "step_total_ns", "step_receiving_ns")} == {
        "step_preparing_ns": 10, "compute_alone_ns": 20, "overlap_ns": 10, "exposed_communication_ns": 10, "step_free_ns": 10,
        "step_finishing_ns": 40, "compute_ns": 30, "step_total_ns": 100, "step_receiving_ns": 0,
    }  # fmt: skip


def test_receiving_is_what_no_kernel_hides() -> None:
    builder = npu().step(1, 0, 100).op("aten::mm", 0, 9)
    builder.launches(
        kernel("a", 20, 10), kernel("hcom_receive__1", 20, 20, stream=20), kernel("hcom_send__1", 5, 50, stream=21)
    )
    (row,) = steps(builder.table())
    assert (row["step_receiving_ns"], row["exposed_communication_ns"]) == (10_000, 15_000)


def test_a_step_in_which_the_device_does_nothing_is_preparing() -> None:
    builder = npu().step(1, 0, 50).op("aten::mm", 0, 9).launches(kernel("a", 20, 10)).step(2, 60, 30)
    builder.step(3, 100, 50).op("aten::mm", 100, 9).launches(kernel("a", 20, 110))
    first, second, last = steps(builder.table())
    assert first["step_preparing_ns"] == last["step_preparing_ns"] == 10_000
    assert second["step_preparing_ns"] == second["step_total_ns"] == 30_000
    assert {second[key] for key in PARTS if key != "step_preparing_ns"} == {0}


def test_devices_of_which_nothing_more_is_known_have_no_such_table() -> None:
    view = part(
        trace().device(0, name="NVIDIA H100").step(1, 0, 50).op("a", 0, 9).launches(kernel("a", 20, 10)).table(),
        "overview",
    )
    assert "steps_of_devices" not in view.frames and not [
        name for name in view.payloads if name.startswith("device_steps")
    ]
    assert not [fact for fact in view.facts if ".step." in fact or ".core" in fact]


STATED = {
    "device": [4, 4], "step": ["12", "13"], "computing_ns": [300, 500], "exposed_ns": [100, 200], "overlapped_ns": [50, 70],
    "communication_ns": [150, 270], "free_ns": [600, 300], "stage_ns": [990, 900], "bubble_ns": [10, 90],
    "preparing_ns": [5, None],
}  # fmt: skip


def stated(table: TraceTable, **columns: Any) -> TraceTable:
    return replace(
        table, reported_tables=(as_reported_table(STEP_TIMES, job_table(STEP_TIMES, {**STATED, **columns})),)
    )


def test_what_is_stated_stands_beside_what_is_computed() -> None:
    table = stated(npu().step(12, 0, 100).op("aten::mm", 0, 9).launches(kernel("a", 20, 10)).table(), device=[0, 0])
    view = part(table, "overview")
    bar: Any = view.payloads["device_steps_0"]
    assert bar.title == "Device time per step" and view.layout[-2:] == ("steps_of_devices", "stated_steps")
    assert steps(table, "stated_steps")[1] == {
        "device": "0", "step": "13", "stated_computing_ns": 500, "stated_exposed_ns": 200, "stated_overlapped_ns": 70,
        "stated_communication_ns": 270, "stated_free_ns": 300, "stated_stage_ns": 900, "stated_bubble_ns": 90,
        "stated_exposed_without_receive_ns": None, "stated_preparing_ns": None, "stated_difference_ns": 10,
    }  # fmt: skip
    assert (
        view.facts["device.0.stated.computing_mean_ns"] == 400 and view.facts["device.0.stated.preparing_mean_ns"] == 5
    )


def test_without_rows_the_statement_is_all_there_is() -> None:
    table = stated(assemble(empty()))
    view = part(table, "overview")
    bar: Any = view.payloads["device_steps_4"]
    assert "reported by the profiler" in bar.title and bar.total == 400 + 150 + 450
    assert [one.value for one in bar.parts] == [340, 60, 150, 450]
    assert "steps_of_devices" not in view.frames and len(steps(table, "stated_steps")) == 2


def test_a_rank_of_which_most_kernels_are_missing_is_not_called_idle() -> None:
    """Its files have collectives alone, and state computation: nobody knows when the device was idle."""
    builder = npu().step(12, 0, 1000).op("aten::mm", 0, 9)
    table = builder.launches(kernel("hcom_allReduce__1", 300, 20), kernel("a", 1, 400)).table()
    lacking = stated(table, device=[0, 0], computing_ns=[600, 512])
    before, view = part(table, "overview"), part(lacking, "overview")
    wanted = {"device_time_0", "device_idle_0", "device_classes_0", "average_step"}
    (sentence,) = view.payloads["largest_costs"].notices  # type: ignore[union-attr]
    assert sentence.text.startswith("The NPU idles for {largest_ns}") and "as reported by the profiler" in sentence.text
    assert [figure.value for figure in sentence.figures[:2]] == [(600 + 300) / 2, (990 + 10 + 5 + 900 + 90) / 2]
    assert wanted <= before.payloads.keys() and not wanted & view.payloads.keys()
    shown: Any = (before.payloads["headline"], view.payloads["headline"])
    assert [{figure.metric.key for figure in each.figures} for each in shown] == [
        {"step_time_mean_ns", "utilization", "communication_exposed"}, {"stated_step_ns"},
    ]  # fmt: skip
    assert shown[1].figures[0].value == (990 + 10 + 5 + 900 + 90) / 2
    assert analysis("idle").missing(lacking) is not None and analysis("idle").missing(table) is None
    findings: Any = (before.payloads["findings"], view.payloads["findings"])
    told = [{notice.rule for notice in each.notices} for each in findings]
    assert "low_utilization" in told[0] and told[1] == set()
    assert not communication.RULE.is_silent(table) and communication.RULE.is_silent(lacking)
    page: Any = part(lacking, "findings").payloads
    # The headline of Findings is the one of the Overview; which rules did not look stands there.
    length = page["summary"].figures[0]
    assert (length.metric.key, length.value) == ("stated_step_ns", shown[1].figures[0].value)
    together = {figure.metric.key: figure.value for figure in page["together"].figures}
    assert together["rules_silent"] + together["rules_looked"] == together["rules"] == len(regular_rules())
    assert "Low utilization" in together["silent_rules"] and "utilization" not in together
    facts = part(lacking, "findings").facts
    assert "findings.communication.saving_high_ns" not in facts and "findings.pageable_copies.saving_high_ns" in facts
    before_page: Any = part(table, "findings").payloads
    assert not {figure.metric.key for figure in before_page["together"].figures} & {"rules_silent", "silent_rules"}
    (notice,) = [each for each in view.payloads["data_quality"].notices if each.rule == "kernels_missing"]  # type: ignore[union-attr]
    assert [figure.value for figure in notice.figures] == [1112, 1000]
    bar: Any = view.payloads["device_steps_0"]
    assert "reported by the profiler" in bar.title
    # With nine tenths of them the page says what it knows.
    almost = part(stated(table, device=[0, 0], computing_ns=[600, 511]), "overview")
    assert wanted <= almost.payloads.keys()


def test_the_comparison_says_that_kernels_of_a_side_are_missing() -> None:
    """What was not recorded is no time saved: only the stated times of steps are compared."""
    table = npu().step(12, 0, 1000).op("aten::mm", 0, 9).launches(kernel("a", 900, 20)).table()
    whole = whole_part(stated(table, computing_ns=[400, 400]), "diff")
    fewer = npu().step(12, 0, 600).op("aten::mm", 0, 9).launches(kernel("hcom_allReduce__1", 300, 20)).table()
    lacking = whole_part(stated(fewer, computing_ns=[600, 512], stage_ns=[900, 1000]), "diff")
    view: Any = Diff().answer([whole, lacking], Params(table=None, limit=None))
    (notice,) = [each for each in view.payloads["findings"].notices if each.severity == "high"]
    assert notice is view.payloads["findings"].notices[0] and "waterfall" not in view.payloads
    assert notice.rule == "kernels_missing" and "experiment" in notice.text
    assert [figure.value for figure in notice.figures] == [1112, 0]
    lengths = {figure.metric.key: figure.value for figure in view.payloads["headline"].figures}
    assert lengths["exp_step_ns"] - lengths["base_step_ns"] == lengths["delta_step_ns"] != 0
    view = Diff().answer([whole, whole], Params(table=None, limit=None))
    assert "kernels_missing" not in {each.rule for each in view.payloads["findings"].notices}
    assert "waterfall" in view.payloads


def empty() -> Any:
    return replace(trace().op("a", 0, 1).raw_trace(), reported_tables=())


def test_the_file_that_was_cut_off_is_named(processes: list[Any]) -> None:
    """The table of kernels is whole: not of all files does anything lack."""
    content = dict(generator.texts(processes[0]))
    name = next(each for each in content if each.endswith("trace_view.json"))
    table = table_of(Files({**content, name: content[name][: len(content[name]) // 2]}))
    assert table.report.cut_files == ["trace_view.json"] == read_info(table.report).cut_files
    about: Any = part(table, "overview").payloads["data_quality"]
    assert any(each.rule == "truncated" and "trace_view.json" in each.text for each in about.notices)
    whole = table_of(Files(content))
    assert whole.report.complete and not whole.report.cut_files


def test_bars_say_of_how_many_steps_they_are(tables: list[TraceTable]) -> None:
    """Three steps: their mean beside the sum of all."""
    payloads: Any = part(tables[0], "overview").payloads
    device = tables[0].devices[0].id
    assert payloads[f"device_steps_{device}"].title == "Device time per step, mean of 3 steps"
    for name in ("time", "idle", "classes"):
        assert payloads[f"device_{name}_{device}"].subtitle == f"device {device}, full trace"


def test_what_is_advised_holds_where_files_are_missing() -> None:
    """Whoever recorded with these options and has not the file is told its name."""
    for view in ("stacks", "operators", "launches", "backward"):
        advice = TORCH_NPU.todo(f"view.{view}")
        assert "trace_view.json or ascend_pytorch_profiler_*.db" in advice and not advice.startswith("Add ")
    assert "operator_memory.csv" in TORCH_NPU.todo("view.memory") == TORCH_NPU.todo("memory_missing")


def test_a_statement_without_steps_or_with_stages() -> None:
    """Null is all; rows of stages are not of this rank."""
    table = stated(assemble(empty()), step=[None, None])
    assert [row["step"] for row in steps(table, "stated_steps")] == [None, None]
    table = stated(assemble(empty()), stage_ranks=[None, "0, 1"])
    assert [row["step"] for row in steps(table, "stated_steps")] == ["12"]


def cores(table: TraceTable, device: int = 0) -> dict[str, int]:
    bar: Any = part(table, "overview").payloads[f"device_cores_{table.devices[device].id}"]
    assert bar.total == sum(one.value for one in bar.parts)
    return {one.metric.title: one.value for one in bar.parts}


def test_time_by_kind_of_cores(processes: list[Any], tables: list[TraceTable]) -> None:
    names = {
        "AI_CORE": "AI Core (cube)", "AI_VECTOR_CORE": "AI vector core", "MIX_AIC": "Mixed, cube first",
        "MIX_AIV": "Mixed, vector first", "AI_CPU": "AI CPU", "DSA_SQE": "DSA (random numbers)",
    }  # fmt: skip
    for process, table in zip(processes, tables, strict=True):
        truth: dict[str, int] = {}
        for task in process.kernels:
            truth[names[task.core]] = truth.get(names[task.core], 0) + task.end_ns - task.start_ns
        truth["Communication"] = sum(one.end_ns - one.start_ns for one in process.collectives)
        assert cores(table) == truth
        facts = part(table, "overview").facts
        assert facts[f"device.{process.device}.core.ai_cpu_ns"] == truth["AI CPU"]


def test_kernels_of_which_no_core_is_stated_and_too_many_kinds() -> None:
    raw = (
        npu()
        .step(1, 0, 100)
        .op("aten::mm", 0, 9)
        .launches(*(kernel(f"k{i}", 1, 10 + i) for i in range(14)))
        .raw_trace()
    )
    kernels = np.flatnonzero(raw.device >= 0).astype(np.int32)
    words = [raw.strings.find(f"k{i}") for i in range(13)]  # any texts do
    column = OpenColumn("Accelerator Core", kernels[:13], np.array(words, np.int32), is_text=True)
    found = cores(assemble(replace(raw, others=(column,), recorder=TORCH_NPU)))
    assert sum(found.values()) == 14_000 and len(found) == 10
    assert (found["Other cores"], found["Not reported"], found["k0"]) == (5_000, 1_000, 1_000)


def test_the_frequency_stands_on_the_card(processes: list[Any], tables: list[TraceTable]) -> None:
    facts = part(tables[1], "overview").facts
    assert 1200e6 < facts["device.4.core_hertz"] < 1800e6 and 0 < facts["device.4.low_frequency_ratio"] < 1
    facts = part(tables[0], "overview").facts
    assert (facts["device.0.core_hertz"], facts["device.0.low_frequency_ratio"]) == (1800e6, 0)


@needs_recorded
def test_recorded_steps_are_what_the_tool_states() -> None:
    """Digits of step_trace_time.csv, microseconds; bars of the tool are rounded to hundredths."""
    (row,) = steps(table_of(folder(ALEXNET)))
    said = {
        "compute_ns": 8873.756, "exposed_communication_ns": 101963.203, "overlap_ns": 4028.675, "step_free_ns": 25744.05,
        "step_preparing_ns": 17902.5,
    }  # fmt: skip
    assert {key: row[key] / 1000 for key in said} == {
        key: pytest.approx(value, abs=0.05) for key, value in said.items()
    }
    (row,) = steps(table_of(folder(QWEN)))
    said = {"compute_ns": 231290.1, "exposed_communication_ns": 420174.26, "overlap_ns": 0, "step_free_ns": 158558.0}
    assert {key: row[key] / 1000 for key in said} == {key: pytest.approx(value, abs=0.2) for key, value in said.items()}
