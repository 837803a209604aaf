"""Simulated changes of jobs, against jobs that are played again with changed durations."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin import cli
from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest, UnreadableTrace
from tb_plugin.payloads import Table, View
from tb_plugin.views.distributed.job_data import job_data
from tb_plugin.views.distributed.merge import join
from tb_plugin.views.distributed.stragglers.report import straggler_report
from tests.builders import analysis, model, trace
from tests.depth import DEEP
from tests.machines import Faster
from tests.planted_jobs import SHAPES, WEAK, parts_of
from tests.samples import SAMPLES
from tests.synthetic import Config, loaded
from tests.synthetic_job import Job, Straggler, plan, text_of
from tests.views.test_whatif_truth import end_ns, trained

playing: Any = loaded("jobs.playing")
KERNELS: Any = loaded("jobs.program").KERNELS
KERNEL_OF: Any = loaded("jobs.job").KERNEL_OF
SEEDS = 200 if DEEP else 8


@dataclass(frozen=True)
class Change:
    kind: str
    name: str
    factor: float
    ranks: tuple[int, ...]

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.name}={self.factor:g}" if self.name else f"{self.kind}={self.factor:g}"


def played(job: Any, change: Change | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plan of a job whose work takes ``factor`` times as long on some ranks, by the rules of the generator."""
    if change is None:
        return plan(job)
    segment_ns, noisy, transfer = playing.segment_ns, playing._Play._noisy, playing._Play._transfer

    def changed_segment(job: Any, stage: Any, step: int, place: int, rank: int | None = None) -> Any:
        kernels, ns = segment_ns(job, stage, step, place, rank)
        mine = np.isin(np.arange(len(ns)) + (stage.first_rank if rank is None else rank), change.ranks)
        named = np.array([KERNELS[kernel][1] == change.name for kernel in kernels.tolist()])
        return kernels, np.where(
            mine[:, None] & named & (change.kind == "kernel"), (ns * change.factor).astype(int), ns
        )

    def changed_noisy(self: Any, ns: int) -> Any:
        found = noisy(self, ns)
        kind = {playing.LOADER_NS: "data_loading", playing.COPY_NS: "copies"}[ns]
        mine = np.isin(np.arange(len(found)), change.ranks) & (change.kind == kind)
        return np.where(mine, (found * change.factor).astype(np.int64), found)

    def changed_transfer(self: Any, step: int, stage: Any, place: int, members: Any) -> Any:
        found = transfer(self, step, stage, place, members)
        return (found * change.factor).astype(np.int64) if change.kind == "communication" else found

    with monkeypatch.context() as patch:
        patch.setattr(playing, "segment_ns", changed_segment)
        patch.setattr(playing._Play, "_noisy", changed_noisy)
        patch.setattr(playing._Play, "_transfer", changed_transfer)
        return plan(job)


def step_ns(made: Any) -> float:
    return float((made.finish - made.begin).mean())


def simulated(made: Any, *scales: str, on: Sequence[str] = ()) -> View | Table:
    return simulated_texts(["".join(text_of(made, rank)) for rank in range(made.job.ranks)], *scales, on=on)


def simulated_texts(
    texts: Sequence[str], *scales: str, on: Sequence[str] = (), steps: tuple[str, ...] | None = None
) -> View | Table:
    view = analysis("distributed")
    params = Params(steps=steps, extra=(*(("scale", text) for text in scales), *(("on", rank) for rank in on)))
    parts = [replace(view.part(model(text.encode()), params), worker=f"rank{i}") for i, text in enumerate(texts)]
    return view.answer(parts, params)


def rows_of(found: View | Table) -> list[dict[str, Any]]:
    assert isinstance(found, View)
    table = found.payloads["whatif"]
    assert isinstance(table, Table)
    return table.rows


def random_job(seed: int) -> tuple[Any, Change]:
    rng = random.Random(seed)
    ranks = rng.choice((2, 4, 8))
    more = rng.choice(({}, {"tp": 2}, {"pp": 2, "microbatches": 2}, {"sharded": True}))
    stragglers = (Straggler(rng.randrange(ranks), "kernel", "persistent", 300_000),) if rng.random() < 0.5 else ()
    job = Job(ranks=ranks, steps=3, layers=2, kernels=6, seed=seed, stragglers=stragglers, **more)
    kind = rng.choice(("kernel", "kernel", "kernel", "communication", "copies", "data_loading"))
    name = rng.choice([KERNELS[i][1] for i in (1, 2, 4, 5, 7)]) if kind == "kernel" else ""
    factor = rng.choice((0.5, 0.5, 2.0) if kind == "kernel" else (0.0, 0.5))
    chosen = tuple(range(ranks)) if kind == "communication" or rng.random() < 0.5 else (rng.randrange(ranks),)
    return job, Change(kind, name, factor, chosen)


def test_jobs_that_are_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 95 of 100 jobs, the new step time differs by at most 2 %."""
    missed = []
    for seed in range(SEEDS):
        job, change = random_job(seed)
        made = played(job, None, monkeypatch)
        gain = step_ns(made) - step_ns(played(job, change, monkeypatch))
        on = [f"rank{rank}" for rank in change.ranks]
        try:
            row = rows_of(simulated(made, change.text, on=on))[0]
        except BadRequest:  # this job has no such kernel
            continue
        new = step_ns(made) - gain
        if abs(row["new_step_ns"] - new) > 0.02 * new:
            missed.append((seed, job, change.text, on, step_ns(made), gain, row["saved_ns"]))
    assert len(missed) <= 0.05 * SEEDS, missed


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in WEAK])
def test_both_replays_agree_on_a_straggler(shape: str) -> None:
    """The replay of calls without a straggler, and that of all work with faster kernels, both save what a job without the
    straggler saves.
    """
    job = Job(ranks=8, steps=4, seed=1, noise=0.0, stragglers=(Straggler(1, amount_ns=1_000_000),), **SHAPES[shape])
    made, without = plan(job), plan(dataclasses.replace(job, stragglers=()))
    gain, limit = step_ns(made) - step_ns(without), 0.002 * step_ns(made)
    report = straggler_report(job_data(join(parts_of(made)), None))
    assert report.lost(report.names.index("rank1")) == pytest.approx(gain, abs=limit)
    kernel = KERNELS[KERNEL_OF["gemm"]][1]
    slow, usual = (kernel_ns(each, 1, kernel) for each in (made, without))
    (row,) = rows_of(simulated(made, f"kernel:{kernel}={usual / slow:.9f}", on=["rank1"]))
    assert row["saved_ns"] == pytest.approx(gain, abs=limit)


def kernel_ns(made: Any, rank: int, kernel: str) -> float:
    events = json.loads("".join(text_of(made, rank)))["traceEvents"]
    return sum(event["dur"] for event in events if event.get("cat") == "kernel" and event["name"] == kernel)


def test_one_slow_rank_delays_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of one rank twice as long make every rank wait; twice as fast, the other ranks still need their time."""
    made = played(Job(ranks=4, steps=2, layers=2, kernels=6), None, monkeypatch)
    kernel = KERNELS[4][1]
    slower = rows_of(simulated(made, f"kernel:{kernel}=2", on=["rank1"]))[0]
    everywhere = rows_of(simulated(made, f"kernel:{kernel}=2"))[0]
    faster = rows_of(simulated(made, f"kernel:{kernel}=0.5", on=["rank1"]))[0]
    assert slower["saved_ns"] < 0.9 * everywhere["saved_ns"] < 0
    assert abs(faster["saved_ns"]) < 0.01 * faster["new_step_ns"]


def test_several_changes_have_a_row_together(monkeypatch: pytest.MonkeyPatch) -> None:
    made = played(Job(ranks=2, steps=2, layers=2, kernels=6), None, monkeypatch)
    rows = rows_of(simulated(made, "communication=0.5", "class:gemm=0.5"))
    assert [row["change"] for row in rows] == ["communication=0.5", "class:gemm=0.5", "all together"]
    assert rows[2]["saved_ns"] >= max(rows[0]["saved_ns"], rows[1]["saved_ns"]) > 0


def test_a_rank_or_work_that_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = played(Job(ranks=2, steps=1, layers=1, kernels=6), None, monkeypatch)
    with pytest.raises(BadRequest, match="There is no rank rank9"):
        simulated(made, "copies=0", on=["rank9"])
    with pytest.raises(BadRequest, match="no operator nothing"):
        simulated(made, "operator:nothing=0")


def small_job() -> list[str]:
    made = plan(Job(ranks=2, steps=2, layers=1, kernels=6))
    return ["".join(text_of(made, rank)) for rank in range(2)]


def test_selected_steps_are_refused() -> None:
    texts = small_job()
    found = simulated_texts(texts, "class:gemm=0.5")
    assert isinstance(found, View) and found.coverage.steps is None
    label = str(model(texts[0].encode()).steps.label[0])
    with pytest.raises(BadRequest, match="covers all steps"):
        simulated_texts(texts, "class:gemm=0.5", steps=(label,))


def test_a_truncated_rank_is_refused() -> None:
    texts = small_job()
    texts[1] = texts[1][: int(0.985 * len(texts[1]))]
    with pytest.raises(UnreadableTrace, match="The file of rank1 is truncated, so the end of the last step is unknown"):
        simulated_texts(texts, "class:gemm=0.5")


def test_a_rank_with_two_devices_is_refused() -> None:
    texts = small_job()
    trace = json.loads(texts[1])
    moved = next(each for each in trace["traceEvents"] if each.get("cat") == "kernel" and "nccl" not in each["name"])
    moved["pid"] = moved["args"]["device"] = moved["args"]["device"] + 1
    texts[1] = json.dumps(trace)
    with pytest.raises(BadRequest, match="rank1 has work on several devices"):
        simulated_texts(texts, "class:gemm=0.5")


def test_jobs_are_simulated_in_the_order_of_the_catalog(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for run in "abcdef":
        (tmp_path / run).mkdir()
        for rank, text in enumerate(small_job()):
            (tmp_path / run / f"rank{rank}.1795200788609560165.pt.trace.json").write_text(text)
    assert cli.main(["whatif", str(tmp_path), "--scale", "class:gemm=0.5", "--format", "markdown"]) == 0
    titles = [line for line in capsys.readouterr().out.splitlines() if "all ranks" in line]
    assert [title.split("/")[0].strip("# ") for title in titles] == list("abcdef")


def test_ranks_that_miss_calls_are_simulated_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = played(Job(ranks=2, steps=2, layers=2, kernels=6, missing=((0, 0.5),)), None, monkeypatch)
    (row,) = rows_of(simulated(made, "class:gemm=0.5"))
    assert 0 < row["saved_ns"] < row["new_step_ns"] + row["saved_ns"]


def test_the_command_over_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(SAMPLES / "synthetic_ddp")
    assert cli.main(["whatif", path, "--scale", "class:gemm=0.5", "--on", "rank2"]) == 0
    shown = capsys.readouterr().out
    assert "synthetic_ddp / all ranks" in shown and "With this change, a step takes" in shown
    assert cli.main(["whatif", str(SAMPLES / "ddp_gloo"), "--scale", "communication=0"]) == 2
    assert "Collectives of rank0, rank1 ran on the CPU." in capsys.readouterr().err
    assert cli.main(["whatif", str(SAMPLES / "synthetic_gpu"), "--scale", "copies=0", "--on", "rank0"]) == 2
    assert "--on needs several ranks" in capsys.readouterr().err


def test_files_that_are_no_ranks_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rank of another job has the same step time as without it, and a trace without this work does not stop the
    command.
    """
    texts = small_job()
    for rank, text in enumerate(texts):
        (tmp_path / f"rank{rank}.1795200788609560165.pt.trace.json").write_text(text)
    arguments = ["whatif", str(tmp_path), "--scale", "communication=0.5"]
    assert cli.main(arguments) == 0
    (expected,) = (line for line in capsys.readouterr().out.splitlines() if "a step takes" in line)
    other = plan(Job(ranks=4, steps=2, layers=1, kernels=6))
    (tmp_path / "left_over.1795200788609560165.pt.trace.json").write_text("".join(text_of(other, 3)))
    (tmp_path / "alone.1795200788609560165.pt.trace.json").write_text(trace().step(1, 0, 9).op("aten::mm", 0, 5).text())
    assert cli.main(arguments) == 0
    shown = capsys.readouterr()
    assert expected in shown.out.splitlines()
    assert "(other world size): rank3." in shown.out and "not part of this job): alone." in shown.out


def test_a_profile_without_the_work_does_not_end_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for name, code in (("synthetic_ddp", 0), ("resnet_cpu", 2)):
        assert cli.main(["whatif", str(SAMPLES / name), "--scale", "communication=0.5"]) == code
    assert "resnet_cpu / worker0 / span 1: scale: The trace has no communication." in capsys.readouterr().err


@pytest.mark.parametrize("streams", [2, 3])
def test_trainings_of_several_ranks(streams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank with slow kernels: faster kernels save three times as much as one rank alone shows."""
    config = Config(seed=3, steps=3, streams=streams, layers=2, ranks=4, slow_rank=2)
    ranks = trained(config, monkeypatch)
    texts = ["".join(rank.text()) for rank in ranks]
    for change in (
        Faster("kernel", ranks[0].recorder.dialect.kernels["gemm_backward"], 0.5),
        Faster("copies", "", 0.0),
        Faster("operator", "aten::mm", 0.5),
    ):
        again = trained(config, monkeypatch, change)
        saved_ns = sum(end_ns(a) - end_ns(b) for a, b in zip(ranks, again, strict=True)) / len(ranks) / config.steps
        row = rows_of(simulated_texts(texts, change.text))[0]
        assert abs(row["saved_ns"] - saved_ns) <= 0.001 * row["new_step_ns"], change.text
