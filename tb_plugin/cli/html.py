"""HTML files of ``torch-trace report`` and ``torch-trace diff``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tb_plugin.cli.terminal import print_line
from tb_plugin.errors import BadRequest, Cancelled, StorageError
from tb_plugin.payloads import Profile
from tb_plugin.service.catalog import Place
from tb_plugin.service.workspace import Workspace


def check_html(arguments: argparse.Namespace, others: Sequence[str]) -> None:
    """Raises BadRequest if options do not go together. ``others`` are options of other outputs."""
    if arguments.redact and not arguments.html:
        raise BadRequest("--redact is an option of --html.", "--redact", "Add --html FILE.")
    if arguments.html and (arguments.format != "text" or any(getattr(arguments, name) for name in others)):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in ("format", *others))
        raise BadRequest("An HTML file contains all views.", "--html", f"Leave out {names}.")


def html_of(
    workspace: Workspace, place: Place, arguments: argparse.Namespace, compare: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """Returns the file. Raises UserError."""
    from tb_plugin.service.html_report.collect import ROWS, Wanted
    from tb_plugin.service.html_report.write import html_report

    wanted = Wanted(
        place,
        arguments.steps,
        getattr(arguments, "phase", ""),
        getattr(arguments, "pattern", ""),
        rows=arguments.top or ROWS,
        compare=compare,
    )
    path = arguments.exp if compare else arguments.path
    content = html_report(workspace, wanted, path, arguments.redact, waits=True)
    if isinstance(content, Profile):
        raise Cancelled("The file changed while it was read.")
    return content


def save_html(content: bytes, file: str) -> None:
    """Raises StorageError."""
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise StorageError("The HTML file cannot be written.", file, f"{error.strerror or error}.") from error
    print_line(f"{file}: {len(content) / 1e6:.1f} MB")
