"""Columns about steps and communication, in text files and in databases."""

from __future__ import annotations

import re

from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.database.cells import Form
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.database.typed_table import Schema, TypedTable, stored_table
from tb_plugin.model.trace.job_tables import BANDS, LINKS, OPERATIONS, STEP_TIMES

US, MS, MB, GB = 3, 6, 6, 9  # powers of ten: ns per us and ms, bytes per MB (10**6) and GB

DEVICE, STEP, KIND, INDEX = "Device_id", "Step", "Type", "Index"
# times of a step, us
STEP_TITLES = {
    "computing_ns": "Computing", "exposed_ns": "Communication(Not Overlapped)", "overlapped_ns": "Overlapped",
    "communication_ns": "Communication", "free_ns": "Free", "stage_ns": "Stage", "bubble_ns": "Bubble",
    "exposed_without_receive_ns": "Communication(Not Overlapped and Exclude Receive)", "preparing_ns": "Preparing",
}  # fmt: skip
# index of a rank in data, pipeline and tensor parallelism
INDEX_TITLES = {"dp_index": "DP Index", "pp_index": "PP Index", "tp_index": "TP Index"}
# parts of a call in JSON
TIMES_OF_CALL, MOVED_BY_CALL, PACKETS_OF_LINK = (
    "Communication Time Info", "Communication Bandwidth Info", "Size Distribution",
)  # fmt: skip
TOTAL = "Total Op Info"  # name of the entry with the total of all calls
START = "Start Timestamp(us)"
# times of a call
CALL_TITLES = {
    "elapse_ns": "Elapse Time(ms)", "transit_ns": "Transit Time(ms)", "wait_ns": "Wait Time(ms)",
    "synchronization_ns": "Synchronization Time(ms)", "idle_ns": "Idle Time(ms)",
}  # fmt: skip
SIZE, TRANSIT, RATIO = "Transit Size(MB)", "Transit Time(ms)", "Large Packet Ratio"
TRANSPORT, BANDWIDTH, EXAMPLE = "Transport Type", "Bandwidth(GB/s)", "Op Name"
PACKET, COUNT, PACKETS_TIME = "Package Size(MB)", "Count", "Total Duration(ms)"
RANK, OPERATION, GROUP, SOURCE, DESTINATION = "Rank", "Operation", "Group", "Source Rank", "Destination Rank"

_UNIT = re.compile(r"\((us|ms|MB|GB/s)\)\Z")


def _columns(form: Form, *titles: str) -> Schema:
    """Returns columns whose name in databases is their title without its unit."""
    names = [re.sub(r"\W+", "_", _UNIT.sub("", title)).strip("_").lower() for title in titles]
    return {title: (name, form) for title, name in zip(titles, names, strict=True)}


_CALL: Schema = {
    RANK: ("rank_id", Form.WHOLE), OPERATION: ("hccl_op_name", Form.TEXT), GROUP: ("group_name", Form.TEXT),
    **_columns(Form.TEXT, STEP, KIND),
}  # fmt: skip
_STORED: dict[str, tuple[tuple[str, ...], str, Schema]] = {
    STEP_TIMES: (
        ("StepTraceTime", "ClusterStepTraceTime"),
        files.STEPS,
        {
            DEVICE: ("deviceId", Form.WHOLE),
            **_columns(Form.TEXT, STEP, KIND, INDEX),
            **_columns(Form.NUMBER, *STEP_TITLES.values()),
            **_columns(Form.WHOLE, *INDEX_TITLES.values()),
        },
    ),
    OPERATIONS: (
        ("CommAnalyzerTime", "ClusterCommunicationTime", "ClusterCommAnalyzerTime"),
        files.COMMUNICATION,
        {
            **_CALL,
            **_columns(Form.NUMBER, START, *CALL_TITLES.values()),
            CALL_TITLES["elapse_ns"]: ("elapsed_time elapse_time", Form.NUMBER),
        },
    ),
    BANDS: (
        ("CommAnalyzerBandwidth", "ClusterCommunicationBandwidth", "ClusterCommAnalyzerBandwidth"),
        files.COMMUNICATION,
        {
            **_CALL,
            **_columns(Form.NUMBER, SIZE, TRANSIT, RATIO, PACKET, COUNT, PACKETS_TIME),
            TRANSPORT: ("band_type transport_type", Form.TEXT),
        },
    ),
    LINKS: (
        ("CommAnalyzerMatrix", "ClusterCommunicationMatrix", "ClusterCommAnalyzerMatrix"),
        files.MATRIX,
        {
            **_CALL,
            SOURCE: ("src_rank", Form.WHOLE),
            DESTINATION: ("dst_rank", Form.WHOLE),
            **_columns(Form.NUMBER, SIZE, TRANSIT, BANDWIDTH),
            **_columns(Form.TEXT, TRANSPORT, EXAMPLE),
        },
    ),
}
"""Tables of databases (first those of a profile), the corresponding text file of a profile, and columns."""


def stored_tables(database: Database, texts: frozenset[str] = frozenset()) -> dict[str, TypedTable] | None:
    """Returns the tables that the text files ``texts`` do not contain. Returns None if the database has none at all."""
    if not any(database.has(table) for tables, _, _ in _STORED.values() for table in tables):
        return None
    found = {
        name: stored_table(database, tables, schema)
        for name, (tables, file, schema) in _STORED.items()
        if file not in texts
    }
    return {name: table for name, table in found.items() if table.rows}
