"""Diff between devices: swapped sides mirror each other, a side against itself is zero, and all of its work is somewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given

from tb_plugin.analysis.base import Params, Part
from tb_plugin.model.trace.schema import DEVICE_WORK, NO_OPERATOR, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import View
from tb_plugin.views.diff.device_frames import COLLECTIVES, FAMILIES
from tb_plugin.views.diff.operator_paths import paths_of
from tb_plugin.views.diff.unlike_devices import COMMUNICATION, COMPUTING, KERNEL_TABLE, MEMORY, OVERALL, TABLES
from tb_plugin.views.diff.view import Diff
from tests.builders import TraceBuilder, whole_part
from tests.depth import examples
from tests.property.test_trace_properties import builders


def of_maker(builder: TraceBuilder, name: str) -> TraceTable:
    return builder.device(0, name=name).device(1, name=name).table()


def tables(base: Part, exp: Part) -> dict[str, dict[Any, dict[str, Any]]]:
    """The tables of devices by the key of their rows; none where a side has no work."""
    view = Diff().answer([base, exp], Params(limit=None))
    assert isinstance(view, View)
    found = {}
    for name in TABLES:
        payload: Any = view.payloads.get(name)
        if payload is not None:
            found[name] = {tuple(row[key] for key in payload.row_key): row for row in payload.rows}
            assert len(found[name]) == len(payload.rows)
    return found


@examples(suite=8, deep=500)
@given(builders(), builders())
def test_swapped_sides_mirror_each_other(one: TraceBuilder, other: TraceBuilder) -> None:
    a, b = (whole_part(of_maker(side, name), "diff") for side, name in ((one, "Tesla V100"), (other, "Ascend910B")))
    there, back = tables(a, b), tables(b, a)
    assert there.keys() == back.keys()
    for name, rows in there.items():
        assert rows.keys() == back[name].keys()
        for key, row in rows.items():
            mirror = back[name][key]
            for column in row:
                swapped = (
                    column.replace("base_", "exp_") if column.startswith("base_") else column.replace("exp_", "base_")
                )
                if column.startswith("delta_"):
                    assert row[column] == -mirror[column]
                elif column.startswith(("base_", "exp_")):
                    assert row[column] == mirror[swapped]


@examples(suite=15, deep=500)
@given(builders())
def test_a_side_against_itself_is_zero(builder: TraceBuilder) -> None:
    part = whole_part(of_maker(builder, "Ascend910B"), "diff")
    for rows in tables(part, part).values():
        for row in rows.values():
            assert not any(value for column, value in row.items() if column.startswith("delta_"))
            assert row.get("compared_ratio", 1) == 1
            assert all(row[column] == row[f"exp_{column[5:]}"] for column in row if column.startswith("base_"))


@examples(suite=15, deep=500)
@given(builders())
def test_all_work_of_a_side_is_somewhere(builder: TraceBuilder) -> None:
    table = of_maker(builder, "Ascend910B")
    part = Diff().part(table, Params())
    work = np.isin(table.kind, DEVICE_WORK)
    if not work.any():
        assert FAMILIES not in part.frames
        return
    kernels = table.kind == EventKind.KERNEL

    def sums(name: str) -> tuple[int, int]:
        data = part.frames[name].data
        return sum(data["calls"].to_pylist()), sum(data["total_ns"].to_pylist())

    def of(chosen: Any) -> tuple[int, int]:
        return int(chosen.sum()), int(table.dur_ns[chosen].sum())

    assert sums(FAMILIES) == of(kernels & ~table.is_collective)
    assert sums("path_work") == of(work & ~table.is_collective)
    if (kernels & table.is_collective).any():
        assert sums(COLLECTIVES) == of(kernels & table.is_collective)
    counted = part.frames["operator_kernels"].data
    launched = dict(zip(counted["name"].to_pylist(), counted["launched_work"].to_pylist(), strict=True))
    assert launched == recount(table, np.flatnonzero(work).tolist())
    paths = paths_of(part)
    assert paths.ratio(paths) <= 1 and all(above < i for i, above in enumerate(paths.parent.tolist()))
    named = [name != "(no operator)" for name in paths.operators(paths)]
    assert named == (paths.owner >= 0).tolist()


def recount(table: TraceTable, work: list[int]) -> dict[str, int]:
    """How much was launched in operators of each name, and in none, one event at a time."""
    found = {NO_OPERATOR: 0}
    for row in work:
        around, operator = set(), int(table.operator[row])
        while operator >= 0:
            around.add(table.strings[int(table.name[operator])])
            operator = int(table.operator[operator])
        for name in around or {NO_OPERATOR}:
            found[name] = found.get(name, 0) + 1
    return found


def test_the_tables_are_named() -> None:
    assert set(TABLES) == {OVERALL, COMPUTING, COMMUNICATION, MEMORY, KERNEL_TABLE}
