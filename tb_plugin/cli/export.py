"""``torch-trace export``: profiles as Parquet, Arrow or Chrome JSON."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tb_plugin.cli.exit_codes import NOTHING, OK
from tb_plugin.cli.session import Session, no_profiles_message, open_session, place_of, progress_bar
from tb_plugin.cli.terminal import print_error, print_line
from tb_plugin.errors import BadRequest, StorageError
from tb_plugin.registry import model_of
from tb_plugin.service.answers.table_files import write_tables
from tb_plugin.service.catalog import Place
from tb_plugin.service.states import Entry
from tb_plugin.sql.tables import TABLES


def export(arguments: argparse.Namespace) -> int:
    """Writes the selected profiles to files and returns the exit code. Raises UserError."""
    for name in arguments.table:
        if name not in TABLES:
            raise BadRequest(f"There is no table {name}.", "--table", f"Tables: {', '.join(TABLES)}.")
    wanted = Place(arguments.run, arguments.worker, arguments.span, arguments.window)
    session = open_session(arguments.path, wanted)
    try:
        entries = list(session.load_all())
        for failure in session.failures.listed:
            print_error(f"{failure['path']}: {failure['reason']}")
        if not entries:
            if not session.failures.listed:
                print_error(f"{arguments.path}: {no_profiles_message()}")
            return NOTHING
        try:
            _write_tables(session, entries, arguments)
        except OSError as error:
            raise StorageError(
                "The output cannot be written.", arguments.output, error.strerror or str(error)
            ) from error
    finally:
        session.workspace.close()
    return OK


def _write_tables(session: Session, entries: Sequence[Entry], arguments: argparse.Namespace) -> None:
    form, names, output = arguments.format, arguments.table or list(TABLES), Path(arguments.output)
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


def _reader(session: Session, entries: Sequence[Entry]) -> Callable[[Entry], object]:
    numbers = {entry.key: number for number, entry in enumerate(entries, 1)}

    def read(entry: Entry) -> object:
        with progress_bar.display(f"[{numbers[entry.key]}/{len(entries)}] {entry.files.names[0]}"):
            # Loaded again if its columns left the cache meanwhile.
            loaded = session.workspace.load(place_of(entry), progress_bar.update)
        return model_of(loaded.files.reader).read(loaded.path)

    return read
