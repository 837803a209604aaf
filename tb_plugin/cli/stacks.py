"""``torch-trace stacks``: export of merged stacks for flame graphs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from tb_plugin.analysis.base import Params
from tb_plugin.cli.exit_codes import OK
from tb_plugin.cli.session import capture_message, progress_bar, read_first, scan_path, workers_for
from tb_plugin.cli.terminal import print_error, print_line
from tb_plugin.errors import NotFoundError, StorageError
from tb_plugin.payloads import Profile
from tb_plugin.service.catalog import Place, ProfileCatalog, place_of
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import open_store


def stacks(arguments: argparse.Namespace) -> int:
    """Writes the merged stacks of one profile and returns the exit code. Raises UserError."""
    catalog = scan_path(arguments.path)
    workspace = Workspace(catalog, workers_for(1), open_store(), without_views=True)
    if len(catalog.entries()) == 1 and not arguments.window:
        read_first(workspace, catalog.entries())
    entry = _find(catalog, arguments)
    workspace.captures.allow(arguments.capture, scan_path)
    place = place_of(entry, arguments.capture)
    try:
        with progress_bar.display(entry.files.names[0]):
            workspace.load(place, progress_bar.update)
        chosen = tuple((key, str(getattr(arguments, key))) for key in ("of", "weight", "fold"))
        chosen += tuple(("thread", thread) for thread in arguments.thread)
        params = Params(phase=arguments.phase, pattern=arguments.pattern, extra=chosen)
        answer = workspace.stacks(place, params, arguments.format, arguments.steps)
        for line in capture_message(workspace, place):
            print_error(f"torch-trace: {line}")
        if isinstance(answer, Profile):
            raise StorageError("The file changed while it was read.", entry.files.url, "Try again.")
        _write(answer.plain(), arguments.output)
    finally:
        workspace.close()
    return OK


def _find(catalog: ProfileCatalog, arguments: argparse.Namespace) -> Entry:
    if not catalog.entries():
        reasons = [reason for _, reason in catalog.skipped()]
        raise NotFoundError("No profile was found.", arguments.path, " ".join(reasons[:1]) or "Check the path.")
    return catalog.find(Place(arguments.run, arguments.worker, arguments.span, arguments.window), strict=True)


def _write(chunks: Iterable[bytes], output: str) -> None:
    if not output and sys.stdout.isatty():
        for line in b"".join(chunks).decode(errors="replace").splitlines():
            print_line(line)
        return
    if not output:
        # Written as bytes: the terminal's encoding must not change the file.
        sys.stdout.buffer.writelines(chunks)
        sys.stdout.flush()
        return
    try:
        with Path(output).open("wb") as out:
            out.writelines(chunks)
    except OSError as error:
        raise StorageError("The output cannot be written.", output, error.strerror or str(error)) from error
