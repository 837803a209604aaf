"""The column file: every column comes back equal, and a damaged file is an error for a person."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tb_plugin.errors import UnreadableTrace
from tb_plugin.model.trace import arrow
from tb_plugin.model.trace.strings import StringTable
from tests.builders import TraceBuilder, kernel, memcpy, trace
from tests.conftest import UNLIKE, sample


def assert_same(one: Any, other: Any, path: str = "trace") -> None:
    """Equal in every field, type and dtype included."""
    assert type(one) is type(other) or (isinstance(one, dict) and isinstance(other, dict)), path
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, path
        np.testing.assert_array_equal(one, other, err_msg=path)
    elif isinstance(one, StringTable):
        assert list(one) == list(other), path
    elif isinstance(one, tuple) and one and is_dataclass(one[0]):
        assert len(one) == len(other), path
        for i, (each, same) in enumerate(zip(one, other, strict=True)):
            assert_same(each, same, f"{path}[{i}]")
    elif is_dataclass(one):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name), f"{path}.{field.name}")
    else:
        assert one == other, path


def rich() -> TraceBuilder:
    builder = trace().device(0).meta(distributedInfo={"rank": 1, "pg_config": [1]}, odd="\ud800 \u0000 π", nan=None)
    builder.step(1, 0, 50, ext=1).op(
        "aten::mm", 0, 10, ext=2, shapes=[[2, 8], []], stack="a.py(1): f;b.py(2): g", sequence=0
    )
    builder.launches(kernel("k", 5, grid=[1, 2, 3], blocks_per_sm=0.5, occupancy=30), memcpy(3, 20, bytes=77))
    builder.python("f", 0, 40, id=1).module("M", 1, 30, id=2, parent=1).memory(5, 100).counter(
        6, a=1, b=-2.5
    ).thread_name(1, "π")
    return builder.op("crossing", 30, 30).op("crossing", 40, 40)


@pytest.mark.parametrize("builder", [rich(), trace(), trace().op("a", 0, 1)], ids=["rich", "empty", "one event"])
def test_round_trip(builder: TraceBuilder, tmp_path: Path) -> None:
    table = builder.table()
    arrow.write(table, str(tmp_path / "t.arrow"))
    assert_same(table, arrow.read(str(tmp_path / "t.arrow")))


@pytest.mark.parametrize("name", UNLIKE)
def test_round_trip_of_samples(name: str, tmp_path: Path) -> None:
    arrow.write(sample(name), str(tmp_path / "t.arrow"))
    assert_same(sample(name), arrow.read(str(tmp_path / "t.arrow")))


def test_columns_are_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    arrow.write(rich().table(), str(tmp_path / "t.arrow"))
    table = arrow.read(str(tmp_path / "t.arrow"))
    with pytest.raises(ValueError, match="read-only"):
        table.start_ns[0] = 7


def test_a_file_that_was_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    arrow.write(rich().table(), str(path))
    whole = path.read_bytes()
    for size in {0, 1, 7, 8, 100, *range(200, len(whole) - 1, 997), len(whole) - 1}:
        path.write_bytes(whole[:size])
        with pytest.raises(UnreadableTrace) as error:
            arrow.read(str(path))
        assert error.value.do


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"no arrow at all" * 100, b"\0" * 5000])
def test_a_file_that_is_something_else(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.arrow").write_bytes(content)
    with pytest.raises(UnreadableTrace):
        arrow.read(str(tmp_path / "t.arrow"))


def test_a_footer_that_was_overwritten(tmp_path: Path) -> None:
    """Half-written blocks at the end are what a full disk leaves."""
    path = tmp_path / "t.arrow"
    arrow.write(rich().table(), str(path))
    whole = path.read_bytes()
    for size in (16, 300, 3_000):
        path.write_bytes(whole[:-size] + b"\0" * size)
        with pytest.raises(UnreadableTrace):
            arrow.read(str(path))


def test_a_file_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "SCHEMA_VERSION", 999)
    arrow.write(trace().op("a", 0, 1).table(), str(tmp_path / "t.arrow"))
    monkeypatch.undo()
    with pytest.raises(UnreadableTrace, match="version"):
        arrow.read(str(tmp_path / "t.arrow"))


MOST_BYTES_PER_EVENT = 160
"""Of a trace in the cache and mapped into memory, sections and strings included; docs/limits.md has a table."""
FEWEST_EVENTS = 400
"""Of fewer events the names are what a trace takes, as it shares few: it counts as one of so many."""


@pytest.mark.parametrize("name", UNLIKE)
def test_bytes_per_event(name: str, tmp_path: Path) -> None:
    """Beside what a file without any event takes. Small traces share few names, so they cost the most."""
    table = sample(name)
    if table.stated:
        pytest.skip("tables that a profile states lie beside its events")
    arrow.write(trace().table(), str(tmp_path / "empty.arrow"))
    arrow.write(table, str(tmp_path / "t.arrow"))
    size = (tmp_path / "t.arrow").stat().st_size - (tmp_path / "empty.arrow").stat().st_size
    assert size <= MOST_BYTES_PER_EVENT * max(table.report.events_kept, FEWEST_EVENTS)
