"""The column file: every column comes back equal, and a damaged file is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from tb_plugin.errors import UnreadableTrace
from tb_plugin.model import codec
from tb_plugin.model.trace.recorder import Advice, Recorder, StepPattern
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model_kinds.rows import SNAPSHOT
from tb_plugin.model_kinds.trace import TraceModel
from tb_plugin.profilers import PYTORCH, profiler_by_id
from tests.builders import TraceBuilder, kernel, memcpy, trace
from tests.conftest import UNLIKE, sample
from tests.samples import EVERY, Sample, made

MODEL = TraceModel()


def assert_same(one: Any, other: Any, path: str = "trace") -> None:
    """Equal in every field, type and dtype included."""
    assert type(one) is type(other) or (isinstance(one, dict) and isinstance(other, dict)), path
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, path
        np.testing.assert_array_equal(one, other, err_msg=path)
    elif isinstance(one, pa.Table):
        assert one.combine_chunks().equals(other), path
    elif isinstance(one, StringTable):
        assert list(one) == list(other), path
    elif isinstance(one, tuple):
        assert len(one) == len(other), path
        for i, (each, same) in enumerate(zip(one, other, strict=True)):
            assert_same(each, same, f"{path}[{i}]")
    elif isinstance(one, dict):
        assert list(one) == list(other), path
        for key, each in one.items():
            assert_same(each, other[key], f"{path}[{key!r}]")
    elif isinstance(one, msgspec.Struct):
        for field in one.__struct_fields__:
            assert_same(getattr(one, field), getattr(other, field), f"{path}.{field}")
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
    MODEL.write(table, str(tmp_path / "t.arrow"))
    assert_same(table, MODEL.read(str(tmp_path / "t.arrow")))


@pytest.mark.parametrize("profile", EVERY, ids=lambda each: each.name)
def test_round_trip_of_samples(profile: Sample, tmp_path: Path) -> None:
    path = str(tmp_path / "t.arrow")
    profile.model.write(made(profile.name), path)
    assert_same(made(profile.name), profile.model.read(path))


OWN = Recorder(
    "somebody's",
    "A tool",
    {"idle": Advice("Do it.", (("Title", "https://x.example/"),))},
    steps=(StepPattern("x", "^x$", modes=(("a", "b"),)),),
)


@pytest.mark.parametrize(
    ("recorder", "is_small"),
    [
        (PYTORCH, True),
        (replace(PYTORCH, steps=(*PYTORCH.steps, *OWN.steps)), True),
        (OWN, True),
        (Recorder(), True),
        (replace(PYTORCH, id="somebody's"), False),
    ],
    ids=["ours", "with a step pattern of the user", "an extension's", "none", "an extension's with many texts"],
)
def test_the_texts_of_a_known_profiler_are_not_in_the_file(recorder: Recorder, is_small: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    MODEL.write(replace(rich().table(), recorder=recorder), str(path))
    assert MODEL.read(str(path)).recorder == recorder
    assert (PYTORCH.advice["data_loading"].todo.encode()[:20] in path.read_bytes()) is not is_small


def test_a_profiler_that_is_not_known_any_more(tmp_path: Path) -> None:
    table, path = replace(rich().table(), recorder=OWN), str(tmp_path / "t.arrow")
    codec.write(table, path, 1, {OWN.id: OWN}.get)
    assert codec.read(TraceTable, path, 1, {OWN.id: OWN}.get).recorder is OWN
    with pytest.raises(UnreadableTrace):
        codec.read(TraceTable, path, 1, lambda name: None)


def test_another_model(tmp_path: Path) -> None:
    codec.write(rich().table(), str(tmp_path / "t.arrow"), SNAPSHOT.version, profiler_by_id)
    with pytest.raises(UnreadableTrace, match="version"):
        SNAPSHOT.read(str(tmp_path / "t.arrow"))


def test_columns_are_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    MODEL.write(rich().table(), str(tmp_path / "t.arrow"))
    table = MODEL.read(str(tmp_path / "t.arrow"))
    with pytest.raises(ValueError, match="read-only"):
        table.start_ns[0] = 7


def test_a_file_that_was_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    MODEL.write(rich().table(), str(path))
    whole = path.read_bytes()
    for size in {0, 1, 7, 8, 100, *range(200, len(whole) - 1, 997), len(whole) - 1}:
        path.write_bytes(whole[:size])
        with pytest.raises(UnreadableTrace) as error:
            MODEL.read(str(path))
        assert error.value.do


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"no arrow at all" * 100, b"\0" * 5000])
def test_a_file_that_is_something_else(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.arrow").write_bytes(content)
    with pytest.raises(UnreadableTrace):
        MODEL.read(str(tmp_path / "t.arrow"))


def test_a_footer_that_was_overwritten(tmp_path: Path) -> None:
    """Half-written blocks at the end are what a full disk leaves."""
    path = tmp_path / "t.arrow"
    MODEL.write(rich().table(), str(path))
    whole = path.read_bytes()
    for size in (16, 300, 3_000):
        path.write_bytes(whole[:-size] + b"\0" * size)
        with pytest.raises(UnreadableTrace):
            MODEL.read(str(path))


def test_a_file_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TraceModel, "version", 999)
    MODEL.write(trace().op("a", 0, 1).table(), str(tmp_path / "t.arrow"))
    monkeypatch.undo()
    with pytest.raises(UnreadableTrace, match="version"):
        MODEL.read(str(tmp_path / "t.arrow"))


MOST_BYTES_PER_EVENT = 160
"""Of a trace in the cache and mapped into memory, sections and strings included; docs/limits.md has a table."""
FIXED_BYTES = 43_500
"""Descriptions of columns and the header."""
FEWEST_EVENTS = 400
"""Of fewer events the names are what a trace takes, as it shares few: it counts as one of so many."""


@pytest.mark.parametrize("name", UNLIKE)
def test_bytes_per_event(name: str, tmp_path: Path) -> None:
    """Small traces share few names, so they cost the most."""
    table = sample(name)
    if table.reported_tables:
        pytest.skip("tables that a profile states lie beside its events")
    MODEL.write(table, str(tmp_path / "t.arrow"))
    size = (tmp_path / "t.arrow").stat().st_size
    assert size <= FIXED_BYTES + MOST_BYTES_PER_EVENT * max(table.report.events_loaded, FEWEST_EVENTS)


def test_a_file_without_events_takes_next_to_nothing(tmp_path: Path) -> None:
    MODEL.write(trace().table(), str(tmp_path / "t.arrow"))
    assert (tmp_path / "t.arrow").stat().st_size < 10_000
