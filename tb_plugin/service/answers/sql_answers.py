"""Answers of SQL queries over loaded profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.registry import analysis_by_id
from tb_plugin.service.loader import file_of
from tb_plugin.service.states import Entry
from tb_plugin.service.workers.model_cache import ModelFile, OpenModels

# Most commands run no query, so they do not import the tables.
if TYPE_CHECKING:
    from tb_plugin.sql.engine import SqlAnswer, SqlSource

Key = tuple[str, str, str]
# The view whose numbers the table of ranks has.
RANKS_VIEW = "distributed"


class SqlProfile(msgspec.Struct, frozen=True):
    key: Key
    """Run, rank and span."""
    file: ModelFile


def sql_over(models: OpenModels, profiles: Sequence[SqlProfile], query: str, is_guarded: bool = False) -> SqlAnswer:
    """Runs a query over these loaded profiles.

    If there are several, each table has the columns ``run``, ``rank`` and ``span`` in which they differ. Raises
    BadRequest, MissingPackage, CacheFileLost.
    """
    from tb_plugin.sql.engine import run_sql
    from tb_plugin.sql.tables import NAMES

    return run_sql([*_sources(models, profiles)], NAMES, query, is_guarded=is_guarded)


def sql_profiles(entries: Sequence[Entry]) -> list[SqlProfile]:
    return [SqlProfile(entry.key, file_of(entry)) for entry in entries]


def _sources(models: OpenModels, profiles: Sequence[SqlProfile]) -> Iterator[SqlSource]:
    from tb_plugin.sql.engine import SqlSource

    places = place_columns([profile.key for profile in profiles])
    for profile, place in zip(profiles, places, strict=True):
        yield SqlSource(place, partial(_table, models, profile.file))
    runs: dict[Key, list[SqlProfile]] = {}
    for profile in profiles:
        runs.setdefault(run_of(profile.key), []).append(profile)
    for run, ranks in runs.items():
        yield SqlSource(run_columns(places[0], run), partial(_ranks, models, ranks))


def _table(models: OpenModels, file: ModelFile, name: str) -> pa.Table | None:
    from tb_plugin.sql.tables import table_of

    return table_of(models.model(file), name)


def _ranks(models: OpenModels, profiles: Sequence[SqlProfile], name: str) -> pa.Table | None:
    """Returns the table of the ranks of one run and span; None without traces."""
    if name != "ranks":
        return None
    from tb_plugin.service.answers.rank_rows import rank_table

    view = analysis_by_id(RANKS_VIEW)
    traces = [profile for profile in profiles if isinstance(models.model(profile.file), TraceTable)]
    parts = [(profile.key[1], models.part(profile.file, view, Params())) for profile in traces]
    return rank_table(parts) if parts else None


def place_columns(keys: Sequence[Key]) -> list[dict[str, str]]:
    """Returns the columns ``run``, ``rank`` and ``span`` of each profile, without those that are equal for all."""
    names = {"run": 0, "rank": 1, "span": 2}
    differ = {name: at for name, at in names.items() if len({key[at] for key in keys}) > 1}
    return [{name: key[at] for name, at in differ.items()} for key in keys]


def run_of(key: Key) -> Key:
    """Returns the run and span of a profile."""
    return key[0], "", key[2]


def run_columns(place: Mapping[str, str], run: Key) -> dict[str, str]:
    """Returns the columns of a run: those of a profile without ``rank``."""
    return {name: run[at] for name, at in (("run", 0), ("span", 2)) if name in place}
