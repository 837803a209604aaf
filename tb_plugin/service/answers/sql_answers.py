"""Answers of SQL queries over loaded profiles of a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from tb_plugin.registry import model_of
from tb_plugin.service.states import Entry
from tb_plugin.sql.engine import SECONDS, SqlAnswer, SqlSource, run_sql
from tb_plugin.sql.tables import NAMES, table_of


def sql_over(entries: Sequence[Entry], query: str, seconds: float = SECONDS) -> SqlAnswer:
    """Runs a query over these loaded profiles.

    If there are several, each table has the columns ``run``, ``rank`` and ``span`` in which they differ. Raises
    BadRequest, MissingPackage.
    """
    places = place_columns(entries)
    sources = [SqlSource(place, partial(_table, entry)) for entry, place in zip(entries, places, strict=True)]
    return run_sql(sources, NAMES, query, seconds)


def place_columns(entries: Sequence[Entry]) -> list[dict[str, str]]:
    """Returns the columns ``run``, ``rank`` and ``span`` of each entry, without those that are equal for all."""
    keys = {"run": 0, "rank": 1, "span": 2}
    differ = {name: at for name, at in keys.items() if len({entry.key[at] for entry in entries}) > 1}
    return [{name: entry.key[at] for name, at in differ.items()} for entry in entries]


def _table(entry: Entry, name: str) -> pa.Table | None:
    return table_of(model_of(entry.files.reader).read(entry.path), name)
