"""``torch-trace doctor``: what was found, what not, and why."""

from __future__ import annotations

import argparse

from tb_plugin import registry
from tb_plugin.analyses.wording import counted, noun
from tb_plugin.cli.columns import Heading
from tb_plugin.cli.exits import NOTHING, OK
from tb_plugin.cli.printer import Printer, TextPrinter
from tb_plugin.cli.session import capture_lines, load_all, open_workspace, place_of
from tb_plugin.format import format_value
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace


def doctor(arguments: argparse.Namespace) -> int:
    """Prints what was made of every file; returns the exit code. Raises UserError."""
    arguments.run = arguments.worker = arguments.span = None
    arguments.capture = ""
    workspace, entries, failed = open_workspace(arguments)
    printer = TextPrinter()
    readable = 0
    try:
        catalog = workspace.runs()
        looked, found = counted(catalog.scanned_files, "file"), counted(len(entries), "profile")
        printer.line(f"{catalog.logdir}: {looked} looked through, {found} found.")
        for run in catalog.runs:
            if run.grouped_by:
                printer.line(f"{run.name}: {run.grouped_by}")
        for entry in load_all(workspace, entries, failed, []):
            readable += 1
            _diagnose(workspace, entry, printer)
            for line in capture_lines(workspace.captures.info(entry, "")):
                printer.line(line)
        rows = [(failure["path"], failure["reason"]) for failure in failed]
        known = {path for path, _ in rows}
        rows += [(skipped.path, skipped.reason) for skipped in catalog.skipped if skipped.path not in known]
        if rows:
            printer.heading("Not taken", 2)
            printer.line(_not_taken(len(entries), readable, len(rows)))
            for path, reason in rows:
                printer.line(f"{path}: {reason}")
        elif not entries:
            printer.line(f"No name ends in {_endings()}: nothing here looks like a profiler trace.")
    finally:
        workspace.close()
    return OK if readable else NOTHING


def _not_taken(found: int, readable: int, rows: int) -> str:
    """How many of the profiles that were found cannot be read, and how many files besides are none."""
    bad = found - readable
    told = [f"{bad:,} of {counted(found, 'profile')} cannot be read"] if bad else []
    if others := rows - bad:
        told.append(f"{counted(others, 'file or folder is', 'files or folders are')} no {noun(others, 'profile')}")
    return f"{'; '.join(told)}."


def _endings() -> str:
    """The endings that the readers look at, in words."""
    *most, last = dict.fromkeys(ending for reader in registry.readers() for ending in reader.endings)
    return f"{', '.join(most)} or {last}" if most else last


def _diagnose(workspace: Workspace, entry: Entry, printer: Printer) -> None:
    """What was read of one profile, what was irregular, and which views it cannot fill."""
    found, summary = entry.found, entry.summary
    if summary is None:
        return
    read = summary.read
    printer.heading(f"{found.run} / {found.worker} / span {found.span}", 2)
    size = format_value(found.size_bytes, "bytes")
    state = "complete" if read.complete else "INCOMPLETE: the file is cut off"
    printer.line(f"{found.url} ({read.format}, {size}, {state})")
    counts = ("seen", "kept", "repaired", "dropped", "quarantined", "unknown", "other")
    if read.records:
        each = ", ".join(f"{getattr(read, f'events_{name}'):,} {name}" for name in counts)
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
