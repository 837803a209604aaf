"""``torch-trace whatif``: new step times if work were shorter or gone."""

from __future__ import annotations

import argparse

import msgspec

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.simulate.scaled import parsed_scale
from tb_plugin.cli.exit_codes import NOTHING, OK
from tb_plugin.cli.printer import MarkdownPrinter, TextPrinter
from tb_plugin.cli.session import open_session
from tb_plugin.cli.terminal import ROWS_IN_TEXT, print_error, print_line
from tb_plugin.errors import BadRequest, TorchTraceError, UserError
from tb_plugin.payloads import Profile, View
from tb_plugin.service.catalog import Place
from tb_plugin.views.whatif import VIEW


def whatif(arguments: argparse.Namespace) -> int:
    """Prints the view of each profile and returns the exit code. Raises UserError."""
    for text in arguments.scale:
        parsed_scale(text)  # before anything is read
    wanted = Place(arguments.run, arguments.worker, arguments.span, arguments.window)
    session = open_session(arguments.path, wanted, without_views=True)
    params = Params(limit=arguments.top or ROWS_IN_TEXT, extra=tuple(("scale", text) for text in arguments.scale))
    printer = MarkdownPrinter() if arguments.format == "markdown" else TextPrinter()
    printed = 0
    try:
        for entry in session.load_or_complain(arguments.path):
            place = Place(*entry.key, arguments.window)
            try:
                answer = session.workspace.view(place, VIEW.id, params, arguments.steps)
            except BadRequest:
                raise
            except (UserError, TorchTraceError) as error:
                print_error(f"{entry.files.url}: {error}")
                continue
            if isinstance(answer, Profile):
                print_error(f"{entry.files.url}: The file changed while it was read.")
                continue
            printed += 1
            if arguments.format == "json":
                print_line(bytes(answer).decode())
                continue
            printer.heading(f"{entry.files.run} / {entry.files.worker} / span {entry.files.span}", 1)
            printer.view(msgspec.json.decode(answer, type=View), "")
    finally:
        session.workspace.close()
    return OK if printed else NOTHING
