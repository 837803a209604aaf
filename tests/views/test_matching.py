"""Matching that survives reality: numbers that lack, begin elsewhere or are shared by a batch, groups under any name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace

from tb_plugin.profilers import PYTORCH
from tb_plugin.views.distributed.matching import alignment
from tb_plugin.views.distributed.matching.alignment import align_sequences, longest_common
from tb_plugin.views.distributed.matching.groups import (
    GroupColumns,
    Ranks,
    ReportedGroup,
    dimensions_of,
    groups_of,
    ranks_in,
    shape_of,
)
from tb_plugin.views.distributed.matching.match import BY, Calls, match, match_calls
from tests.depth import sampled

Int64 = npt.NDArray[np.int64]


def calls_of(*workers: list[tuple[int, ...]], group: int = 0) -> Calls:
    """(kind, sequence, step) of each call of each worker; without a sequence -1, without a step none."""
    rows = [(w, *one, *(-1, 9)[len(one) - 1 :]) for w, mine in enumerate(workers) for one in mine]
    worker, kind, sequence, step = np.array(rows, np.int64).T
    zero = np.zeros_like(worker)
    return Calls(worker, step, zero + group, zero, kind, sequence, zero != 0, zero != 0, no_step=9)


def sets_of(calls: Calls) -> list[list[tuple[int, int]]]:
    """(worker, place) of the calls of each match."""
    label = match(calls)
    place = np.concatenate([np.arange(n) for n in np.bincount(calls.worker)])
    return sorted(
        [(int(calls.worker[i]), int(place[i])) for i in np.flatnonzero(label == each)]
        for each in range(label.max() + 1)
    )


def how(calls: Calls) -> list[str]:
    return ["" if by < 0 else BY[by] for by in match_calls(calls).by.tolist()]


def test_one_call_without_a_number_turns_no_other_number_off() -> None:
    full = [(kind, n) for n, kind in enumerate([5, 3, 5, 7, 3])]
    gap = [*full[:2], (5,), *full[3:]]
    assert sets_of(calls_of(full, gap)) == [[(0, n), (1, n)] for n in range(5)]
    assert how(calls_of(full, gap))[5:] == ["number", "number", "inferred number", "number", "number"]
    # With a call missing beside it two numbers would fit: its kind and the order say which.
    short = [*full[:1], (5,), *full[3:]]
    assert sets_of(calls_of(full, short)) == [[(0, 0), (1, 0)], [(0, 2), (1, 1)], [(0, 3), (1, 2)], [(0, 4), (1, 3)]]
    assert how(calls_of(full, short))[5:] == ["number", "order", "number", "number"]


def test_a_worker_without_numbers_is_aligned_with_those_that_have_some() -> None:
    full = [(kind, n, n // 3) for n, kind in enumerate([5, 3, 7, 5, 3, 7])]
    plain = [(kind, -1, step) for kind, _, step in full]
    assert sets_of(calls_of(full, full[1:], plain[:3] + plain[4:])) == [
        [(0, 0), (2, 0)], [(0, 1), (1, 0), (2, 1)], [(0, 2), (1, 1), (2, 2)], [(0, 3), (1, 2)],
        [(0, 4), (1, 3), (2, 3)], [(0, 5), (1, 4), (2, 4)],
    ]  # fmt: skip
    assert set(how(calls_of(full, plain))[6:]) == {"order"}


def test_a_worker_that_knows_no_steps_is_aligned_over_the_whole_group() -> None:
    steps = [(kind, -1, n // 2) for n, kind in enumerate([5, 3, 7, 4])]
    assert sets_of(calls_of(steps, [(5,), (7,), (4,)])) == [[(0, 0), (1, 0)], [(0, 2), (1, 1)], [(0, 3), (1, 2)]]


KINDS = [5, 3, 5, 7, 2, 3, 8, 7, 1, 4, 4, 6]


def test_numbers_that_begin_elsewhere_are_moved() -> None:
    full = [(kind, n) for n, kind in enumerate(KINDS)]
    moved = [(kind, n + 3) for n, kind in enumerate(KINDS)]
    met = calls_of(full, moved, full)
    assert sets_of(met) == [[(0, n), (1, n), (2, n)] for n in range(len(KINDS))]
    assert set(how(met)[len(KINDS) : 2 * len(KINDS)]) == {"inferred number"}
    # Also where a call is missing.
    lacks = [one for one in moved if one[1] != 8]
    assert [row for row in sets_of(calls_of(full, lacks, full)) if len(row) == 2] == [[(0, 5), (2, 5)]]


def test_numbers_of_another_time_meet_only_calls_of_the_same_steps() -> None:
    """Rank 1 counts from 1000: where steps say that it is the same time it is met, else nothing says so."""
    labelled = [[(kind, n + by, n // 4) for n, kind in enumerate(KINDS)] for by in (0, 1000)]
    assert sets_of(calls_of(*labelled)) == [[(0, n), (1, n)] for n in range(len(KINDS))]
    bare = [[one[:2] for one in mine] for mine in labelled]
    assert sets_of(calls_of(*bare)) == []
    elsewhen = [labelled[0], [(kind, n, step + 4) for kind, n, step in labelled[1]]]
    assert sets_of(calls_of(*elsewhen)) == []


def test_sizes_that_differ_by_rank_move_no_number() -> None:
    """Shards of uneven sizes: every rank has its own numbers of elements, and the numbers are right."""
    ranks = [[(kind + 10 * rank, n) for n, kind in enumerate(KINDS)] for rank in range(3)]
    met = calls_of(*ranks)
    assert sets_of(met) == [[(0, n), (1, n), (2, n)] for n in range(len(KINDS))]
    assert set(how(met)) == {"number"}


def test_a_coalesced_batch_shares_a_number_and_its_calls_meet_by_kind() -> None:
    batch = [(5, 0), (1, 1), (2, 1), (3, 1), (2, 1), (5, 2)]
    lacks = [one for i, one in enumerate(batch) if i != 1]
    assert sets_of(calls_of(batch, lacks)) == [[(0, 0), (1, 0)], *([(0, i), (1, i - 1)] for i in range(2, 6))]


def test_two_groups_of_a_number_are_apart() -> None:
    one, two = calls_of([(5, 0)], [(5, 0)]), calls_of([(5, 0)], [(5, 0)], group=1)
    both = Calls(*(np.concatenate(x) for x in zip(*(
        (c.worker, c.step, c.group, c.name, c.kind, c.sequence, c.lost) for c in (one, two)), strict=True)))  # fmt: skip
    assert match(both).tolist() == [0, 0, 1, 1]


# A tenth missing on one rank, one rank absent: everything else is matched right, whatever the numbers.


@pytest.mark.parametrize("seed", sampled(range(100), (1, 2)))
@pytest.mark.parametrize("numbers", ["all", "none", "nine of ten", "moved"])
def test_all_else_is_matched_where_a_tenth_is_missing(numbers: str, seed: int) -> None:
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
    number = np.zeros(len(worker), np.int64)
    for each in range(3):
        chosen = np.tile(of == each, steps)
        number[what == each] = np.tile(np.arange(chosen.sum()), ranks)
    keep = (worker != absent) & ((worker != victim) | (random.random(len(worker)) >= 0.1))
    if numbers == "none":
        number[:] = -1
    elif numbers == "nine of ten":
        number[random.random(len(number)) < 0.1] = -1
    elif numbers == "moved":
        number[worker == next(w for w in range(ranks) if w not in (absent, victim))] += 3
    zero = np.zeros(len(worker), np.int64)
    calls = Calls(
        *(column[keep] for column in (worker, place // per, group, what, kind[place % per], number, zero != 0)),
        no_step=99,
    )
    label, truth = match(calls), truth[keep]
    _, first, count = np.unique(truth, return_index=True, return_counts=True)
    several = np.isin(truth, truth[first][count > 1])
    assert (label[~several] == -1).all() and (label[several] >= 0).all()
    assert len({*zip(label[several].tolist(), truth[several].tolist(), strict=True)}) == (count > 1).sum()
    assert len(np.unique(label[several])) == (count > 1).sum()


def test_what_is_alike_cannot_be_told_apart_but_shifts_nothing_beyond() -> None:
    """Without numbers, steps of 20 calls of four sizes: a missing call is at most taken for a neighbour of its size."""
    random = np.random.default_rng(3)
    steps = [[(int(kind), -1, s) for kind in random.integers(0, 4, 20)] for s in range(30)]
    full = [one for step in steps for one in step]
    keep = random.random(600) >= 0.1
    met = sets_of(calls_of(full, [one for one, here in zip(full, keep, strict=True) if here], full))
    origin = np.flatnonzero(keep)
    pairs = [(dict(row)[0], int(origin[dict(row)[1]])) for row in met if len(row) == 3]
    assert len(pairs) == keep.sum() and all(one // 20 == two // 20 for one, two in pairs)
    assert np.mean([one == two for one, two in pairs]) > 0.9


def test_thousand_sequences_that_each_lack_a_call_are_aligned_without_a_table_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gaps are found by looking on: no table of n x n, whatever the ranks."""
    tables = []
    monkeypatch.setattr(
        alignment, "longest_common", lambda a, b: tables.append(len(a) * len(b)) or longest_common(a, b)
    )
    full = np.random.default_rng(0).integers(0, 9, 400)
    lost = [7 * i % 390 for i in range(50)]
    rows = align_sequences([full, *(np.delete(full, [n, n + 5]) for n in lost)])
    assert max(tables) < 500
    for n, mine in zip(lost, rows[1:], strict=True):
        same = np.delete(np.arange(400), [n, n + 5])
        assert (full[mine] == full[same]).all() and (np.abs(mine - same) <= 8).all() and (mine == same).mean() > 0.97


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

    assert said("[8, 9, 10, 11]") == "4 neighbouring ranks"
    assert said("[1, 9, 17, 25]") == "4 ranks, every 8th"
    assert said("[0, 2]") == "2 ranks, every 2nd"
    assert said("[0, 1, 2, ..., 63]", 64) == "all ranks"
    assert said("[0, 2, 4, ..., 62]", 32) == "32 ranks, every 2nd"
    assert said("[0, 2, 4, ..., 63]", 32) == said("[0, 1, 5]") == said("") == ""
    assert said("[3]", 1) == "one rank"
    assert replace(ranks_in("[0]"), cut=True) == Ranks((0,), True)


def transfers(*ends: list[tuple[int, ...]]) -> Calls:
    calls = calls_of(*ends)
    return replace(calls, two_ended=np.ones(len(calls.worker), np.bool_))


def test_of_equal_messages_the_one_is_missing_that_ends_at_no_other_time() -> None:
    """Two ends, clocks 1 s apart, four equal messages a step; the receiver lacks the second one of step 1."""
    ends = np.array([1000 * n for n in range(12)])
    both = [[(5, -1, n // 4) for n in range(12)], [(5, -1, n // 4) for n in range(12) if n != 5]]
    late = np.concatenate((ends, np.delete(ends, 5) + 1_000_000_000 + np.arange(11) % 3))
    calls = replace(transfers(*both), end_ns=late)
    assert [row for row in sets_of(calls) if row[0][1] in (4, 6, 7)] == [
        [(0, 4), (1, 4)], [(0, 6), (1, 5)], [(0, 7), (1, 6)],
    ]  # fmt: skip
    # Without times the last one of the step would be taken for it; so it is where nothing says how far clocks are apart.
    assert [(0, 5), (1, 5)] in sets_of(calls_of(*both))
    alone = [[one for one in mine if one[2] == 1] for mine in both]
    assert [(0, 1), (1, 1)] in sets_of(replace(transfers(*alone), end_ns=np.arange(7) * 1000))
