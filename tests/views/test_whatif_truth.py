"""Simulated changes against programs that truly run again: new step times, and bounds of savings."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tb_plugin.errors import BadRequest
from tests.builders import model, part
from tests.depth import DEEP
from tests.machines import Faster, Machine, random_change, random_program
from tests.synthetic import Config, generate, loaded

Recorder: Any = loaded("gpu_training.recorder").Recorder
NO_CHANGE = Faster("")

SEEDS = 200 if DEEP else 30
# Latencies differ between launches, so bounds hold up to this share of the step.
LATENCY_SHARE = 0.001


def test_programs_that_run_again() -> None:
    """In 95 of 100 programs, the new step time differs by at most 2 %. The saving is always within its bounds."""
    found: Counter[str] = Counter()
    missed = []
    for seed in range(SEEDS):
        program, change = random_program(seed), random_change(seed)
        recorded, again = Machine().run(program), Machine(change).run(program)
        table = recorded.builder.table()
        try:
            row = part(table, "whatif", extra=(("scale", change.text),)).frames["whatif"].data.to_pylist()[0]
        except BadRequest:  # the program does not contain this work
            continue
        found[change.kind] += 1
        count = len(program.steps)
        step_ns = (table.steps.end_ns - table.steps.start_ns).sum() / count
        saved_ns = (recorded.end_ns - again.end_ns) / count
        off = LATENCY_SHARE * step_ns
        assert row["saved_low_ns"] - off <= saved_ns <= row["saved_high_ns"] + off, (seed, change.text)
        if abs(row["saved_ns"] - saved_ns) > 0.02 * (step_ns - saved_ns):
            missed.append((seed, change.text, step_ns, saved_ns, row["saved_ns"]))
    assert len(missed) <= 0.05 * SEEDS, missed
    assert found.total() > 0.8 * SEEDS and len(found) == 6


@pytest.mark.parametrize("kind", ["operator:aten::mm", "kernel:sgemm_nn", "launches"])
def test_an_unchanged_program_takes_as_long(kind: str) -> None:
    for seed in range(5):
        table = Machine().run(random_program(seed)).builder.table()
        row = part(table, "whatif", extra=(("scale", f"{kind}=1"),)).frames["whatif"].data.to_pylist()[0]
        assert (row["saved_low_ns"], row["saved_ns"], row["saved_high_ns"]) == (0, 0, 0)


TRAININGS = [(seed, streams) for seed in range(10 if DEEP else 1) for streams in (1, 2, 3, 4)]


def trained(config: Any, monkeypatch: pytest.MonkeyPatch, change: Faster = NO_CHANGE) -> list[Any]:
    """The ranks of an invented training (samples/gpu_training) with changed durations, by its own scheduling."""
    queue, spend = Recorder.queue, Recorder.spend

    def changed_queue(self: Any, thread: Any, kind: str, name: str, cells: int, *more: Any) -> Any:
        operators = [each.name for each in thread.ops]
        return queue(self, thread, kind, name, change.of_device(cells, operators, name), *more)

    def changed_spend(self: Any, thread: Any, cells: int, in_runtime: bool = False) -> Any:
        return spend(self, thread, change.of_host(cells, [each.name for each in thread.ops], ""), in_runtime)

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "queue", changed_queue)
        patch.setattr(Recorder, "spend", changed_spend)
        return list(generate(config))


def end_ns(worker: Any) -> int:
    recorder = worker.recorder
    return int(recorder.ns(max(recorder.main.now, *(each.end for each in recorder.activities))))


@pytest.mark.parametrize(("seed", "streams"), TRAININGS)
def test_trainings_that_run_again(seed: int, streams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """New step times differ by at most 0.1 %, and savings are within their bounds."""
    config = Config(seed=seed, steps=3, streams=streams, layers=2)
    (recorded,) = trained(config, monkeypatch)
    table = model("".join(recorded.text()).encode())
    kernels = recorded.recorder.dialect.kernels
    for change in (
        Faster("copies", "", 0.0),
        Faster("copies", "", 0.5),
        Faster("kernel", kernels["gemm"], 0.5),
        Faster("kernel", kernels["attention_backward"], 2.0),
        Faster("operator", "aten::mm", 0.5),
        Faster("operator", "aten::layer_norm", 2.0),
    ):
        (row, *_) = part(table, "whatif", extra=(("scale", change.text),)).frames["whatif"].data.to_pylist()
        saved_ns = (end_ns(recorded) - end_ns(trained(config, monkeypatch, change)[0])) / config.steps
        off = LATENCY_SHARE * row["new_step_ns"]
        assert abs(row["saved_ns"] - saved_ns) <= off, change.text
        assert row["saved_low_ns"] - off <= saved_ns <= row["saved_high_ns"] + off, change.text
