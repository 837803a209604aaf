"""Notices: findings about the training and about the trace."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Figure, Link

Severity = Literal["high", "medium", "low", "info"]


class Reference(Struct, frozen=True):
    """A reference is an external document, shown as a link."""

    text: str
    url: str


class Saving(Struct, frozen=True):
    """A saving is the estimated time per step without the problem: nanoseconds, means over the steps.

    It is between ``low_ns`` and ``high_ns``; other findings share ``shared_ns`` of the upper bound. ``step_ns`` is the
    mean step time.
    """

    low_ns: float
    high_ns: float
    shared_ns: float
    step_ns: float = 0.0


class Notice(Struct, frozen=True, tag_field="kind", tag="notice"):
    """A notice is one finding.

    ``text`` and ``todo`` are templates: ``{key}`` is replaced by the figure with that metric key. ``measure`` is the
    key of the figure in the badge, ``threshold`` the value it was compared with.
    """

    rule: str
    severity: Severity
    text: str
    todo: str
    figures: list[Figure] = []
    measure: str | None = None
    threshold: float | None = None
    evidence: Link | None = None
    references: list[Reference] = []
    title: str = ""
    """A short title; empty: the text is enough."""
    why: str = ""
    """Why it matters, a template as well."""
    confidence: Literal["high", "medium", "low", ""] = ""
    """Confidence that the observation is the cause; empty: not rated."""
    saving: Saving | None = None
    """None if the saving cannot be estimated."""
    events: list[int] = []
    """Numbers of some events that show it, most important first."""
    event_count: int = 0
    """Number of events that show it."""


class Notices(Struct, frozen=True, tag_field="kind", tag="notices"):
    """A Notices lists findings, most important first; ``about`` says whether they concern the training or the data."""

    name: str
    title: str
    about: Literal["answer", "training", "data"]
    notices: list[Notice]
