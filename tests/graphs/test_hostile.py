"""Traces that make no sense: ids of any type, captures that cross or never end, regions that are none. Nothing breaks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.selection import select_rows
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.graphs.replays import selected_replays, time_by_way
from tests.builders import Work, kernel, trace
from tests.captured import with_other
from tests.depth import sampled
from tests.replayed_sums import replayed_in

IDS: tuple[tuple[Any, ...], ...] = (
    (1, 2, 3),
    (0, -1, 1, 2, 2**62, 2**63 - 1, 2**40 + 3),
    ("a", 1, 2.5, None, True),
    (2**64 - 1, 3),
)
CALLS = (
    "cudaStreamBeginCapture", "cudaStreamEndCapture", "cuStreamBeginCapture_v2", "cudaLaunchKernel", "cudaMemsetAsync",
    "cuLaunchKernel", "cudaStreamWaitEvent",
)  # fmt: skip
REGIONS = ("[", '[{"name":"q"}]', "[[]]", "5", [{"name": "z"}], {"name": "z"})


def any_trace(seed: int) -> TraceTable:
    chance = random.Random(seed)
    ids = chance.choice(IDS)
    built, at = trace().op("aten::first", 0, 3), 3

    def work(start: int) -> Work:
        args = {key: chance.choice(ids) for key in ("graph id", "graph node id") if chance.random() < 0.8}
        if chance.random() < 0.3:
            args["annotation"] = chance.choice(REGIONS)
        where = {"stream": chance.choice((7, 8)), "device": chance.choice((0, 0, 1))}
        size = {"grid": chance.choice((None, [1, 1, 1])), "block": [1, 1, 1]}
        return kernel(chance.choice("ab"), chance.randrange(3), at=start, **where, **size, **args)

    for _ in range(chance.randrange(25)):
        tid = chance.randrange(1, 4)
        match chance.randrange(6):
            case 0 | 1:
                built.call(at, chance.randrange(3), tid=tid, name=chance.choice(CALLS))
            case 2:
                name, sequence = chance.choice(("aten::a", "XBackward0")), chance.choice((None, 1))
                built.op(name, at, chance.randrange(30), tid=tid, sequence=sequence, forward_thread=sequence)
            case 3:
                built.annotation(chance.choice(("x", "ProfilerStep#1")), at, chance.randrange(1, 20), tid=tid)
            case 4:
                for i in range(chance.randrange(6)):
                    built.on_device(work(at + i), corr=chance.choice((None, 0, 5, 6)))
            case _:
                launch = chance.choice(("cudaGraphLaunch", "cudaGraphLaunch", "cudaLaunchKernel", "cbid_5"))
                built.launches(*(work(at + i) for i in range(chance.randrange(12))), at=at, dur=1, name=launch)
        at += chance.randrange(12)
    return built.table()


@pytest.mark.parametrize("seed", sampled(range(1000), range(12)))
def test_anything_has_origins_that_add_up(seed: int) -> None:
    table = any_trace(seed)
    for each in (table, with_other(table, any_trace(seed + 1))):
        origins = origins_of(each)
        assert len(origins.scope) == len(origins.work) == len(origins.way) == len(origins.module_way)
        assert (np.diff(origins.work) > 0).all() and (origins.scope < len(origins.scopes)).all()
        assert (origins.scopes.parent < np.arange(len(origins.scopes))).all()
        assert ((origins.scope == MISSING) == (origins.way == Way.GRAPH)).all()
        assert all(0 <= one.agreeing <= one.nodes for one in origins.agreements.values())
        selected = selected_replays(each, np.ones(len(each), np.bool_))
        assert sum(time_by_way(selected.work).values()) == each.dur_ns[origins.work].sum()
        assert replayed_in(each, select_rows(each, None)).dur_ns.sum() == each.dur_ns[origins.work].sum()
