"""What the ranks of a run hold: side by side, and what all of them hold alike."""

from __future__ import annotations

import pickle
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.model.snapshot.assemble import assemble
from tb_plugin.payloads import Notice, Notices, Series, Table, View
from tb_plugin.views.ranks_memory.replicas import STATES
from tb_plugin.views.ranks_memory.view import RanksMemory
from tests.depth import examples
from tests.snapshots import event, read, snapshot
from tests.synthetic_memory import generator

Rank = list[tuple[str, int]]
"""Blocks: category and size."""


def view(*ranks: Rank) -> View:
    parts = []
    for number, blocks in enumerate(ranks):
        events = [event("alloc", 1 << 20 | i * 4096, size, category=name) for i, (name, size) in enumerate(blocks)]
        part = RanksMemory().part(snapshot(events), Params())
        parts.append(replace(part, worker=f"rank{number}"))
    found = RanksMemory().answer(parts, Params())
    assert isinstance(found, View)
    return found


def told(found: View) -> list[Notice]:
    advice = found.payloads["advice"]
    assert isinstance(advice, Notices)
    return advice.notices


STATE: Rank = [("parameter", 1024), ("parameter", 1024), ("gradient", 1024), ("optimizer_state", 2048)]


def test_the_answer_names_the_largest_peak() -> None:
    (said,) = view([("parameter", 512)], [("parameter", 2048)]).payloads["answer"].notices  # type: ignore[union-attr]
    values = {figure.metric.key: figure.value for figure in said.figures}
    assert values == {"workers": 2, "worker": "rank1", "most_allocated_bytes": 2048, "peaks_apart_bytes": 1536}
    (said,) = view(STATE, STATE).payloads["answer"].notices  # type: ignore[union-attr]
    assert said.text.startswith("All {workers} ranks have the same peak")
    assert view(STATE).payloads["answer"].notices == []  # type: ignore[union-attr]


def test_replicas() -> None:
    found = view([*STATE, ("activation", 512)], [*STATE, ("activation", 4096)], STATE)
    (notice,) = told(found)
    assert notice.rule == "redundant_states"
    assert {figure.metric.key: figure.value for figure in notice.figures} == {
        "repeated_ratio": 1.0, "workers": 3, "repeated_bytes": 5120, "repeated_parameter_bytes": 2048,
        "repeated_gradient_bytes": 1024, "repeated_optimizer_state_bytes": 2048, "sharding_bytes": 3413,
        "peak_sharding_bytes": 3413,
    }  # fmt: skip
    table = found.payloads["rank_memory"]
    assert isinstance(table, Table)
    assert [(row["worker"], row["most_allocated_bytes"], row["rank_activation_bytes"]) for row in table.rows] == [
        ("rank0", 5632, 512), ("rank1", 9216, 4096), ("rank2", 5120, 0),
    ]  # fmt: skip
    bars = found.payloads["rank_categories"]
    assert isinstance(bars, Series) and [line.metric.key for line in bars.lines] == [
        "rank_parameter_bytes", "rank_optimizer_state_bytes", "rank_gradient_bytes", "rank_activation_bytes",
    ]  # fmt: skip


def test_replicas_with_batches_of_their_own() -> None:
    """Their peaks lie at different places of a step, and the allocator rounds some blocks up to what it has."""
    parts = []
    for rank, tokens in enumerate((3000, 5200, 4100)):
        allocator = generator.Allocator(16 << 30, rank)
        training = generator.Training(allocator)
        for number in range(2):
            training.step(number, tokens)
        parts.append(RanksMemory().part(assemble(read(pickle.dumps(allocator.snapshot()))), Params()))
    found = RanksMemory().answer(parts, Params())
    assert isinstance(found, View)
    (notice,) = told(found)
    figures = {figure.metric.key: figure.value for figure in notice.figures}
    assert figures["repeated_parameter_bytes"] == sum(training.sizes)
    assert float(figures["repeated_ratio"] or 0) > 0.9


def test_shards_stages_and_one_rank_say_nothing() -> None:
    assert told(view(STATE)) == []
    assert told(view(STATE, [("parameter", 512), ("gradient", 512), ("optimizer_state", 1536)])) == []
    assert told(view(STATE, STATE, [("activation", 8192)])) == []
    assert told(view([("activation", 512)], [("activation", 512)])) == []
    notes = view(STATE).payloads["data_quality"]
    assert isinstance(notes, Notices) and [notice.rule for notice in notes.notices] == ["one_worker"]


def test_where_categories_are_not_known_the_levels_are() -> None:
    parts = [RanksMemory().part(snapshot([event("alloc", 8, 512)]), Params()) for _ in range(2)]
    found = RanksMemory().answer(parts, Params())
    assert isinstance(found, View) and told(found) == []
    table = found.payloads["rank_memory"]
    assert isinstance(table, Table)
    assert [(row["most_allocated_bytes"], row["rank_parameter_bytes"]) for row in table.rows] == [(512, None)] * 2


def test_a_snapshot_of_nothing_is_no_row() -> None:
    found = RanksMemory().answer([RanksMemory().part(snapshot([]), Params())] * 2, Params())
    assert isinstance(found, View)
    table = found.payloads["rank_memory"]
    assert isinstance(table, Table) and table.rows == [] and told(found) == []


blocks = st.lists(st.tuples(st.sampled_from([*STATES, "activation"]), st.sampled_from([512, 1024, 4096])), max_size=6)


@examples(suite=20, deep=500)
@given(ranks=st.lists(blocks, min_size=2, max_size=3), common=blocks)
def test_recounted(ranks: list[Rank], common: Rank) -> None:
    every = [[*rank, *common, ("input", 512)] for rank in ranks]
    counts = [Counter(block for block in rank if block[0] in STATES) for rank in every]
    alike = Counter(counts[0])  # &= changes it
    for other in counts[1:]:
        alike &= other
    same = sum(size * count for (_, size), count in alike.items())
    total = max(sum(size * count for (_, size), count in each.items()) for each in counts)
    notices = told(view(*every))
    assert len(notices) == (same > 0 and same >= 0.8 * total)
    for notice in notices:
        figures = {figure.metric.key: figure.value for figure in notice.figures}
        assert figures["repeated_bytes"] == same
        assert figures["sharding_bytes"] == same * (len(ranks) - 1) // len(ranks)
