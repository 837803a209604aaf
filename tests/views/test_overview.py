"""Recommendations at their thresholds, notices about the data, and device time that overlaps in every way."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.base import rows_of
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Figures, Notice, Notices
from tests.builders import TraceBuilder, facts, kernel, memcpy, memset, model, part, payload_of, trace


def rules(builder: TraceBuilder, payload: str = "findings") -> dict[str, dict[str, Any]]:
    """Rule -> its figures."""
    notices: Any = part(builder.table(), "overview").payloads[payload]
    return {n.rule: {f.metric.key: f.value for f in n.figures} for n in notices.notices}


def busy_step() -> TraceBuilder:
    """A step of 1000 us whose device is busy for 900 of them."""
    return trace().device(0).step(1, 0, 1000).op("aten::add", 0, 20).launches(kernel("add", 900, 50))


def test_a_well_used_device_gets_no_advice() -> None:
    assert rules(busy_step()) == {}


@pytest.mark.parametrize(("dur", "fires"), [(20, False), (21, True)])
def test_data_loading_from_two_percent(dur: int, fires: bool) -> None:
    builder = trace().step(1, 0, 1000).annotation("enumerate(DataLoader)#X.__next__", 0, dur)
    assert ("data_loading" in rules(builder)) is fires


@pytest.mark.parametrize(("dur", "fires"), [(50, False), (51, True)])
def test_communication_from_five_percent(dur: int, fires: bool) -> None:
    builder = trace().step(1, 0, 30).op("aten::add", 0, 20)
    builder.launches(kernel("add", 950 - dur, 50), kernel("ncclDevKernel_AllReduce", dur, 1000 - dur, stream=20))
    assert ("communication" in rules(builder)) is fires


@pytest.mark.parametrize(("dur", "fires"), [(499, True), (500, False)])
def test_low_utilization_below_half(dur: int, fires: bool) -> None:
    builder = trace().step(1, 0, 1000).op("aten::add", 0, 20).launches(kernel("add", dur, 50))
    found = rules(builder)
    assert ("low_utilization" in found) is fires
    if fires:
        assert found["low_utilization"]["utilization"] == 0.499


@pytest.mark.parametrize(("dur", "fires"), [(500, True), (899, True), (900, False)])
def test_no_finding_is_no_praise_while_a_device_idles(dur: int, fires: bool) -> None:
    """U3: idle for a tenth of the time or more."""
    builder = trace().step(1, 0, 1000).op("aten::add", 0, 20).launches(kernel("add", dur, 50))
    assert rules(builder).keys() == ({"idle_device"} if fires else set())


def test_data_parallel_needs_two_devices() -> None:
    one = busy_step().annotation("DataParallel.forward", 100, 5)
    assert "data_parallel" not in rules(one)
    two = busy_step().annotation("DataParallel.forward", 100, 5).on_device(kernel("add", 900, 50, device=1), corr=9)
    assert rules(two)["data_parallel"]["affected"] == 2


@pytest.mark.parametrize(
    ("collective", "fires"), [("gloo:all_reduce", True), ("nccl:all_reduce", False), (None, False)]
)
def test_another_backend_than_nccl_must_have_been_seen(collective: str | None, fires: bool) -> None:
    builder = busy_step().annotation("DistributedDataParallel.forward", 100, 5)
    if collective:
        builder.annotation(collective, 200, 5)
    assert ("distributed_backend" in rules(builder)) is fires


@pytest.mark.parametrize(
    ("major", "op", "name", "fires"),
    [
        (7, "aten::mm", "sgemm", True),
        (6, "aten::mm", "sgemm", False),
        (7, "aten::add", "add", False),
        (7, "aten::mm", "volta_fp16_s884gemm", False),
        (7, "aten::mm", "my_kernel", False),
    ],
    ids=["Volta", "Pascal has none", "nothing eligible", "already used", "nobody knows"],
)
def test_tensor_cores_that_nobody_uses(major: int, op: str, name: str, fires: bool) -> None:
    builder = trace().device(0, computeMajor=major).step(1, 0, 40).op(op, 0, 20).launches(kernel(name, 900, 50))
    assert ("matrix_units" in rules(builder)) is fires


@pytest.mark.parametrize(("dur", "fires"), [(99, False), (100, True)])
def test_unused_tensor_cores_from_a_tenth_of_the_kernel_time(dur: int, fires: bool) -> None:
    builder = trace().device(0).step(1, 0, 40).op("aten::mm", 0, 20).launches(kernel("sgemm", dur, 0))
    builder.op("aten::add", 30, 20).launches(kernel("vectorized_elementwise_kernel", 1000 - dur, dur))
    assert ("matrix_units" in rules(builder)) is fires


@pytest.mark.parametrize(
    ("properties", "words", "not_words"),
    [
        ({"computeMajor": 7, "computeMinor": 0}, ["float16"], ["TF32", "bfloat16"]),
        ({"computeMajor": 7, "computeMinor": 5}, ["float16"], ["TF32", "bfloat16"]),
        ({"name": "NVIDIA A100", "computeMajor": 8, "computeMinor": 0}, ["bfloat16", "TF32"], []),
        ({"name": "AMD Instinct MI250X", "computeMajor": 9, "computeMinor": 0}, ["bfloat16"], ["TF32"]),
    ],
    ids=["V100", "T4", "A100", "MI250X"],
)
def test_advice_names_only_formats_that_the_device_has(
    properties: dict[str, Any], words: list[str], not_words: list[str]
) -> None:
    builder = trace().device(0, **properties).step(1, 0, 40).op("aten::mm", 0, 20).launches(kernel("sgemm", 900, 50))
    notices: Any = part(builder.table(), "overview").payloads["findings"]
    todo = next(notice.todo for notice in notices.notices if notice.rule == "matrix_units")
    assert all(word in todo for word in words) and not any(word in todo for word in not_words)


def of_matrix_units(builder: TraceBuilder) -> tuple[Any, ...]:
    """The share of the Overview's card, of the facts and of the Kernels page, and the page's rows."""
    table = builder.table()
    found = facts(table)
    page = part(table, "kernels")
    donut: Any = page.payloads.get("matrix_unit")
    parts = {slice.metric.title: slice.value for slice in donut.parts} if donut else {}
    rows = {
        row["name"]: row["uses_matrix_unit"]
        for row in rows_of(page.frames["kernels"].data, ["name", "uses_matrix_unit"])
    }
    return found["device.0.tensor_core_ratio"], found["device.0.matrix_unknown_ratio"], parts, rows


def test_time_on_matrix_units_is_one_number_over_all_kernels() -> None:
    """N1: 50 us of a graph replay on Tensor Cores, 30 us of an operator without, 20 us of which nobody knows."""
    builder = trace().device(0).on_device(kernel("volta_h884gemm", 50, 0)).on_device(kernel("mystery", 20, 80))
    builder.op("aten::mm", 0, 9).launches(kernel("volta_sgemm_128x64_nn", 30, 50))
    used, unknown, parts, rows = of_matrix_units(builder)
    assert (used, unknown) == (0.5, 0.2)
    assert parts == {"Using Tensor Cores": 50_000, "Not using Tensor Cores": 30_000, "Unknown": 20_000}
    assert rows == {"volta_h884gemm": True, "volta_sgemm_128x64_nn": False, "mystery": "unknown"}


@pytest.mark.parametrize(
    ("types", "used", "unknown"),
    [
        (["float", "float"], 0, 1),
        (["double", "double"], 0, 1),
        (["c10::Half", "c10::Half"], 1, 0),
        (["float", "c10::BFloat16", "c10::BFloat16", "Scalar"], 1, 0),
        (["", "Scalar"], 1, 0),
        (None, 1, 0),
    ],
)
@pytest.mark.parametrize("name", ["gemm_kernel", "gemm_kernel_xe2"])
def test_recorded_types_win_over_a_name_that_tells_no_type(
    types: list[str] | None, used: int, unknown: int, name: str
) -> None:
    """oneDNN's generated products are named alike with and without systolic instructions (cases/xpu_fp32_gemm)."""
    builder = trace().device(0, name="Intel(R) Arc(TM) B580 Graphics")
    builder.op("aten::mm", 0, 9, **({"Input type": types} if types else {})).launches(kernel(name, 30, 50))
    assert of_matrix_units(builder)[:2] == (used, unknown)


def test_recorded_types_change_nothing_where_the_name_tells_the_unit() -> None:
    builder = (
        trace()
        .device(0, name="Intel(R) Arc(TM) B580 Graphics")
        .op("aten::mm", 0, 9, **{"Input type": ["float", "float"]})
    )
    assert of_matrix_units(builder.launches(kernel("gemm_dpas", 30, 50)))[:2] == (1, 0)


@pytest.mark.parametrize(
    ("properties", "name", "ratio", "title"),
    [
        (
            {"name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4},
            "Cijk_MT64x64_MI16x16x1",
            1,
            "Matrix Cores",
        ),
        ({"name": "Intel(R) Data Center GPU Max 1550"}, "gemm_kernel", 1, "XMX"),
        ({"name": "Tesla P100", "computeMajor": 6}, "sgemm", None, None),
        ({"name": "MTIA"}, "sgemm", None, None),
    ],
)
def test_matrix_units_have_the_vendor_s_name_and_are_absent_where_there_are_none(
    properties: dict[str, Any], name: str, ratio: float | None, title: str | None
) -> None:
    builder = trace().device(0, **properties).op("aten::mm", 0, 9).launches(kernel(name, 30, 50))
    used, unknown, parts, _ = of_matrix_units(builder)
    assert (used, unknown) == (ratio, None if ratio is None else 0)
    assert list(parts) == ([f"Using {title}", f"Not using {title}"] if title else [])
    assert titles(builder, "kernels").get("uses_matrix_unit") == title
    assert ("matrix_self_ratio" in titles(builder, "operators")) is bool(title)


def titles(builder: TraceBuilder, view: str) -> dict[str, str]:
    return {column.metric.key: column.metric.title for column in part(builder.table(), view).frames[view].columns}


@pytest.mark.parametrize(
    ("device_type", "device_id", "share", "fires"),
    [(1, 0, 0.91, True), (1, 0, 0.9, False), (0, -1, 5, False), (0, 0, 5, False)],
)
def test_memory_at_its_limit(device_type: int, device_id: int, share: float, fires: bool) -> None:
    total = {"Total Allocated": int(share * 1000)}
    builder = busy_step().memory(5, 10, device_type, device_id, **total)
    builder.root["deviceProperties"][0]["totalGlobalMem"] = 1000
    assert ("memory_limit" in rules(builder)) is fires


def test_memory_at_its_limit_is_the_device_s_own() -> None:
    """Host memory that would fill the device ten times over changes nothing, whatever number it is recorded under."""
    builder = busy_step()
    for at, device_type, number, total in ((5, 0, -1, 9000), (6, 0, 0, 10_000), (7, 1, 0, 950), (8, 0, 0, 10_000)):
        builder.memory(at, 10, device_type, number, **{"Total Allocated": total})
    builder.root["deviceProperties"][0]["totalGlobalMem"] = 1000
    assert rules(builder)["memory_limit"] == {
        "memory_peak_ratio": 0.95, "memory_peak_bytes": 950, "memory_bytes": 1000, "device": "0"
    }  # fmt: skip


def on_rocm(*rows: int, listed: int = 1, allocating: int = 1) -> TraceBuilder:
    """Devices that rows name, devices that the file lists (1,000 bytes each), devices that allocate 950 bytes each."""
    builder = trace()
    for number in range(listed):
        builder.device(number, name="AMD Instinct MI300X", computeMajor=9, computeMinor=4, totalGlobalMem=1000)
    builder.step(1, 0, 1000)
    for i, number in enumerate(rows):
        builder.op("aten::add", 10 * i, 5).launches(kernel("add", 950, 50, device=number))
    for number in range(allocating):
        builder.memory(5, 10, 6, number, **{"Total Allocated": 950 if number == 0 else 10})
    return builder


def test_devices_of_rows_and_of_memory_are_matched() -> None:
    """N20: the first device of ROCm may be 2 in rows and hip:0 in memory."""
    one = on_rocm(2)
    assert rules(one)["memory_limit"]["device"] == "2"
    assert rules(one, "data_quality")["device_numbers"] == {"device": "2", "ordinal": 0}
    assert [(d.id, d.ordinal, d.name) for d in one.table().devices] == [("2", 0, "AMD Instinct MI300X")]
    two = on_rocm(2, 3, listed=8, allocating=2)
    assert rules(two)["memory_limit"]["device"] == "2"
    assert [(d.id, d.ordinal) for d in two.table().devices][:2] == [("2", 0), ("3", 1)]


def test_devices_that_cannot_be_matched_are_not_compared() -> None:
    builder = on_rocm(4, 5, listed=8, allocating=1)
    assert rules(builder)["memory_limit"]["device"] == "0", "the list numbers devices as memory does"
    assert "memory_limit" not in rules(on_rocm(0, 1, listed=8, allocating=1)), "0 of the rows may be another one"
    assert rules(builder, "data_quality")["device_numbers_unmatched"] == {"affected": 2}
    known = {d.id: (d.ordinal, d.name) for d in builder.table().devices}
    assert known["4"] == known["5"] == (None, "AMD Instinct MI300X"), "all that are listed are alike"


def test_devices_with_one_number_need_no_note() -> None:
    assert (
        not {"device_numbers", "device_numbers_unmatched"}
        & rules(busy_step().memory(5, 10, 1, 0, **{"Total Allocated": 9}), "data_quality").keys()
    )


def test_nobody_is_told_to_record_stacks_that_were_recorded() -> None:
    """The file states with_stack, or ends early: what to do stands only where neither is so."""

    def told(builder: TraceBuilder, table: TraceTable | None = None) -> Notice:
        found = payload_of(part(table or builder.table(), "overview"), "data_quality", Notices)
        return next(notice for notice in found.notices if notice.rule == "stacks_missing")

    plain = trace().op("a", 0, 10).op("b", 20, 10)
    assert "with_stack=True" in told(plain).todo
    plain.root["with_stack"] = 0
    assert "with_stack=True" in told(plain).todo
    ends_early = told(plain, model(plain.bytes()[:-20]))
    assert ends_early.text == "The part that was read contains no call stacks." and not ends_early.todo
    plain.root["with_stack"] = 1
    assert "with_stack was on" in told(plain).text and not told(plain).todo


def test_notices_about_the_data() -> None:
    bare = rules(trace().op("a", 0, 10).op("crossing", 5, 10), "data_quality")
    assert bare.keys() == {"steps_missing", "shapes_missing", "stacks_missing", "memory_missing", "partial_overlaps"}
    full = trace().step(1, 0, 100).op("a", 0, 10, shapes=[[1]], stack="f.py(1): f").memory(3, 4)
    assert rules(full, "data_quality") == {}
    lost = rules(full.on_device(kernel("k", 5, 50), corr=9), "data_quality")
    assert lost["unlaunched"]["unlaunched"] == 1 and lost["no_operator"]["no_operator_ns"] == 5_000
    assert "device_events_missing" in rules(trace().step(1, 0, 9).op("a", 0, 9).call(1, 2, corr=1), "data_quality")


def test_python_calls_that_cross_one_another_are_no_odd_times() -> None:
    builder = trace().op("a", 0, 10).op("crossing", 5, 10).python("f", 20, 10, 1).python("g", 25, 10, 2)
    assert facts(builder.table())["trace.partial_overlaps"] == 1


def test_ranges_that_nothing_ends_are_said() -> None:
    builder = trace().op("a", 0, 10)
    builder.events.append({"ph": "B", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 4})
    assert rules(builder, "data_quality")["ranges_unfinished"] == {"affected": 1}


def test_a_truncated_file_is_said() -> None:
    table = model(busy_step().bytes()[:-20])
    notices: Any = part(table, "overview").payloads["data_quality"]
    assert "truncated" in {notice.rule for notice in notices.notices}


@pytest.mark.parametrize(("count", "shown", "more"), [(100, 100, None), (101, 100, 1), (250, 100, 150)])
def test_settings_beyond_a_hundred_are_counted(count: int, shown: int, more: int | None) -> None:
    table = busy_step().meta(**{f"setting {i}": i for i in range(count)}).table()
    figures = payload_of(part(table, "overview"), "configuration", Figures)
    values = {figure.metric.key: figure.value for figure in figures.figures}
    assert sum(key.startswith("setting ") for key in values) == shown
    assert values.get("further_settings") == more


@pytest.mark.parametrize(
    ("builder", "says"),
    [(trace().annotation("enumerate(DataLoader)#X.__next__", 0, 5), True), (trace().op("aten::mm", 0, 5), False)],
    ids=["loader", "none"],
)
def test_a_trace_without_a_loader_says_nothing_of_input(builder: TraceBuilder, says: bool) -> None:
    headline = payload_of(part(builder.table(), "overview"), "headline", Figures)
    assert ("waiting_for_input" in {figure.metric.key for figure in headline.figures}) is says


def test_settings_keep_their_letters() -> None:
    table = busy_step().meta(note=["größer", 1], activities=["CPU", "NPU"]).table()
    figures = payload_of(part(table, "overview"), "configuration", Figures)
    values = {figure.metric.key: figure.value for figure in figures.figures}
    assert (values["note"], values["activities"]) == ('["größer", 1]', "CPU, NPU")


def test_the_average_step_is_one_of_them() -> None:
    builder = trace().step(0, 0, 100).op("aten::mm", 0, 60).step(1, 100, 50).op("aten::mm", 100, 20)
    average = payload_of(part(builder.table(), "overview"), "average_step", Breakdown)
    assert average.total == 75_000
    assert {slice.category: slice.value for slice in average.parts} == {"cpu": 40_000, "other": 35_000}


@pytest.mark.parametrize(("steps", "has_it"), [(1, False), (2, True)])
def test_one_step_has_no_percentile(steps: int, has_it: bool) -> None:
    builder = trace()
    for i in range(steps):
        builder.step(i, at=100 * i, dur=90)
    headline = payload_of(part(builder.table(), "overview"), "headline", Figures)
    assert ("step_time_p95_ns" in {figure.metric.key for figure in headline.figures}) is has_it


@pytest.mark.parametrize(
    ("steps", "notes"),
    [(2, ["2 steps", "", "of the steps", "of the steps"]), (0, ["", "of the recording", "of the recording"])],
)
def test_the_figures_of_the_headline_say_their_window(steps: int, notes: list[str]) -> None:
    builder = trace().annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 5)
    for number in range(2):
        builder.op("a", 20 * number + 10, 5).launches(kernel("k", 3))
    for number in range(steps):
        builder.step(number, 20 * number, 20)
    headline = payload_of(part(builder.table(), "overview"), "headline", Figures)
    assert [figure.note for figure in headline.figures] == notes
    assert all(("no steps" in figure.metric.window) is (steps == 0) for figure in headline.figures)


def test_device_time_by_priority() -> None:
    """[0, 100) compute, [50, 150) communication, [140, 200) copy, [190, 220) set, then idle until the end at 300."""
    builder = trace().on_device(kernel("k", 100, 0)).on_device(kernel("ncclDevKernel_AllReduce", 100, 50, stream=8))
    builder.on_device(memcpy(60, 140, stream=9)).on_device(memset(30, 190, stream=10)).on_device(memset(1, 299))
    found = {k.removeprefix("device.0."): v for k, v in facts(builder.table()).items() if k.startswith("device.0.")}
    micro = {k.removesuffix("_ns"): v / 1000 for k, v in found.items() if k.endswith("_ns") and "." not in k}
    assert micro == {
        "window": 300, "busy": 221, "idle": 79, "compute": 100, "communication": 100, "exposed_communication": 50,
        "memcpy": 60, "exposed_memcpy": 50, "memset": 31, "exposed_memset": 21, "no_operator": 291,
    }  # fmt: skip
    assert (found["kernels"], found["memcpys"], found["memsets"], found["unlaunched"]) == (2, 1, 2, 5)


def test_waits_and_device_annotations_are_no_device_time() -> None:
    """C9 and C10."""
    builder = trace().on_device(kernel("k", 10, 0)).device_annotation("forward", 0, 500)
    builder.event("cuda_sync", "Stream Synchronize", 0, 400, 0, 7, device=0, stream=7)
    found = facts(builder.table())
    assert found["device.0.window_ns"] == found["device.0.busy_ns"] == 10_000


def test_kernels_that_overlap_on_one_stream_count_once_in_busy_time_and_each_in_totals() -> None:
    """C6: programmatic launches overlap on purpose."""
    table = trace().on_device(kernel("a", 10, 0)).on_device(kernel("b", 10, 5)).table()
    assert facts(table)["device.0.busy_ns"] == 15_000 and facts(table)["trace.no_operator_ns"] == 20_000
    assert facts(table)["trace.partial_overlaps"] == 0
