"""Reported tables about ranks: step times, communication, links, process groups.

The profile of one rank has rows about that rank. An analysis of a whole job has rows about all ranks. Times are
whole nanoseconds. Sizes in MB are converted with one million bytes per MB. null = not reported. ``rank`` is the
global rank. ``group`` is the name of the group in the communication library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from tb_plugin.model.trace.extra_columns import SINCE_1970, ReportedColumn, ReportedTable

_TEXT, _INT, _FLOAT = pa.string(), pa.int64(), pa.float64()

# One row per step and rank. If rank is null, the row has the maxima over the ranks of a pipeline stage.
STEP_TIMES = "step_times"
# One row per collective, send or receive of a rank.
OPERATIONS = "communication_operations"
# One row per call and kind of link.
BANDS = "communication_bands"
# One row per call, kind of link and packet size.
PACKETS = "communication_packets"
# One row per pair of sending and receiving rank, which may be the same.
LINKS = "communication_links"
# One row per process group.
GROUPS = "communication_groups"

# kind is "collective" or "p2p".
_CALL = {"rank": _INT, "step": _TEXT, "kind": _TEXT, "operation": _TEXT, "group": _TEXT}
SCHEMAS: Mapping[str, Mapping[str, pa.DataType]] = {
    STEP_TIMES: {
        "rank": _INT, "stage_ranks": _TEXT, "device": _INT, "step": _TEXT, "computing_ns": _INT, "exposed_ns": _INT,
        "overlapped_ns": _INT, "communication_ns": _INT, "free_ns": _INT, "stage_ns": _INT, "bubble_ns": _INT,
        "exposed_without_receive_ns": _INT, "preparing_ns": _INT, "dp_index": _INT, "pp_index": _INT, "tp_index": _INT,
    },
    OPERATIONS: {
        **_CALL, "start_ns": _INT, "elapse_ns": _INT, "transit_ns": _INT, "wait_ns": _INT, "synchronization_ns": _INT,
        "idle_ns": _INT,
    },
    BANDS: {**_CALL, "band": _TEXT, "part_of": _TEXT, "bytes": _INT, "transit_ns": _INT, "large_ratio": _FLOAT},
    PACKETS: {**_CALL, "band": _TEXT, "packet_bytes": _INT, "count": _INT, "transit_ns": _INT},
    LINKS: {
        **_CALL, "place": _TEXT, "source": _INT, "destination": _INT, "in_group": pa.bool_(), "transport": _TEXT,
        "bytes": _INT, "transit_ns": _INT, "bytes_per_second": _FLOAT, "example": _TEXT,
    },
    GROUPS: {"kind": _TEXT, "group": _TEXT, "name": _TEXT, "library_name": _TEXT, "group_rank": _INT, "ranks": _TEXT},
}  # fmt: skip
"""Columns of each table.

- ``in_group``: ``source`` and ``destination`` are ranks within the group, because global ranks are not reported.
- ``place``: which calls a row about a link covers (top1, middle, bottom1, total, ...); null if it covers a single call.
  A row with place total and no operation covers all calls.
- ``part_of``: the kind of link whose bytes and times already include those of this row; null if there is none.
- ``ranks``, ``stage_ranks``: text such as "0, 1, 2".
- ``step``: step number as text; null without steps.
- ``kind`` of a group: kind of its calls, or "stage" for a pipeline stage; null if not reported.
"""
_TITLES = {
    STEP_TIMES: "Times of steps by rank",
    OPERATIONS: "Communication by call",
    BANDS: "Communication by kind of link",
    PACKETS: "Packets of communication",
    LINKS: "Links between ranks",
    GROUPS: "Communication groups",
}


def job_table(name: str, columns: Mapping[str, Sequence[object]]) -> pa.Table:
    """Returns the job table ``name`` with these columns. Missing columns are filled with null."""
    length = len(next(iter(columns.values()), ()))
    return pa.table(
        {
            key: pa.array(columns[key], kind) if key in columns else pa.nulls(length, kind)
            for key, kind in SCHEMAS[name].items()
        }
    )


def as_reported_table(name: str, table: pa.Table) -> ReportedTable:
    """Returns a job table in the form that a trace stores. Empty columns are omitted."""
    columns = [
        ReportedColumn(
            key, key.removesuffix("_ns").replace("_", " ").capitalize(), _unit(key), table[key].combine_chunks()
        )
        for key in SCHEMAS[name]
        if table[key].null_count < table.num_rows
    ]
    return ReportedTable(name, _TITLES[name], tuple(columns))


def reported_table(tables: Iterable[ReportedTable], name: str) -> pa.Table | None:
    """Returns the job table ``name`` of a trace. None if the profile does not report it."""
    found = next((table for table in tables if table.name == name), None)
    if found is None:
        return None
    return job_table(name, {column.key: column.values for column in found.columns})


def _unit(key: str) -> str:
    if key == "start_ns":
        return SINCE_1970
    if key == "bytes_per_second":
        return "B/s"
    return "ns" if key.endswith("_ns") else "bytes" if key.endswith("bytes") else ""
