"""Jobs with planted stragglers, and whether they are named, with which cost and cause.

usage: python -m tests.planted_jobs [--seeds 100] [--first 0] [--only SCENARIO] [--files]

The simulator of samples/jobs plays each job, with and without its stragglers: so the saving is known. The calls come from
the plan, without files in between, unless ``--files`` is given.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.lib.intervals import first_in, measure_within, union
from tb_plugin.views.distributed.job_data import job_data
from tb_plugin.views.distributed.merge import join
from tb_plugin.views.distributed.rank.profile import CALL, GROUP, KERNEL, STEP, blocked_ns
from tb_plugin.views.distributed.rank.time_before_calls import PARTS
from tb_plugin.views.distributed.stragglers.report import straggler_table
from tb_plugin.views.distributed.view import Distributed
from tests.builders import model, trace
from tests.synthetic import loaded
from tests.synthetic_job import Job, Straggler, calls, plan, truth, write

playing: Any = loaded("jobs.playing")
program: Any = loaded("jobs.program")
Int64 = np.typing.NDArray[np.int64]
MAX_COST_ERROR = 0.05
# a straggler that costs a smaller share of the step, for example in the bubble of a pipeline, need not be named
MIN_SHARE = 0.015

SHAPES: dict[str, dict[str, Any]] = {
    "data": {"layers": 3, "kernels": 8},
    "tensor": {"tp": 2, "layers": 2, "kernels": 8},
    "pipeline": {"pp": 2, "tp": 2, "microbatches": 4, "layers": 2, "kernels": 8},
    "expert": {"ep": 2, "layers": 2, "kernels": 8},
    "context": {"cp": 2, "layers": 2, "kernels": 8},
    "sharded": {"sharded": True, "layers": 3, "kernels": 8},
    "stages": {"pp": 2, "microbatches": 4, "layers": 2},
    "queued": {"layers": 6, "kernels": 8},
    "across nodes": {"layers": 3, "kernels": 5, "node": 4},
    "coalesced": {"coalesced": True, "layers": 3, "kernels": 8},
}
CAUSES = {
    "kernel": "computation", "work": "computation", "device": "slow device", "input": "data loading",
    "host": "the host", "copy": "copies",
}  # fmt: skip
STEPS = 12


@dataclass
class Planted:
    """A job, the ranks to be named and the cause to be reported."""

    job: Any
    named: frozenset[int] = frozenset()
    cause: str | None = None
    has_cost: bool = True


@dataclass
class Score:
    """Counts of seeds."""

    tried: int = 0
    named: int = 0
    cost: int = 0
    false: int = 0
    cause: int = 0
    """Wrong causes."""
    notes: list[str] = field(default_factory=list)


def job_of(shape: str, seed: int, *stragglers: Any, **more: Any) -> Any:
    """Clocks are wrong by up to half a millisecond, and drift."""
    given = {"ranks": 8, "steps": STEPS, "seed": seed, "offset_ns": 500_000, "drift_ppb": 20_000, **SHAPES[shape]}
    return Job(**{**given, **more}, stragglers=stragglers)


def straggler(seed: int, cause: str, pattern: str, amount_ns: int) -> Any:
    return Straggler(1 + seed % 7, cause, pattern, amount_ns, step=2 + seed % 9)


AMOUNTS = {"persistent": 700_000, "periodic": 1_500_000, "single": 5_000_000}


def one_late(shape: str, pattern: str, cause: str = "") -> Callable[[int], Planted]:
    def planted(seed: int) -> Planted:
        why = cause or list(CAUSES)[seed % len(CAUSES)]
        given = straggler(seed, why, pattern, AMOUNTS[pattern] * (1 + seed % 3))
        return Planted(job_of(shape, seed, given), frozenset({given.rank}), cause=CAUSES[why])

    return planted


def two_late(seed: int) -> Planted:
    """A rank is late in each step, and another one late in one step only."""
    often = Straggler(1, "kernel", "persistent", 1_000_000)
    once = Straggler(4 + seed % 3, "input", "single", 9_000_000, step=3)
    return Planted(job_of("data", seed, often, once), frozenset({1, once.rank}), has_cost=False)


def in_turn(seed: int) -> Planted:
    given = Straggler(0, "input", "rotating", 2_000_000)
    return Planted(job_of("data", seed, given), frozenset(range(8)), cause="data loading")


def slow_tensor_group(seed: int) -> Planted:
    rank = 1 + seed % 7
    given = Straggler(rank, "communication", "persistent", 1_500_000, group="tp")
    return Planted(job_of("tensor", seed, given), frozenset({rank, rank ^ 1}), cause="communication in other groups")


def slow_expert_group(seed: int) -> Planted:
    """Two ranks of one data-parallel group are late together: no single rank costs anything, and none is named."""
    given = Straggler(1 + seed % 7, "communication", "persistent", 1_500_000, group="ep")
    return Planted(job_of("expert", seed, given))


def slow_link(seed: int) -> Planted:
    """The link between two of four nodes is slow: ranks whose groups use this link are late, but no rank is a straggler."""
    job = job_of("tensor", seed, ranks=16, node=4, slow_links=((0, 1, 6.0),))
    return Planted(job)


def nothing(shape: str, **more: Any) -> Callable[[int], Planted]:
    return lambda seed: Planted(job_of(shape, seed, **more))


def absent(seed: int) -> Planted:
    given = straggler(seed, "kernel", "persistent", 1_000_000)
    away = (given.rank + 2) % 8
    return Planted(job_of("data", seed, given, absent=(away,)), frozenset({given.rank}), has_cost=False)


def lost(seed: int) -> Planted:
    given = straggler(seed, "kernel", "persistent", 1_000_000)
    victim = (given.rank + 1) % 8
    return Planted(job_of("data", seed, given, missing=((victim, 0.1),)), frozenset({given.rank}), has_cost=False)


SCENARIOS: dict[str, Callable[[int], Planted]] = {
    **{f"{shape}, {pattern}": one_late(shape, pattern) for shape in SHAPES for pattern in AMOUNTS},
    **{f"data, {cause}": one_late("data", "persistent", cause) for cause in CAUSES},
    "two stragglers": two_late,
    "in turn": in_turn,
    "slow tensor group": slow_tensor_group,
    "slow expert group": slow_expert_group,
    "few steps": lambda seed: replace_steps(one_late("data", "persistent")(seed), 4),
    "two ranks": lambda seed: two_ranks(seed),
    "no numbers": lambda seed: without_numbers(one_late("tensor", "persistent")(seed)),
    "missing rank": absent,
    "missing calls": lost,
    "slow link, nothing else": slow_link,
    **{f"{shape}, nothing": nothing(shape) for shape in SHAPES},
    "data, nothing in noise": nothing("data", noise=0.1),
    "data, nothing, few steps": nothing("data", steps=3),
    "data, nothing, missing calls": nothing("data", missing=((3, 0.1),)),
}


# Stages without collectives synchronize only by messages and once per step, so their costs are too low.
WEAK = ("stages",)


def changed(planted: Planted, **more: Any) -> Planted:
    given = {**planted.job.__dict__, **more}
    return Planted(Job(**given), planted.named, planted.cause, planted.has_cost)


def replace_steps(planted: Planted, steps: int) -> Planted:
    return changed(planted, steps=steps)


def without_numbers(planted: Planted) -> Planted:
    return changed(planted, sequence=False)


def two_ranks(seed: int) -> Planted:
    given = Straggler(seed % 2, "kernel", "persistent", 1_000_000)
    return Planted(job_of("data", seed, given, ranks=2), frozenset({given.rank}), cause="computation")


# ------------------------------------------------------------------------------------------------ parts of a plan


@cache
def _blank() -> Part:
    return Distributed().part(trace().op("aten::mm", 0, 0.001).table(), Params())


def parts_of(made: Any) -> list[Part]:
    """The parts of all ranks with a trace, as the view computes them from files."""
    return [_part(made, rank) for rank in range(made.job.ranks) if rank not in made.job.absent]


def parts_of_files(made: Any) -> list[Part]:
    folder = Path(tempfile.mkdtemp())
    parts: list[Part] = []
    for path in write(made.job, folder, compressed=False, made=made):
        parts.append(replace(Distributed().part(model(path), Params()), worker=path.name.split(".")[0]))
        path.unlink()
    folder.rmdir()
    return parts


def _part(made: Any, rank: int) -> Part:
    job, (stage, at) = made.job, made.stage_of(rank)
    own = calls(made, rank)
    start, end = own["start_ns"], own["start_ns"] + own["dur_ns"]
    busy = [place for place, op in enumerate(stage.ops) if op.kind == program.SEGMENT]
    compute = union(*(made.local(rank, times[:, busy, at].ravel()) for times in (stage.start, stage.end)))
    copies = union(*(made.local(rank, made.copied[:, rank, i]) for i in (1, 2)))
    steps = made.local(rank, made.begin[:, rank]), made.local(rank, made.finish[:, rank])
    loading = union(steps[0], made.local(rank, made.loaded[:, rank]))
    groups = np.unique(own["group"], return_inverse=True)[1]
    since = _since(groups, own["step"], start, end, steps[0])
    communication = union(start, end)
    sets = first_in(compute, communication, copies, loading, union(steps[0][:1], steps[1][-1:]))
    before = [measure_within(ranges, since, start) for ranges in sets]
    texts = {
        "step": [str(step) for step in own["step"]], "collective": [collective_name(name) for name in own["collective"]],
        "dtype": own["dtype"], "group": own["group"], "group_ranks": own["group_ranks"], "stream": own["stream"],
    }  # fmt: skip
    numbers = {key: pa.array(values, mask=values < 0) for key, values in own.items() if key in CALL and key not in texts
               and isinstance(values, np.ndarray)}  # fmt: skip
    table_of_calls = {
        **texts, **numbers, "call": np.arange(len(start)), "on_device": np.ones(len(start), np.bool_),
        "before_ns": start - since, "blocked_ns": blocked_ns(compute, start, end),
        **dict(zip(PARTS, (*before, start - since - sum(before)), strict=True)),
    }  # fmt: skip
    labels = [str(step) for step in range(job.steps)]
    length, worked = steps[1] - steps[0], measure_within(compute, *steps)
    exposed = np.bincount(own["step"], table_of_calls["blocked_ns"], job.steps).astype(np.int64)
    table_of_steps = {
        "step": labels, "step_total_ns": length, "compute_ns": worked, "compute_alone_ns": worked,
        "overlap_ns": length * 0, "exposed_communication_ns": exposed, "step_other_ns": length - worked - exposed,
    }  # fmt: skip
    keys = sorted(
        set(zip(own["group"], own["group_description"], own["group_size"].tolist(), own["group_ranks"], strict=True))
    )
    name, description, size, ranks = (list(column) for column in zip(*keys, strict=True))
    table_of_groups = {
        "group": name, "group_description": description, "backend": ["nccl"] * len(keys), "group_size": size,
        "group_ranks": ranks, "dimension": [""] * len(keys),
    }  # fmt: skip
    frames = {
        "collectives": (CALL, table_of_calls), "steps": (STEP, table_of_steps),
        "process_groups": (GROUP, table_of_groups), "kernels": (KERNEL, _kernels(made, rank)),
    }  # fmt: skip
    device = _blank().frames["devices"].data
    device = device.set_column(device.column_names.index("device"), "device", pa.array(["0"], pa.string()))
    ready = {name: _frame(_blank().frames[name], schema, columns) for name, (schema, columns) in frames.items()}
    base = int(made.base[rank])
    return replace(
        _blank(),
        worker=f"rank{rank}",
        frames={**_blank().frames, **ready, "devices": replace(_blank().frames["devices"], data=device)},
        facts={"distributed.world_size": job.ranks, "distributed.rank": rank, "distributed.base_time_ns": base},
        steps=tuple(labels),
    )


def _frame(frame: Frame, schema: dict[str, pa.DataType], columns: dict[str, Any]) -> Frame:
    count = len(next(iter(columns.values())))
    ready = {
        key: pa.array(columns[key], kind) if key in columns else pa.nulls(count, kind) for key, kind in schema.items()
    }
    return replace(frame, data=pa.table(ready))


def _since(group: Int64, step: Int64, start: Int64, end: Int64, opened: Int64) -> Int64:
    """The end of the calls of the same group before each call; the begin of the step for the first one."""
    found = np.empty(len(start), np.int64)
    for each in np.unique(group).tolist():
        rows = np.flatnonzero(group == each)
        reach = np.maximum.accumulate(end[rows])
        found[rows] = np.minimum(np.append(opened[step[rows[0]]], reach[:-1]), start[rows])
    return found


def _kernels(made: Any, rank: int) -> dict[str, Any]:
    stage, at = made.stage_of(rank)
    many = len(program.KERNELS)
    count, spent = (np.zeros((made.job.steps, many), np.int64) for _ in range(2))
    for step in range(made.job.steps):
        for place, op in enumerate(stage.ops):
            if op.kind != program.SEGMENT:
                continue
            kernels, ns = playing.segment_ns(made.job, stage, step, place, rank)
            np.add.at(count[step], kernels, 1)
            np.add.at(spent[step], kernels, ns[0])
            for who, kernel, more in playing.more_calls(made.job, stage, step, place):
                if who == at:
                    count[step, kernel] += more
                    spent[step, kernel] += more * program.BASES_NS[kernel]
    steps, which = np.nonzero(count)
    names = pa.array([name for _, name, _ in program.KERNELS], pa.string())
    return {
        "step": [str(each) for each in steps], "kernel": pa.DictionaryArray.from_arrays(which.astype(np.int32), names),
        "kernel_calls": count[steps, which], "kernel_ns": spent[steps, which],
    }  # fmt: skip


# -------------------------------------------------------------------------------------------------------- judgement


def judge(planted: Planted, score: Score, seed: int, files: bool = False) -> None:
    """Adds one seed to the score of a scenario."""
    made = plan(planted.job)
    data = job_data(join(parts_of_files(made) if files else parts_of(made)), None)
    rows = [row for row in straggler_table(data).to_pylist() if row["stands_out"]]
    found = {int(row["worker"].removeprefix("rank")): row for row in rows}
    score.tried += 1
    saved = sum(sum(each["gain_ns"]) for each in truth(planted.job, made)["stragglers"]) / planted.job.steps
    required = planted.named
    if required and saved < MIN_SHARE * (made.finish[-1].max() - made.begin[0].min()) / planted.job.steps:
        required = frozenset()
    false = set(found) - planted.named
    score.false += bool(false)
    if false:
        score.notes.append(f"seed {seed}: also {sorted(false)}")
    is_named = required <= set(found)
    score.named += is_named
    if not is_named:
        score.notes.append(f"seed {seed}: only {sorted(found)} of {sorted(required)}")
    if not required or not is_named or not planted.has_cost:
        score.cost += is_named
    if not required or not is_named:
        return
    causes = {found[rank]["late_cause"] for rank in required}
    if planted.cause is not None and causes != {planted.cause}:
        score.cause += 1
        score.notes.append(f"seed {seed}: {causes} instead of {planted.cause}")
    if planted.has_cost:
        costs = [found[rank]["lost_ns"] or 0.0 for rank in required]
        cost = sum(costs) if len(required) > 2 else max(costs)
        score.cost += abs(cost - saved) <= MAX_COST_ERROR * saved
        if abs(cost - saved) > MAX_COST_ERROR * saved:
            score.notes.append(f"seed {seed}: {cost / saved - 1:+.1%} of {saved / 1e3:,.0f} us")


def planted_scores(name: str, seeds: range, files: bool = False) -> Score:
    score = Score()
    for seed in seeds:
        judge(SCENARIOS[name](seed), score, seed, files)
    return score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="*")
    parser.add_argument("--files", action="store_true")
    given = parser.parse_args()
    print(f"{'scenario':32} {'named':>9} {'cost':>9} {'false':>9} {'wrong cause':>11}")
    for name in SCENARIOS:
        if not fnmatch.fnmatch(name, given.only):
            continue
        begin = time.monotonic()
        score = planted_scores(name, range(given.first, given.first + given.seeds), given.files)
        planted = SCENARIOS[name](0)
        cells = [
            f"{score.named}/{score.tried}" if planted.named else "-",
            f"{score.cost}/{score.tried}" if planted.named and planted.has_cost else "-",
            f"{score.false}/{score.tried}",
            f"{score.cause}/{score.tried}" if planted.cause else "-",
        ]
        print(f"{name:32} {cells[0]:>9} {cells[1]:>9} {cells[2]:>9} {cells[3]:>11}  {time.monotonic() - begin:.0f} s")
        for note in score.notes[:4]:
            print(f"    {note}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
