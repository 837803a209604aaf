"""What ranks of a job repeat, by the states of their traces and what they all-reduce: copies, no shards and no stages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.memory_categories import ORDER
from tb_plugin.analysis.replicas import FRAME, STATE, STATES, counts_of, states_frame
from tb_plugin.payloads import Notices, View
from tb_plugin.views.distributed.redundancy import redundancy_notices
from tests.builders import analysis, part, payload_of, trace, whole_part
from tests.conftest import SAMPLE_FILES, sample


@cache
def ranks(run: str) -> tuple[Part, ...]:
    names = [name for name in SAMPLE_FILES if name.startswith(f"{run}/")]
    return tuple(
        replace(whole_part(sample(name), "distributed"), worker=f"rank{i}") for i, name in enumerate(sorted(names))
    )


def figures(parts: tuple[Part, ...]) -> list[dict[str, object]]:
    return [{figure.metric.key: figure.value for figure in notice.figures} for notice in redundancy_notices(parts)]


def changed(one: Part, frame: str, column: str, change: Callable[[pa.ChunkedArray], pa.Array]) -> Part:
    """A part with another column in one of its tables."""
    data = one.frames[frame].data
    data = data.set_column(data.column_names.index(column), column, change(data[column]))
    return replace(one, frames={**one.frames, frame: replace(one.frames[frame], data=data)})


def test_copies_of_one_model_are_told_with_what_sharding_frees() -> None:
    view = analysis("distributed").answer(ranks("synthetic_ddp"), Params())
    assert isinstance(view, View)
    findings = payload_of(view, "findings", Notices)
    (notice,) = (notice for notice in findings.notices if notice.rule == "redundant_states")
    assert notice.text.startswith("Each of the ranks {group_ranks} has gradients {repeated_gradient_bytes} in blocks")
    gradients = 332_683_776  # 12 all-reduces of 3 steps, as samples/synthetic.py makes them
    assert {figure.metric.key: figure.value for figure in notice.figures} == {
        "repeated_ratio": 1.0, "workers": 4, "repeated_bytes": gradients, "repeated_gradient_bytes": gradients,
        "sharding_bytes": gradients * 3 // 4, "all_reduced_bytes": gradients,
        "group_ranks": "[0, 1, 2, 3]",
    }  # fmt: skip


def test_of_groups_only_those_that_sum_up_gradients() -> None:
    """All ranks have blocks of the same sizes; those that share layers (tp) hold different parts of them."""
    (found,) = figures(ranks("synthetic_groups"))
    assert (found["workers"], found["replica_groups"]) == (2, 1)
    (notice,) = redundancy_notices(ranks("synthetic_groups"))
    assert [figure.value for figure in notice.figures if figure.metric.key == "group_ranks"] == ["[0, 2]"]
    assert "One more process group" in notice.text


def test_shards_stages_missing_ranks_and_missing_memory_say_nothing() -> None:
    every = ranks("synthetic_ddp")
    scattering = [
        changed(one, "collectives", "collective", lambda names: pa.array(["reduce_scatter"] * len(names)))
        for one in every
    ]
    assert figures(tuple(scattering)) == []
    assert figures(every[:3]) == [], "nobody knows what the fourth rank holds"
    stage = changed(every[3], FRAME, "state_block_bytes", lambda sizes: pc.multiply(sizes, 2))
    assert figures((*every[:3], stage)) == []
    bare = [replace(one, frames={k: v for k, v in one.frames.items() if k != FRAME}) for one in every]
    assert figures(tuple(bare)) == []
    assert figures(ranks("ddp_gloo")) == []
    # Half as many bytes may be anything.
    half = [changed(one, "collectives", "comm_bytes", lambda sizes: pc.divide(sizes, 2)) for one in every]
    assert figures(tuple(half)) == []


def test_without_categories_a_trace_states_nothing() -> None:
    """No forward pass is seen, or no addresses."""
    assert counts_of(part(trace().memory(5, 512, 1, 0, Addr=16).op("aten::mm", 0, 9).table(), "memory_states")) == {}
    assert counts_of(part(trace().op("aten::mm", 0, 9).table(), "memory_states")) == {}


lives = st.tuples(st.integers(-1, 6), st.integers(0, 8), st.sampled_from((1, 2, 5)), st.sampled_from(range(len(ORDER))))


@given(st.lists(lives, max_size=10))
def test_any_states_recounted(blocks: list[tuple[int, int, int, int]]) -> None:
    columns = [np.array([block[i] for block in blocks], np.int64) for i in range(4)]
    frame = states_frame(columns[3], columns[0], columns[1], columns[2])
    states = [block for block in blocks if ORDER[block[3]] in STATES]

    def there(at: int) -> list[tuple[str, int]]:
        return sorted((ORDER[code], size) for begin, end, size, code in states if begin <= at < end)

    most = max(range(-1, 9), key=lambda at: (sum(size for _, size in there(at)), -at))
    told = [
        (row["state_category"], row["state_block_bytes"])
        for row in frame.data.to_pylist()
        for _ in range(row["state_blocks"])
    ]
    assert sorted(told) == there(most)


@pytest.mark.parametrize("name", [name for name in SAMPLE_FILES if name.startswith("synthetic_gpu/")])
def test_states_are_those_of_the_memory_view(name: str) -> None:
    counts = counts_of(part(sample(name), "memory_states"))
    assert counts and {state for state, _ in counts} == {"gradient"}, "all else is older than the trace"


def test_states_that_no_profile_has_are_left_out() -> None:
    rows = [
        ("parameter", 512, 3),
        ("<b>", 512, 1),
        ("gradient", -512, 2),
        ("gradient", -1, -1),
        ("gradient", 2**61, 2**61),
    ]
    columns = zip(*rows, strict=True)
    data = pa.table({key: pa.array(values, kind) for (key, kind), values in zip(STATE.items(), columns, strict=True)})
    made = part(trace().op("aten::mm", 0, 9).table(), "memory_states")
    # The columns that it says it shows are not believed either.
    told = replace(made, frames={FRAME: Frame(FRAME, "", [], data, (), "")})
    assert counts_of(told) == {("parameter", 512): 3}
