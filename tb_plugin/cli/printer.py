"""Payloads as text or Markdown."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import partial

from msgspec.structs import replace

from tb_plugin.cli.columns import Heading, fit_table, without_middle, wrapped
from tb_plugin.cli.terminal import print_line, width
from tb_plugin.findings import finding
from tb_plugin.format import (
    Scale,
    column_scale,
    family_scales,
    format_change,
    format_number,
    format_range,
    format_value,
    printable,
)
from tb_plugin.lib.isolation import isolated
from tb_plugin.payloads import (
    Breakdown,
    Figure,
    Figures,
    Interval,
    Notice,
    Notices,
    Payload,
    Saving,
    Scalar,
    Table,
    View,
    WindowInfo,
)

MORE = " To see all columns, set COLUMNS or use --format markdown or json."
# Longer figures, in characters, are wrapped like prose.
_PROSE_CHARACTERS = 40
# Longer names in a sentence lose their middle.
_NAME_CHARACTERS = 80


class Printer(ABC):
    """Prints payloads. Subclasses print headings, lines and tables."""

    @abstractmethod
    def heading(self, text: str, level: int) -> None:
        """Prints a heading. Level 1 is a profile, level 2 a view, level 3 a payload."""

    @abstractmethod
    def line(self, text: str) -> None: ...

    def prose(self, text: str) -> None:
        """Prints a sentence, in several lines if the output has a width."""
        self.line(text)

    @abstractmethod
    def rows(
        self, headings: Sequence[Heading], rows: Sequence[Sequence[str]], keep: Collection[int] = (0,), more: str = ""
    ) -> None:
        """Prints a table. Columns in ``keep`` are never dropped; ``more`` tells where to find the others."""

    def view(self, view: View, remark: str = "") -> None:
        """Prints ``remark``, then each payload of a view that can be printed as text."""
        self.heading(view.title, 2)
        if remark:
            self.line(remark)
        coverage = view.coverage
        if coverage.steps is not None:
            self.line(f"Steps: {', '.join(coverage.steps)}")
        if coverage.phase is not None:
            self.line(f"Phase: {coverage.phase}")
        if coverage.window is not None:
            self.line(_window_line(coverage.window))
        elif not coverage.complete:
            self.line("Incomplete: the file is damaged or truncated. Numbers cover only the part that was read.")
        told: set[tuple[str, Scalar]] = set()
        for payload in view.payloads.values():
            if isinstance(payload, Figures):
                figures = payload.figures
                if payload.name == "facts":  # Text already printed above is not repeated.
                    figures = [each for each in figures if (each.metric.key, each.value) not in told]
                told |= {(each.metric.key, each.value) for each in figures}
                payload = replace(payload, figures=figures)
                if not figures:
                    continue
            title = getattr(payload, "title", view.title)
            isolated(title, partial(self.payload, payload), lambda failure: self.line(str(failure)))

    def payload(self, payload: Payload) -> None:
        """Prints one payload. Skips series, trees and timelines, because tables contain the same data."""
        if isinstance(payload, Figures):
            self.heading(payload.title, 3)
            pairs = [(f.metric.title, format_value(f.value, f.metric.unit) + _note(f.note)) for f in payload.figures]
            long = any(len(value) > _PROSE_CHARACTERS for _, value in pairs)
            self.rows([Heading("what"), Heading("value", "prose" if long else "number")], pairs, keep=(0, 1))
        elif isinstance(payload, Breakdown):
            self.heading(payload.title, 3)
            self._breakdown(payload)
        elif isinstance(payload, Notices) and payload.notices:
            self.heading(payload.title, 3)
            for notice in payload.notices:
                if payload.name == "answer":
                    found = finding(_with_short_names(notice))
                    self.prose(f"{found.text} {found.todo}".rstrip())
                    continue
                found = finding(notice)
                self.line(f"[{found.severity}{_saves(notice.saving)}] {found.text} {found.todo}".rstrip())
        elif isinstance(payload, Table):
            self.heading(f"{payload.title} ({len(payload.rows)} of {payload.matched_rows})", 3)
            self._table(payload)

    def _breakdown(self, payload: Breakdown) -> None:
        if payload.style == "waterfall":
            self._waterfall(payload)
            return
        scale = column_scale(payload.unit, [payload.total])
        rows = [
            (
                part.metric.title,
                format_number(part.value, scale),
                format_value(part.value / payload.total if payload.total else None, "ratio"),
            )
            for part in payload.parts
        ]
        rows.append(("total", format_number(payload.total, scale), ""))
        self.rows([Heading("part"), Heading(_titled("value", scale), "number"), Heading("share", "number")], rows)

    def _waterfall(self, payload: Breakdown) -> None:
        end = payload.start + payload.total
        scale = column_scale(payload.unit, [payload.start, end])
        rows = [("baseline", format_number(payload.start, scale), "")]
        rows += [
            (part.metric.title, format_change(part.value, scale), _interval(part.interval, scale))
            for part in payload.parts
        ]
        rows.append(("experiment", format_number(end, scale), ""))
        headings = [Heading("part"), Heading(_titled("value", scale), "number"), Heading("95 % interval", "number")]
        shown = 2 if payload.interval is None else 3
        self.rows(headings[:shown], [row[:shown] for row in rows])

    def _table(self, table: Table) -> None:
        columns = [column for column in table.columns if not column.hidden]
        scales = family_scales([c.metric for c in columns], lambda key: [row.get(key) for row in table.rows])
        headings = [
            Heading(_titled(c.metric.title, s), "name" if c.metric.unit in ("text", "code") else "number")
            for c, s in zip(columns, scales, strict=True)
        ]
        keys = [column.metric.key for column in columns]
        keep = {keys.index(key) for key in (table.name_column, table.sort.key if table.sort else "") if key in keys}
        rows = [
            [format_number(row.get(c.metric.key), s) for c, s in zip(columns, scales, strict=True)]
            for row in table.rows
        ]
        self.rows(headings, rows, keep or (0,), MORE)


def _with_short_names(notice: Notice) -> Notice:
    def short(figure: Figure) -> Figure:
        is_name = figure.metric.unit == "code" and isinstance(figure.value, str)
        return replace(figure, value=without_middle(str(figure.value), _NAME_CHARACTERS)) if is_name else figure

    return replace(notice, figures=[short(each) for each in notice.figures])


class TextPrinter(Printer):
    """Prints text as wide as the terminal or COLUMNS. If stdout is not a terminal, the width is 120 characters."""

    def heading(self, text: str, level: int) -> None:
        print_line("")
        print_line(text, bold=True)

    def line(self, text: str) -> None:
        print_line(text)

    def prose(self, text: str) -> None:
        for line in wrapped(printable(text), width()):
            print_line(line)

    def rows(
        self, headings: Sequence[Heading], rows: Sequence[Sequence[str]], keep: Collection[int] = (0,), more: str = ""
    ) -> None:
        room = width()
        cells = [[printable(cell) for cell in row] for row in rows]
        table = fit_table(headings, cells, room, keep)
        for text in table.heading:
            print_line(text)
        for text in table.lines:
            print_line(text)
        if table.left_out:
            print_line(f"Columns that do not fit in {room} characters: {', '.join(table.left_out)}.{more}")


class MarkdownPrinter(Printer):
    def heading(self, text: str, level: int) -> None:
        print_line("")
        print_line(f"{'#' * level} {_escaped(text)}")
        print_line("")

    def line(self, text: str) -> None:
        print_line(_escaped(text))
        print_line("")

    def rows(
        self, headings: Sequence[Heading], rows: Sequence[Sequence[str]], keep: Collection[int] = (0,), more: str = ""
    ) -> None:
        print_line("| " + " | ".join(_escaped(heading.title) for heading in headings) + " |")
        print_line("|" + "|".join(" ---: " if heading.kind == "number" else " --- " for heading in headings) + "|")
        for row in rows:
            print_line("| " + " | ".join(_escaped(cell) for cell in row) + " |")
        print_line("")


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(text))


def _window_line(window: WindowInfo) -> str:
    start, end, whole = (format_value(time, "ns") for time in (window.start_ns, window.end_ns, window.trace_ns))
    inside = f"steps {window.first_step} to {window.last_step} ({window.steps} of {window.trace_steps}), "
    steps = inside if window.steps else ""
    need, budget = (format_value(size, "bytes") for size in (window.peak_memory_bytes, window.budget_bytes))
    return (
        f"Only a window was opened: {steps}{start} to {end} of {whole}. The whole trace needs about {need} of memory; "
        f"{budget} are allowed (TORCH_TRACE_MEMORY_MB)."
    )


def _saves(saving: Saving | None) -> str:
    if saving is None:
        return ""
    bounds = format_range(saving.low_ns, saving.high_ns, "ns")
    share = f", {format_value(saving.high_ns / saving.step_ns, 'ratio')}" if saving.step_ns else ""
    return f", saves {bounds} per step{share}"


def _interval(interval: Interval | None, scale: Scale) -> str:
    if interval is None:
        return ""
    noise = "" if interval.is_significant else ", noise"
    return f"{format_change(interval.low, scale)} to {format_change(interval.high, scale)}{noise}"


def _note(note: str) -> str:
    return f" ({note})" if note else ""


def _titled(title: str, scale: Scale) -> str:
    return f"{title} [{scale.symbol}]" if scale.symbol else title
