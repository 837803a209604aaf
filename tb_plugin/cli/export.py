"""``torch-trace export``: profiles as Parquet, Arrow or Chrome JSON."""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.cli.exit_codes import NOTHING, OK
from tb_plugin.cli.session import Session, open_session, progress_bar
from tb_plugin.cli.terminal import print_line
from tb_plugin.errors import BadRequest, PartFailed, StorageError, UserError
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.registry import model_of
from tb_plugin.service.answers.chrome_export import write_trace
from tb_plugin.service.answers.ranks_export import write_ranks
from tb_plugin.service.answers.table_files import write_tables
from tb_plugin.service.catalog import Place, place_of
from tb_plugin.service.states import Entry
from tb_plugin.sql.tables import TABLES
from tb_plugin.storage.cache import write_atomically


def export(arguments: argparse.Namespace) -> int:
    """Writes the selected profiles to files and returns the exit code. Raises UserError."""
    if arguments.format == "chrome" and arguments.table:
        raise BadRequest("Chrome JSON has no tables.", "--table", "Use --format parquet or arrow.")
    for name in arguments.table:
        if name not in TABLES:
            raise BadRequest(f"There is no table {name}.", "--table", f"Tables: {', '.join(TABLES)}.")
    suffix = Path(arguments.output).suffix
    if arguments.format != "chrome" and len(set(arguments.table)) != 1 and suffix in (".parquet", ".arrow"):
        raise BadRequest(
            "One file has one table.", "--output", "Add --table NAME, or write to a folder: --output FOLDER."
        )
    wanted = Place(arguments.run, arguments.worker, arguments.span, arguments.window)
    session = open_session(arguments.path, wanted, without_views=True)
    try:
        entries = session.load_or_complain(arguments.path)
        if not entries:
            return NOTHING
        try:
            (_write_chrome if arguments.format == "chrome" else _write_tables)(session, entries, arguments)
        except OSError as error:
            raise StorageError(
                "The output cannot be written.", arguments.output, error.strerror or str(error)
            ) from error
    finally:
        session.workspace.close()
    return OK


def _write_tables(session: Session, entries: Sequence[Entry], arguments: argparse.Namespace) -> None:
    form, names, output = arguments.format, list(dict.fromkeys(arguments.table)) or list(TABLES), Path(arguments.output)
    is_file = len(names) == 1 and output.suffix == f".{form}"
    folder = output.parent if is_file else output
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".torch-trace-", dir=folder) as made:
        rows = write_tables(entries, _reader(session, entries), names, form, lambda name: Path(made, name))
        if not rows:
            raise BadRequest(f"The profiles have no table {', '.join(names)}.", "--table", "Choose another table.")
        for name, count in rows.items():
            target = output if is_file else folder / f"{name}.{form}"
            Path(made, name).replace(target)
            print_line(f"{target}: {count:,} rows")


def _write_chrome(session: Session, found: Sequence[Entry], arguments: argparse.Namespace) -> None:
    # A run may also have snapshots and dumps of flight recorders.
    entries = [entry for entry in found if model_of(entry.files.reader).type is TraceTable]
    if not entries:
        raise BadRequest("Only traces have events.", found[0].files.url, "Choose another profile.")
    several = {f"--{name}": {entry.key[at] for entry in entries} for name, at in (("run", 0), ("span", 2))}
    for option, values in several.items():
        if len(values) > 1:
            raise BadRequest("One file has the ranks of one run and span.", option, f"Choose: {', '.join(values)}.")
    read = _reader(session, entries)

    def traces() -> Iterator[TraceTable]:
        for entry in entries:
            model = read(entry)
            assert isinstance(model, TraceTable)
            yield model

    def write(path: Path) -> str:
        with gzip.open(path, "wb", 3) if arguments.output.endswith(".gz") else path.open("wb") as out:
            if len(entries) == 1:
                (trace,) = traces()
                write_trace(out, trace)
                return f"{len(trace):,} events"
            workers = [entry.files.worker for entry in entries]
            ways = Counter(each.way for each in write_ranks(out, traces, workers, _clocks(session, entries)))
            how = " and ".join(f"{way} ({count})" if len(ways) > 1 else way for way, count in ways.items())
            return f"{len(entries)} ranks, aligned by {how}"

    print_line(f"{arguments.output}: {write_atomically(Path(arguments.output), write)}")


def _clocks(session: Session, entries: Sequence[Entry]) -> Mapping[str, Mapping[str, Any]]:
    """Returns the clock of each worker that the page Ranks computes; none if it does not apply."""
    place = replace(place_of(entries[0]), worker=None)
    try:
        answer = session.workspace.arrow(place, "distributed", Params(table="clocks", limit=None))
    except (UserError, PartFailed):
        return {}
    return {row["worker"]: row for row in pa.ipc.open_stream(answer).read_all().to_pylist()}


def _reader(session: Session, entries: Sequence[Entry]) -> Callable[[Entry], object]:
    numbers = {entry.key: number for number, entry in enumerate(entries, 1)}

    def read(entry: Entry) -> object:
        with progress_bar.display(f"[{numbers[entry.key]}/{len(entries)}] {entry.files.names[0]}"):
            # Loaded again if its columns left the cache meanwhile.
            loaded = session.workspace.load(place_of(entry), progress_bar.update)
        return model_of(loaded.files.reader).read(loaded.path)

    return read
