"""Matching by sequence number, otherwise by order; groups under any name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace

from tb_plugin.profilers import PYTORCH
from tb_plugin.views.distributed.matching.groups import (
    GroupColumns,
    Groups,
    Ranks,
    ReportedGroup,
    dimensions_of,
    groups_of,
    groups_of_callers,
    ranks_in,
    shape_of,
)
from tb_plugin.views.distributed.matching.match import BY, Calls, fill_from_collective, match_calls
from tests.depth import sampled

Int64 = npt.NDArray[np.int64]


def calls_of(*workers: list[tuple[int, ...]], group: int = 0) -> Calls:
    """(kind, sequence, step) of each call of each worker; without a sequence -1, without a step none."""
    rows = [(w, *one, *(-1, 9)[len(one) - 1 :]) for w, mine in enumerate(workers) for one in mine]
    worker, kind, sequence, step = np.array(rows, np.int64).T
    zero = np.zeros_like(worker)
    return Calls(worker, step, zero + group, zero, kind, sequence, zero != 0, no_step=9)


def sets_of(calls: Calls) -> list[list[tuple[int, int]]]:
    """(worker, place) of the calls of each match."""
    label = match_calls(calls).label
    place = np.concatenate([np.arange(n) for n in np.bincount(calls.worker)])
    return sorted(
        [(int(calls.worker[i]), int(place[i])) for i in np.flatnonzero(label == each)]
        for each in range(label.max() + 1)
    )


def how(calls: Calls) -> set[str]:
    return {"" if by < 0 else BY[by] for by in match_calls(calls).by.tolist()}


KINDS = [5, 3, 5, 7, 2, 3, 8, 7, 1, 4, 4, 6]


def test_equal_numbers_meet_whatever_the_sizes_and_a_missing_call_shifts_nothing() -> None:
    full = [(kind, n) for n, kind in enumerate(KINDS)]
    uneven = [(kind + 10, n) for n, kind in enumerate(KINDS) if n != 4]
    met = calls_of(full, uneven)
    assert sets_of(met) == [[(0, n), (1, n - (n > 4))] for n in range(len(KINDS)) if n != 4]
    assert how(met) == {"number", ""}


def test_without_a_number_on_any_call_the_group_is_matched_by_order() -> None:
    full = [(kind, n, n // 3) for n, kind in enumerate([5, 3, 7, 5, 3, 7])]
    plain = [(kind, -1, step) for kind, _, step in full]
    assert sets_of(calls_of(full, plain)) == [[(0, n), (1, n)] for n in range(6)]
    assert how(calls_of(full, plain)) == {"order"}
    # A worker without steps: the order is that of the whole recording.
    assert sets_of(calls_of(full, [one[:1] for one in plain])) == [[(0, n), (1, n)] for n in range(6)]


def test_a_worker_that_lacks_a_call_has_no_match_for_equal_calls_of_the_step() -> None:
    """The second step of rank 1 lacks one of two calls of kind 3: nobody knows which one."""
    full = [(kind, -1, n // 4) for n, kind in enumerate([5, 3, 3, 7] * 2)]
    met = sets_of(calls_of(full, [*full[:5], *full[6:]], full))
    assert [row for row in met if len(row) == 2] == [[(0, 5), (2, 5)], [(0, 6), (2, 6)]]
    assert [row for row in met if len(row) == 3] == [[(0, n), (1, n - (n > 5)), (2, n)] for n in (0, 1, 2, 3, 4, 7)]


def test_a_coalesced_batch_shares_a_number_and_its_calls_meet_by_kind() -> None:
    batch = [(5, 0), (1, 1), (2, 1), (3, 1), (2, 1), (5, 2)]
    lacks = [one for i, one in enumerate(batch) if i != 1]
    assert sets_of(calls_of(batch, lacks)) == [[(0, 0), (1, 0)], *([(0, i), (1, i - 1)] for i in range(2, 6))]


def test_two_groups_of_a_number_are_apart() -> None:
    one, two = calls_of([(5, 0)], [(5, 0)]), calls_of([(5, 0)], [(5, 0)], group=1)
    both = Calls(*(np.concatenate(x) for x in zip(*(
        (c.worker, c.step, c.group, c.name, c.kind, c.sequence, c.lost) for c in (one, two)), strict=True)))  # fmt: skip
    assert match_calls(both).label.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("seed", sampled(range(100), (1, 2)))
@pytest.mark.parametrize("numbers", ["all", "none"])
def test_nothing_is_matched_wrong_where_a_tenth_is_missing(numbers: str, seed: int) -> None:
    """12 ranks, tensor (4) x data (3) groups and all, 6 steps of 40 calls of distinct sizes, which tell what a call is."""
    random = np.random.default_rng(seed)
    ranks, steps, per = 12, 6, 40
    absent, victim = random.choice(ranks, 2, replace=False).tolist()
    of = random.integers(0, 3, per)
    kind = random.permutation(per)
    worker, place = (each.ravel() for each in np.divmod(np.arange(ranks * steps * per), steps * per))
    what = of[place % per]
    group = np.select([what == 0, what == 1], [worker // 4, 10 + worker % 4], 20)
    truth = group * steps * per + place
    number = np.full(len(worker), -1)
    for each in range(3) if numbers == "all" else ():
        chosen = np.tile(of == each, steps)
        number[what == each] = np.tile(np.arange(chosen.sum()), ranks)
    keep = (worker != absent) & ((worker != victim) | (random.random(len(worker)) >= 0.1))
    zero = np.zeros(len(worker), np.int64)
    calls = Calls(
        *(column[keep] for column in (worker, place // per, group, what, kind[place % per], number, zero != 0)),
        no_step=99,
    )
    label, truth = match_calls(calls).label, truth[keep]
    _, first, count = np.unique(truth, return_index=True, return_counts=True)
    several = np.isin(truth, truth[first][count > 1])
    assert (label[~several] == -1).all() and (label[several] >= 0).all()
    assert len({*zip(label[several].tolist(), truth[several].tolist(), strict=True)}) == (count > 1).sum()


def test_what_one_call_says_holds_for_its_collective() -> None:
    label, size = np.array([0, 0, 1, 1, -1, 2, 2]), np.array([-1, 8, -1, -1, -1, 4, 6])
    assert fill_from_collective(label, size).tolist() == [8, 8, -1, -1, -1, 4, 6]
    assert fill_from_collective(np.array([-1, -1]), np.array([3, -1])).tolist() == [3, -1]


# Groups


def codes_of(rows: list[tuple[int, str, str]], stated: list[ReportedGroup] | None = None, size: int = -1) -> list[int]:
    """Codes of calls: (worker, name, ranks)."""
    names, listed = (sorted({row[i] for row in rows}) for i in (1, 2))
    columns = GroupColumns(
        np.array([row[0] for row in rows]), np.array([names.index(row[1]) for row in rows]), names,
        np.array([listed.index(row[2]) for row in rows]), listed, np.full(len(rows), size),
    )  # fmt: skip
    return groups_of(columns, stated or []).code.tolist()


def test_groups_of_one_name_and_other_ranks_are_others_and_names_may_be_each_rank_s_own() -> None:
    """Four ranks, tensor groups of two: every rank calls its own "1"; rank 3 counts from elsewhere."""
    codes = codes_of([(0, "1", "[0, 1]"), (1, "1", "[0, 1]"), (2, "1", "[2, 3]"), (3, "5", "[2,3]")])
    assert codes[0] == codes[1] != codes[2] == codes[3]


def test_two_groups_of_the_same_ranks_are_told_apart_by_description_else_by_name() -> None:
    rows = [(0, "1", "[0, 1]"), (0, "2", "[0, 1]"), (1, "1", "[0, 1]"), (1, "2", "[0, 1]")]
    codes = codes_of(rows)
    assert codes[0] == codes[2] != codes[1] == codes[3]
    swapped = [(0, "1", "[0, 1]"), (0, "2", "[0, 1]"), (1, "3", "[0, 1]"), (1, "4", "[0, 1]")]
    stated = [
        ReportedGroup(0, "1", "[0, 1]", "dp"), ReportedGroup(0, "2", "[0, 1]", "cp"),
        ReportedGroup(1, "3", "[0, 1]", "cp"), ReportedGroup(1, "4", "[0, 1]", "dp"),
    ]  # fmt: skip
    codes = codes_of(swapped, stated)
    assert codes[0] == codes[3] != codes[1] == codes[2]
    assert len({*codes_of(swapped)}) == 4, "nothing says which is which"


def test_lists_that_were_cut_are_the_whole_list_that_fits() -> None:
    whole = str(list(range(64)))
    other = str([*range(10), *range(20, 73), 63])
    cut = "[0, 1, 2, ..., 63]"
    assert ranks_in(cut) == Ranks((0, 1, 2, 63), True)
    assert ranks_in("{'4': 0, '6': 1}") == Ranks((4, 6))
    stated = [ReportedGroup(1, "0", whole, "default_pg")]
    codes = codes_of([(0, "0", cut), (1, "0", cut), (2, "0", whole)], stated, 64)
    assert len({*codes}) == 1
    assert len({*codes_of([(0, "0", cut), (1, "0", cut)], size=64)}) == 1
    both = [ReportedGroup(1, "0", whole, ""), ReportedGroup(1, "1", other, "")]
    found = codes_of([(0, "0", cut), (1, "0", cut), (1, "1", cut)], both, 64)
    assert found[1] != found[2], "each worker's own list of a name comes first"


def test_a_thousand_ranks_of_many_groups_take_no_time_per_call() -> None:
    ranks, calls = 1024, 200
    worker = np.repeat(np.arange(ranks), calls)
    which = np.tile(np.arange(calls) % 2, ranks)
    listed = [
        *(str(list(range(n, n + 8))) for n in range(0, ranks, 8)),
        f"[{', '.join(map(str, range(29)))}, ..., 1023]",
    ]
    at = np.where(which == 0, worker // 8, len(listed) - 1)
    names = ["0", "1"]
    found = groups_of(GroupColumns(worker, 1 - which, names, at, listed, np.where(which == 0, 8, ranks)))
    assert len({*found.code.tolist()}) == ranks // 8 + 1 == len(found.ranks)
    assert len({*zip(found.code.tolist(), at.tolist(), strict=True)}) == len(listed)


@pytest.mark.parametrize(
    ("description", "dimension"),
    [
        ("TENSOR_MODEL_PARALLEL_GROUP", "tensor"), ("mesh_tp", "tensor"), ("tp", "tensor"), ("mesh_pp", "pipeline"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"), ("dp_cp", "data + context"), ("fsdp", "data"),
        ("mesh_dp_shard", "data"), ("DATA_PARALLEL_GROUP_WITH_CP", "data + context"), ("mesh_ep", "expert"),
        ("EXPERT_TENSOR_PARALLEL_GROUP", "tensor + expert"), ("MODEL_PARALLEL_GROUP", "tensor + pipeline"),
        ("CONTEXT_PARALLEL_GROUP", "context"), ("default_pg", ""), ("undefined", ""), ("http_pool", ""), ("", ""),
    ],
)  # fmt: skip
def test_what_a_group_divides_by_its_description(description: str, dimension: str) -> None:
    assert dimensions_of(description, PYTORCH.parallel.dimensions) == dimension


def test_which_ranks_a_group_has() -> None:
    def said(text: str, size: int | None = None) -> str:
        return shape_of(ranks_in(text), size, 64)

    assert said("[8, 9, 10, 11]") == "4 neighboring ranks"
    assert said("[1, 9, 17, 25]") == "4 ranks, every 8th"
    assert said("[0, 2]") == "2 ranks, every 2nd"
    assert said("[0, 1, 2, ..., 63]", 64) == "all ranks"
    assert said("[0, 2, 4, ..., 62]", 32) == "32 ranks, every 2nd"
    assert said("[0, 2, 4, ..., 63]", 32) == said("[0, 1, 5]") == said("") == ""
    assert said("[3]", 1) == "one rank"
    assert replace(ranks_in("[0]"), cut=True) == Ranks((0,), True)


PAIR, ALL = "[0, 1]", "[0, 1, 2, 3]"
LISTED = [ReportedGroup(w, "0", ALL, "world") for w in range(4)] + [ReportedGroup(w, "1", PAIR, "half") for w in (0, 1)]


@pytest.mark.parametrize(
    ("ranks", "listed", "callers", "found"),
    [
        ([0, 1, 2, 3], LISTED, (0, 1), "half"),
        ([1, 0, 3, 2], LISTED, (0, 1), "half"),
        ([3, 2, 1, 0], LISTED, (0, 1), ""),  # ranks, not places
        ([0, 1, 2, 3], LISTED, (0, 1, 2), ""),
        ([0, 1, 2, 3], [*LISTED, ReportedGroup(0, "2", PAIR, "other")], (0, 1), ""),
        ([0, 1, 2, 3], LISTED[:4], (0, 1), ""),
    ],
)
def test_calls_without_a_group_have_the_listed_group_of_their_callers(
    ranks: list[int | None], listed: list[ReportedGroup], callers: tuple[int, ...], found: str
) -> None:
    """All ranks have calls of kind 0, and some have calls of kind 1."""
    worker = np.array([0, 1, 2, 3, *callers])
    kind = np.array([0] * 4 + [1] * len(callers))
    none = Groups(np.zeros(len(worker), np.int64), [Ranks(())])
    told, names = groups_of_callers(none, worker, kind, np.arange(len(worker)), ranks, listed)
    assert [names.get(code, "") for code in told.code.tolist()] == [""] * 4 + [found] * len(callers)
    assert told.ranks[-1] == (Ranks((0, 1)) if found else Ranks(()))
