"""Numbers of a device beyond 64 bits."""

from __future__ import annotations

import pyarrow as pa

from tb_plugin.views.distributed.rank.profile import table


def test_a_number_beyond_a_column_is_empty() -> None:
    rows = [{"bytes": value, "name": "a"} for value in (2**63 - 1, -(2**63), 2**63, 2**64 - 1, -(2**63) - 1, None)]
    made = table({"bytes": pa.int64(), "name": pa.string()}, rows)
    assert made["bytes"].to_pylist() == [2**63 - 1, -(2**63), None, None, None, None]
