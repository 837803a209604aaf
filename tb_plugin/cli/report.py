"""``torch-trace report``: views of profiles as text, Markdown or JSON."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Params
from tb_plugin.cli.exit_codes import NOTHING, OK, USAGE
from tb_plugin.cli.session import (
    capture_message,
    keep_failed_parts,
    keep_failure,
    keep_failure_of_group,
    load_all,
    no_profiles_message,
    open_workspace,
    place_of,
)
from tb_plugin.cli.terminal import print_error, write_json
from tb_plugin.errors import BadRequest, Cancelled, PartFailed, TorchTraceError, UserError
from tb_plugin.facts import facts_of
from tb_plugin.findings import data_notices, findings, with_finding_count
from tb_plugin.format import format_time
from tb_plugin.payloads import Profile, Table, View, ViewInfo
from tb_plugin.service.catalog import Place
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace

if TYPE_CHECKING:
    from tb_plugin.cli.printer import Printer

SCHEMA_VERSION = 3


def report(arguments: argparse.Namespace) -> int:
    """Prints the selected profiles and returns the exit code. Raises UserError."""
    _check_views(arguments.view)
    workspace, entries, failed = open_workspace(arguments, arguments.window)
    if not entries and not failed:
        failed.append({"path": arguments.path, "reason": no_profiles_message()})
    try:
        if arguments.format == "json":
            return _report_json(workspace, entries, failed, arguments)
        from tb_plugin.cli.printer import MarkdownPrinter, TextPrinter

        printer = MarkdownPrinter() if arguments.format == "markdown" else TextPrinter()
        return _report_text(workspace, entries, failed, arguments, printer)
    finally:
        workspace.close()


def _report_json(
    workspace: Workspace, entries: list[Entry], failed: list[dict[str, str]], arguments: argparse.Namespace
) -> int:
    profiles: list[dict[str, Any]] = []
    errors: list[UserError] = []
    for entry in load_all(workspace, entries, failed, errors):
        try:
            place = place_of(entry, arguments.capture)
            numbers = workspace.numbers(place, arguments.view, arguments.steps, _view_params(arguments))
            notices = data_notices(numbers.notices)
        except TorchTraceError as error:
            keep_failure(entry, error, failed, errors)
            continue
        tables = [name for analysis in _views_of(entry, arguments.view) for name in analysis.traits.tables]
        always = dict.fromkeys(tables, msgspec.Raw(b"[]"))
        found, summary = entry.files, entry.summary
        keep_failed_parts(found.url, notices, failed)
        profiles.append(
            {
                "run": found.run,
                "worker": found.worker,
                "span": found.span,
                "path": found.url,
                "read": summary.read if summary else None,
                "window": summary.window if summary else None,
                "capture": workspace.profile(place, start=False).capture,
                "phase": arguments.phase or None,
                "not_limited": [
                    a.id for a in _views_of(entry, arguments.view) if arguments.phase and a.traits.phase_note
                ],
                "findings": findings(numbers.notices),
                "data_notices": notices,
                "dismissed": numbers.dismissed,
                "facts": with_finding_count(numbers.facts, numbers.notices),
                "tables": always | numbers.tables,
            }
        )
    groups = _groups(workspace, entries, failed, errors, arguments)
    document = {"schema_version": SCHEMA_VERSION, "profiles": profiles, "groups": groups, "failed": failed}
    write_json(document)
    return _exit_code(len(profiles), errors)


def _groups(
    workspace: Workspace,
    entries: list[Entry],
    failed: list[dict[str, str]],
    errors: list[UserError],
    arguments: argparse.Namespace,
) -> list[dict[str, Any]]:
    groups = []
    for analysis, place in _group_places(workspace, entries, arguments):
        ask = partial(_group_rows, workspace, place, analysis.id, arguments.steps)
        try:
            view = msgspec.json.decode(workspace.group(place, analysis.id, Params(limit=1), arguments.steps), type=View)
            # A single worker cannot be late, so the table is missing.
            tables = {name: ask(name) if name in view.payloads else [] for name in analysis.traits.tables}
            tables |= {name: ask(name) for name in analysis.traits.reported_tables if name in view.payloads}
        except TorchTraceError as error:
            keep_failure_of_group(analysis.title, place, error, failed, errors)
            continue
        facts = analysis.traits.facts.items()
        workers = {row["worker"]: {fact: row[column] for fact, column in facts} for row in tables.pop("workers", [])}
        said = {
            "facts": facts_of(view),
            "findings": findings(view.payloads.values(), answers=True),
            "data_notices": data_notices(view.payloads.values()),
        }
        groups.append({"run": place.run, "span": place.span, "workers": workers, **said, "tables": tables})
    return groups


def _group_places(
    workspace: Workspace, entries: list[Entry], arguments: argparse.Namespace
) -> list[tuple[Analysis[Any], Place]]:
    wanted: list[str] | None = arguments.view
    found: list[tuple[Analysis[Any], Place]] = []
    for analysis in registry.analyses():
        is_asked = analysis.traits.place == "page" if wanted is None else analysis.id in wanted
        if analysis.scope != "workers" or not is_asked:
            continue
        with_it = (e for e in entries if analysis.id in _available_views(workspace, e, arguments))
        places = dict.fromkeys(Place(e.files.run, None, e.files.span, e.window, arguments.capture) for e in with_it)
        found += [(analysis, place) for place in places]
    return found


def _group_rows(workspace: Workspace, place: Place, view_id: str, steps: str, table: str) -> list[dict[str, Any]]:
    answer = workspace.group(place, view_id, Params(table=table, limit=None), steps)
    return msgspec.json.decode(answer, type=Table).rows


def _report_text(
    workspace: Workspace,
    entries: list[Entry],
    failed: list[dict[str, str]],
    arguments: argparse.Namespace,
    printer: Printer,
) -> int:
    reported = 0
    errors: list[UserError] = []
    loaded: Iterable[Entry] = load_all(workspace, entries, failed, errors)
    ranks = Counter((entry.files.run, entry.files.span) for entry in entries)
    if several := max(ranks.values(), default=0) > 1:
        loaded = list(loaded)  # views of all ranks come first, before up to a thousand single ranks
        _print_groups(workspace, entries, failed, errors, arguments, printer)
    for entry in loaded:
        try:
            views = [
                _view_or_failure(workspace, entry, view, arguments) for view in _text_views(workspace, entry, arguments)
            ]
        except TorchTraceError as error:
            keep_failure(entry, error, failed, errors)
            continue
        reported += 1
        absent = _absent(workspace, entry, arguments)
        if arguments.view and not views and not absent:
            continue  # all requested views are views of all workers
        found = entry.files
        when = f", {format_time(found.time_unix_ms)}" if found.time_unix_ms else ""
        printer.heading(f"{found.run} / {found.worker} / span {found.span}{when}", 1)
        printer.line(found.url)
        for line in capture_message(workspace, place_of(entry, arguments.capture)):
            printer.line(line)
        for info in absent:
            printer.line(f"{info.title}: {info.why} {info.enable}".rstrip())
        for view in views:
            if isinstance(view, View):
                printer.view(view, _not_limited(view.id, arguments))
            else:
                printer.heading(view.part, 2)
                printer.line(str(view))
    if not several:
        _print_groups(workspace, entries, failed, errors, arguments, printer)
    for failure in failed:
        print_error(f"{failure['path']}: {failure['reason']}")
    return _exit_code(reported, errors)


def _print_groups(
    workspace: Workspace,
    entries: list[Entry],
    failed: list[dict[str, str]],
    errors: list[UserError],
    arguments: argparse.Namespace,
    printer: Printer,
) -> None:
    for analysis, place in _group_places(workspace, entries, arguments):
        try:
            answer = workspace.group(place, analysis.id, Params(limit=arguments.top), arguments.steps)
        except TorchTraceError as error:
            keep_failure_of_group(analysis.title, place, error, failed, errors)
            continue
        printer.heading(f"{place.run} / all workers / span {place.span}", 1)
        printer.view(msgspec.json.decode(answer, type=View), _not_limited(analysis.id, arguments))


def _view(workspace: Workspace, entry: Entry, view: str, arguments: argparse.Namespace) -> View:
    answer = workspace.view(place_of(entry, arguments.capture), view, _view_params(arguments), arguments.steps)
    if isinstance(answer, Profile):
        raise Cancelled("The file changed while it was read.")
    return msgspec.json.decode(answer, type=View)


def _view_or_failure(workspace: Workspace, entry: Entry, view: str, arguments: argparse.Namespace) -> View | PartFailed:
    try:
        return _view(workspace, entry, view, arguments)
    except PartFailed as error:
        return error


def _not_limited(view: str, arguments: argparse.Namespace) -> str:
    why = registry.analysis_by_id(view).traits.phase_note if arguments.phase else ""
    return f"This view is not limited to the phase {arguments.phase}. {why}" if why else ""


def _view_params(arguments: argparse.Namespace) -> Params:
    return Params(phase=arguments.phase, pattern=arguments.pattern, limit=arguments.top)


def _exit_code(reported: int, errors: list[UserError]) -> int:
    if reported:
        return OK
    return USAGE if errors and all(isinstance(error, BadRequest) for error in errors) else NOTHING


def _check_views(wanted: list[str] | None) -> None:
    known = [a.id for a in registry.analyses() if a.traits.place != "detail" and a.scope != "pair"]
    for view in wanted or ():
        if view not in known:
            raise BadRequest(f"There is no view {view}.", "--view", f"Available views: {', '.join(known)}.")


def _views_of(entry: Entry, wanted: list[str] | None) -> list[Analysis[Any]]:
    pages = [a for a in registry.views_of(registry.model_of(entry.files.reader)) if a.traits.place == "page"]
    return [a for a in pages if a.scope == "profile" and (wanted is None or a.id in wanted)]


def _available_views(workspace: Workspace, entry: Entry, arguments: argparse.Namespace) -> set[str]:
    if entry.summary is None:
        return set()
    return {view.id for view in workspace.offered(place_of(entry, arguments.capture)) if view.available}


def _absent(workspace: Workspace, entry: Entry, arguments: argparse.Namespace) -> list[ViewInfo]:
    if entry.summary is None:
        return []
    offered = workspace.offered(place_of(entry, arguments.capture))
    known = {info.id for info in offered}
    every = [*offered, *(info for info in entry.summary.absent if info.id not in known)]
    return [info for info in every if info.id in (arguments.view or ()) and not info.available]


def _text_views(workspace: Workspace, entry: Entry, arguments: argparse.Namespace) -> list[str]:
    there, wanted = _available_views(workspace, entry, arguments), arguments.view
    known = registry.views_of(registry.model_of(entry.files.reader))
    asked = [a for a in known if a.scope == "profile" and wanted and a.id in wanted and a.traits.place == "picture"]
    return [analysis.id for analysis in (*_views_of(entry, wanted), *asked) if analysis.id in there]
