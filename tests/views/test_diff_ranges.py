"""Diff of traces of tools that nobody here knows: names of ranges and where they stand, before and after."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.errors import NotFoundError
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Notices, Table, Tree, View
from tb_plugin.views.diff.view import Diff
from tests.builders import payload_of, trace, whole_part
from tests.formats.test_chrome_rules import ev, table


def compiled(parse: int, more: int, address: str, *others: Any) -> TraceTable:
    """A compiler that parses for so many microseconds; what is around that takes longer with it."""
    inner = ev("X", 2, f"object at {address}", dur=1)
    return table([ev("X", 0, "compile", dur=20 + more), ev("X", 1, "parse", dur=parse), inner, *others])


BASE = compiled(10, 0, "0x1f")
EXP = compiled(15, 7, "0x2f", ev("X", 20, "link", dur=2))


def compare(base: TraceTable, exp: TraceTable, name: str | None = None, measure: str = "") -> Any:
    parts = [whole_part(base, "diff"), whole_part(exp, "diff")]
    return Diff().answer(parts, Params(table=name, limit=None, extra=(("measure", measure),)))


def page(base: TraceTable, exp: TraceTable) -> View:
    view = compare(base, exp)
    assert isinstance(view, View)
    return view


def test_names_are_compared() -> None:
    found = {row["name"]: row for row in compare(BASE, EXP, "ranges", "all").rows}
    assert {
        name: (row["presence"], row["base_range_own_ns"], row["exp_range_own_ns"], row["delta_range_total_ns"])
        for name, row in found.items()
    } == {
        "parse": ("both", 9000, 14000, 5000),
        "link": ("new", 0, 2000, 2000),
        "compile": ("both", 10000, 10000, 7000),
        "object": ("both", 1000, 1000, 0),
    }
    (whole,) = [row for row in compare(BASE, EXP, "ranges", "host_total_ns").rows if row["name"] == "compile"]
    assert (whole["base_ns"], whole["exp_ns"]) == (20_000, 27_000)
    ranges = page(BASE, EXP).payloads["ranges"]
    assert isinstance(ranges, Table) and (ranges.rows[0]["name"], ranges.rows[0]["delta_ns"]) == ("parse", 5000)


def test_the_page_says_what_changed_most() -> None:
    payloads = page(BASE, EXP).payloads
    head, said = payloads["headline"], payloads["findings"]
    assert isinstance(head, Figures) and isinstance(said, Notices) and "waterfall" not in payloads
    assert [figure.value for figure in head.figures] == [20_000, 27_000, 7_000, 1.35]
    assert [figure.value for figure in said.notices[0].figures] == ["parse", 5000, 7000]
    same = page(BASE, BASE).payloads["findings"]
    assert isinstance(same, Notices) and same.notices == []


def test_the_tree_is_that_of_the_stacks() -> None:
    tree = payload_of(page(BASE, EXP), "call_tree", Tree)
    places = [
        (row["name"], tree.rows[above]["name"] if above >= 0 else None, row["presence"], row["base_ns"], row["exp_ns"])
        for row, above in zip(tree.rows, tree.parent, strict=True)
    ]
    assert places == [
        ("compile", None, "both", 20_000, 27_000),
        ("parse", "compile", "both", 10_000, 15_000),
        ("object", "parse", "both", 1000, 1000),
        ("link", "compile", "new", 0, 2000),
    ]


def test_beside_a_training_ranges_are_a_table_of_their_own() -> None:
    training = trace().op("aten::mm", 0, 5).table()
    view = page(BASE, training)
    assert isinstance(view.payloads["ranges"], Table) and "waterfall" in view.payloads
    with pytest.raises(NotFoundError, match="no table ranges"):
        compare(training, training, "ranges")
