"""Export of the SQL tables as Parquet or Arrow files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyarrow import parquet

from tb_plugin import __version__
from tb_plugin.analysis.base import Params, Part
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.registry import analysis_by_id, model_of
from tb_plugin.service.answers.rank_rows import rank_table
from tb_plugin.service.answers.sql_answers import RANKS_VIEW, Key, place_columns, run_columns, run_of
from tb_plugin.service.states import Entry
from tb_plugin.sql.rank_table import RANKS
from tb_plugin.sql.tables import TABLES, table_of

# Rows that are converted at once, and in a row group of Parquet.
ROWS = 131_072
_COMPRESSION = "zstd"
_PLACES = {"run": "run", "rank": "rank or worker", "span": "span"}

Read = Callable[[Entry], object]


class _Writer(Struct):
    writer: Any
    schema: pa.Schema
    rows: int = 0

    def add(self, table: pa.Table, place: Mapping[str, str]) -> None:
        for batch in table.to_batches(max_chunksize=ROWS):
            self.writer.write_batch(pa.record_batch(list(self._columns(batch, place)), schema=self.schema))
        self.rows += table.num_rows

    def _columns(self, batch: pa.RecordBatch, place: Mapping[str, str]) -> Iterator[pa.Array]:
        for field in self.schema:
            if field.name in place:
                yield pa.repeat(pa.scalar(place[field.name], field.type), batch.num_rows)
            elif field.name in batch.schema.names:
                yield batch[field.name].cast(field.type)
            else:
                yield pa.nulls(batch.num_rows, field.type)


def write_tables(
    entries: Sequence[Entry], read: Read, names: Sequence[str], form: str, target: Callable[[str], Path]
) -> dict[str, int]:
    """Writes one file per table and returns the number of rows by table.

    Tables that no profile has are left out. ``read`` returns the model of a profile; only one is open at a time.
    """
    places = place_columns([entry.key for entry in entries])
    first = {model_of(entry.files.reader).id: entry for entry in reversed(entries)}
    writers: dict[str, _Writer] = {}
    ranks: dict[Key, list[tuple[str, Part]]] = {}
    with ExitStack() as stack:
        for entry, place in zip(entries, places, strict=True):
            model = read(entry)
            if RANKS.name in names and isinstance(model, TraceTable):
                part = analysis_by_id(RANKS_VIEW).part(model, Params())
                ranks.setdefault(run_of(entry.key), []).append((entry.files.worker, part))
            for name in names:
                table = table_of(model, name)
                if table is None:
                    continue
                if name not in writers:
                    # Profiles of different kinds have different columns.
                    others = [each for kind, each in first.items() if kind != model_of(entry.files.reader).id]
                    schema = _schema(name, place, [table, *(table_of(read(each), name) for each in others)])
                    writers[name] = _Writer(stack.enter_context(_opened(target(name), schema, form)), schema)
                writers[name].add(table, place)
        for run, parts in ranks.items():
            table, place = rank_table(parts), run_columns(places[0], run)
            if (name := RANKS.name) not in writers:
                schema = _schema(name, place, [table])
                writers[name] = _Writer(stack.enter_context(_opened(target(name), schema, form)), schema)
            writers[name].add(table, place)
    return {name: writer.rows for name, writer in writers.items()}


def _opened(path: Path, schema: pa.Schema, form: str) -> Any:
    if form == "parquet":
        return parquet.ParquetWriter(path, schema, compression=_COMPRESSION)
    return pa.ipc.new_file(str(path), schema, options=pa.ipc.IpcWriteOptions(compression=_COMPRESSION))


def _schema(name: str, place: Mapping[str, str], tables: Sequence[pa.Table | None]) -> pa.Schema:
    found = TABLES[name]
    types = {
        key: _plain(table.schema.field(key).type) for table in tables if table is not None for key in table.column_names
    }
    fields = [pa.field(key, pa.large_string(), metadata=_about("", _PLACES[key])) for key in place]
    fields += [
        pa.field(each.name, types[each.name], metadata=_about(each.unit, each.meaning))
        for each in found.columns
        if each.name in types
    ]
    return pa.schema(fields, {"table": name, "row": found.row, "writer": f"Torch Trace {__version__}"})


def _about(unit: str, meaning: str) -> dict[str, str]:
    return {"unit": unit, "meaning": meaning} if unit else {"meaning": meaning}


def _plain(kind: pa.DataType) -> pa.DataType:
    """Returns the type in files, which must be the same for all profiles."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return kind if pa.types.is_boolean(kind) else pa.large_string()
