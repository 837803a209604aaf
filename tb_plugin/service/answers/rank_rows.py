"""Rows of the SQL table ``ranks``: the numbers of the page Ranks."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Part
from tb_plugin.sql.rank_table import RANKS, RankRow
from tb_plugin.views.distributed.job_data import JobData, job_data
from tb_plugin.views.distributed.merge import join
from tb_plugin.views.distributed.tables import worker_rows


def rank_table(parts: Sequence[tuple[str, Part]]) -> pa.Table:
    """Returns the table of a run. ``parts`` has each rank, and its part of the view ``distributed``."""
    data = job_data(join([replace(part, worker=worker) for worker, part in parts]), None)
    rows = [*_compared(data), *({"rank": worker, "left_out": why} for worker, why in data.left_out)]
    empty: RankRow = dict.fromkeys(column.name for column in RANKS.columns)
    whole = [{**empty, **row} for row in rows]
    return pa.table({column.name: column.values(whole) for column in RANKS.columns})


def _compared(data: JobData) -> Sequence[RankRow]:
    rows = []
    for number, row in enumerate(worker_rows(data)):
        devices = [each for each in data.devices if each["worker"] == row["worker"]]
        named = {
            key: ", ".join(dict.fromkeys(str(each[key]) for each in devices if each[key])) for key in ("node", "device")
        }
        rows.append(
            {
                **row,
                "rank": row["worker"],
                "rank_number": data.ranks[number],
                "host": named["node"] or None,
                "device": named["device"] or None,
                "steps": int(data.step_counts[number]),
            }
        )
    return rows
