"""Tables for SQL, with unit and meaning of each column.

A table has one row per event, so that a query can group and filter. Sums over a table equal the numbers of the view
that shows the same events (tests/sql/test_tables.py). Missing values are null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tb_plugin.sql.columns import SqlTable
from tb_plugin.sql.device_tables import COLLECTIVES, COPIES, KERNELS, LAUNCHES, RUNTIME_CALLS
from tb_plugin.sql.memory_tables import BLOCKS, MEMORY_EVENTS
from tb_plugin.sql.path_tables import CRITICAL_PATH, SLACK
from tb_plugin.sql.rank_table import RANKS
from tb_plugin.sql.trace_tables import COUNTERS, EVENTS, FINDINGS, MODULES, OPERATORS, PHASES, STEPS

# Name of the table that describes all tables.
COLUMNS = "columns"

_EVERY: tuple[SqlTable[Any], ...] = (
    EVENTS,
    OPERATORS,
    KERNELS,
    LAUNCHES,
    COPIES,
    RUNTIME_CALLS,
    MODULES,
    PHASES,
    STEPS,
    CRITICAL_PATH,
    SLACK,
    COLLECTIVES,
    RANKS,
    COUNTERS,
    FINDINGS,
    MEMORY_EVENTS,
    BLOCKS,
)
TABLES: Mapping[str, SqlTable[Any]] = {table.name: table for table in _EVERY}

NAMES = (COLUMNS, *TABLES)


def _columns() -> pa.Table:
    """Returns one row per column of each table."""
    rows = [
        (table.name, column.name, column.unit, column.meaning) for table in TABLES.values() for column in table.columns
    ]
    names = ("table_name", "column_name", "unit", "meaning")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def table_of(model: object, name: str) -> pa.Table | None:
    """Returns a table of a profile. None if profiles of this kind have no such table."""
    return _columns() if name == COLUMNS else TABLES[name].table(model)
