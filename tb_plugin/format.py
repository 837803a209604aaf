"""Numbers and payloads to text for the terminal: three significant digits, one unit per column.

The page has its twin in frontend/src/lib/format.ts; both must pass tests/format_cases.json.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from tb_plugin.payloads import Breakdown, Figures, Notices, Payload, Scalar, Table, Unit, View, WindowInfo

DASH = "–"
_TIME = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_BYTES = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB"))
_RATE = ((1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s"))
_LADDERS: dict[str, tuple[tuple[float, str], ...]] = {"ns": _TIME, "bytes": _BYTES, "bytes_per_second": _RATE}


@dataclass(frozen=True)
class Scale:
    """What a column (or one number) is counted in: ``value / factor`` of ``symbol``."""

    unit: Unit
    factor: float
    symbol: str


def scale_for(unit: Unit, largest: float) -> Scale:
    """The scale of a column whose largest absolute value is ``largest``."""
    if unit == "ratio":
        return Scale(unit, 0.01, "%")
    ladder = _LADDERS.get(unit)
    if ladder is None:
        return Scale(unit, 1.0, "")
    fitting = [rung for rung in ladder if float(f"{abs(largest) / rung[0]:.3g}") >= 1]
    factor, symbol = fitting[-1] if fitting else ladder[0]
    return Scale(unit, factor, symbol)


def column_scale(unit: Unit, values: Iterable[Scalar]) -> Scale:
    """The scale for all values of a column."""
    numbers = (abs(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool) and isfinite(v))
    return scale_for(unit, max(numbers, default=0))


def format_number(value: Scalar, scale: Scale, zone: tzinfo | None = None) -> str:
    """The number alone, as a cell shows it: the unit stands in the header."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value or DASH
    if not isfinite(value):
        return DASH
    if scale.unit == "ratio":
        return _percent(value)
    if scale.unit == "unix_ms":
        return format_time(int(value), zone)
    scaled = value / scale.factor
    if value == 0 or (scale.factor == 1 and scaled == int(scaled)):
        return _grouped(value, 0)
    if abs(scaled) < 0.0005:
        return ">-0.001" if value < 0 else "<0.001"
    return _grouped(scaled, _decimals(abs(scaled)))


def signed(value: Scalar, scale: Scale) -> str:
    """A change: as ``format_number``, with a plus before what grew."""
    text = format_number(value, scale)
    grew = isinstance(value, (int, float)) and value > 0 and text[0].isdigit()
    return f"+{text}" if grew else text


def format_value(value: Scalar, unit: Unit, scale: Scale | None = None, zone: tzinfo | None = None) -> str:
    """A value with its unit. Without a scale the value chooses its own."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    used = scale or column_scale(unit, [value])
    text = format_number(value, used, zone)
    return f"{text} {used.symbol}" if used.symbol and is_number and text != DASH else text


def format_time(unix_ms: int, zone: tzinfo | None = None) -> str:
    """Wall time in the reader's zone (or the given one): ``2026-11-20 14:03:12``."""
    return datetime.fromtimestamp(unix_ms // 1000, zone).strftime("%Y-%m-%d %H:%M:%S")


def _decimals(size: float) -> int:
    """Three significant digits, at most three decimals."""
    return 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3


def _percent(ratio: float) -> str:
    shown = ratio * 100
    if shown != 0 and abs(shown) < 0.05:
        return ">-0.1" if ratio < 0 else "<0.1"
    return _grouped(shown, 1)


def _grouped(value: float, decimals: int) -> str:
    # Halves go up, as in the browser; repr is the shortest text of the number.
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return f"{rounded:,.{decimals}f}"


class Printer(ABC):
    """Prints payloads; subclasses decide how a heading, a line and a table look."""

    @abstractmethod
    def heading(self, text: str, level: int) -> None:
        """A title; level 1 is a profile, 2 a view, 3 a payload."""

    @abstractmethod
    def line(self, text: str) -> None:
        """One paragraph."""

    @abstractmethod
    def rows(self, header: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> None:
        """A table; the header holds (title, is a number)."""

    def view(self, view: View) -> None:
        """All payloads of a view that make sense as text."""
        self.heading(view.title, 2)
        coverage = view.coverage
        if coverage.steps is not None:
            self.line(f"Steps: {', '.join(coverage.steps)}")
        if coverage.window is not None:
            self.line(_window_line(coverage.window))
        elif not coverage.complete:
            self.line(f"Incomplete: {format_value(coverage.fraction_read, 'ratio')} of the file was read.")
        for payload in view.payloads.values():
            self.payload(payload)

    def payload(self, payload: Payload) -> None:
        """One payload. Series, trees and timelines are pictures; the tables beside them say the same."""
        if isinstance(payload, Figures):
            self.heading(payload.title, 3)
            pairs = [(f.metric.title, format_value(f.value, f.metric.unit) + _note(f.note)) for f in payload.figures]
            self.rows([("what", False), ("value", True)], pairs)
        elif isinstance(payload, Breakdown):
            self.heading(payload.title, 3)
            self._breakdown(payload)
        elif isinstance(payload, Notices) and payload.notices:
            self.heading(payload.title, 3)
            for notice in payload.notices:
                values = {f.metric.key: format_value(f.value, f.metric.unit) for f in notice.figures}
                self.line(f"[{notice.severity}] {fill(notice.text, values)} {fill(notice.todo, values)}".rstrip())
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
        self.rows([("part", False), (_titled("value", scale), True), ("share", True)], rows)

    def _waterfall(self, payload: Breakdown) -> None:
        end = payload.start + payload.total
        scale = column_scale(payload.unit, [payload.start, end])
        rows = [("baseline", format_number(payload.start, scale))]
        rows += [(part.metric.title, signed(part.value, scale)) for part in payload.parts]
        rows.append(("experiment", format_number(end, scale)))
        self.rows([("part", False), (_titled("value", scale), True)], rows)

    def _table(self, table: Table) -> None:
        columns = [column for column in table.columns if not column.hidden]
        scales = [
            column_scale(c.metric.unit, [row.get(c.metric.key) for row in table.rows]) for c in columns
        ]  # one unit per column
        header = [
            (_titled(c.metric.title, s), c.metric.unit not in ("text", "code"))
            for c, s in zip(columns, scales, strict=True)
        ]
        rows = [
            [format_number(row.get(c.metric.key), s) for c, s in zip(columns, scales, strict=True)]
            for row in table.rows
        ]
        self.rows(header, rows)


class TextPrinter(Printer):
    """Tables as a terminal shows them; plain text when stdout is a file."""

    def __init__(self) -> None:
        # A file or a pipe has no width to respect: names must not be folded there.
        self._console = Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)

    def heading(self, text: str, level: int) -> None:
        """Bold; views are set apart by an empty line."""
        self._console.print(Text(f"\n{text}" if level < 3 else text, style="bold"), soft_wrap=True)

    def line(self, text: str) -> None:
        """As it is."""
        self._console.print(Text(text), soft_wrap=True)

    def rows(self, header: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> None:
        """Names are text, never markup: a kernel may be called ``[bold]``."""
        table = RichTable(box=SIMPLE, pad_edge=False)
        for title, numeric in header:
            table.add_column(Text(title), justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        self._console.print(table)


class MarkdownPrinter(Printer):
    """GitHub-flavoured Markdown, for an issue or a report."""

    def heading(self, text: str, level: int) -> None:
        """``#`` for a profile, ``##`` for a view."""
        print(f"\n{'#' * level} {_escaped(text)}\n")

    def line(self, text: str) -> None:
        """A paragraph of its own."""
        print(f"{_escaped(text)}\n")

    def rows(self, header: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> None:
        """A pipe table, numbers to the right."""
        print("| " + " | ".join(_escaped(title) for title, _ in header) + " |")
        print("|" + "|".join(" ---: " if numeric else " --- " for _, numeric in header) + "|")
        for row in rows:
            print("| " + " | ".join(_escaped(cell) for cell in row) + " |")
        print()


def fill(template: str, values: Mapping[str, str]) -> str:
    """A notice's text with its figures; braces that name no figure stay."""
    return re.sub(r"\{([^{}]+)\}", lambda match: values.get(match.group(1), match.group(0)), template)


def printable(text: str) -> str:
    """Text from a trace without control characters: they could rewrite the terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(text))


def _window_line(window: WindowInfo) -> str:
    """What part of a trace was opened, and how to open the rest."""
    start, end, whole = (format_value(time, "ns") for time in (window.start_ns, window.end_ns, window.trace_ns))
    inside = f"steps {window.first_step} to {window.last_step}, {window.steps} of {window.trace_steps}, "
    steps = inside if window.steps else ""
    need, budget = (format_value(size, "bytes") for size in (window.need_bytes, window.budget_bytes))
    return (
        f"Only a window was opened: {steps}{start} to {end} of {whole}. All of it would take about {need} of memory; "
        f"{budget} are allowed (TORCH_TRACE_MEMORY_MB)."
    )


def _note(note: str) -> str:
    return f" ({note})" if note else ""


def _titled(title: str, scale: Scale) -> str:
    return f"{title} [{scale.symbol}]" if scale.symbol else title
