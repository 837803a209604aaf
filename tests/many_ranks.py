"""Parts of a job of any size without traces: tensor, pipeline and data parallel, one rank that is slow at everything."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.views.distributed.rank.profile import CALL, DEVICE, GROUP, STEP
from tb_plugin.views.distributed.view import Distributed
from tests.builders import trace

TENSOR, STAGES, NODE = 8, 4, 8
DIMENSIONS = {"default_pg": "", "tp": "tensor", "pp": "pipeline", "dp": "data"}
STEP_NS, COMPUTE_NS, MOVING_NS, LATE_NS = 400_000_000, 300_000_000, 20_000_000, 30_000_000


def many_parts(ranks: int, steps: int, slow: int = 5, seed: int = 1) -> list[Part]:
    """Returns the parts of ``ranks`` workers: two calls a step, one in the tensor group and one with all ranks.

    ``slow`` computes LATE_NS longer in every step; the ranks of its tensor group wait for it in the first call, all in the
    second. Every rank is on a node of 8; groups are those of a job of tensor, pipeline and data parallelism.
    """
    drawn = np.random.default_rng(seed)
    spare = drawn.integers(0, 1_000_000, (steps, ranks))
    blank = Distributed().part(trace().op("aten::mm", 0, 0.001).table(), Params())
    return [_part(blank, rank, ranks, slow, spare) for rank in range(ranks)]


def groups_of(rank: int, ranks: int) -> dict[str, list[int]]:
    """Returns the ranks of each group of a rank, by description."""
    tensor, data = min(TENSOR, ranks), max(ranks // (TENSOR * STAGES), 1)
    first = rank // tensor * tensor
    found = {"default_pg": [*range(ranks)], "tp": [*range(first, first + tensor)]}
    if ranks >= TENSOR * STAGES:
        block = tensor * data
        found["pp"] = [rank % block + stage * block for stage in range(STAGES)]
        found["dp"] = [rank // block * block + rank % tensor + place * tensor for place in range(data)]
    return found


def _part(blank: Part, rank: int, ranks: int, slow: int, spare: np.ndarray) -> Part:
    steps, groups = len(spare), groups_of(rank, ranks)
    with_slow = rank // TENSOR == slow // TENSOR
    late = LATE_NS if rank == slow else 0
    # Who is late ends the first call for its group, and the second for everyone.
    compute = COMPUTE_NS + spare[:, rank] + late
    begin = np.arange(steps) * STEP_NS
    first_end = begin + COMPUTE_NS + 1_000_000 + (LATE_NS if with_slow else 0) + MOVING_NS
    second_end = begin + COMPUTE_NS + 1_000_000 + LATE_NS + 2 * MOVING_NS
    start = np.stack([begin + compute, first_end + (1000 if rank == slow else 0)], axis=1).ravel()
    end = np.stack([first_end, second_end], axis=1).ravel()
    number = np.repeat(np.arange(steps), 2)
    texts = {
        "step": [str(n) for n in number],
        "collective": ["all_reduce"] * (2 * steps),
        "dtype": ["Float"] * (2 * steps),
    }
    # Written once each: a list of a thousand ranks is as long as all else of a hundred calls.
    ranks_listed = pa.DictionaryArray.from_arrays(
        pa.array([0, 1] * steps, pa.int32()), [str(groups["tp"]), str(groups["default_pg"])]
    )
    calls: dict[str, object] = {key: [None] * (2 * steps) for key in CALL} | texts
    calls |= {
        "call": np.arange(2 * steps), "elements": np.full(2 * steps, 1000), "comm_bytes": np.full(2 * steps, 4000),
        "group": ["tp", "default_pg"] * steps, "group_ranks": ranks_listed,
        "group_size": [len(groups["tp"]), ranks] * steps, "sequence": number, "start_ns": start, "dur_ns": end - start,
        "on_device": np.ones(2 * steps, np.bool_),
    }  # fmt: skip
    told = {
        "step": [str(n) for n in range(steps)], "step_total_ns": np.full(steps, STEP_NS), "compute_ns": compute,
        "compute_alone_ns": compute, "overlap_ns": np.zeros(steps, np.int64),
        "exposed_communication_ns": second_end - begin - compute, "step_other_ns": STEP_NS - (second_end - begin),
    }  # fmt: skip
    listed = {
        "group": [*groups], "group_description": [*groups],
        "backend": ["nccl"] * len(groups),
        "group_size": [len(each) for each in groups.values()], "group_ranks": [str(each) for each in groups.values()],
        "dimension": [DIMENSIONS[name] for name in groups],
    }  # fmt: skip
    device = {
        "node": [f"node{rank // NODE}"], "process": [f"rank {rank}"], "device": ["0"], "device_name": ["Accelerator"],
        "memory_bytes": [2**36], "capability": ["9.0"], "link_peak": [None],
    }  # fmt: skip
    frames = {
        "collectives": (CALL, calls), "steps": (STEP, told), "process_groups": (GROUP, listed), "devices": (DEVICE, device),
    }  # fmt: skip
    made = {name: _frame(blank.frames[name], schema, columns) for name, (schema, columns) in frames.items()}
    facts = {"distributed.world_size": ranks, "distributed.rank": rank}
    return replace(
        blank,
        worker=f"rank{rank}",
        frames={**blank.frames, **made},
        facts=facts,
        steps=tuple(str(n) for n in range(steps)),
    )


def _frame(frame: Frame, schema: dict[str, pa.DataType], columns: dict[str, object]) -> Frame:
    known = {
        key: value if isinstance(value := columns[key], pa.Array) else pa.array(value, kind)
        for key, kind in schema.items()
    }
    for field in frame.data.schema:
        if field.name not in known:
            known[field.name] = pa.nulls(len(next(iter(known.values()))), field.type)
    return replace(frame, data=pa.table(known))
