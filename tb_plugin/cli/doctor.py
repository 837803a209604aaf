"""``torch-trace doctor``: found and skipped files, with reasons."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.failure_notices import FAILED
from tb_plugin.analysis.phrases import count_with_noun, plural
from tb_plugin.cli.columns import Heading
from tb_plugin.cli.exit_codes import NOTHING, OK, PART_FAILED
from tb_plugin.cli.printer import Printer, TextPrinter
from tb_plugin.cli.session import capture_lines, no_profiles_message, open_session
from tb_plugin.errors import PartFailed, TorchTraceError
from tb_plugin.findings import data_notices
from tb_plugin.format import format_value
from tb_plugin.payloads import Profile, View
from tb_plugin.service.answers.multi_profile import multi_profile_view
from tb_plugin.service.catalog import Place, place_of
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace


def doctor(arguments: argparse.Namespace) -> int:
    """Prints a result for each file and returns the exit code. Raises UserError."""
    session = open_session(arguments.path)
    workspace, entries = session.workspace, session.entries
    printer = TextPrinter()
    readable = failures = 0
    try:
        catalog = workspace.runs()
        looked, found = count_with_noun(catalog.scanned_files, "file"), count_with_noun(len(entries), "profile")
        printer.line(f"{catalog.logdir}: {looked} scanned, {found} found.")
        for run in catalog.runs:
            if run.grouped_by:
                printer.line(f"{run.name}: {run.grouped_by}")
        for entry in session.load_all():
            readable += 1
            _diagnose(workspace, entry, printer)
            for line in capture_lines(workspace.captures.info(entry, "")):
                printer.line(line)
            failures += _failures(workspace, entry, printer)
        failures += _failures_of_groups(workspace, entries, printer)
        failures += sum(isinstance(error, PartFailed) for error in session.failures.errors)
        rows = [(failure["path"], failure["reason"]) for failure in session.failures.listed]
        known = {path for path, _ in rows}
        rows += [(skipped.path, skipped.reason) for skipped in catalog.skipped if skipped.path not in known]
        if rows:
            printer.heading("Unreadable and skipped files", 2)
            printer.line(_not_taken(len(entries), readable, len(rows)))
            for path, reason in rows:
                printer.line(f"{path}: {reason}")
        elif not entries:
            printer.line(no_profiles_message())
    finally:
        workspace.close()
    if not readable:
        return NOTHING
    return PART_FAILED if failures else OK


def _failures(workspace: Workspace, entry: Entry, printer: Printer) -> int:
    place = place_of(entry)
    views = [view.id for view in workspace.offered(place) if view.available and multi_profile_view(view.id) is None]
    answers = (partial(workspace.view, place, view, Params(limit=1)) for view in views)
    return _print_failures(answers, printer)


def _failures_of_groups(workspace: Workspace, entries: list[Entry], printer: Printer) -> int:
    asked: dict[tuple[str, Place], None] = {}
    for entry in entries:
        for view in workspace.offered(place_of(entry)) if entry.summary is not None else ():
            found = multi_profile_view(view.id)
            if view.available and found is not None and found.scope == "workers":
                asked[view.id, Place(entry.files.run, None, entry.files.span)] = None
    answers = (partial(workspace.group, place, view, Params(limit=1)) for view, place in asked)
    return _print_failures(answers, printer)


def _print_failures(answers: Iterable[Callable[[], bytes | Profile]], printer: Printer) -> int:
    told: dict[str, None] = {}
    for ask in answers:
        try:
            answer = ask()
        except PartFailed as error:
            told[str(error)] = None
            continue
        except TorchTraceError:  # for example steps that the profile does not have, which is not a failure
            continue
        view = None if isinstance(answer, Profile) else msgspec.json.decode(answer, type=View)
        for notice in data_notices(() if view is None else view.payloads.values()):
            if notice.rule == FAILED:
                told[f"{notice.text} {notice.todo}"] = None
    for text in told:
        printer.line(text)
    return len(told)


def _not_taken(found: int, readable: int, rows: int) -> str:
    bad = found - readable
    told = [f"{bad:,} of {count_with_noun(found, 'profile')} cannot be read"] if bad else []
    if others := rows - bad:
        told.append(
            f"{count_with_noun(others, 'file or folder is', 'files or folders are')} not "
            f"{plural(others, 'a profile', 'profiles')}"
        )
    return f"{'; '.join(told)}."


def _diagnose(workspace: Workspace, entry: Entry, printer: Printer) -> None:
    found, summary = entry.files, entry.summary
    if summary is None:
        return
    read = summary.read
    printer.heading(f"{found.run} / {found.worker} / span {found.span}", 2)
    size = format_value(found.size_bytes, "bytes")
    state = "complete" if read.complete else "INCOMPLETE: the file is truncated"
    printer.line(f"{found.url} ({read.format}, {size}, {state})")
    counts = ("in_file", "loaded", "repaired", "dropped", "quarantined", "unknown", "other")
    if read.records:
        each = ", ".join(f"{getattr(read, f'events_{name}'):,} {name.replace('_', ' ')}" for name in counts)
        printer.line(f"{read.records}: {each}")
    if read.issues:
        rows = [
            (f"{i.file}: {i.text}" if i.file else i.text, i.outcome, f"{i.count:,}", _text(i.first_offset))
            for i in read.issues
        ]
        titles = [Heading("issue", "prose"), Heading("outcome"), Heading("count", "number")]
        printer.rows([*titles, Heading("first at byte", "number")], rows, keep=(0, 1, 2, 3))
    for view in workspace.offered(place_of(entry)):
        if not view.available and view.enable:
            printer.line(f"{view.title}: {view.why} {view.enable}")


def _text(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
