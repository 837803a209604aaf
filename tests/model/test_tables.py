"""Sorting and sums equal those of Arrow's own engine."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.lib.tables import sorted_by, sum_by_text

ROWS = st.lists(st.tuples(st.none() | st.sampled_from(["", "a", "b", "é"]), st.integers(-(2**40), 2**40)), max_size=30)


@given(ROWS, st.integers(0, 30))
def test_order_and_sums(rows, cut):
    schema = pa.schema([("name", pa.large_string()), ("size", pa.int64()), ("row", pa.int64())])
    data = [{"name": name, "size": size, "row": i} for i, (name, size) in enumerate(rows)]
    table = pa.concat_tables([pa.Table.from_pylist(part, schema=schema) for part in (data[:cut], data[cut:])])
    order = [("size", "descending"), ("name", "ascending"), ("row", "ascending")]
    assert sorted_by(table, order).to_pylist() == table.sort_by(order).to_pylist()
    by_name = sorted_by(table, [("name", "ascending")]).to_pylist()
    assert by_name == sorted(data, key=lambda row: (row["name"] is None, row["name"] or ""))  # stable
    expected = table.group_by("name").aggregate([("size", "sum")]).to_pylist()
    assert sum_by_text(table, "name", "size") == {row["name"]: row["size_sum"] for row in expected}
