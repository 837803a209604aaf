"""Findings and data notices with their sentences filled in, for machines.

JSON of ``report`` and ``diff`` and the Python API use the same shape. The page gets templates and figures instead and
fills them in itself (payloads/notice.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tb_plugin.format import fill, format_value
from tb_plugin.payloads import Figure, Notice, Notices, Scalar, Severity, Unit

COUNT = "findings.count"


class FindingFigure(Struct, frozen=True):
    """A number of a finding. ``key`` is its key in docs/reference/metrics.md."""

    key: str
    title: str
    unit: Unit
    value: Scalar


class EventsWindow(Struct, frozen=True):
    """A range of time, nanoseconds from the start of the trace."""

    start_ns: int
    end_ns: int


class Evidence(Struct, frozen=True):
    """A view with parameters (docs/http.md), events and a time range that show the finding.

    ``events`` are event numbers, most important first; may be empty.
    """

    view: str
    parameters: dict[str, str]
    events: list[int]
    window: EventsWindow | None


class Finding(Struct, frozen=True):
    """One finding: rule, severity, sentences and numbers.

    ``text`` is the finding and ``todo`` the fix, both filled in as in text output. ``measure`` is the key of the figure
    compared with ``threshold``. The saving per step is between ``saving_low_ns`` and ``saving_high_ns``; other findings
    share ``saving_shared_ns`` of it. All are None if it cannot be estimated.
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


def finding(notice: Notice) -> Finding:
    """Returns a notice with its sentences filled in."""
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
    """Returns the findings among payloads, in their order.

    Repetitions of earlier payloads are skipped: a rule and the view of its subject may report the same. ``answers``
    adds the sentences that answer the question of a view.
    """
    return _of(payloads, "training", *(("answer",) if answers else ()))


def counted(facts: Mapping[str, int | float | None], payloads: Iterable[object]) -> dict[str, int | float | None]:
    """Returns the facts of a profile with the number of all its findings, if they count any.

    The view Findings counts only rules; other views have findings of their own.
    """
    return {**facts, **({COUNT: len(findings(payloads))} if COUNT in facts else {})}


def data_notices(payloads: Iterable[object]) -> list[Finding]:
    """Returns the notices about the data among payloads, each once, in their order."""
    return _of(payloads, "data")


def _of(payloads: Iterable[object], *about: str) -> list[Finding]:
    found: dict[tuple[str, str], Finding] = {}
    for payload in payloads:
        if isinstance(payload, Notices) and payload.about in about:
            said = [*found.values()]
            new = [finding(notice) for notice in payload.notices]
            for one in new if payload.about == "data" else (one for one in new if not _repeats(one, said)):
                found.setdefault((one.rule, one.text), one)  # several views may say the same
    return list(found.values())


def _repeats(one: Finding, earlier: Iterable[Finding]) -> bool:
    same = [other for other in earlier if other.rule == one.rule]
    device = _device(one)
    return any(other.text.startswith(one.text) or (device and device == _device(other)) for other in same)


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
