"""Captures of which a recorder lost work: their start tells as far as it is sure, and what is no such capture is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.overview.data_quality import capture_notices
from tests.builders import TraceBuilder, kernel, memset, rows, trace
from tests.captured import with_other
from tests.depth import examples

Launch = tuple[str, str, str]
"""Kernel, operator and module of one launch."""
SIZE = {"grid": [4, 1, 1], "block": [64, 1, 1]}
TWENTY: list[Launch] = [(f"k{i}", f"op{i}", "Net") for i in range(20)]


def captured(built: TraceBuilder, at: int, launches: Sequence[Launch], unnamed: Sequence[int] = ()) -> TraceBuilder:
    """A capture in which each operator launches one kernel, which its call names as those of HIP do."""
    built.call(at, 1, name="hipStreamBeginCapture")
    for i, (name, operator, module) in enumerate(launches):
        start = at + 2 + 10 * i
        built.module(module, start, 8, number=0, id=start).op(operator, start + 1, 5)
        stated = {} if i in unnamed else {"kernel": name, **SIZE}
        built.event("cuda_runtime", "hipLaunchKernel", start + 2, 1, 1, 1, correlation=start, **stated)
    return built.call(at + 4 + 10 * len(launches), 1, name="hipStreamEndCapture")


def replayed(built: TraceBuilder, at: int, kernels: Sequence[str], streams: int = 1) -> TraceBuilder:
    work = [kernel(name, 2, at=at + 9 + 3 * i, stream=7 + i % streams, **SIZE) for i, name in enumerate(kernels)]  # type: ignore[arg-type]
    return built.python("serve.py(3): run", at, 8).launches(*work, at=at + 1, dur=2, name="hipGraphLaunch")


def names(launches: Sequence[Launch]) -> list[str]:
    return [name for name, *_ in launches]


def behind(table: TraceTable) -> list[str]:
    """Module and operator behind each replayed kernel, by time; "" = none is known."""
    origins = origins_of(table)
    operator = origins.scopes.nearest(EventKind.OPERATOR)[origins.scope].tolist()
    module = origins.scopes.nearest(EventKind.MODULE)[origins.scope].tolist()
    name = [table.strings[int(i)].removeprefix("nn.Module: ") for i in origins.scopes.name]
    return ["" if o == MISSING else f"{name[m]} > {name[o]}" for m, o in zip(module, operator, strict=True)]


def truth(launches: Sequence[Launch]) -> list[str]:
    return [f"{module}_0 > {operator}" for _, operator, module in launches]


def agreements(table: TraceTable) -> list[str]:
    return [str(each) for each in origins_of(table).agreements.values()]


def test_a_lost_last_kernel_costs_that_kernel_alone() -> None:
    table = replayed(captured(trace(), 0, TWENTY), 500, names(TWENTY[:19])).table()
    assert behind(table) == truth(TWENTY[:19]) and agreements(table) == ["19 of 20 nodes"]
    assert set(origins_of(table).way.tolist()) == {Way.CAPTURE}
    (row,) = rows(table, "graphs")
    assert row["graph_agreement"] == "19 of 20 nodes" and row["graph_tied_ratio"] == 1
    (notice,) = capture_notices(table)
    assert (
        notice.rule == "capture_partial"
        and "only the first 19 of 20 nodes in {affected} replayed graphs match" in notice.text
    )


def test_behind_a_lost_kernel_nothing_is_told() -> None:
    """Node 10 of 20 is lost: nine agree, and the ten behind it would be shifted."""
    table = replayed(captured(trace(), 0, TWENTY), 500, names(TWENTY[:9] + TWENTY[10:])).table()
    assert behind(table) == truth(TWENTY[:9]) + 10 * [""] and agreements(table) == ["9 of 20 nodes"]
    assert origins_of(table).way.tolist() == 9 * [Way.CAPTURE] + 10 * [Way.GRAPH]
    (row,) = rows(table, "graphs")
    assert row["graph_tied_ratio"] == 9 / 19
    nodes = rows(table, "graphs", "graph_nodes", limit=None)
    assert [node["node_operator"] for node in nodes] == [f"op{i}" for i in range(9)] + 10 * [None]


def test_a_launch_that_the_capture_lost_is_the_only_one_without_an_operator() -> None:
    table = replayed(captured(trace(), 0, TWENTY[:19]), 500, names(TWENTY)).table()
    assert behind(table) == [*truth(TWENTY[:19]), ""] and agreements(table) == ["19 of 20 nodes"]


def test_one_replay_of_several_that_lost_work_has_its_own_agreement() -> None:
    built = replayed(captured(trace(), 0, TWENTY), 500, names(TWENTY))
    table = replayed(built, 700, names(TWENTY[:17])).table()
    assert behind(table) == truth(TWENTY) + truth(TWENTY[:17]) and agreements(table) == ["17 of 20 nodes"]
    assert [row["graph_agreement"] for row in rows(table, "graphs")] == [None, "17 of 20 nodes"]


def test_a_capture_beside_the_trace_says_its_share() -> None:
    table = replayed(trace(), 500, names(TWENTY[:19])).table()
    table = with_other(table, captured(trace(), 0, TWENTY).table())
    assert behind(table) == truth(TWENTY[:19])
    assert set(origins_of(table).way.tolist()) == {Way.CAPTURE_TRACE}
    (notice,) = capture_notices(table)
    assert notice.rule == "capture_partial" and notice.figures[0].value == "capture.json"


@pytest.mark.parametrize(
    ("launches", "kernels"),
    [
        (TWENTY[:8], names(TWENTY[:7])),  # 7 kernels may be there twice by chance
        (TWENTY, names(TWENTY[:4] + TWENTY[5:])),  # 4 kernels may be there twice by chance
        (TWENTY, names(TWENTY[:10] + TWENTY[11:14] + TWENTY[15:])),  # not in one piece
        (TWENTY, ["other", *names(TWENTY[1:19])]),
        (TWENTY, [*names(TWENTY[:18]), "other"]),  # a recorder changes no kernel
        (TWENTY, [*names(TWENTY[:19]), "other"]),
        (TWENTY, names(TWENTY[:10] + TWENTY[11:] + TWENTY[10:11])),
        (TWENTY, names(TWENTY[:13])),  # more than 1.5 times as many
        (TWENTY, [f"other{i}" for i in range(19)]),
    ],
)
def test_what_is_another_graph_is_refused(launches: list[Launch], kernels: list[str]) -> None:
    table = replayed(captured(trace(), 0, launches), 500, kernels).table()
    assert behind(table) == [""] * len(kernels)
    (agreement,) = origins_of(table).agreements.values()
    assert not agreement.is_used and agreement.agreeing < agreement.nodes


def test_grids_tell_other_batches_apart() -> None:
    built = captured(trace(), 0, TWENTY).python("serve.py(3): run", 500, 8)
    work = [
        kernel(name, 2, at=509 + 3 * i, grid=[8, 1, 1], block=[64, 1, 1]) for i, name in enumerate(names(TWENTY[:19]))
    ]
    table = built.launches(*work, at=501, dur=2, name="hipGraphLaunch").table()
    assert set(behind(table)) == {""}


def test_a_memset_is_no_kernel_of_the_start() -> None:
    built = captured(trace(), 0, TWENTY).python("serve.py(3): run", 500, 8)
    work = [kernel(name, 2, at=509 + 3 * i, **SIZE) for i, name in enumerate(names(TWENTY[:18]))]  # type: ignore[arg-type]
    table = built.launches(*work, memset(2, at=590), at=501, dur=2, name="hipGraphLaunch").table()
    assert set(behind(table)) == {""}


def test_captures_that_name_no_kernel_tell_nothing_in_part() -> None:
    """Calls of CUDA do not name kernels: nothing tells which one is missing."""
    table = replayed(captured(trace(), 0, TWENTY, unnamed=range(20)), 500, names(TWENTY[:19])).table()
    assert set(behind(table)) == {""}


def test_an_unnamed_kernel_counts_between_named_ones_in_a_known_order() -> None:
    built = captured(trace(), 0, TWENTY, unnamed=(3, 12))
    assert behind(replayed(built, 500, names(TWENTY[:19])).table()) == truth(TWENTY[:19])
    # Nodes 18 to 20 may be k17 and k18 as well as nodes 18 and 19.
    built = captured(trace(), 0, TWENTY, unnamed=(3, 18, 19))
    assert behind(replayed(built, 500, names(TWENTY[:19])).table()) == [*truth(TWENTY[:17]), "", ""]
    built = captured(trace(), 0, TWENTY, unnamed=(12, 19))
    assert behind(replayed(built, 500, names(TWENTY[:19]), streams=2).table()) == [*truth(TWENTY[:12]), *7 * [""]]


def test_of_equal_kernels_nothing_tells_which_one_is_missing() -> None:
    end = [("add", "aten::add", "Net"), ("add", "aten::sub", "Net")]
    table = replayed(captured(trace(), 0, [*TWENTY[:10], *end]), 500, [*names(TWENTY[:10]), "add"]).table()
    assert behind(table) == [*truth(TWENTY[:10]), ""] and agreements(table) == ["10 of 12 nodes"]


def test_a_model_with_a_layer_less_has_the_start_before_its_layers() -> None:
    layers = [[(f"l{i}", f"op{i}", f"Layer{layer}") for i in range(3)] for layer in range(4)]
    every = [*TWENTY[:9], *chain(*layers)]
    fewer = [*TWENTY[:9], *chain(*layers[:3])]
    table = replayed(captured(trace(), 0, every), 500, names(fewer)).table()
    assert behind(table) == truth(TWENTY[:9]) + 9 * [""]
    table = replayed(captured(trace(), 0, fewer), 500, names(every)).table()
    assert behind(table) == truth(TWENTY[:9]) + 12 * [""]


def test_of_several_captures_the_one_that_agrees_furthest_tells_or_what_they_agree_about() -> None:
    other = [*TWENTY[:10], *((f"x{i}", f"other{i}", "Net") for i in range(10))]
    built = captured(captured(trace(), 0, other), 300, TWENTY)
    assert behind(replayed(built, 900, names(TWENTY[:19])).table()) == truth(TWENTY[:19])
    elsewhere = [(name, operator, "Twin") for name, operator, _ in TWENTY]
    built = captured(captured(trace(), 0, elsewhere), 300, TWENTY)
    origins = origins_of(replayed(built, 900, names(TWENTY[:19])).table())
    assert (origins.scopes.nearest(EventKind.OPERATOR)[origins.scope] != MISSING).all()
    assert (origins.scopes.nearest(EventKind.MODULE)[origins.scope] == MISSING).all()
    unlike = [*((name, f"own{i}", "Net") for i, (name, *_) in enumerate(TWENTY))]
    table = replayed(captured(captured(trace(), 0, unlike), 300, TWENTY), 900, names(TWENTY[:19])).table()
    assert set(behind(table)) == {""}


launch = st.tuples(st.sampled_from("abc"), st.sampled_from(["mm", "add"]), st.sampled_from(["One", "Two"]))


@examples(25, 2000)
@given(st.lists(launch, min_size=9, max_size=24), st.integers(0, 23), st.integers(1, 6), st.booleans())
def test_nothing_is_told_that_is_wrong(launches: list[Launch], first: int, count: int, is_capture: bool) -> None:
    """Whichever piece either side lost: what is told of a kernel is what launched it."""
    left = launches[:first] + launches[first + count :]
    sides = (left, launches) if is_capture else (launches, left)
    table = replayed(captured(trace(), 0, sides[0]), 500, names(sides[1])).table()
    if len(left) == len(launches):
        assert behind(table) == truth(launches)
    told = behind(table)
    assert all(found in ("", right) for found, right in zip(told, truth(sides[1]), strict=True))
    for agreement in origins_of(table).agreements.values():
        matched = sum(map(bool, told))
        assert agreement.is_used == (matched > 0) and agreement.nodes == len(launches)
        assert not matched or agreement.agreeing == matched >= 8
