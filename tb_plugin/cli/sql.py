"""``torch-trace sql``: a query over the events of profiles."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import csv, parquet

from tb_plugin.cli.columns import Heading
from tb_plugin.cli.exit_codes import NOTHING, OK
from tb_plugin.cli.printer import TextPrinter
from tb_plugin.cli.session import open_session
from tb_plugin.cli.terminal import print_error, write_json
from tb_plugin.errors import BadRequest, StorageError
from tb_plugin.service.answers.sql_answers import sql_over, sql_profiles
from tb_plugin.service.catalog import Place

# Rows that the format table prints. Other formats write all rows.
MOST_PRINTED = 200


def sql(arguments: argparse.Namespace) -> int:
    """Prints the rows of a query and returns the exit code. Raises UserError."""
    form, output = arguments.format, arguments.output
    if form == "table" and output:
        raise BadRequest("A table is for the terminal.", "--format", "Add --format csv, json or parquet.")
    if form == "parquet" and not output and sys.stdout.isatty():
        raise BadRequest("Parquet is not text.", "--format", "Add --output FILE.")
    wanted = Place(arguments.run, arguments.worker, arguments.span, arguments.window)
    session = open_session(arguments.path, wanted, without_views=True)
    try:
        entries = session.load_or_complain(arguments.path)
        if not entries:
            return NOTHING
        answer = sql_over(session.workspace.models, sql_profiles(entries), arguments.query)
    finally:
        session.workspace.close()
    if form == "table":
        _print_rows(answer.table)
    elif form == "json" and not output:
        write_json(answer.table.to_pylist())
    else:
        _write(_encoded(answer.table, form), output)
    if answer.is_cut:
        print_error(f"torch-trace: The query has more rows. These are the first {answer.table.num_rows:,}.")
    return OK


def _print_rows(table: pa.Table) -> None:
    is_number = [pa.types.is_integer(f.type) or pa.types.is_floating(f.type) for f in table.schema]
    headings = [
        Heading(name, "number" if number else "name")
        for name, number in zip(table.column_names, is_number, strict=True)
    ]
    columns = [
        ["" if value is None else f"{value:,}" if number else str(value) for value in column.to_pylist()]
        for column, number in zip(table.slice(0, MOST_PRINTED).columns, is_number, strict=True)
    ]
    rows = list(zip(*columns, strict=True))
    TextPrinter().rows(headings, rows, more=" Select fewer columns, set COLUMNS, or use --format csv.")
    if table.num_rows > MOST_PRINTED:
        print_error(f"torch-trace: {table.num_rows - MOST_PRINTED:,} more rows. Use --format csv to see them.")


def _encoded(table: pa.Table, form: str) -> bytes:
    if form == "json":
        return msgspec.json.encode(table.to_pylist()) + b"\n"
    made = io.BytesIO()
    if form == "parquet":
        parquet.write_table(table, made)
    else:
        csv.write_csv(table, made)
    return made.getvalue()


def _write(data: bytes, output: str) -> None:
    if not output:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise StorageError("The output cannot be written.", output, error.strerror or str(error)) from error
