"""Memory flow: what tensors share counts once, peaks and moments are exact, and every part of the picture is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params, Part, page
from tb_plugin.errors import BadRequest, CacheFileLost
from tests.megengine.memory_flow import T, flow, no_flow
from tests.samples import BY_NAME, SAMPLES, made
from torch_trace_megengine.memory_flow import model as table
from torch_trace_megengine.memory_flow import picture
from torch_trace_megengine.memory_flow.model import MEMORY_FLOW, MOST_REGIONS, MemoryFlow, levels_of
from torch_trace_megengine.memory_flow.view import MemoryFlowAnalysis

SAMPLE = next(name for name in BY_NAME if name.startswith("memory_flow_cpu/"))
KIB, GIB = 1024, 2**30
SMALL = (
    T(1000, 100, 10, 60, "net[1].conv[2].Convolution:0", "{25(1) Float32}", 4),
    T(1000, 100, 20, 50, "net[2].Reshape:0", "{5(5),5(1) Float32}", 6),  # a view of the first
    T(1050, 100, 30, 40, "net.conv.Convolution:1"),  # overlaps both by half
    T(5 * GIB, 8, 0, None, ""),
)
"""Memory in use: 8 from 0, 108 from 10, 158 from 30 to 40, 108 to 60, 8 to the end at 60."""


def ask(model: MemoryFlow, **extra: int) -> Part:
    return MemoryFlowAnalysis().part(model, Params(extra=tuple((key, str(value)) for key, value in extra.items())))


def figures(part: Part, name: str) -> dict[str, Any]:
    payload: Any = part.payloads[name]
    return {figure.metric.key: figure.value for figure in payload.figures}


def rows(part: Part, name: str) -> list[dict[str, Any]]:
    return page(part.frames[name], Params()).rows


def test_what_is_shared_counts_once() -> None:
    levels = levels_of(flow(*SMALL))
    assert list(zip(levels.time_ns.tolist(), levels.used.tolist(), levels.tensors.tolist(), strict=True)) == [
        (0, 8, 8),
        (10, 108, 108),
        (20, 108, 208),
        (30, 158, 308),
        (40, 108, 208),
        (50, 108, 108),
        (60, 0, 0),
    ]
    assert levels.is_exact


def test_the_peak_and_what_was_there() -> None:
    part = ask(flow(*SMALL))
    assert part.facts == {
        "memory_flow.peak_bytes": 158,
        "memory_flow.peak_time_ns": 30,
        "memory_flow.peak_tensors": 4,
        "memory_flow.tensors": 4,
        "memory_flow.unreleased": 1,
    }
    answer: Any = part.payloads["answer"]
    (notice,) = answer.notices
    assert notice.text == (
        "Memory use peaks at {flow_peak_time_ns}: {flow_peak_bytes} in {flow_peak_tensors} tensors, of which "
        "{producer_moment_bytes} made by {tensor_producer} and {unnamed_bytes} in unnamed tensors."
    )
    said = {figure.metric.key: figure.value for figure in notice.figures}
    assert (said["tensor_producer"], said["producer_moment_bytes"], said["unnamed_bytes"]) == (
        "net.conv.Convolution",
        150,
        8,
    )
    assert figures(part, "moment") == {
        "flow_moment_ns": 30,
        "flow_moment_used_bytes": 158,
        "flow_moment_shared_bytes": 150,
        "flow_moment_tensors": 4,
    }
    rules = [notice.rule for notice in part.payloads["data_quality"].notices]  # type: ignore[union-attr]
    assert rules == ["flow_not_released", "flow_shared"]


def test_tables() -> None:
    part = ask(flow(*SMALL), at_ns=45)
    there = rows(part, "tensors_at")
    assert [row["tensor_name"] for row in there] == ["net[1].conv[2].Convolution:0", "net[2].Reshape:0", "(no name)"]
    assert there[0] == {
        "tensor_name": "net[1].conv[2].Convolution:0",
        "tensor_bytes": 100,
        "tensor_made_ns": 10,
        "tensor_released_ns": 60,
        "tensor_life_ns": 50,
        "tensor_layout": "{25(1) Float32}",
        "tensor_operator": "Convolution",
        "tensor_address": "0x3e8",
        "tensor_operator_number": 4,
        "tensor_number": 1,
    }
    assert (there[2]["tensor_released_ns"], there[2]["tensor_life_ns"], there[2]["tensor_operator"]) == (
        None,
        60,
        "(no name)",
    )
    assert len(rows(part, "tensors")) == 4
    makers = {row["tensor_producer"]: row for row in rows(part, "flow_producers")}
    assert makers["net.conv.Convolution"] == {
        "tensor_producer": "net.conv.Convolution",
        "producer_moment_bytes": 100,
        "producer_tensors": 2,
        "producer_bytes": 200,
        "largest_tensor_bytes": 100,
        "producer_life_ns": 50,
    }
    assert part.frames["tensors_at"].title == "Tensors at the selected time"
    assert figures(part, "moment")["flow_moment_used_bytes"] == 108


def test_the_picture_leaves_gaps_out_and_keeps_addresses() -> None:
    drawn: Any = ask(flow(*SMALL)).payloads["flow"]
    assert drawn.region_address == ["0x3e8", hex(5 * GIB)] and drawn.region_bytes == [150, 8]
    assert drawn.region_offset == [0, 151] and drawn.extent_bytes == 159
    assert list(zip(drawn.row, drawn.offset, drawn.created_ns, drawn.released_ns, strict=True)) == [
        (0, 151, 0, 60),
        (1, 0, 10, 60),
        (2, 0, 20, 50),
        (3, 50, 30, 40),
    ]
    assert drawn.is_released == [False, True, True, True] and drawn.hidden == 0
    assert [drawn.operators[i] for i in drawn.operator] == ["(no name)", "Convolution", "Reshape", "Convolution"]
    part: Any = ask(flow(*SMALL), start_ns=45, end_ns=55, low=0, high=120).payloads["flow"]
    assert part.row == [1, 2] and (part.start_ns, part.end_ns, part.low_bytes, part.high_bytes) == (45, 55, 0, 120)
    nowhere: Any = ask(flow(*SMALL), start_ns=99, end_ns=10**9, low=10**12).payloads["flow"]
    assert (nowhere.start_ns, nowhere.end_ns, nowhere.low_bytes) == (60, 60, 159)


@pytest.mark.parametrize("extra", [{"start_ns": 50, "end_ns": 20}, {"low": 9, "high": 3}])
def test_a_part_that_ends_before_it_begins_is_refused(extra: dict[str, int]) -> None:
    with pytest.raises(BadRequest, match="is before"):
        ask(flow(*SMALL), **extra)


def test_the_curve_holds_until_the_next_change() -> None:
    curve: Any = ask(flow(*SMALL), start_ns=15, end_ns=35).payloads["curve"]
    assert curve.x == [15, 20, 30, 35]
    assert [line.values for line in curve.lines] == [[108, 108, 158, 158], [108, 208, 308, 308]]
    alone: Any = ask(flow(SMALL[0])).payloads["curve"]
    assert [line.metric.key for line in alone.lines] == ["flow_used_bytes"]


def test_small_tensors_are_told_by_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MAX_TENSORS", 2)
    monkeypatch.setattr(picture, "GRID_CELLS", (10, 4))
    model = flow(
        T(0x1000, 200, 1, 101), T(0x1000 + 300, 100, 1, 101), T(0x1000 + 200, 10, 11, 21), T(0x1000 + 250, 9, 51, 59)
    )
    drawn: Any = ask(model).payloads["flow"]
    assert drawn.row == [0, 1] and drawn.hidden == 2
    runs = list(zip(drawn.cell_column, drawn.cell_first, drawn.cell_end, strict=True))
    assert runs == [(1, 2, 3), (5, 2, 3)]
    assert (drawn.cell_columns, drawn.cell_rows) == (10, 4)


@given(
    st.lists(
        st.builds(T, st.integers(1, 30), st.integers(1, 12), st.integers(0, 30), st.none() | st.integers(1, 40)),
        min_size=1,
        max_size=12,
    )
)
def test_levels_are_what_counting_bytes_finds(tensors: list[T]) -> None:
    model = flow(*tensors)
    levels = levels_of(model)
    spans = list(
        zip(model.address.tolist(), model.size.tolist(), model.start_ns.tolist(), model.end_ns.tolist(), strict=True)
    )
    for at in range(42):
        there = [(address, size) for address, size, start, end in spans if start <= at < end]
        place = levels.at(at)
        used, sizes = (int(part[place]) if place >= 0 else 0 for part in (levels.used, levels.tensors))
        assert used == len({byte for address, size in there for byte in range(address, address + size)})
        assert sizes == sum(size for _, size in there)
        assert sorted(model.size[model.alive_at(at)].tolist()) == sorted(size for _, size in there)


def test_what_takes_too_many_pieces_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST_PIECES", 3)
    part = ask(flow(*SMALL))
    assert part.facts["memory_flow.peak_bytes"] == 308
    assert "flow_not_exact" in [notice.rule for notice in part.payloads["data_quality"].notices]  # type: ignore[union-attr]


def test_addresses_far_apart_make_regions_but_not_any_number() -> None:
    model = flow(*(T((i + 1) * GIB, 64, i, i + 5) for i in range(3 * MOST_REGIONS)))
    assert len(model.region_address) == MOST_REGIONS
    assert (np.diff(model.offset) > 0).all() and int(model.offset[-1]) + 64 == model.extent_bytes


def test_nothing_at_all() -> None:
    part = ask(no_flow())
    assert part.facts["memory_flow.peak_bytes"] == 0 and part.payloads["answer"].notices == []  # type: ignore[union-attr]


def test_it_is_kept_whole(tmp_path: Path) -> None:
    model, path = flow(*SMALL), str(tmp_path / "f.arrow")
    MEMORY_FLOW.write(model, path)
    again = MEMORY_FLOW.read(path)
    assert ask(again).facts == ask(model).facts and rows(ask(again), "tensors") == rows(ask(model), "tensors")
    assert again.report == model.report
    (tmp_path / "f.arrow").write_bytes(Path(path).read_bytes()[:-200])
    with pytest.raises(CacheFileLost):
        MEMORY_FLOW.read(path)


def test_the_sample_says_what_its_drawing_says() -> None:
    """Three times the same forward pass."""
    part = ask(made(SAMPLE))
    assert part.facts["memory_flow.tensors"] == 37 and part.facts["memory_flow.peak_bytes"] == 874_120
    makers = {row["tensor_producer"]: row["producer_tensors"] for row in rows(part, "flow_producers")}
    assert makers["block2.Convolution"] == makers["block1.RELU"] == makers["MatrixMul"] == 3


@pytest.mark.parametrize("process", ["4100", "4111"])
def test_an_invented_training_has_the_memory_that_it_was_played_with(process: str) -> None:
    worker = json.loads((SAMPLES / "truth" / "synthetic_megengine.json").read_text())["workers"][process]
    truth, model = worker["memory"], made(f"synthetic_megengine/{process}.memory_flow.svg")
    part, levels = ask(model), levels_of(model)
    keys = ("peak_bytes", "peak_time_ns", "tensors", "unreleased")
    told = [truth[key] for key in ("peak_bytes", "peak_ns", "tensors", "unreleased")]
    assert [part.facts[f"memory_flow.{key}"] for key in keys] == told
    at = [levels.at(time) for time, _ in truth["used_after_ns"]]
    # The last tensors are released while those that nobody released end with the recording.
    assert levels.used[at].tolist()[:-1] == [level for _, level in truth["used_after_ns"]][:-1]
    names = {operation["id"]: operation["name"] for operation in worker["operations"]}
    for row in page(part.frames["tensors"], Params(limit=None)).rows:
        assert row["tensor_operator_number"] is None or names[row["tensor_operator_number"]] == row["tensor_operator"]
