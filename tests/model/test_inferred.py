"""Steps by what repeats, by hand-sized servers: what is certain is a step, and what is not says why."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pyarrow as pa
import pytest

from tb_plugin.model.trace.launches import matching
from tb_plugin.model.trace.periodicity import Words, likely_periods, periodic_runs, root
from tb_plugin.profilers import PYTORCH
from tests.builders import TraceBuilder, kernel, part, trace

SERVER = "vllm/v1/worker/gpu_model_runner.py(1208): execute_model"
LAYER = ("norm", "qkv", "attention", "mlp")


def server(*steps: tuple[str, ...], pause: int = 50, frame: str = SERVER) -> TraceBuilder:
    """Kernels that a thread launches one by one, every 10 us, with a pause before each step."""
    builder, at = trace(), 0
    builder.python(frame, 0, 100_000) if frame else builder.op("aten::copy_", 0, 100_000)
    for step in steps:
        at += pause
        for name in step:
            builder.launches(kernel(name, dur=2, at=at + 6), at=at, dur=4)
            at += 10
    return builder


def step(layers: int = 3, attention: str = "attention") -> tuple[str, ...]:
    return ("embed", *(attention if name == "attention" else name for name in LAYER * layers), "sample")


WIDE = ("in_norm", "query", "key", "value", "rotate", "attention", "out", "mid_norm", "gate", "up", "down", "add")
ALONE = ("embed", *WIDE * 60, "head", "sample")
"""One step of layers that are wide enough to be taken for steps."""


def why(builder: TraceBuilder) -> str:
    table = builder.table()
    assert not table.steps.recorded
    return table.steps.unanswered


def test_a_step_begins_behind_the_pause_and_ends_where_the_next_begins() -> None:
    steps = server(*[step()] * 5).table().steps
    assert steps.source == "inferred" and len(steps.label) == 5
    assert steps.host_start_ns.tolist() == [1000 * (50 + n * 190) for n in range(5)]
    assert steps.host_end_ns.tolist() == [*steps.host_start_ns[1:].tolist(), 1000 * (50 + 4 * 190 + 134)]


def test_numbers_in_names_do_not_tell_steps_apart() -> None:
    steps = server(*(step(attention=f"attention_splits_{n}") for n in range(5))).table().steps
    assert len(steps.label) == 5


def test_a_prefill_between_is_a_step_and_a_little_work_is_none() -> None:
    prefill, little = step(4, "prefill_attention"), ("log", "log")
    starts = server(step(), step(), step(), step(), prefill, step(), little, step()).table().steps.host_start_ns // 1000
    assert starts.tolist() == [50, 240, 430, 620, 810, 1040, 1300]


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (server(*[step()] * 3), "rare"),
        (server(ALONE), "layer"),
        (server(*[("embed", *WIDE, "sample")] * 30), "layer"),
        (server(*[step()] * 8, pause=0), "begin"),
        (server(*[step()] * 8, frame=""), ""),
        (server(*[step()] * 8).op("autograd::engine::evaluate_function: AddmmBackward0", 0, 5), ""),
    ],
)
def test_what_is_not_certain_says_why(builder: TraceBuilder, reason: str) -> None:
    assert why(builder) == reason


def test_the_notice_says_why() -> None:
    texts = [each.text for each in part(server(ALONE).table(), "overview").payloads["data_quality"].notices]  # type: ignore[union-attr]
    assert any("may be a layer instead of a step" in text for text in texts)


def test_words_are_told_by_what_they_are() -> None:
    sequence = np.random.default_rng(3).integers(0, 3, 200)
    words, at = Words(sequence), np.arange(190)
    numbers = words.of(at, at + 6)
    for place in range(0, 190, 7):
        same = [(sequence[other : other + 6] == sequence[place : place + 6]).all() for other in at]
        assert (numbers == numbers[place]).tolist() == same


def test_the_period_of_what_repeats_is_found_among_noise() -> None:
    draw = np.random.default_rng(5)
    word = np.concatenate(([9], np.tile(draw.integers(0, 6, 7), 12), [8, 7]))
    sequence = np.concatenate((draw.integers(0, 9, 500), np.tile(word, 9), draw.integers(0, 9, 500)))
    assert len(word) in likely_periods(sequence, 4)
    begin, length = periodic_runs(sequence, len(word))
    assert length.max() >= 8 * len(word) and root(np.tile(word, 3)) == len(word)
    assert begin[length.argmax()] <= 500


def test_long_sequences_take_n_log_n() -> None:
    draw = np.random.default_rng(1)
    for sequence in (draw.integers(0, 50, 1 << 15), np.zeros(1 << 15, np.int64)):
        begun = perf_counter()
        likely_periods(sequence, 4)
        assert perf_counter() - begun < 5


def graphs(*between: tuple[str, ...], pause: int = 60) -> TraceBuilder:
    """Replays of a graph with 10 kernels, before the first "inputs", and between them what is said; "|" is a pause."""
    builder, at = trace().op("aten::copy_", 0, 100_000), 0
    for names in (("inputs", "!"), *((*names, "!") for names in between)):
        for name in names:
            if name == "|":
                at += pause
                continue
            works = [
                kernel(f"k{n}" if name == "!" else name, dur=1, at=at + 6 + n) for n in range(10 if name == "!" else 1)
            ]
            builder.launches(*works, at=at, dur=4, name="cudaGraphLaunch" if name == "!" else "cudaLaunchKernel")
            at += 10
    return builder


USUAL = ("sample", "|", "inputs")


def starts(builder: TraceBuilder) -> list[int]:
    """Begins of the steps and the end of the last, microseconds since the first launch."""
    steps = builder.table().steps
    assert steps.source == "inferred" and steps.host_end_ns[:-1].tolist() == steps.host_start_ns[1:].tolist()
    return [time // 1000 for time in (*steps.host_start_ns.tolist(), int(steps.host_end_ns[-1]))]


def test_steps_with_replays_begin_with_their_inputs() -> None:
    assert starts(graphs(*[USUAL] * 4)) == [0, 90, 180, 270, 360]


def test_an_eager_stretch_between_replays_is_a_step_if_its_borders_are_the_usual_ones() -> None:
    prefill = ("sample", "|", "inputs", *["layer"] * 6, "sample", "|", "inputs")
    assert starts(graphs(USUAL, USUAL, prefill, USUAL, USUAL)) == [0, 90, 180, 270, 410, 500, 590]
    short = ("sample", "|", "inputs", "layer", "sample", "|", "inputs")
    assert starts(graphs(USUAL, USUAL, short, USUAL, USUAL)) == [0, 90, 180, 360, 450, 540]
    unusual = ("sample", "|", "other", *["layer"] * 6, "sample", "other")
    assert starts(graphs(USUAL, USUAL, unusual, USUAL, USUAL)) == [0, 90, 180, 360, 440, 530]


def test_without_a_pause_that_stands_out_steps_go_from_replay_to_replay() -> None:
    assert starts(graphs(*[USUAL] * 5, pause=0)) == [10, 40, 70, 100, 130, 160]


@pytest.mark.parametrize(
    ("name", "knows"),
    [
        ("/usr/lib/python3/dist-packages/vllm/v1/engine/core.py(300): step", True),
        ("sglang/srt/managers/scheduler.py(640): event_loop_normal", True),
        ("diffusers/pipelines/flux/pipeline_flux.py(700): __call__", True),
        ("vllm::unified_attention", True),
        ("diffusers/models/attention.py(10): forward", False),
        ("my_vllm/train.py(3): main", False),
        ("void vllm::rms_norm_kernel<float>", False),
        ("vllm/notes.txt", False),
    ],
)
def test_servers_are_known_by_their_frames_and_operators(name: str, knows: bool) -> None:
    assert matching(pa.array([name, None]), PYTORCH.iterating).tolist() == [knows, False]
    assert not matching(pa.array([name]), "").any()
