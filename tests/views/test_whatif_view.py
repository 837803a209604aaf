"""Changes by name: what they select, what they save, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin import cli
from tb_plugin.analysis.simulate.scaled import Scale, parsed_scale, scaled
from tb_plugin.errors import BadRequest
from tb_plugin.findings import finding
from tb_plugin.payloads import Notices
from tb_plugin.registry import analysis_by_id
from tests.builders import TraceBuilder, kernel, memcpy, part, payload_of, rows, trace
from tests.conftest import sample
from tests.samples import SAMPLES
from tests.views.test_graphs import PLANS, made
from tests.views.test_what_if import WHAT, passed


def chosen(table, *scales):
    """Lower and upper saving per step of each change, microseconds."""
    found = part(table, "whatif", extra=tuple(("scale", text) for text in scales)).frames["whatif"].data.to_pylist()
    found = found[: len(scales) + (len(scales) > 1)]  # changes that save most follow
    return {row["change"]: (row["saved_low_ns"] / 1000, row["saved_high_ns"] / 1000) for row in found}


def busy():
    """Two kernels of 100, queued; the step ends with the second, at 205."""
    builder = trace().step(1, 0, 50).op("aten::mm", 0, 2).launches(kernel("gemm", 100, 5), dur=2)
    return builder.op("aten::relu", 30, 2).launches(kernel("relu", 100, 105), dur=2)


def test_kernels_of_a_busy_device():
    table = busy().table()
    assert chosen(table, "kernel:gemm=0.5") == {"kernel:gemm=0.5": (50, 50)}
    assert chosen(table, "kernel:*=0.5") == {"kernel:*=0.5": (100, 100)}
    assert chosen(table, "kernel:*=0.1") == {"kernel:*=0.1": (153, 155)}, "the host ends at 50"
    assert chosen(table, "kernel:gemm=2") == {"kernel:gemm=2": (-100, -100)}
    assert chosen(table, "operator:aten::mm=0.5") == {"operator:aten::mm=0.5": (50, 51)}
    assert chosen(table, "class:gemm=0.5") == {"class:gemm=0.5": (50, 50)}


def test_all_together_is_one_more_row():
    found = chosen(busy().table(), "kernel:gemm=0.5", "kernel:relu=0.5")
    assert list(found) == ["kernel:gemm=0.5", "kernel:relu=0.5", "all together"]
    assert found["all together"] == (100, 100)


def test_an_operator_has_the_work_of_nested_calls():
    builder = trace().step(1, 0, 100).op("aten::linear", 0, 40).op("aten::addmm", 5, 20)
    table = builder.launches(kernel("gemm", 10, 30)).op("aten::linear", 50, 10).table()
    found = scaled(table, Scale("operator", "aten::linear", 0.0))
    assert [table.strings[i] for i in table.name[found.high.row]] == ["gemm"]
    assert (found.high.host.start.tolist(), found.high.host.end.tolist()) == ([0, 50_000], [40_000, 60_000])
    assert found.low.less_ns.tolist() == [10_000]


def test_a_share_of_a_call_goes_and_waits_stay_where_that_is_not_sure():
    """A call of 40 waits from 10 to 30: of the other 20, half goes; twice as long, they last 20 more."""
    builder = trace().step(1, 0, 100).op("aten::item", 0, 40)
    table = builder.call(10, 20, name="cudaStreamSynchronize").table()
    times = np.array([0, 5, 20, 35, 60]) * 1000
    half = scaled(table, Scale("operator", "aten::item", 0.5))
    assert half.high.host_before(times).tolist() == [0, 2_500, 10_000, 17_500, 20_000]
    assert half.low.host_before(times).tolist() == half.expected.host_before(times).tolist()
    assert half.low.host_before(times).tolist() == [0, 2_500, 5_000, 7_500, 10_000]
    twice = scaled(table, Scale("operator", "aten::item", 2.0))
    assert twice.high.host_before(times).tolist() == [0, -5_000, -10_000, -15_000, -20_000]


def test_kinds_without_a_name():
    builder = busy().launches(memcpy(30, 300), at=35, dur=5, name="cudaMemcpyAsync")
    builder.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 40, 9, category="user_annotation")
    table = builder.table()
    texts = [table.strings[i] for i in table.name]
    for kind, names, host in (
        ("copies", ["Memcpy HtoD (Pinned -> Device)"], 0),
        ("communication", None, 0),
        ("data_loading", [], 9_000),
        ("launches", [], 2_000 + 2_000 + 5_000),
    ):
        found = scaled(table, Scale(kind, "", 0.0))
        if names is None:
            assert found is None
            continue
        assert [texts[row] for row in found.high.row] == names
        assert int((found.high.host.end - found.high.host.start).sum()) == host


def modules() -> TraceBuilder:
    """Net_0 calls Linear_0 at 0..40 and Linear_1 at 50..90; each runs an operator with a kernel of 20."""
    builder = trace().step(1, 0, 100).module("Net", 0, 95, 0, id=1)
    for i in range(2):
        builder.module("Linear", 50 * i, 40, i, id=2 + i, parent=1)
        builder.op("aten::linear", 50 * i + 5, 20).launches(kernel(f"gemm_{i}", 20, 50 * i + 15), dur=2)
    return builder


@pytest.mark.parametrize(
    ("name", "kernels", "host"),
    [
        ("Linear_0", ["gemm_0"], [(0, 40)]),
        ("Net_0 > Linear_1", ["gemm_1"], [(50, 90)]),
        ("Net_0", ["gemm_0", "gemm_1"], [(0, 95)]),
        ("*Linear*", ["gemm_0", "gemm_1"], [(0, 40), (50, 90)]),
    ],
)
def test_a_module_has_the_work_of_its_calls(name, kernels, host):
    table = modules().table()
    found = scaled(table, Scale("module", name, 0.0)).high
    assert [table.strings[i] for i in table.name[found.row]] == kernels
    assert list(zip((found.host.start // 1000).tolist(), (found.host.end // 1000).tolist(), strict=True)) == host
    assert scaled(table, Scale("module", "Lin", 0.0)) is None, "a part of a name is another name"


@pytest.mark.parametrize("name", [*sorted(PLANS), "synthetic_gpu/worker0.1795200788815973544.pt.trace.json.gz"])
def test_operators_and_modules_have_the_work_of_their_tables(name):
    """Also operators and modules of captured graphs."""
    table = made(name)[0] if name in PLANS else sample(name)
    steps, compared = tuple(table.steps.label) if table.steps.recorded else None, 0
    for kind, key, times in (
        ("operator", "name", ["device_total_ns"]),
        ("module", "module", ["device_total_ns", "backward_device_total_ns"]),
    ):
        for row in rows(table, f"{kind}s", steps=steps):
            device_ns = sum(row.get(time, 0) for time in times)
            found = scaled(table, Scale(kind, row[key], 0.0))
            if found is None or row[key] == "(no operator)":
                assert not device_ns or row[key] == "(no operator)", row
                continue
            assert found.high.less_ns.sum() == device_ns, row
            compared += bool(device_ns)
    assert compared >= (1 if name == "nothing" else 2)


def test_a_module_has_the_work_of_its_backward_pass():
    builder = trace().step(1, 0, 100).module("Linear", 0, 40, 0, id=1)
    builder.op("aten::linear", 5, 20, sequence=7).launches(kernel("forward", 5, 30), at=6, dur=2)
    builder.op("AddmmBackward0", 50, 20, sequence=7, forward_thread=1, tid=2)
    table = builder.launches(kernel("backward", 5, 80), at=52, dur=2).arrow(5, 50).table()
    found = scaled(table, Scale("module", "Linear_0", 0.0)).high
    assert [table.strings[i] for i in table.name[found.row]] == ["forward", "backward"]


@pytest.mark.parametrize(
    ("text", "similar"),
    [
        ("operator:aten::linera=0", "aten::linear"),
        ("kernel:gem_1=0", "gemm_1"),
        ("module:Linear0=0", "Linear_0"),
        ("module:Net > Linear_0=0", "Net_0 > Linear_0"),
    ],
)
def test_similar_names_are_suggested(text, similar):
    with pytest.raises(BadRequest) as error:
        chosen(modules().table(), text)
    assert similar in str(error.value.do)


def test_changes_have_titles():
    titles = [
        parsed_scale(text).title
        for text in (
            "operator:aten::mm=0",
            "copies=0.5",
            "class:gemm=2",
            "module:Net_0=0.25",
            "launches=1",
            "kernel:f=3",
            "kernel:f=0.999999",
            "kernel:f=1.004",
            "kernel:f=0.99999999",
            "kernel:f=1e-320",
            "kernel:f=-0.0",
        )
    ]
    assert titles == [
        "aten::mm gone",
        "All copies twice as fast",
        "GEMM kernels twice as long",
        "Module Net_0 4 times as fast",
        "All launch calls unchanged",
        "f 3 times as long",
        "f 1.000001 times as fast",
        "f 1.004 times as long",
        "f unchanged",
        "f gone",
        "f gone",
    ]


@pytest.mark.parametrize("factor", ["0", "0.000001", "0.123456", "12.345678", "99.999999"])
def test_the_text_of_a_change_is_that_change(factor):
    scale = parsed_scale(f"kernel:f={factor}")
    assert parsed_scale(scale.text) == scale
    assert parsed_scale("kernel:f=-0.0").text == "kernel:f=0"


def sentence(table, *scales: str) -> str:
    found = payload_of(part(table, "whatif", extra=tuple(("scale", text) for text in scales)), "answer", Notices)
    return finding(found.notices[0]).text


def test_one_sentence_says_what_saves_most_and_what_limits_then():
    """Both kernels of 100 take 205: without them, the CPU needs 50. One at half speed leaves the device busy."""
    table = busy().table()
    assert sentence(table) == "Removing aten::relu saves most: 100 µs per step (48.8 %). Then the GPU limits the step."
    assert sentence(table, "kernel:*=0").endswith(
        "a step takes 50.0 µs instead of 205 µs. Then the CPU limits the step."
    )
    assert sentence(table, "kernel:gemm=0.5", "kernel:relu=0.5") == (
        "With 2 changes, a step takes 105 µs instead of 205 µs. Then the GPU limits the step."
    )


def test_nested_operators_with_the_same_work_are_one_row():
    builder = trace().step(1, 0, 20).op("aten::linear", 0, 15).op("aten::addmm", 1, 12)
    table = builder.launches(kernel("gemm", 100, 15), at=2, dur=2).op("aten::relu", 16, 2).table()
    rows = [row["change"] for row in part(table, "whatif").frames["whatif"].data.to_pylist()]
    assert "operator:aten::linear=0" in rows and "operator:aten::addmm=0" not in rows


@given(st.lists(WHAT, min_size=1, max_size=25))
def test_a_program_run_again_with_faster_kernels_saves_what_the_bounds_say(program):
    program = [("launch", 5), ("twice", 7), *((what, n) for what, n in program if what != "extra")]
    recorded, again = passed(program, False, 1), passed(program, True, 1)
    gain = max(recorded.now, recorded.free) - max(again.now, again.free)
    low, high = chosen(recorded.builder.table(), "kernel:twice=0.5")["kernel:twice=0.5"]
    assert low <= gain <= high


@pytest.mark.parametrize(
    "text",
    ["", "mm", "operator=0", "kernel:x", "kernel:x=-1", "kernel:x=nan", "kernel:x=1e9", "copies:x=0", "launches=2"],
)
def test_what_is_no_change_is_refused(text):
    with pytest.raises(BadRequest):
        parsed_scale(text)


def test_a_device_that_lags_behind_saves_no_more_than_the_host_allows():
    """Earlier work keeps the device busy until 300; each step then takes 100 on the host, and 100 on the device."""
    builder = trace().on_device(kernel("earlier", 300, 0))
    for i in range(3):
        at = 10 + 100 * i
        builder.step(i, at, 95).op("aten::mm", at, 90).launches(kernel("gemm", 100, 300 + 100 * i), dur=2)
    table = builder.table()
    assert (table.steps.end_ns - table.steps.start_ns).tolist() == [100_000] * 3
    ((low, high),) = chosen(table, "kernel:gemm=0").values()
    assert low <= high == 5


def test_a_recorded_wait_that_ended_long_ago_delays_nothing():
    """Kernel c waits for kernel a by a recorded wait, but it starts 1 us after kernel d ends."""
    ids = {"correlation": 51, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 50}
    table = (
        trace().step(0, 0, 900)
        .op("1", 0, 10).launches(kernel("a", 100, at=10), at=0, dur=5)
        .call(20, 1, corr=50, name="cudaEventRecord")
        .op("2", 40, 5).launches(kernel("d", 300, at=100, stream=8), at=40, dur=2)
        .call(50, 2, corr=51, name="cudaStreamWaitEvent")
        .op("3", 60, 10).launches(kernel("c", 590, at=401, stream=9), at=60, dur=5)
        .event("cuda_sync", "Stream Wait Event", 50, 2, 0, 9, stream=9, **ids).table()
    )  # fmt: skip
    (row, *_) = part(table, "whatif", extra=(("scale", "kernel:d=0"),)).frames["whatif"].data.to_pylist()
    assert 85_000 < row["saved_low_ns"] <= row["saved_ns"] <= row["saved_high_ns"] <= 91_000


def test_overlapping_kernels_save_no_more_than_their_common_time():
    builder = trace().step(1, 0, 20).op("aten::a", 0, 2).launches(kernel("a", 1_000, 5), dur=1)
    builder.launches(kernel("b", 1_000, 505, stream=20), at=1, dur=1)
    ((low, high),) = chosen(builder.table(), "kernel:*=0.5").values()
    assert low <= 500 and high >= 750, "the second one starts as early as before, or when the first one leaves room"


def test_only_a_star_is_special_in_names():
    builder = trace().step(1, 0, 50).op("aten::mm", 0, 2).launches(kernel("Cijk_gemm?a [clone .kd]", 100, 5), dur=2)
    table = builder.launches(kernel("Cijk_gemm_k", 100, 105), at=30, dur=2).table()
    for name in ("*[clone .kd]", "*?a *", "*gemm?a*", "*]"):
        found = scaled(table, Scale("kernel", name, 0.0))
        assert [table.strings[at] for at in table.name[found.high.row]] == ["Cijk_gemm?a [clone .kd]"]
    for name in ("*[a-z]", "*gemm??", "*gemm?k"):
        assert scaled(table, Scale("kernel", name, 0.0)) is None


def test_a_class_without_kernels_is_refused_with_the_classes_of_the_trace():
    with pytest.raises(BadRequest, match="no class convolution") as error:
        chosen(busy().table(), "class:convolution=0")
    assert str(error.value.do) == "Classes of the trace: gemm, elementwise."


def test_classes_have_two_spellings():
    assert scaled(busy().table(), Scale("class", "GEMM", 0.0)) is not None


def test_a_name_with_equal_signs_and_colons():
    assert parsed_scale("kernel:void f<a=1>(b::c)=0.25") == Scale("kernel", "void f<a=1>(b::c)", 0.25)


def test_work_that_is_not_there_is_refused():
    with pytest.raises(BadRequest, match="no kernel nothing"):
        chosen(busy().table(), "kernel:nothing=0")
    with pytest.raises(BadRequest, match="no kernel class"):
        chosen(busy().table(), "class:nothing=0")


def test_the_largest_come_first_and_nothing_saves_more_than_the_step():
    found = analysis_by_id("whatif")
    table = busy().table()
    assert found.missing(table) is None
    rows = part(table, "whatif").frames["whatif"].data.to_pylist()
    saved = [row["saved_ns"] for row in rows]
    assert saved == sorted(saved, reverse=True) and 0 < len(rows) <= 10
    for row in rows:
        assert 0 <= row["saved_low_ns"] <= row["saved_high_ns"] <= 205_000
        assert row["saved_low_ns"] <= row["saved_ns"] <= row["saved_high_ns"]
        assert row["new_step_ns"] == 205_000 - row["saved_ns"]
    assert np.all([row["change"].endswith("=0") for row in rows])


def test_the_command(capsys):
    path = str(SAMPLES / "synthetic_gpu")
    assert cli.main(["whatif", path, "--scale", "operator:aten::mm=0.5", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["payloads"]["whatif"]["rows"][0]["change"] == "operator:aten::mm=0.5"
    assert cli.main(["whatif", path, "--scale", "operator:aten::nothing=0"]) == 2
    assert "The trace has no operator aten::nothing." in capsys.readouterr().err
    assert cli.main(["whatif", path]) == 0
    assert "Removing GEMM kernels saves most" in capsys.readouterr().out
    assert cli.main(["whatif", path, "--scale", "copies=0", "--scale", "copies=0.5"]) == 2
    assert "Two changes have the same work." in capsys.readouterr().err


def test_one_rank_of_a_job_keeps_its_waits(capsys):
    """The command and the page say so, unless all ranks are simulated or the trace has no collectives."""
    scale, job = ["--scale", "communication=0.5"], str(SAMPLES / "synthetic_ddp")
    note = "Waits for other ranks stay as recorded."
    for arguments, is_one in ((["--worker", "rank0"], True), ([], False)):
        assert cli.main(["whatif", job, *scale, *arguments]) == 0
        assert (note in " ".join(capsys.readouterr().out.split())) == is_one
    for builder, is_one in (
        (busy(), False),
        (busy().op("c10d::allreduce_", 40, 2).launches(kernel("ncclDevKernel_AllReduce", 10, 205)), True),
    ):
        (notice,) = payload_of(part(builder.table(), "whatif"), "answer", Notices).notices
        assert notice.text.endswith(note) == is_one
