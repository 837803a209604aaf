"""What every analysis owes for every sample: finite JSON, purity, repeated coverage, documented columns.

Samples whose answers have the same tables, columns, gaps and payloads ask the same of these checks: ``make test`` takes the
smallest of them for each view (the expected answers of tests/golden say which are alike), ``make test-deep`` takes all.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Frame, Params, Part, page
from tb_plugin.analysis.base import rows_of as on_the_wire
from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.model.category_memory import CategoryMemory
from tb_plugin.model.cluster import Cluster
from tb_plugin.model.execution_trace import ExecutionTrace
from tb_plugin.model.flight_recorder import Flight
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.stack_profile import StackProfile
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads.export import to_json
from tests.builders import kernel, trace
from tests.category_memory import category_memory
from tests.depth import sampled
from tests.execution_traces import document, execution_trace, node
from tests.flight import call, flight
from tests.formats.ascend.clusters import cluster
from tests.golden.rewrite import golden
from tests.megengine.memory_flow import T, flow, no_flow
from tests.metrics import ALL as DOCUMENTED
from tests.samples import ALL, OURS, Sample, made
from tests.snapshots import event, snapshot
from tests.stack_profiles import stack_profile
from torch_trace_megengine.memory_flow.model import MemoryFlow

EVERYTHING = Params(limit=None)


def traits(analysis: Analysis, sample: Sample) -> object:
    """What these checks can tell an answer from another by; its name where nothing is known of it yet."""
    known = golden(sample.name).get(analysis.id)
    if known is None:
        return sample.name
    tables = []
    for name, table in known["tables"].items():
        columns, *first = table["first"]
        gaps = [key for i, key in enumerate(columns) if any(row[i] is None for row in first)]
        length = sum(table["rows"] > bound for bound in (0, 1, len(first)))
        tables.append((name, tuple(columns), tuple(gaps), length))
    return tuple(tables), tuple(sorted(known["payloads"].items()))


def distinct(cases: Sequence[tuple[Analysis, Sample]]) -> list[tuple[Analysis, Sample]]:
    """Of the cases of one view that are alike, that with the smallest file; and that of each format."""
    chosen: dict[object, tuple[Analysis, Sample]] = {}
    for analysis, sample in sorted(cases, key=lambda case: case[1].size_bytes):
        for like in (traits(analysis, sample), sample.reader.id):
            chosen.setdefault((analysis.id, like), (analysis, sample))
    once = {(sample.name, analysis.id): (analysis, sample) for analysis, sample in chosen.values()}
    return [once[key] for key in sorted(once)]


EVERY_CASE = [(analysis, sample) for sample in ALL for analysis in sample.analyses]
CASES = sampled(EVERY_CASE, distinct(EVERY_CASE))
IDS = [f"{analysis.id}-{sample.name.split('.')[0]}" for analysis, sample in CASES]
OF_ONE_VIEW = {"total_ns", "event", "row"}
"""Columns that a view defines itself: the total of a step, the number of an event and its row on the timeline."""


@functools.cache
def part_of(analysis: Analysis, name: str) -> Part:
    """The numbers of a sample, made once."""
    return analysis.part(made(name), Params())


def frozen_copy(value: Any) -> Any:
    """Everything of a model by value."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, msgspec.Struct):
        return {name: frozen_copy(getattr(value, name)) for name in value.__struct_fields__}
    return value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def comparable(part: Part) -> Any:
    frames = {name: frame.data.to_pydict() for name, frame in part.frames.items()}
    return dict(part.facts), frames, {name: to_json(p) for name, p in part.payloads.items()}, tuple(part.layout)


@pytest.mark.parametrize(("analysis", "sample"), CASES, ids=IDS)
def test_what_a_view_owes(analysis: Analysis, sample: Sample) -> None:
    model, part = made(sample.name), part_of(analysis, sample.name)
    answer_is_finite_json(analysis, part)
    model_stays_and_the_answer_is_the_same(analysis, model, part)
    if isinstance(model, TraceTable):
        coverage_is_repeated(analysis, model, part)
        with pytest.raises(BadRequest):
            analysis.part(model, Params(steps=("no such step",)))
    with pytest.raises(NotFoundError):
        analysis.answer([part], Params(table="nothing"))
    assert set(part.layout) <= part.payloads.keys() | part.frames.keys(), "the layout names what is missing"
    assert len(set(part.layout)) == len(part.layout), "the layout names something twice"
    ours = sample in OURS and analysis.id not in ("stated", "sql")  # whose columns are those of the profile or query
    for frame in part.frames.values():
        columns_are_documented(frame, ours)
        row_keys_tell_rows_apart(frame)
        rows_are_in_the_order_they_claim(frame)


def answer_is_finite_json(analysis: Analysis, part: Part) -> None:
    answer = json.loads(to_json(analysis.answer([part], Params())), parse_constant=pytest.fail)
    assert (answer["view"] if "view" in answer else answer["id"]) == analysis.id
    assert all(value is None or math.isfinite(value) for value in part.facts.values()), "a fact is not finite"
    for frame in part.frames.values():
        for column in frame.columns:
            values = frame.data[column.metric.key]
            if pa.types.is_floating(values.type):
                assert pc.all(pc.is_finite(values)).as_py() is not False, (frame.name, column.metric.key)


def model_stays_and_the_answer_is_the_same(analysis: Analysis, model: Any, part: Part) -> None:
    before = frozen_copy(model)
    again = analysis.part(model, Params())
    assert same(before, frozen_copy(model)), "the view has changed its model"
    assert comparable(again) == comparable(part), "two parts of one model differ"
    assert to_json(analysis.answer([part], Params())) == to_json(analysis.answer([again], Params()))


def coverage_is_repeated(analysis: Analysis, trace: TraceTable, part: Part) -> None:
    coverage = trace.coverage
    assert part.coverage.window_ns == coverage.end_ns - coverage.start_ns
    assert part.coverage.complete == coverage.complete and part.coverage.steps is None
    assert analysis.answer([part], Params()).coverage == part.coverage


def columns_are_documented(frame: Frame, ours: bool) -> None:
    for column in frame.columns:
        metric = column.metric
        stated = metric.key.startswith("args.")  # a fact under the profile's own name
        known = stated or metric.key in DOCUMENTED or metric.key in OF_ONE_VIEW
        assert metric.definition and (not ours or known), metric.key
        assert metric.key in frame.data.column_names
    keys = [column.metric.key for column in frame.columns]
    assert len(set(keys)) == len(keys), frame.name
    assert frame.name_column in keys and set(frame.row_key) <= set(keys), frame.name


def row_keys_tell_rows_apart(frame: Frame) -> None:
    keys = list(zip(*(frame.data[key].to_pylist() for key in frame.row_key), strict=True))
    assert len(set(keys)) == len(keys), frame.name


def rows_are_in_the_order_they_claim(frame: Frame) -> None:
    if frame.sort is not None:
        values = frame.data[frame.sort.column if hasattr(frame.sort, "column") else frame.sort.key].to_pylist()
        known = sorted((value for value in values if value is not None), reverse=frame.sort.descending)
        assert values == [*known, *[None] * (len(values) - len(known))], frame.name


def test_pages_of_one_table_of_each_schema() -> None:
    """tests/property/test_page_properties.py says what a page is, of random tables."""
    longest: dict[object, Frame] = {}
    for analysis, sample in CASES:
        for frame in part_of(analysis, sample.name).frames.values():
            types = tuple((column.metric.unit, frame.data[column.metric.key].type) for column in frame.columns)
            if any(pa.types.is_fixed_size_list(each) for _, each in types):
                continue  # one value per step, which no answer shows
            if longest.setdefault(types, frame).data.num_rows < frame.data.num_rows <= 100:
                longest[types] = frame
    assert len(longest) > 50
    for frame in longest.values():
        rows = on_the_wire(frame.data, [column.metric.key for column in frame.columns])
        assert page(frame, Params(limit=None)).rows == rows, frame.name
        for column in frame.columns:
            key = column.metric.key
            for descending in (True, False):
                found = page(frame, Params(sort=key, descending=descending, limit=None)).rows
                assert found == ordered(rows, key, descending), (frame.name, key)
            if column.metric.unit in ("text", "code") and rows:
                value = str(rows[len(rows) // 2][key] or "")
                found = page(frame, Params(where=((key, value),), limit=None)).rows
                assert found == [row for row in rows if str(row[key] or "") == value], (frame.name, key)


def ordered(rows: list[dict[str, Any]], key: str, descending: bool) -> list[dict[str, Any]]:
    """Stable, nulls last, by Python's own comparison."""

    def place(row: dict[str, Any]) -> Any:
        # A flag may be "unknown", which comes after true.
        return str(row[key]).encode() if isinstance(row[key], (str, bool)) else row[key]

    known = sorted((row for row in rows if row[key] is not None), key=place, reverse=descending)
    return [*known, *(row for row in rows if row[key] is None)]


EMPTY = {
    TraceTable: lambda: trace().table(),
    Snapshot: lambda: snapshot([]),
    CategoryMemory: lambda: category_memory([-1, 1, 0, 0]),
    Flight: lambda: flight([]),
    MemoryFlow: lambda: no_flow(),
    StackProfile: lambda: stack_profile("a;b 0"),
    ExecutionTrace: lambda: execution_trace(document()),
    Cluster: lambda: cluster({"communication_group.json": {}}),
}
SMALL = {
    TraceTable: lambda: trace().op("aten::mm", 0, 5).launches(kernel("gemm", 4)).table(),
    Snapshot: lambda: snapshot([event("alloc", 512, 512)]),
    CategoryMemory: lambda: category_memory([0, 2, 512, 4]),
    Flight: lambda: flight([call(1)]),
    MemoryFlow: lambda: flow(T(64, 512, 10, 90)),
    StackProfile: lambda: stack_profile("a;b 1"),
    ExecutionTrace: lambda: execution_trace(document(node(2, 1, "a"))),
    Cluster: lambda: cluster({"cluster_step_trace_time.csv": "Step,Type,Index,Computing\n1,rank,0,5\n"}),
}
"""Profiles of each model of ours."""


@pytest.mark.parametrize("analysis", registry.analyses(), ids=lambda a: a.id)
def test_names_and_empty_tables(analysis: Analysis) -> None:
    assert re.fullmatch("[a-z_]+", analysis.id) and analysis.title
    assert hash(analysis.part_key(Params())) == hash(analysis.part_key(Params()))
    view = analysis.answer([analysis.part(SMALL[analysis.model](), Params())], Params())
    assert msgspec.json.decode(to_json(view))["title"] == analysis.title
    own = (("query", "select * from events"),)  # the default query lists the tables of all profiles
    part = analysis.part(EMPTY[analysis.model](), Params(extra=own))
    for frame in part.frames.values():
        assert page(frame, Params(search="x")).rows == page(frame, Params(search="/x/")).rows == []
        for column in frame.columns:
            assert page(frame, Params(sort=column.metric.key)).rows == []
