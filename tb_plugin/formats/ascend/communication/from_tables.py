"""Calls and links from the tables of ``analysis.db``."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.ascend.communication.calls import bands_of, operations_of, packets_of, step_label
from tb_plugin.formats.ascend.communication.links import Links, links_of
from tb_plugin.formats.ascend.communication_titles import (
    BANDWIDTH,
    CALL_TITLES,
    EXAMPLE,
    RATIO,
    SIZE,
    START,
    TRANSIT,
    TRANSPORT,
)
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.issues import IssueLog

OPERATION, GROUP, STEP, KIND = "Operation", "Group", "Step", "Type"
PACKET, COUNT, PACKETS_TIME = "Package Size(MB)", "Count", "Total Duration(ms)"
SOURCE, DESTINATION = "Source Rank", "Destination Rank"


def calls_table(table: CsvTable, rank: int | None, log: IssueLog) -> pa.Table:
    titles = (START, *CALL_TITLES.values())
    return operations_of(_keys(table), {title: table.texts(title) for title in titles}, rank, log)


def moved_tables(table: CsvTable, rank: int | None, log: IssueLog) -> tuple[pa.Table, pa.Table]:
    """Returns the tables of link types and packets.

    Each row of ``table`` has one packet size and contributes to both results.
    """
    keys, band = _keys(table), table.texts(TRANSPORT)
    texts = {title: table.texts(title) for title in (SIZE, TRANSIT, RATIO)}
    packets = packets_of(keys, band, (table.texts(PACKET), table.texts(COUNT), table.texts(PACKETS_TIME)), rank, log)
    columns = pa.table({**keys, "band": band, **texts, "row": pa.array(range(table.rows), pa.int64())})
    once = columns.group_by([*keys, "band"], use_threads=False).aggregate([("row", "min")])
    first = once["row_min"].combine_chunks()
    return (
        bands_of(
            {key: column.take(first) for key, column in keys.items()},
            band.take(first),
            {title: column.take(first) for title, column in texts.items()},
            rank,
            log,
        ),
        packets,
    )


def links_table(table: CsvTable, log: IssueLog) -> Links:
    keys = {key: column.to_pylist() for key, column in _keys(table).items()}
    pairs = pc.binary_join_element_wise(table.texts(SOURCE), table.texts(DESTINATION), "-")
    titles = (SIZE, TRANSIT, BANDWIDTH, TRANSPORT, EXAMPLE)
    return links_of(
        [
            (step, kind or "", operation or "", group)
            for step, kind, operation, group in zip(
                keys["step"], keys["kind"], keys["operation"], keys["group"], strict=True
            )
        ],
        [pair or "" for pair in pairs.to_pylist()],
        {title: table.texts(title).to_pylist() for title in titles},
        log,
    )


def _keys(table: CsvTable) -> dict[str, pa.Array]:
    step = [None if text is None else step_label(text) for text in table.texts(STEP).to_pylist()]
    return {
        "step": pa.array(step, pa.string()),
        "kind": table.texts(KIND),
        "operation": table.texts(OPERATION),
        "group": table.texts(GROUP),
    }
