"""Calls of a worker made by hand, as its part has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from tb_plugin.views.distributed.rank.profile import CALL, table


@dataclass(frozen=True)
class Call:
    """One collective as one worker saw it. -1 = the trace does not say."""

    step: str | None
    collective: str
    dtype: str
    elements: int
    bytes: int | None
    group: str
    ranks: str
    group_size: int
    sequence: int
    source_rank: int
    destination_rank: int
    start_ns: int
    dur_ns: int
    on_device: bool


def calls_table(calls: Sequence[Call]) -> pa.Table:
    """Calls by number; what is not known is null."""
    return table(CALL, [_row(i, call) for i, call in enumerate(calls)])


def _row(number: int, call: Call) -> dict[str, object]:
    row: dict[str, object] = {**dict.fromkeys(CALL), **asdict(call), "call": number, "event": number}
    for key in ("elements", "group_size", "sequence", "source_rank", "destination_rank"):
        row[key] = None if row[key] == -1 else row[key]
    return row | {"comm_bytes": call.bytes, "group_ranks": call.ranks}
