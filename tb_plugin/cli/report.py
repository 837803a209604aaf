"""``torch-trace report``: views of profiles as text, Markdown or JSON."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Params
from tb_plugin.cli.exit_codes import NOTHING, OK, USAGE
from tb_plugin.cli.html import check_html, html_of, save_html
from tb_plugin.cli.session import Session, capture_message, no_profiles_message, open_session
from tb_plugin.cli.terminal import ROWS_IN_TEXT, print_error, print_text, write_json_lists
from tb_plugin.errors import BadRequest, Cancelled, PartFailed, TorchTraceError
from tb_plugin.findings import data_notices, facts_of, findings, with_finding_count
from tb_plugin.format import format_time, json_bytes
from tb_plugin.payloads import Profile, Table, View, ViewInfo
from tb_plugin.service.catalog import Place, place_of
from tb_plugin.service.states import Entry

if TYPE_CHECKING:
    from tb_plugin.cli.printer import Printer

SCHEMA_VERSION = 3
# Table of a group whose rows are members of the group in JSON.
_WORKERS = "workers"


def report(arguments: argparse.Namespace) -> int:
    """Prints the selected profiles and returns the exit code. Raises UserError."""
    known = [a.id for a in registry.analyses() if a.traits.place != "detail" and a.scope != "pair"]
    for view in arguments.view or ():
        if view not in known:
            raise BadRequest(f"There is no view {view}.", "--view", f"Available views: {', '.join(known)}.")
    if arguments.brief and (arguments.view or arguments.phase or arguments.pattern or arguments.top):
        raise BadRequest(
            "A brief has no options for views.", "--brief", "Leave out --view, --phase, --pattern and --top."
        )
    check_html(arguments, ("view", "brief"))
    wanted = Place(arguments.run, arguments.worker, arguments.span, arguments.window)
    # JSON always has the findings, which are those of the default view.
    views = [] if arguments.format == "json" else arguments.view or []
    without_views = bool(views) and not any(registry.analysis_by_id(view).traits.cached for view in views)
    made = _Report(open_session(arguments.path, wanted, arguments.capture, without_views), arguments)
    try:
        if arguments.html:
            return made.write_html()
        if arguments.brief:
            return made.write_brief()
        if arguments.format == "json":
            return made.write_json()
        from tb_plugin.cli.printer import MarkdownPrinter, TextPrinter

        return made.write_text(MarkdownPrinter() if arguments.format == "markdown" else TextPrinter())
    finally:
        made.workspace.close()


class _Report:
    def __init__(self, session: Session, arguments: argparse.Namespace) -> None:
        self.workspace = session.workspace
        self._session = session
        self._failures = session.failures
        self._arguments = arguments
        self._wanted: list[str] | None = arguments.view
        self._top = arguments.top or ROWS_IN_TEXT
        self._params = Params(phase=arguments.phase, pattern=arguments.pattern)
        if not session.entries and not self._failures.listed:
            self._failures.add(arguments.path, no_profiles_message())

    def write_json(self) -> int:
        reported = 0

        def profiles() -> Iterator[dict[str, Any]]:
            nonlocal reported
            for entry in self._session.load_all():
                try:
                    profile = self._profile(entry)
                except TorchTraceError as error:
                    self._failures.add_profile(entry, error)
                    continue
                reported += 1
                yield profile

        lists = {"profiles": profiles(), "groups": self._json_groups(), "failed": self._failures.listed}
        write_json_lists({"schema_version": SCHEMA_VERSION}, lists)
        return self._exit_code(reported)

    def write_brief(self) -> int:
        """Prints the brief of the first readable profile, and of its job."""
        from tb_plugin.brief import brief_of, fitting, to_markdown

        arguments, made = self._arguments, b""
        form = to_markdown if arguments.format != "json" else lambda brief: json_bytes(brief) + b"\n"
        for entry in self._session.load_all():
            try:
                brief = brief_of(
                    self.workspace, self._session.entries, arguments.path, self._place(entry), arguments.steps
                )
            except TorchTraceError as error:
                self._failures.add_profile(entry, error)
                continue
            made = fitting(brief, form)
            break
        for failure in self._failures.listed:
            print_error(f"{failure['path']}: {failure['reason']}")
        print_text(made.decode())
        return self._exit_code(int(bool(made)))

    def write_html(self) -> int:
        """Writes the first readable profile as HTML."""
        content = b""
        for entry in self._session.load_all():
            try:
                content = html_of(self.workspace, self._place(entry), self._arguments)
            except TorchTraceError as error:
                self._failures.add_profile(entry, error)
                continue
            break
        for failure in self._failures.listed:
            print_error(f"{failure['path']}: {failure['reason']}")
        if content:
            save_html(content, self._arguments.html)
        return self._exit_code(int(bool(content)))

    def _json_groups(self) -> Iterator[dict[str, Any]]:
        for analysis, place in self._groups:
            try:
                group = self._group(analysis, place)
            except TorchTraceError as error:
                self._failures.add_group(analysis.title, place, error)
                continue
            yield group

    def _profile(self, entry: Entry) -> dict[str, Any]:
        arguments, place, views = self._arguments, self._place(entry), self._views_of(entry)
        numbers = self.workspace.numbers(place, self._wanted, arguments.steps, self._params, arguments.top)
        notices = data_notices(numbers.notices)
        always = {name: msgspec.Raw(b"[]") for analysis in views for name in analysis.traits.tables}
        found, summary = entry.files, entry.summary
        self._failures.add_parts(found.url, notices)
        return {
            "run": found.run,
            "worker": found.worker,
            "span": found.span,
            "path": found.url,
            "read": summary.read if summary else None,
            "window": summary.window if summary else None,
            "capture": self.workspace.profile(place, start=False).capture,
            "phase": arguments.phase or None,
            "not_limited": [a.id for a in views if arguments.phase and a.traits.phase_note],
            "findings": findings(numbers.notices),
            "data_notices": notices,
            "dismissed": numbers.dismissed,
            "facts": with_finding_count(numbers.facts, numbers.notices),
            "tables": always | numbers.tables,
        }

    def _group(self, analysis: Analysis[Any], place: Place) -> dict[str, Any]:
        def rows(table: str) -> list[dict[str, Any]]:
            limit = None if table == _WORKERS else self._arguments.top
            answer = self.workspace.group(place, analysis.id, Params(table=table, limit=limit), self._arguments.steps)
            return msgspec.json.decode(answer, type=Table).rows

        view = self._group_view(analysis, place, 1)
        # A single worker cannot be late, so the table is missing.
        tables = {name: rows(name) if name in view.payloads else [] for name in analysis.traits.tables}
        tables |= {name: rows(name) for name in analysis.traits.reported_tables if name in view.payloads}
        facts = analysis.traits.facts.items()
        return {
            "run": place.run,
            "span": place.span,
            "workers": {row["worker"]: {fact: row[key] for fact, key in facts} for row in tables.pop(_WORKERS, [])},
            "facts": facts_of(view),
            "findings": findings(view.payloads.values(), answers=True),
            "data_notices": data_notices(view.payloads.values()),
            "tables": tables,
        }

    def write_text(self, printer: Printer) -> int:
        reported = 0
        loaded: Iterable[Entry] = self._session.load_all()
        ranks = Counter((entry.files.run, entry.files.span) for entry in self._session.entries)
        if several := max(ranks.values(), default=0) > 1:
            loaded = list(loaded)  # views of all ranks come first, before up to a thousand single ranks
            self._print_groups(printer)
        for entry in loaded:
            try:
                views = [self._view_or_failure(entry, view) for view in self._text_views(entry)]
            except TorchTraceError as error:
                self._failures.add_profile(entry, error)
                continue
            reported += 1
            absent = self._absent(entry)
            if self._wanted and not views and not absent:
                continue  # all requested views are views of all workers
            found = entry.files
            when = f", {format_time(found.time_unix_ms)}" if found.time_unix_ms else ""
            printer.heading(f"{found.run} / {found.worker} / span {found.span}{when}", 1)
            printer.line(found.url)
            for line in capture_message(self.workspace, self._place(entry)):
                printer.line(line)
            for info in absent:
                printer.line(f"{info.title}: {info.why} {info.enable}".rstrip())
            for view in views:
                if isinstance(view, View):
                    printer.view(view, self._not_limited(view.id))
                else:
                    printer.heading(view.part, 2)
                    printer.line(str(view))
        if not several:
            self._print_groups(printer)
        for failure in self._failures.listed:
            print_error(f"{failure['path']}: {failure['reason']}")
        return self._exit_code(reported)

    def _print_groups(self, printer: Printer) -> None:
        for analysis, place in self._groups:
            try:
                view = self._group_view(analysis, place, self._top)
            except TorchTraceError as error:
                self._failures.add_group(analysis.title, place, error)
                continue
            printer.heading(f"{place.run} / all workers / span {place.span}", 1)
            printer.view(view, self._not_limited(analysis.id))

    def _group_view(self, analysis: Analysis[Any], place: Place, limit: int) -> View:
        answer = self.workspace.group(place, analysis.id, Params(limit=limit), self._arguments.steps)
        return msgspec.json.decode(answer, type=View)

    def _view_or_failure(self, entry: Entry, view: str) -> View | PartFailed:
        params = replace(self._params, limit=self._top)
        try:
            answer = self.workspace.view(self._place(entry), view, params, self._arguments.steps)
        except PartFailed as error:
            return error
        if isinstance(answer, Profile):
            raise Cancelled("The file changed while it was read.")
        return msgspec.json.decode(answer, type=View)

    def _not_limited(self, view: str) -> str:
        phase = self._arguments.phase
        why = registry.analysis_by_id(view).traits.phase_note if phase else ""
        return f"This view is not limited to the phase {phase}. {why}" if why else ""

    def _exit_code(self, reported: int) -> int:
        if reported:
            return OK
        errors = self._failures.errors
        return USAGE if errors and all(isinstance(error, BadRequest) for error in errors) else NOTHING

    @cached_property
    def _groups(self) -> list[tuple[Analysis[Any], Place]]:
        found: list[tuple[Analysis[Any], Place]] = []
        for analysis in registry.analyses():
            is_asked = analysis.traits.place == "page" if self._wanted is None else analysis.id in self._wanted
            if analysis.scope == "workers" and is_asked:
                with_it = (each for each in self._session.entries if analysis.id in self._available(each))
                places = dict.fromkeys(replace(self._place(each), worker=None) for each in with_it)
                found += [(analysis, place) for place in places]
        return found

    def _place(self, entry: Entry) -> Place:
        return place_of(entry, self._arguments.capture)

    def _views_of(self, entry: Entry) -> list[Analysis[Any]]:
        pages = [a for a in registry.views_of(registry.model_of(entry.files.reader)) if a.traits.place == "page"]
        return [a for a in pages if a.scope == "profile" and (self._wanted is None or a.id in self._wanted)]

    def _available(self, entry: Entry) -> set[str]:
        if entry.summary is None:
            return set()
        return {view.id for view in self.workspace.offered(self._place(entry)) if view.available}

    def _absent(self, entry: Entry) -> list[ViewInfo]:
        if entry.summary is None:
            return []
        offered = self.workspace.offered(self._place(entry))
        known = {info.id for info in offered}
        every = [*offered, *(info for info in entry.summary.absent if info.id not in known)]
        return [info for info in every if info.id in (self._wanted or ()) and not info.available]

    def _text_views(self, entry: Entry) -> list[str]:
        there, wanted = self._available(entry), self._wanted or ()
        known = registry.views_of(registry.model_of(entry.files.reader))
        asked = [a for a in known if a.scope == "profile" and a.id in wanted and a.traits.place == "picture"]
        return [analysis.id for analysis in (*self._views_of(entry), *asked) if analysis.id in there]
