"""The SQL table of the ranks of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tb_plugin.sql.columns import SqlColumn, SqlTable

# Values of a rank by column.
RankRow = Mapping[str, object]


def _given(name: str, unit: str, meaning: str, kind: pa.DataType | None = None) -> SqlColumn[Sequence[RankRow]]:
    return SqlColumn(name, unit, meaning, lambda rows: pa.array([row[name] for row in rows], kind or pa.int64()))


# The rows compare all ranks of a run, so they are not of one profile (see ``service/answers/rank_rows.py``).
RANKS: SqlTable[Sequence[RankRow]] = SqlTable(
    "ranks",
    "rank of the run, with sums over all steps",
    lambda model: None,
    (
        _given("rank", "", "rank or worker, as in the column rank of all tables", pa.large_string()),
        _given("rank_number", "", "recorded number of the rank"),
        _given("host", "", "host", pa.large_string()),
        _given("device", "", "devices", pa.large_string()),
        _given("steps", "", "number of steps"),
        _given("step_total_ns", "ns", "time of the steps"),
        _given("compute_ns", "ns", "time with compute on a device"),
        _given("compute_alone_ns", "ns", "time with compute and without communication"),
        _given("overlap_ns", "ns", "time with compute and communication"),
        _given("exposed_communication_ns", "ns", "time with communication and without compute"),
        _given("step_other_ns", "ns", "time without compute and communication"),
        _given("latency_ns", "ns", "time in collectives, including the wait"),
        _given("wait_ns", "ns", "time in collectives until the last rank starts"),
        _given("transfer_ns", "ns", "time in collectives after the last rank started"),
        _given("caused_wait_ns", "ns", "time that other ranks wait for the rank"),
        _given("lost_ns", "ns", "cost of the rank per step", pa.float64()),
        _given("held_up_by", "", "rank that delays the rank", pa.large_string()),
        _given("calls", "", "number of collectives"),
        _given("matched", "", "number of collectives that are matched with other ranks"),
        _given("unmatched", "", "number of collectives that are not matched"),
        _given("arrived_last", "", "number of collectives at which the rank arrives last"),
        _given("left_out", "", "why the rank is not compared with the others", pa.large_string()),
    ),
)
