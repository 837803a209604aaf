"""A search of the whole trace: what is found, in which order, where it lies, and what a plain recount finds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.kernel_labels import kernel_label
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import FullTrace, TraceTable
from tb_plugin.payloads import Series, View
from tests.builders import TraceBuilder, analysis, kernel, memcpy, part, payload_of, rows, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples


def view(table: TraceTable, search: str = "", **asked: Any) -> View:
    """The page; ``asked`` holds the view's own parameters, and ``where``, ``steps``, ``limit``."""
    known = {key: asked.pop(key) for key in ("where", "steps", "limit", "offset") if key in asked}
    extra = tuple((key.rstrip("_"), str(value)) for key, value in asked.items())
    params = Params(search=search, extra=extra, **known)
    find = analysis("find")
    found = find.answer([find.part(table, params)], params)
    assert isinstance(found, View)
    return found


def figures(found: View, name: str = "summary") -> dict[str, Any]:
    return {figure.metric.key: figure.value for figure in found.payloads[name].figures}  # type: ignore[union-attr]


def hits(table: TraceTable, search: str = "", **asked: Any) -> list[str]:
    """Names of all that is found, in order."""
    found = view(table, search, limit=None, **asked).payloads["hits"]
    return [row["name"] for row in found.rows]  # type: ignore[union-attr]


def small() -> TraceBuilder:
    builder = trace().step(1, 0, 100).op("aten::mm", 10, 20, shapes=[[2, 8]], stack="a.py(1): f;b.py(2): g")
    builder.launches(kernel("gemm", 7, 40, grid=[1, 2, 3], block=[4, 1, 1]), at=12, dur=3)
    builder.op("aten::mm_out", 50, 30, shapes=[[4]]).launches(kernel("gemm", 9, 70, grid=[9, 9, 9]))
    builder.on_device(memcpy(4, 90, "Memcpy HtoD"), corr=999)
    builder.module("MM", 5, 90, id=2).step(2, 200, 50).op("aten::MM", 210, 5)
    return builder.launches(kernel("late", 1, 220)).launches(kernel("late", 1, 221))


@pytest.mark.parametrize(
    ("search", "asked", "expected"),
    [
        ("mm", {}, ["nn.Module: MM_0", "aten::mm", "gemm", "aten::mm_out", "gemm", "aten::MM"]),
        ("/:mm$/", {}, ["aten::mm"]),
        ("aten::mm", {"exact": 1}, ["aten::mm"]),
        ("MM_0", {"exact": 1}, ["nn.Module: MM_0"]),
        ("/mm/", {"exact": 1}, []),
        ("", {"exact": 1}, []),
        ("[1, 2, 3]", {}, []),
        ("[1, 2, 3]", {"in_": "args"}, ["gemm"]),
        ("[[2, 8]]", {"in_": "args", "exact": 1}, ["aten::mm"]),
        ("B.PY", {"in_": "args"}, ["aten::mm"]),
        ("gpu_memcpy", {"in_": "all"}, ["Memcpy HtoD"]),
        ("gemm", {"in_": "args"}, []),
        ("m", {"where": (("kind", "kernel"),)}, ["gemm", "gemm"]),
        ("", {"where": (("operator", "aten::mm"), ("kind", "kernel"))}, ["gemm"]),
        ("mm", {"start_ns": 60_000, "end_ns": 95_000}, ["nn.Module: MM_0", "aten::mm_out", "gemm"]),
        ("mm", {"start_ns": 95_000}, ["aten::MM"]),
        ("mm", {"steps": ("2",)}, ["aten::MM"]),
        ("nothing like it", {}, []),
    ],
    ids=str,
)
def test_what_is_found(search: str, asked: dict[str, Any], expected: list[str]) -> None:
    assert hits(small().table(), search, **asked) == expected


def test_the_sums() -> None:
    found = figures(view(small().table(), "aten::mm"))
    assert found == {
        "events": 3,
        "found_names": 3,
        "total_ns": 55_000,
        "mean_ns": 55_000 / 3,
        "first_hit_ns": 10_000,
        "last_hit_ns": 210_000,
        "found_per_step": 1.5,
        "found_step_ns": 27_500,
    }
    assert figures(view(small().table(), "nothing")) == {"events": 0, "found_names": 0, "total_ns": 0}


@pytest.mark.parametrize(("near", "position"), [(0, 0), (10_000, 0), (10_001, 1), (50_000, 1), (210_001, 3), (-5, 0)])
def test_where_to_go_on(near: int, position: int) -> None:
    table = small().table()
    assert figures(view(table, "aten::mm", near_ns=near), "near") == {"hit_position": position}
    assert "near" not in view(table, "aten::mm").payloads


def test_where_one_looks_from_is_not_part_of_the_search() -> None:
    find = analysis("find")
    first, second = (Params(search="a", extra=(("near_ns", near),)) for near in ("1", "2"))
    assert find.part_key(first) == find.part_key(second)
    others = [Params(search="a", extra=((key, "1"),)) for key in ("in", "exact", "start_ns", "end_ns", "bins")]
    assert len({find.part_key(params) for params in (first, *others)}) == 6


def test_marks_count_what_begins_in_each_slice() -> None:
    found = view(trace().op("a", 0, 1).op("b", 49, 1).op("a", 50, 50).op("a", 99, 0).op("a", 100, 0).table(), bins=2)
    marks = payload_of(found, "marks", Series)
    assert marks.x == [0, 50_000, 100_000] and marks.lines[0].values == [2, 3]


def test_rows_of_a_table_are_the_instances_of_its_list() -> None:
    table = small().table()
    for where in ((("operator", "aten::mm"),), (("kind", "kernel"), ("grid", "[9, 9, 9]")), (("module", "MM_0"),)):
        listed = {row["event"] for row in rows(table, "events", "instances", where=where)}
        assert {row["event"] for row in rows(table, "find", "hits", where=where)} == listed != set()


@pytest.mark.parametrize(
    "asked",
    [
        {"search": "/(/"},
        {"search": "/" + "(a{1,1000}){1,1000}" + "/"},
        {"search": "/(?<=a)b/"},
        {"in_": "nowhere"},
        {"exact": "yes"},
        {"bins": "many"},
        {"near_ns": "soon"},
        {"start_ns": 9, "end_ns": 2},
        {"where": (("nothing", "x"),)},
        {"steps": ("nothing",)},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_said(asked: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        view(small().table(), **asked)


def test_a_text_is_found_in_all_that_is_open_a_row_only_where_tables_count() -> None:
    """Of a trace that was opened as a window tables count whole steps; what lies around them is drawn as well."""
    table = small().op("aten::mm", 300, 5).table()
    whole = FullTrace(500_000, ("1", "2"), 1, 1)
    window = replace(table, coverage=replace(table.coverage, full=whole))
    where = (("name", "aten::mm"),)
    assert len(hits(window, "aten::mm", exact=1)) == 2
    listed = rows(window, "events", "instances", where=where)
    assert hits(window, where=where) == [row["name"] for row in listed] == ["aten::mm"]


def test_an_empty_trace() -> None:
    found = view(trace().table(), "a", in_="all")
    assert figures(found)["events"] == 0 and sum(found.payloads["marks"].lines[0].values) == 0  # type: ignore


def argument_texts(table: TraceTable) -> list[list[str]]:
    """Event by event, every recorded text but the name."""
    texts = [[table.strings[int(i)]] for i in table.category]
    for section, keys in (
        (table.operators, ("shapes", "types", "strides", "concrete", "stack")),
        (table.device_args, ("stream", "grid", "block")),
        (table.collectives, ("name", "dtype", "group_name", "group_description", "group_ranks")),
    ):
        for key in keys:
            for row, text in zip(section.row.tolist(), getattr(section, key).tolist(), strict=True):
                if text >= 0:
                    texts[row].append(table.strings[text])
    for column in table.others:
        if column.is_text:
            for row, text in zip(column.row.tolist(), column.value.tolist(), strict=True):
                texts[row].append(table.strings[text])
    return texts


def recount(table: TraceTable) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": [table.strings[int(i)] for i in table.name],
            "kind": [EventKind(int(k)).name.lower() for k in table.kind],
            "start": table.start_ns,
            "dur": table.dur_ns,
            "args": argument_texts(table),
            "label": [
                kernel_label(table.strings[int(name)]) if kind == EventKind.KERNEL else ""
                for name, kind in zip(table.name, table.kind, strict=True)
            ],
        }
    )


def assert_recounted(table: TraceTable, data: pd.DataFrame, search: str, place: str) -> None:
    regex = re.compile(search[1:-1] if search.startswith("/") else re.escape(search), 0 if search[:1] == "/" else re.I)
    flags = pd.Series(False, index=data.index)
    if place != "args":
        for column in ("name", "label"):
            flags |= data[column].map(lambda text: regex.search(text) is not None).astype(bool)
    if place != "names":
        flags |= data["args"].map(lambda texts: any(regex.search(text) for text in texts)).astype(bool)
    expected = data[flags]
    near = int(table.coverage.end_ns) // 3
    found = view(table, search, in_=place, near_ns=near)
    summary = figures(found)
    assert (summary["events"], summary["total_ns"]) == (len(expected), expected["dur"].sum())
    assert summary["found_names"] == expected["name"].nunique()
    if len(expected):
        assert summary["mean_ns"] == pytest.approx(expected["dur"].mean())
        assert (summary["first_hit_ns"], summary["last_hit_ns"]) == (expected["start"].min(), expected["start"].max())
    assert figures(found, "near") == {"hit_position": int((expected["start"] < near).sum())}
    frames = part(table, "find", search=search, extra=(("in", place),)).frames
    listed = frames["hits"].data.to_pandas()
    assert listed["event"].tolist() == expected.index.tolist() and listed["start_ns"].is_monotonic_increasing
    for mine, theirs in (("name", "name"), ("kind", "kind"), ("start_ns", "start"), ("dur_ns", "dur")):
        assert listed[mine].tolist() == expected[theirs].tolist()
    groups = expected.groupby(["name", "kind"])["dur"].agg(["size", "sum"])
    names = {(r["name"], r["kind"]): (r["events"], r["total_ns"]) for r in frames["names"].data.to_pylist()}
    assert names == {key: (row["size"], row["sum"]) for key, row in groups.iterrows()}
    marks: Any = found.payloads["marks"]
    edges = [*marks.x[:-1], np.inf]
    counted = pd.cut(expected["start"].astype(float), edges, right=False).value_counts(sort=False)
    assert marks.lines[0].values == counted.tolist() and len(marks.lines[0].values) == 1200


@pytest.mark.parametrize("name", UNLIKE, ids=lambda n: n.split(".")[0])
def test_a_sample_recounted(name: str) -> None:
    table = sample(name)
    data = recount(table)
    for search, place in (("ATEN::", "names"), ("/^aten::.*_$/", "names"), ("float", "args"), ("m", "all")):
        assert_recounted(table, data, search, place)


calls = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 25), st.sampled_from("abAB.")), max_size=12)


@given(calls, st.sampled_from(["a", "B", ".", "/[ab]/", "ab", ""]), st.sampled_from(["names", "args", "all"]))
@examples(suite=25, deep=500)
def test_any_search_recounted(drawn: list[tuple[int, int, str]], search: str, place: str) -> None:
    builder = trace().op("first", 0, 70)  # so that a slice is longer than a nanosecond
    for at, dur, text in drawn:
        builder.op(text + "b", at, dur, stack=text if dur % 2 else None)
    table = builder.table()
    assert_recounted(table, recount(table), search, place)


@pytest.mark.parametrize(
    ("search", "names"), [("mm", ["aten::mm"]), ("layers.0", ["aten::add"]), ("nothing", []), ("/l.y/", ["aten::add"])]
)
def test_arguments_are_looked_at_where_no_name_has_the_text(search: str, names: list[str]) -> None:
    table = trace().op("aten::mm", 0, 5, tag="mm").op("aten::add", 10, 5, tag="layers.0.mm").table()
    assert hits(table, search, **{"in": "first"}) == names


def test_a_number_is_found_among_arguments_of_any_name() -> None:
    table = trace().op("aten::mm", 0, 5, num_warps=8, backend="8 of them").op("aten::add", 10, 5, num_warps=16).table()
    assert hits(table, "16", **{"in": "args"}) == ["aten::add"]
    assert hits(table, "8", **{"in": "all"}) == ["aten::mm"]
    assert hits(table, "16") == []


def test_events_by_the_number_of_their_operator() -> None:
    """That of the operator itself, and of what the file says to belong to it; no number is that of none."""
    builder = trace().op("aten::mm", 10, 20, ext=84).launches(kernel("gemm", 7, 40)).op("aten::add", 50, 5, ext=8)
    table = builder.op("aten::relu", 60, 5).table()
    assert hits(table, where=(("external_id", "84"), ("kind", "operator"))) == ["aten::mm"]
    assert "aten::add" not in hits(table, where=(("external_id", "84"),))
    assert [hits(table, where=(("external_id", text),)) for text in ("0", "-1", "", "8 ", "x", "9" * 30)] == [[]] * 6
