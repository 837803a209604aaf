"""Planted servers: bounds, modes and numbers of all steps are those of the plan, in the dialect of each framework."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from typing import Any

import pytest

from tb_plugin.analysis.served_steps import served_steps
from tb_plugin.model.trace.served_work import Mode
from tb_plugin.model.trace.table import TraceTable
from tests.builders import model
from tests.depth import sampled
from tests.samples import SAMPLES
from tests.synthetic import loaded

generator = loaded("synthetic_serving")
Json = dict[str, Any]
MARKED = [name for name in generator.DIALECTS if name != "none"]
SEEDS = [*sampled(range(1000), range(14))]
TELLS = {
    # dialect: what its names say of a step
    "sglang": ("batch",),
    "roofline": ("batch", "context"),
    "vllm": ("batch", "tokens", "generated"),
    "nested": ("batch", "tokens", "context", "generated"),
    "tensorrt": ("batch",),
    "diffusion": (),
}


def config_of(seed: int) -> Any:
    dialect = MARKED[seed % len(MARKED)]
    return generator.Config(
        seed, dialect, 5 + seed % 20, overlap=seed % 3 == 1, speculative=dialect != "tensorrt" and seed % 7 == 3
    )


def read(document: Json) -> TraceTable:
    return model(json.dumps(document).encode())


@pytest.mark.parametrize("first", range(0, len(SEEDS), 50))
def test_bounds_and_modes_are_those_of_the_plan(first: int) -> None:
    for seed in SEEDS[first : first + 50]:
        config = config_of(seed)
        document, truth = generator.generate(config)
        table, plan, origin = read(document), truth["steps"], truth["origin_ns"]
        steps, served = table.steps, table.steps.served
        assert steps.label == tuple(str(n + 1) for n in range(len(plan))), (seed, steps.dropped)
        assert [Mode(mode).word for mode in served.mode.tolist()] == [step["mode"] for step in plan], seed
        for column in ("start_ns", "end_ns", "host_start_ns", "host_end_ns"):
            assert (getattr(steps, column) + origin).tolist() == [step[column] for step in plan], (seed, column)
        told = {key: [step[key] for step in plan] for key in ("batch", "context")}
        told["tokens"] = [step["prompt_tokens"] + step["decode_tokens"] for step in plan]
        told["generated"] = [-1 if step["generated"] is None else step["generated"] for step in plan]
        for key in TELLS[config.dialect]:
            if key == "context" and config.dialect == "roofline" and config.speculative:
                continue  # of that mode nothing is known to be written
            said = [(-1, value) if key == "context" else (value,) for value in told[key]]
            found = zip(getattr(served, key).tolist(), said, strict=True)
            assert all(value in wanted for value, wanted in found), (seed, key)
        gaps = [-1 if step["gap_ns"] is None else step["gap_ns"] for step in plan]
        assert served_steps(table).gap_ns.tolist() == gaps, seed


@pytest.mark.parametrize("first", range(0, len(SEEDS), 50))
def test_without_annotations_steps_begin_with_their_first_launch(first: int) -> None:
    for seed in SEEDS[first : first + 50]:
        config = generator.Config(seed, "none", 6 + seed % 40, overlap=seed % 3 == 1, speculative=seed % 7 == 3)
        document, truth = generator.generate(config)
        steps, origin = read(document).steps, truth["origin_ns"]
        works = [step for step in truth["steps"] if step["mode"] != "idle"]
        decodes = [step["mode"] == "decode" for step in works]
        at = [place for place, one in enumerate(decodes) if one]
        direct = sum(b - a == 1 for a, b in pairwise(at))
        if len(at) < 4 or direct < 3 or 2 * direct < len(at) - 1:
            # Nothing is usual between two replays: a step lasts from one to the next.
            graphs = [launch - origin for launch in truth["graph_launches_ns"]]
            firsts = [step["first_launch_ns"] - origin for step in works]
            begun = steps.host_start_ns.tolist()
            if len(at) >= 4:
                assert begun == graphs[: len(begun)] and len(begun) + len(steps.dropped) == len(graphs) - 1, seed
            assert len(at) >= 4 or not steps.recorded or set(begun) <= set(firsts), seed
            continue
        # Where the first one began nobody saw, unless a replay is in it.
        wanted = [step["first_launch_ns"] - origin for step in works[0 if decodes[0] else 1 :]]
        assert (steps.source, steps.dropped) == ("inferred", ()), seed
        assert steps.host_start_ns.tolist() == wanted, seed
        assert steps.host_end_ns[:-1].tolist() == wanted[1:], seed
        assert steps.end_ns[-1] == max(steps.host_end_ns[-1], works[-1]["last_work_ns"] - origin), seed
        assert set(steps.served.mode.tolist()) == {Mode.UNKNOWN}, seed


FRAMES = (
    "vllm/v1/worker/gpu_model_runner.py(1208): execute_model",
    "/usr/lib/python3/dist-packages/diffusers/pipelines/flux/pipeline_flux.py(700): __call__",
    "/opt/sglang/python/sglang/srt/managers/scheduler.py(640): event_loop_normal",
)


def runs_of(places: list[int]) -> int:
    """The longest run of numbers right after each other."""
    longest, run = 0, 0
    for place, before in zip(places, [-1, *places], strict=False):
        run = run + 1 if place == before + 1 else 1
        longest = max(longest, run)
    return longest


@pytest.mark.parametrize("first", range(0, len(SEEDS), 50))
def test_without_annotations_and_graphs_what_fills_most_of_the_recording_repeats(first: int) -> None:
    for seed in SEEDS[first : first + 50]:
        config = generator.Config(seed, "none", 6 + seed % 30, overlap=seed % 2 == 1, eager=FRAMES[seed % 3])
        document, truth = generator.generate(config)
        steps, origin = read(document).steps, truth["origin_ns"]
        works = [step for step in truth["steps"] if step["mode"] != "idle"]
        starts = [step["first_launch_ns"] - origin for step in works]
        usual = [place for place, step in enumerate(works) if step["mode"] in ("decode", "denoising")]
        if runs_of(usual) < 4 or 2 * len(usual) <= len(works):
            # Nothing, or prefills are what repeats.
            assert steps.unanswered if not steps.recorded else set(steps.host_start_ns.tolist()) <= set(starts), seed
            continue
        # From the first to the last decode step; prefills in a row are one step.
        wanted = [starts[place] for place in range(usual[0], usual[-1] + 1) if place in usual or place - 1 in usual]
        ends = [*wanted[1:], starts[usual[-1] + 1] if usual[-1] + 1 < len(works) else None]
        assert (steps.source, steps.dropped, steps.unanswered) == ("inferred", (), ""), seed
        assert steps.host_start_ns.tolist() == wanted, seed
        assert all(b in (None, a) for a, b in zip(steps.host_end_ns.tolist(), ends, strict=True)), seed


@pytest.mark.parametrize("seed", range(3))
def test_an_eager_loop_of_nobody_knows_what_has_no_steps(seed: int) -> None:
    config = generator.Config(seed, "none", 20, eager="train.py(10): main")
    steps = read(generator.generate(config)[0]).steps
    assert not steps.recorded and not steps.unanswered


def test_the_sample_is_what_the_generator_makes() -> None:
    folder = SAMPLES / "synthetic_serving"
    document, truth = generator.generate(generator.Config(31, "nested", 40, gap_ns=20_000, slow_step=12))
    (file,) = folder.iterdir()
    assert json.loads(gzip.decompress(file.read_bytes())) == document
    assert json.loads((SAMPLES / "truth" / "synthetic_serving.json").read_text()) == truth
