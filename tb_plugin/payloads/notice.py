"""Notices: findings about the training, and notices about the data."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Figure, Link

Severity = Literal["high", "medium", "low", "info"]


class Reference(Struct, frozen=True):
    """An external document, shown as a link."""

    text: str
    url: str


class Saving(Struct, frozen=True):
    """Estimated time saved per step if the problem is fixed, in nanoseconds.

    It is between ``low_ns`` and ``high_ns``. ``shared_ns`` of the upper bound is also part of other findings'
    savings. ``step_ns`` is the mean step time.
    """

    low_ns: float
    high_ns: float
    shared_ns: float
    step_ns: float = 0.0


class Notice(Struct, frozen=True, tag_field="kind", tag="notice"):
    """One finding.

    ``text``, ``why`` and ``todo`` are templates: ``{key}`` is replaced by the figure with that metric key.
    ``measure`` is the key of the figure that was compared with ``threshold``.
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
    """Short title; may be empty."""
    why: str = ""
    """Why it matters."""
    confidence: Literal["high", "medium", "low", ""] = ""
    """Confidence that this is the cause; empty = not rated."""
    saving: Saving | None = None
    """None if the saving is unknown."""
    events: list[int] = []
    """Numbers of some events that show the finding, most important first."""
    event_count: int = 0
    """Number of all events that show the finding."""


class Notices(Struct, frozen=True, tag_field="kind", tag="notices"):
    """Findings, most important first. ``about`` is their subject: the training, the data, or the view's question."""

    name: str
    title: str
    about: Literal["answer", "training", "data"]
    notices: list[Notice]
