"""Which parts a worker keeps at hand: the last ones, within a bound in which shared tables count once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tb_plugin.analyses.base import Frame, Part
from tb_plugin.payloads import CoverageInfo
from tb_plugin.service.parts import OpenParts

MEGABYTE = 1_000_000


def table() -> pa.Table:
    return pa.table({"x": pa.array([0] * (MEGABYTE // 8), pa.int64())})


def part(*tables: pa.Table) -> Part:
    frames = {str(i): Frame(str(i), "", [], data, (), "x") for i, data in enumerate(tables)}
    return Part(CoverageInfo(1, 1.0, True, None), frames=frames)


def never() -> Part:
    pytest.fail("it was kept")


def test_the_part_used_longest_ago_goes_first():
    parts = OpenParts(int(2.5 * MEGABYTE))
    first, second, third = (part(table()) for _ in range(3))
    parts.get(("a",), lambda: first)
    parts.get(("b",), lambda: second)
    assert parts.get(("a",), never) is first
    parts.get(("c",), lambda: third)
    assert parts.get(("a",), never) is first and parts.get(("c",), never) is third
    again = part()
    assert parts.get(("b",), lambda: again) is again


def test_a_part_larger_than_the_bound_is_kept_alone():
    parts = OpenParts(MEGABYTE // 2)
    large = part(table())
    parts.get(("small",), lambda: part())
    assert parts.get(("large",), lambda: large) is parts.get(("large",), never) is large


def test_tables_that_parts_share_count_once_and_as_long_as_one_holds_them():
    parts = OpenParts(int(2.5 * MEGABYTE))
    shared = table()
    for i in range(20):
        parts.get(("moment", i), lambda: part(shared))
    parts.get(("moment", 0), never)
    parts.get(("other",), lambda: part(table()))
    # The shared table leaves with the last of those that hold it, not with the first, and then there is room.
    parts.get(("third",), lambda: part(table()))
    assert parts.get(("third",), never) and parts.get(("other",), never)
    again = part()
    assert parts.get(("moment", 0), lambda: again) is again


def test_all_about_a_file_are_forgotten():
    parts = OpenParts(MEGABYTE)
    parts.get(("a", "overview"), part)
    parts.get(("b", "overview"), part)
    parts.forget("a")
    parts.get(("b", "overview"), never)
    fresh = part()
    assert parts.get(("a", "overview"), lambda: fresh) is fresh
