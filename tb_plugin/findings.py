"""Findings and data notices as complete sentences, and facts, for programs.

``torch-trace report``, ``torch-trace diff`` and the Python API use this form. The page receives templates and
numbers instead (payloads/notice.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tb_plugin.format import fill, format_range, format_value
from tb_plugin.lib import html
from tb_plugin.payloads import Figure, Figures, Notice, Notices, Scalar, Severity, Unit, View

COUNT = "findings.count"


class FindingFigure(Struct, frozen=True):
    """A number in a finding. docs/reference/metrics.md explains each ``key``."""

    key: str
    title: str
    unit: Unit
    value: Scalar


class EventsWindow(Struct, frozen=True):
    """A time range, in nanoseconds since the start of the trace."""

    start_ns: int
    end_ns: int


class Evidence(Struct, frozen=True):
    """A view, events and a time range that show a finding.

    ``parameters`` are the parameters of the view (docs/http.md). ``events`` are event numbers, most important
    first.
    """

    view: str
    parameters: dict[str, str]
    events: list[int]
    window: EventsWindow | None


class Finding(Struct, frozen=True):
    """A finding or data notice.

    ``text`` is the finding and ``todo`` the fix. ``measure`` is the key of the number that was compared with
    ``threshold``. The time saved per step is between ``saving_low_ns`` and ``saving_high_ns``. Savings of several
    findings overlap: ``saving_shared_ns`` is the part of ``saving_high_ns`` that other findings include as well.
    All three are None if the saving is unknown.
    """

    rule: str
    severity: Severity
    text: str
    todo: str
    figures: list[FindingFigure]
    measure: str | None
    threshold: float | None
    evidence: Evidence | None
    why: str
    confidence: str
    saving_low_ns: float | None
    saving_high_ns: float | None
    saving_shared_ns: float | None

    def _repr_html_(self) -> str:
        return Findings([self])._repr_html_()


class Findings(list[Finding]):
    """Findings that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        if not self:
            return html.block(html.paragraph("There are no findings."))
        rows = [[one.severity, f"{one.text} {one.todo}".strip(), _saving(one)] for one in self]
        columns = ("Severity", "Finding and fix", "Saves per step")
        count = 3 if any(row[2] for row in rows) else 2
        return html.block(html.table(columns[:count], [row[:count] for row in rows], numbers=(2,)))


def finding(notice: Notice) -> Finding:
    """Converts a notice to a finding: inserts the numbers into its sentences."""
    values = {figure.metric.key: format_value(figure.value, figure.metric.unit) for figure in notice.figures}
    saving = notice.saving
    return Finding(
        notice.rule,
        notice.severity,
        fill(notice.text, values),
        fill(notice.todo, values),
        [_figure(figure) for figure in notice.figures],
        notice.measure,
        notice.threshold,
        _evidence(notice),
        fill(notice.why, values),
        notice.confidence,
        *((None, None, None) if saving is None else (saving.low_ns, saving.high_ns, saving.shared_ns)),
    )


def findings(payloads: Iterable[object], *, answers: bool = False) -> list[Finding]:
    """Returns the findings in order, equal ones once. ``answers`` adds the sentences that answer views."""
    return _of(payloads, "training", *(("answer",) if answers else ()))


def answers(payloads: Iterable[object]) -> list[Finding]:
    """Returns the sentences that answer views."""
    return _of(payloads, "answer")


def with_finding_count(
    facts: Mapping[str, int | float | None], payloads: Iterable[object]
) -> dict[str, int | float | None]:
    """Returns the facts. If they include the number of findings, replaces it by the number of findings in
    ``payloads``.

    The number in the Findings view includes only findings of rules. Other views have findings as well.
    """
    return {**facts, **({COUNT: len(findings(payloads))} if COUNT in facts else {})}


def data_notices(payloads: Iterable[object]) -> list[Finding]:
    """Returns the data notices among payloads, in order and without duplicates."""
    return _of(payloads, "data")


def facts_of(view: View) -> dict[str, Scalar]:
    """Returns the facts of a view of all workers, by name ``<view>.<key>``. Empty if the view has no facts.

    Facts are the numbers in the payload ``facts``. The page and the report use the same numbers.
    """
    held = view.payloads.get("facts")
    figures = held.figures if isinstance(held, Figures) else []
    return {f"{view.id}.{figure.metric.key}": figure.value for figure in figures}


def _of(payloads: Iterable[object], *about: str) -> list[Finding]:
    found: dict[tuple[str, str], Finding] = {}
    for payload in payloads:
        if isinstance(payload, Notices) and payload.about in about:
            said = [*found.values()]
            new = [finding(notice) for notice in payload.notices]
            for one in new if payload.about == "data" else (one for one in new if not _repeats(one, said)):
                found.setdefault((one.rule, one.text), one)  # several views may report the same finding
    return list(found.values())


def _repeats(one: Finding, earlier: Iterable[Finding]) -> bool:
    same = [other for other in earlier if other.rule == one.rule]
    device = _device(one)
    return any(other.text.startswith(one.text) or (device and device == _device(other)) for other in same)


def _saving(one: Finding) -> str:
    if one.saving_low_ns is None or one.saving_high_ns is None:
        return ""
    return format_range(one.saving_low_ns, one.saving_high_ns, "ns")


def _device(one: Finding) -> Scalar:
    return next((each.value for each in one.figures if each.key == "device"), None)


def _figure(figure: Figure) -> FindingFigure:
    metric = figure.metric
    return FindingFigure(metric.key, metric.title, metric.unit, figure.value)


def _evidence(notice: Notice) -> Evidence | None:
    link = notice.evidence
    if link is None:
        return None
    start, end = (_whole(link.params.get(key, "")) for key in ("start_ns", "end_ns"))
    window = None if start is None or end is None else EventsWindow(start, end)
    event = _whole(link.params.get("event", ""))
    named = [] if event is None else [event]
    return Evidence(link.view, link.params, notice.events or named, window)


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
