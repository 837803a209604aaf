"""``torch-trace whatif``: new step times if work were shorter or gone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import msgspec

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.simulate.scaled import parsed_scale
from tb_plugin.cli.exit_codes import NOTHING, OK, USAGE
from tb_plugin.cli.printer import MarkdownPrinter, TextPrinter
from tb_plugin.cli.session import open_session
from tb_plugin.cli.terminal import ROWS_IN_TEXT, print_error, print_line
from tb_plugin.errors import BadRequest, TorchTraceError, UserError
from tb_plugin.payloads import Profile, View
from tb_plugin.service.answers.sql_answers import RANKS_VIEW
from tb_plugin.service.catalog import Place
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace
from tb_plugin.views.whatif import VIEW


def whatif(arguments: argparse.Namespace) -> int:
    """Prints the view of each run or profile, and returns the exit code. Raises UserError.

    A profile without the changed work is an error only if no other profile has this work.
    """
    for text in arguments.scale:
        parsed_scale(text)  # before anything is read
    wanted = Place(arguments.run, arguments.worker, arguments.span, arguments.window)
    session = open_session(arguments.path, wanted, without_views=True)
    extra = (*(("scale", text) for text in arguments.scale), *(("on", rank) for rank in arguments.on))
    params = Params(limit=arguments.top or ROWS_IN_TEXT, extra=extra)
    printer = MarkdownPrinter() if arguments.format == "markdown" else TextPrinter()
    printed, refused = 0, False
    try:
        entries = session.load_or_complain(arguments.path)
        for title, place, view in _places(session.workspace, entries, arguments):
            try:
                ask = session.workspace.group if view == RANKS_VIEW else session.workspace.view
                answer = ask(place, view, params, arguments.steps)
            except (UserError, TorchTraceError) as error:
                refused |= isinstance(error, BadRequest)
                print_error(f"{title}: {error}")
                continue
            if isinstance(answer, Profile):
                print_error(f"{title}: The file changed while it was read.")
                continue
            printed += 1
            if arguments.format == "json":
                print_line(bytes(answer).decode())
                continue
            printer.heading(title, 1)
            printer.view(msgspec.json.decode(answer, type=View), "")
    finally:
        session.workspace.close()
    return OK if printed else USAGE if refused else NOTHING


def _places(
    workspace: Workspace, entries: Sequence[Entry], arguments: argparse.Namespace
) -> Iterator[tuple[str, Place, str]]:
    """Yields title, place and view: one of all ranks for each run if changes are given, else one per profile."""
    ranks: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        offered = workspace.offered(Place(*entry.key, arguments.window))
        is_rank = any(view.id == RANKS_VIEW and view.available for view in offered)
        if is_rank and arguments.scale:
            ranks.setdefault((entry.files.run, entry.files.span), []).append(entry)
    jobs = [key for key, found in ranks.items() if len(found) > 1]
    if arguments.on and not jobs:
        raise BadRequest("--on needs several ranks and --scale.", "on", "Use --worker to select one profile.")
    for run, span in jobs:
        yield f"{run} / all ranks / span {span}", Place(run, None, span, arguments.window), RANKS_VIEW
    for entry in entries:
        if (entry.files.run, entry.files.span) not in jobs:
            files = entry.files
            yield f"{files.run} / {files.worker} / span {files.span}", Place(*entry.key, arguments.window), VIEW.id
