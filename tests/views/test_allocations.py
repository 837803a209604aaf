"""The page Memory of a snapshot: what it says first, what it says of the data, and its steps."""

from __future__ import annotations

import pickle
from typing import Any

from tb_plugin.analysis.base import Params
from tb_plugin.findings import finding
from tb_plugin.model.snapshot.assemble import assemble
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import Figures, Notices, Table, View
from tb_plugin.views.allocations.view import Allocations
from tests.builders import payload_of
from tests.snapshots import event, frames, read, segment, snapshot

MIB = 1 << 20
LINE = frames("/site-packages/torch/nn/modules/linear.py:10:forward", "/home/user/train.py:7:main")
OTHER = frames("/home/user/data.py:3:load", "/home/user/train.py:9:main")


def view(model: Snapshot, **asked: object) -> View:
    params = Params(extra=tuple((key.strip("_"), str(value)) for key, value in asked.items()))
    found = Allocations().answer([Allocations().part(model, params)], params)
    assert isinstance(found, View)
    return found


def sentences(found: View, name: str) -> list[str]:
    notices = payload_of(found, name, Notices)
    return [finding(notice).text for notice in notices.notices]


def rows(found: View, name: str) -> list[dict[str, Any]]:
    table = payload_of(found, name, Table)
    return [dict(row) for row in table.rows]


def training(**more: Any) -> Snapshot:
    """Two steps: the first one allocates from one line twice, the second one from another."""
    steps = [
        {"name": "ProfilerStep#4", "stage": stage, "device": 0, "time_us": 1_000_000 + time}
        for stage, time in (("START", 0), ("END", 10))
    ]
    steps.append({"name": "ProfilerStep#5", "stage": "START", "device": 0, "time_us": 1_000_010})
    return snapshot(
        [
            event("alloc", 1 * MIB, 2 * MIB, 0, frames=LINE),
            event("alloc", 8 * MIB, MIB, 3, frames=LINE),
            event("alloc", 16 * MIB, MIB, 9, frames=OTHER),
            event("free_requested", 8 * MIB, MIB, 10),
            event("free_completed", 8 * MIB, MIB, 12),
        ],
        [
            segment(1 * MIB, 2 * MIB, [(2 * MIB, "active_allocated")]),
            segment(16 * MIB, MIB, [(MIB, "active_allocated")]),
        ],
        external_annotations=steps,
        **more,
    )


def test_it_says_first_what_the_peak_consists_of() -> None:
    assert sentences(view(training()), "answer") == [
        "Peak of cuda:0: 4.00 MiB allocated, after event 2 (9.00 µs, step 4). Largest known allocation site: "
        "/home/user/train.py(7): main (3.00 MiB, 75.0 %)."
    ]
    assert sentences(view(snapshot([])), "answer") == []
    without = snapshot([event("alloc", 512, 512)])
    assert sentences(view(without), "answer") == ["Peak of cuda:0: 512 B allocated, after event 0 (0 ns)."]


def test_it_names_the_largest_category() -> None:
    made = snapshot([event("alloc", 0, 512, frames=LINE, category="gradient"), event("alloc", 4096, 64, frames=LINE)])
    (text,) = sentences(view(made), "answer")
    assert ". Largest known category: gradients (512 B, 88.9 %). Largest known" in text


def test_most_of_the_peak_may_have_no_stack() -> None:
    made = snapshot([event("alloc", 0, 512, frames=LINE), event("alloc", 4096, 1024)])
    (text,) = sentences(view(made), "answer")
    assert "site: /home/user/train.py(7): main (512 B, 33.3 %); 1.00 KiB have no stack." in text


def test_steps_have_their_events_and_peaks() -> None:
    assert rows(view(training()), "history_steps") == [
        {"step_name": "4", "step_peak_bytes": 4 * MIB, "first_event": 0, "last_event": 2, "step_begin_ns": 0,
         "step_end_ns": 10_000},
        {"step_name": "5", "step_peak_bytes": 3 * MIB, "first_event": 3, "last_event": 4, "step_begin_ns": 10_000,
         "step_end_ns": 12_001},
    ]  # fmt: skip


def test_of_many_steps_some_are_left_out_evenly(monkeypatch: Any) -> None:
    monkeypatch.setattr("tb_plugin.views.allocations.tables.MOST_STEPS", 2)
    monkeypatch.setattr("tb_plugin.views.allocations.notes.MOST_STEPS", 2)
    steps = [{"name": f"ProfilerStep#{i}", "stage": "START", "device": 0, "time_us": 1_000_000 + i} for i in range(4)]
    made = snapshot([event("alloc", i << 20, 512, i, frames=LINE) for i in range(4)], external_annotations=steps)
    assert [row["step_name"] for row in rows(view(made), "history_steps")] == ["0", "2"]
    assert (
        "One in 2 of the 4 steps is listed and marked. Select a part of the history to see all of its steps."
        in missing(made)
    )
    part = view(made, from_=1, to=2)
    assert [row["step_name"] for row in rows(part, "history_steps")] == ["1", "2"]


def test_a_moment() -> None:
    figures = payload_of(view(training(), at=3), "moment", Figures)
    values = {figure.metric.key: figure.value for figure in figures.figures}
    assert values == {
        "event_number": 3, "event_ns": 10_000, "allocated_bytes": 3 * MIB, "active_bytes": 4 * MIB,
        "reserved_bytes": 3 * MIB, "free_bytes": -MIB, "pending_now_bytes": MIB, "held_blocks": 2,
    }  # fmt: skip
    parts = [values[key] for key in ("allocated_bytes", "pending_now_bytes", "free_bytes")]
    assert sum(part for part in parts if isinstance(part, int)) == values["reserved_bytes"]
    assert "pending_now_bytes" not in {
        figure.metric.key for figure in view(training(), at=1).payloads["moment"].figures
    }


def test_a_block_that_is_named_is_listed_however_small_it_is(monkeypatch: Any) -> None:
    monkeypatch.setattr("tb_plugin.views.allocations.tables.MOST_BLOCKS", 1)
    listed = [row["block_row"] for row in rows(view(training()), "held_blocks")]
    params = Params(table="held_blocks", where=(("block_row", "2"),))
    named = Allocations().answer([Allocations().part(training(), params)], params)
    assert isinstance(named, Table)
    assert (listed, [row["block_row"] for row in named.rows]) == ([0], [2])


def missing(made: Snapshot) -> list[str]:
    """What is said to be missing, but for categories: test_snapshot_categories.py is about them."""
    return [text for text in sentences(view(made), "data_quality") if not text.startswith("Memory categories")]


def test_what_is_missing_is_said() -> None:
    assert missing(training()) == []
    only_end = [segment(512, 512, [(512, "active_allocated")])]
    nothing = assemble(read(pickle.dumps(only_end)))
    assert missing(nothing) == [
        "The snapshot contains no history; only memory at the time of the snapshot is known.",
        "No block has a stack, so allocation lines are unknown.",
    ]
    for unrecorded in ([], [event("snapshot", 0, 0)]):
        assert missing(snapshot(unrecorded, only_end)) == missing(nothing), "as _dump_snapshot writes it"
    cut = snapshot(
        [{**event("free_requested", 512, 1024, frames=LINE), "time_us": None}],
        allocator_settings={"trace_alloc_max_entries": 1, "trace_alloc_overflowed": True},
    )
    assert missing(cut) == [
        "1.00 KiB in 1 block were allocated before the first recorded event. Their allocation time and most of their "
        "stacks are unknown. Older events were dropped: the recorder stores at most 1.",
        "Events have no times, so charts use event numbers.",
        "No block has a stack, so allocation lines are unknown.",
    ]
    odd = snapshot([event("alloc", 512, 512, frames=LINE), event("alloc", 512, 512, frames=LINE)])
    assert any("without a recorded release: 1" in text for text in missing(odd))
