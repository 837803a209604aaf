"""Data of a profile that is read from its databases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.database.cells import Form
from tb_plugin.formats.ascend.database.counters import counters_in
from tb_plugin.formats.ascend.database.device import device_rows
from tb_plugin.formats.ascend.database.host import host_rows, operators_of, reported_steps
from tb_plugin.formats.ascend.database.kernel_table import kernels_in
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.rows import MOST_DEVICE, Rows
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.database.tables import memory_tables
from tb_plugin.formats.ascend.kernel_details import Kernels
from tb_plugin.formats.ascend.timeline import Timeline
from tb_plugin.formats.values import to_storable
from tb_plugin.lib.arrays import Int32
from tb_plugin.model.trace.extra_columns import ReportedSteps
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import CounterEvents, Flows, PythonArgs

_OWN_SETTINGS = frozenset({"SCHEMA_VERSION_MAJOR", "SCHEMA_VERSION_MINOR", "SCHEMA_VERSION_MICRO"})
_MAX_PAIRS = 10_000
# the database of a profile contains at least one of these tables
_TABLES = (
    "PYTORCH_API", "CANN_API", "MSTX_EVENTS", "GC_RECORD", "TASK", "COMMUNICATION_OP", "OVERLAP_ANALYSIS", "STEP_TIME",
    "OP_MEMORY", "MEMORY_RECORD", "NPU_MODULE_MEM", "NPU_MEM", "AICORE_FREQ", "HBM", "LLC", "QOS", "ACC_PMU",
    "SOC_BANDWIDTH_LEVEL", "NIC", "ROCE", "HCCS", "PCIE", "DDR", "NETDEV_STATS",
)  # fmt: skip


class Content(msgspec.Struct, frozen=True, eq=False):
    """Content of a trace view or a database. Data that was not requested is None or empty."""

    columns: dict[str, Any] | None = None
    """Columns and sections of all rows."""
    counters: CounterEvents = msgspec.field(default_factory=CounterEvents)
    process_names: Mapping[str, str] = msgspec.field(default_factory=dict)
    thread_names: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)
    process_order: Mapping[str, int] = msgspec.field(default_factory=dict)
    thread_order: Mapping[tuple[str, str], int] = msgspec.field(default_factory=dict)
    kernels: Kernels | None = None
    placed: Int32 | None = None
    """Row of each kernel, if ``columns`` contains the kernels."""
    tables: Mapping[str, CsvTable] = msgspec.field(default_factory=dict)  # key: name of the corresponding file
    steps: ReportedSteps | None = None
    profile_info: Mapping[str, Any] = msgspec.field(default_factory=dict)  # as in profiler_metadata.json
    rank: int | None = None
    devices: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)  # properties by device number


def content_of(database: Database, interner: Interner, texts: frozenset[str]) -> Content | None:
    """Returns the data that ``texts`` does not contain, or None if the database is not a profile."""
    if not any(database.has(table) for table in _TABLES):
        return None
    names = Names(database, interner)
    made = Content()
    if not {files.TRACE, files.KERNELS} <= texts:
        made = _rows(database, Rows(interner, names), texts)
    return replace(
        made,
        tables=memory_tables(database, names, interner, texts),
        profile_info=_settings(database),
        rank=_rank(database),
        devices=_devices(database),
    )


def _rows(database: Database, rows: Rows, texts: frozenset[str]) -> Content:
    """Returns rows, counters and kernels. If the profile has a trace view, returns only the kernels."""
    is_traced = files.TRACE in texts
    host = None if is_traced else host_rows(database, rows)
    tasks, operations = device_rows(database, rows)
    kernels = placed = None
    if files.KERNELS not in texts:
        kernels, placed = kernels_in(database, rows.names, rows.interner, tasks, operations)
    if host is None:
        return Content(kernels=kernels)
    columns = rows.columns()
    columns = columns | Timeline(columns, columns.pop("lane"), columns["device"], rows.interner).sections()
    none = np.full(len(host.python_rows), MISSING)
    columns |= {
        "python": PythonArgs(host.python_rows, none, none, none),
        "external_id": operators_of(columns, host),
        "arrows": host.arrows,
        "flows": Flows(),
    }
    return Content(
        columns=columns,
        counters=counters_in(database, rows, host.pid),
        process_names=rows.process_names,
        thread_names=rows.thread_names,
        process_order=rows.process_order,
        kernels=kernels,
        placed=placed,
        steps=None if _has_steps(columns, rows.interner) else reported_steps(database),
    )


def _has_steps(columns: Mapping[str, Any], interner: Interner) -> bool:
    notes = np.unique(columns["name"][columns["kind"] == EventKind.ANNOTATION])
    return any(STEP_NAME.match(interner.texts[each]) for each in notes.tolist())


def _settings(database: Database) -> dict[str, Any]:
    rows = database.text_rows("META_DATA", "name", "value")[:_MAX_PAIRS]
    made = {row["name"]: _json(row["value"]) for row in rows if row["name"] and row["value"] is not None}
    for row in database.text_rows("HOST_INFO", "hostUid", "hostName")[:_MAX_PAIRS]:
        made |= {key: value for key, value in row.items() if value is not None}
    return {key: value for key, value in made.items() if key not in _OWN_SETTINGS}


def _json(text: str) -> Any:
    if not text.startswith(("{", "[")):
        return text
    try:
        return to_storable(json.loads(text, parse_constant=lambda word: None), text.encode(errors="replace"))
    except (ValueError, RecursionError):
        return text


def _rank(database: Database) -> int | None:
    ranks = np.unique(database.read("RANK_DEVICE_MAP", whole="rankId").integers("rankId"))
    return int(ranks[0]) if len(ranks) == 1 and 0 <= ranks[0] < 10**9 else None


def _devices(database: Database) -> dict[str, dict[str, Any]]:
    read = database.read("NPU_INFO", needs="id", text="name")
    names = read.array("name", Form.TEXT)
    return {
        str(number): {"name": name}
        for number, name in zip(read.integers("id").tolist(), names.to_pylist(), strict=True)
        if name and 0 <= number <= MOST_DEVICE
    }
