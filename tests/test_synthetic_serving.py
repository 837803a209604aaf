"""Planted servers: bounds, modes and numbers of all steps are those of the plan, in the dialect of each framework."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tb_plugin.analyses.served_steps import served_steps
from tb_plugin.trace.served import Mode
from tb_plugin.trace.table import TraceTable
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


def test_the_sample_is_what_the_generator_makes() -> None:
    folder = SAMPLES / "synthetic_serving"
    document, truth = generator.generate(generator.Config(31, "nested", 40, gap_ns=20_000, slow_step=12))
    (file,) = folder.iterdir()
    assert json.loads(gzip.decompress(file.read_bytes())) == document
    assert json.loads((SAMPLES / "truth" / "synthetic_serving.json").read_text()) == truth
