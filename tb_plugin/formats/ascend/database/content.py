"""Data of a profile that is read from its databases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.database.cells import Form
from tb_plugin.formats.ascend.database.counters import Counters
from tb_plugin.formats.ascend.database.groups import operation_rows, operations_in, plane_rows
from tb_plugin.formats.ascend.database.host import host_rows, reported_steps
from tb_plugin.formats.ascend.database.kernel_table import kernel_rows
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.queue_links import enqueuing_operator
from tb_plugin.formats.ascend.database.rows import Rows
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.database.tables import memory_tables
from tb_plugin.formats.ascend.database.tasks import MOST_DEVICE, bar_rows, task_rows
from tb_plugin.formats.ascend.kernel_details import Kernels
from tb_plugin.formats.values import to_storable
from tb_plugin.model.trace.extra_columns import ReportedSteps
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import CounterEvents, Flows

Int32 = npt.NDArray[np.int32]

_OWN_SETTINGS = frozenset({"SCHEMA_VERSION_MAJOR", "SCHEMA_VERSION_MINOR", "SCHEMA_VERSION_MICRO"})
_MAX_PAIRS = 10_000
# the database of a profile contains at least one of these tables
_TABLES = (
    "PYTORCH_API", "CANN_API", "MSTX_EVENTS", "GC_RECORD", "TASK", "COMMUNICATION_OP", "OVERLAP_ANALYSIS", "STEP_TIME",
    "OP_MEMORY", "MEMORY_RECORD", "NPU_MODULE_MEM", "NPU_MEM", "AICORE_FREQ", "HBM", "LLC", "QOS", "ACC_PMU",
    "SOC_BANDWIDTH_LEVEL", "NIC", "ROCE", "HCCS", "PCIE", "DDR", "NETDEV_STATS",
)  # fmt: skip


class Content(msgspec.Struct, frozen=True, eq=False):
    """Content of a database. Data that was not requested is None or empty."""

    columns: dict[str, Any] | None = None
    """Columns and sections of all rows, in the same form as for the trace view."""
    counters: CounterEvents = msgspec.field(default_factory=CounterEvents)
    process_names: Mapping[str, str] = msgspec.field(default_factory=dict)
    thread_names: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)
    process_order: Mapping[str, int] = msgspec.field(default_factory=dict)
    kernels: Kernels | None = None
    placed: Int32 | None = None
    """Row of each kernel, if ``columns`` contains the kernels."""
    tables: Mapping[str, CsvTable] = msgspec.field(default_factory=dict)  # key: name of the corresponding file
    steps: ReportedSteps | None = None
    profile_info: Mapping[str, Any] = msgspec.field(
        default_factory=dict
    )  # facts about the profile, as in profiler_metadata.json
    rank: int | None = None
    devices: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)  # properties by device number


def content_of(database: Database, interner: Interner, texts: frozenset[str]) -> Content | None:
    """Returns the data of the profile that the text files ``texts`` do not contain.

    Returns None if the database is not a profile.
    """
    if not any(database.has(table) for table in _TABLES):
        return None
    names = Names(database, interner)
    is_traced = files.TRACE not in texts
    made = Content()
    if is_traced or files.KERNELS not in texts:
        made = _rows(database, interner, names, texts)
    tables = memory_tables(database, names, interner, lambda file: file not in texts)
    return replace(
        made,
        tables=tables,
        profile_info=_settings(database),
        rank=_rank(database),
        devices=_devices(database),
    )


def _rows(database: Database, interner: Interner, names: Names, texts: frozenset[str]) -> Content:
    """Returns rows, counters and kernels. If the profile has a trace view, returns only the kernels."""
    # A second table of texts, for names that only the rows use, is not worth it.
    rows = Rows(interner)
    operations = operations_in(database, rows, names)
    host = host_rows(database, rows, names)
    tasks = task_rows(database, rows, names, host, operations.connection)
    at = operation_rows(database, rows, names, host, tasks, operations)
    plane_rows(database, rows, names, tasks, operations)
    bar_rows(database, rows)
    known = None
    if files.KERNELS not in texts:
        known = kernel_rows(database, names, interner, tasks, operations, at)
    columns = rows.columns()
    if files.TRACE in texts:
        return Content(kernels=known.kernels if known else None)
    external = columns["external_id"]
    without_operator = np.flatnonzero(
        np.isin(columns["kind"], (EventKind.KERNEL, EventKind.MEMCPY)) & (external == MISSING)
    )
    queued_by = enqueuing_operator(columns, host.arrows, without_operator)
    external[without_operator] = np.where(queued_by != MISSING, queued_by + 1, MISSING)
    # An operator has the same external id as the work that it requested.
    requesting = np.unique(external[external > 0])
    external[requesting - 1] = requesting
    columns |= {
        "operators": host.operators,
        "python": host.python,
        "arrows": host.arrows,
        "flows": Flows(),
    }
    counters = Counters(database, rows, names, host.pid).take()
    return Content(
        columns=columns,
        counters=counters,
        process_names=rows.process_names,
        thread_names=rows.thread_names,
        process_order=rows.process_order,
        kernels=known.kernels if known else None,
        placed=known.row if known else None,
        steps=None if _has_steps(columns, interner) else reported_steps(database),
    )


def _has_steps(columns: Mapping[str, Any], interner: Interner) -> bool:
    notes = np.unique(columns["name"][columns["kind"] == EventKind.ANNOTATION])
    return any(STEP_NAME.match(interner.texts[each]) for each in notes.tolist())


def _settings(database: Database) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in _pairs(database, "META_DATA", "name", "value"):
        if key is not None and value is not None and key not in _OWN_SETTINGS:
            made[key] = _json(value)
    for uid, name in _pairs(database, "HOST_INFO", "hostUid", "hostName"):
        made |= {key: each for key, each in (("hostUid", uid), ("hostName", name)) if each is not None}
    return made


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


def _pairs(database: Database, table: str, one: str, other: str) -> list[tuple[str | None, str | None]]:
    read = database.read(table, text=f"{one} {other}")
    return list(zip(read.array(one, Form.TEXT).to_pylist(), read.array(other, Form.TEXT).to_pylist(), strict=True))[
        :_MAX_PAIRS
    ]
