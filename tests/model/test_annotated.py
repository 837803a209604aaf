"""Steps that a server marks by annotations: which it is, what each worked on, and where each ends."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.served_work import MODES, Mode, Served
from tb_plugin.model.trace.steps.annotations import GROUPS, marking, match_annotations, own_problem
from tb_plugin.model.trace.table import Steps
from tb_plugin.model_kinds.trace import TraceModel
from tb_plugin.profilers.serving import SERVING
from tb_plugin.service.workers.user_rules import CODE, with_own_steps
from tests.builders import Bytes, TraceBuilder, kernel, model, trace
from tests.conftest import SHARED

DETAILED = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"
NAMES = {
    # name: mode, batch, decoding, tokens, of decoding, context, generated
    DETAILED: (Mode.DECODE, 32, 32, 32, 32, 32785, 32),
    "step[DECODE bs=32]": (Mode.DECODE, 32, 32, 32, 32, -1, 32),
    "step[EXTEND bs=2 toks=4096]": (Mode.PREFILL, 2, 0, 4096, 0, -1, 0),
    "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]": (Mode.PREFILL, 2, 0, 12, 0, 20, 0),
    "step[MIXED bs=2]": (Mode.MIXED, 2, -1, -1, -1, -1, -1),
    "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]": (
        *(Mode.MIXED, 2, 1, 6, 1, 20, 1),
    ),
    "step[IDLE bs=0]": (Mode.IDLE, 0, 0, -1, 0, -1, 0),
    "step[TARGET_VERIFY bs=4]": (Mode.DECODE, 4, 4, -1, -1, -1, -1),
    "step[SOMETHING_NEW bs=4]": (Mode.UNKNOWN, 4, -1, -1, -1, -1, -1),
    "execute_context_2(500)_generation_3(3)": (Mode.MIXED, 5, 3, 503, 3, -1, 3),
    "execute_context_1(888_788544)_generation_0(0)": (Mode.PREFILL, 1, 0, 888, 0, -1, 0),
    "execute_context_2(500_130000)_generation_3(3_3)": (Mode.MIXED, 5, 3, 503, 3, -1, 3),
    "execute_context_0(0)_generation_3(12)": (Mode.DECODE, 3, 3, 12, 12, -1, -1),
    "execute_context_0(0)_generation_0(0)": (Mode.IDLE, 0, 0, 0, 0, -1, 0),
    "execute_context_1(888_788544)_generation_4(4_1032)": (Mode.MIXED, 5, 4, 892, 4, -1, 4),
    "gpu_model_runner: forward": (Mode.UNKNOWN, -1, -1, -1, -1, -1, -1),
    "execute_new_1_cached_0": (Mode.PREFILL, 1, 0, -1, 0, -1, 0),
    "[Executor] _forward_step 5: 1 ctx reqs, 20 gen reqs": (Mode.MIXED, 21, 20, -1, -1, -1, 20),
    "[Executor] _forward_step 6: 0 ctx reqs, 0 ctx tokens, 20 gen reqs": (Mode.DECODE, 20, 20, 20, 20, -1, 20),
    "decode[bs=4 tok=16 p=0 d=4 spec=3]": (Mode.DECODE, 4, 4, 16, 16, -1, -1),
    "prefill[bs=2 tok=16384]": (Mode.PREFILL, 2, 0, 16384, 0, -1, 0),
    "Denoising_Step_3": (Mode.DENOISING, -1, -1, -1, -1, -1, -1),
}


def test_each_form_says_what_it_says() -> None:
    known, served = match_annotations(pa.array(NAMES, pa.large_string()), SERVING)
    assert (known >= 0).all()
    said = dict(zip(NAMES, zip(*served.columns(), strict=True), strict=True))
    assert said == {name: tuple(map(int, values)) for name, values in NAMES.items()}


@pytest.mark.parametrize(
    "name", ["aten::mm", "step", "step[]", "decode", "ProfilerStep#3", "execute_context", "denoise", "é" * 9]
)
def test_other_names_are_none(name: str) -> None:
    assert not marking(pa.array([name], pa.large_string()), SERVING).any()


def test_patterns_use_known_words_alone() -> None:
    for pattern in SERVING:
        assert own_problem(pattern.regex) == "" and pattern.source and pattern.framework
        assert {mode for _, mode in pattern.modes} | {pattern.mode or "idle"} <= set(MODES)
    assert all(not group.startswith("_") for group in GROUPS)


def decoding(
    builder: TraceBuilder, number: int, *, at: int, dur: int = 50, work: int = 30, lag: int = 5
) -> TraceBuilder:
    """One iteration with one kernel, launched 10 us after it begins."""
    return builder.annotation(f"step[DECODE bs={number}]", at, dur).launches(
        kernel(dur=work, at=at + 10 + lag), at=at + 10
    )


def test_they_end_with_their_work_and_are_numbered() -> None:
    steps = decoding(decoding(trace(), 4, at=0, dur=20), 5, at=100).table().steps
    assert steps.label == ("1", "2") and steps.recorded
    assert (steps.source, steps.framework) == ("annotation", "SGLang")
    assert steps.start_ns.tolist() == [0, 100_000] and steps.end_ns.tolist() == [45_000, 150_000]
    assert steps.served.batch.tolist() == [4, 5]


def test_the_host_may_be_a_step_ahead_of_the_device() -> None:
    """Overlapping scheduling: the annotation of a step begins while the device works on the one before."""
    builder = decoding(trace(), 4, at=0, dur=20, work=100)
    steps = decoding(builder, 4, at=30, dur=20, work=100, lag=75).table().steps
    assert steps.start_ns.tolist() == [0, 115_000] and steps.end_ns.tolist() == [115_000, 215_000]
    assert steps.host_start_ns.tolist() == [0, 30_000]


def test_of_nested_ones_the_outer_is_the_step_and_the_inner_adds_what_it_leaves_open() -> None:
    builder = trace().annotation("execute_new_0_cached_7", 0, 50).annotation("step[DECODE bs=7]", 5, 30)
    builder.annotation("execute_9_context_0(sq0sk0sqsq0sqsk0)_generation_7(sq7sk99sqsq7sqsk99)", 6, 20)
    steps = builder.launches(kernel(dur=5), at=8).table().steps
    assert len(steps.label) == 1 and steps.framework == "vLLM"
    assert {
        name: value for name, (value,) in zip(("mode", "batch", "decoding"), steps.served.columns(), strict=False)
    } == {
        "mode": Mode.DECODE,
        "batch": 7,
        "decoding": 7,
    }
    assert steps.served.context.tolist() == [99]


def test_what_holds_several_of_its_kind_is_a_loop() -> None:
    builder = trace().annotation("step[DECODE bs=1]", 0, 500)
    steps = decoding(decoding(builder, 2, at=10), 3, at=110).table().steps
    assert steps.served.batch.tolist() == [2, 3]


def test_the_thread_that_marks_most_is_believed() -> None:
    builder = decoding(decoding(trace(), 2, at=10), 3, at=110)
    assert builder.annotation("step[DECODE bs=9]", 0, 400, tid=2).table().steps.served.batch.tolist() == [2, 3]


def test_the_profiler_s_steps_stay_and_learn_their_mode() -> None:
    builder = decoding(decoding(trace().step(4, 0, 80).step(5, 100, 80), 2, at=10), 3, at=110)
    steps = builder.step(6, 200, 80).table().steps
    assert steps.label == ("4", "5") and steps.source == "profiler"
    assert steps.served.batch.tolist() == [2, 3] and steps.served.mode.tolist() == [Mode.DECODE] * 2


def test_a_profiler_step_with_several_iterations_has_no_mode() -> None:
    builder = decoding(decoding(trace().step(4, 0, 200), 2, at=10), 3, at=110)
    assert builder.table().steps.served.columns() == ()


def test_a_last_step_of_less_work_is_compared_with_its_own_mode() -> None:
    builder = trace().annotation("step[EXTEND bs=1 toks=9]", 0, 50)
    builder.launches(*(kernel(dur=1, at=10 + n) for n in range(9)), at=5)
    builder.annotation("step[IDLE bs=0]", 100, 5)
    kept = decoding(builder, 4, at=110).table().steps
    assert kept.label == ("1", "2", "3") and kept.dropped == ()
    cut = builder.annotation("step[EXTEND bs=1 toks=9]", 200, 50).launches(kernel(dur=1), at=205).table().steps
    assert cut.label == ("1", "2", "3") and cut.dropped == ("4",)


def test_an_idle_step_at_the_end_is_whole() -> None:
    steps = decoding(decoding(trace(), 4, at=0), 4, at=100).annotation("step[IDLE bs=0]", 200, 5).table().steps
    assert steps.label == ("1", "2", "3") and steps.dropped == ()


def test_they_are_kept_in_the_column_file(tmp_path: object) -> None:
    table = decoding(decoding(trace(), 4, at=0), 5, at=100).table()
    path = f"{tmp_path}/columns.arrow"
    TraceModel().write(table, path)
    found = TraceModel().read(path).steps
    assert found.served.columns() == table.steps.served.columns()
    assert (found.label, found.source, found.framework) == (table.steps.label, "annotation", "SGLang")
    assert TraceModel().read(path).recorder == table.recorder
    assert found.take([1]).served.batch.tolist() == [5]


def test_a_survey_finds_the_same_steps() -> None:
    builder = decoding(decoding(trace().op("aten::mm", 0, 1), 4, at=10, dur=20), 5, at=100)
    builder.annotation("execute_5_context_0(sq0sk0sqsq0sqsk0)_generation_5(sq5sk77sqsq5sqsk77)", 101, 20)
    whole = builder.table().steps
    survey = KinetoReader().survey(Bytes(builder.bytes()), ReadOptions(), no_progress)
    assert (survey.label, survey.step_source, survey.framework) == (whole.label, whole.source, whole.framework)
    assert survey.start_ns == tuple(whole.start_ns.tolist()) and survey.step_end_ns == tuple(whole.end_ns.tolist())
    inside = survey.steps_in(0, survey.end_ns + 1)
    assert inside.served.columns() == whole.served.columns() and inside.source == "annotation"


def own(pattern: str) -> tuple[Steps, tuple[str, ...]]:
    raw = with_own_steps(
        trace().annotation("tick prompt n=3 t=40", 0, 50).annotation("tick x", 60, 5).raw_trace(), pattern
    )
    return assemble(raw).steps, tuple(issue.code for issue in raw.report.issues)


def test_a_person_s_own_pattern_comes_first() -> None:
    steps, issues = own(r"^tick (?P<mode>\w+)(?: n=(?P<batch>\d+) t=(?P<tokens>\d+))?")
    assert issues == () and steps.label == ("1", "2") and steps.framework == "TORCH_TRACE_STEPS"
    # A word that is no mode is no mode.
    assert steps.served.columns() == ((0, 0), (3, -1), (-1, -1), (40, -1), (-1, -1), (-1, -1), (-1, -1))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing"),
        ("(a)", "unnamed"),
        ("(?P<size>a)", "size"),
        ("a*", "every"),
        ("x" * 2000, "longer"),
        (r"a\1", ""),
    ],
)
def test_a_pattern_that_is_none_is_told(pattern: str, why: str) -> None:
    steps, issues = own(pattern)
    assert issues == (CODE,) and not steps.recorded and why in own_problem(pattern)


def test_a_hostile_pattern_takes_linear_time() -> None:
    builder = trace().annotation("a" * 20_000 + "!", 0, 5)
    assert not assemble(with_own_steps(builder.raw_trace(), "^(?:a+)+$")).steps.recorded


def test_ordinary_traces_look_at_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tb_plugin.model.trace.step_sources.match_annotations", None)
    assert trace().step(1, 0, 50).op("aten::mm", 0, 5).table().steps.served.columns() == ()


def test_columns_that_are_empty_stay_empty() -> None:
    assert Served.of(()).columns() == () and len(Served().take(np.array([], np.intp))) == 0
    assert len(replace(Steps(), label=()).take([]).served) == 0


def test_the_recording_of_a_server() -> None:
    file = SHARED / "data/tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz"
    if not file.is_file():
        pytest.skip("no shared data")
    steps = model(file).steps
    assert steps.label == ("1",) and steps.source == "annotation"
    assert steps.served.columns() == ((Mode.DECODE,), (32,), (32,), (32,), (32,), (32785,), (32,))
