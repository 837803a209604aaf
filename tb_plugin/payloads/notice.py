"""Notices: findings about the training, and notices about the data."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Figure, Link

Severity = Literal["high", "medium", "low", "info"]


class Reference(Struct, frozen=True):
    text: str
    url: str


class Saving(Struct, frozen=True):
    """Estimated time saved per step by the fix, in nanoseconds.

    The saving is between ``low_ns`` and ``high_ns``. Savings of several findings overlap: ``shared_ns`` is the part
    of ``high_ns`` that other findings include as well. ``step_ns`` is the mean step time.
    """

    low_ns: float
    high_ns: float
    shared_ns: float
    step_ns: float = 0.0


class Notice(Struct, frozen=True, tag_field="kind", tag="notice"):
    """One finding or one notice about the data.

    ``text``, ``why`` and ``todo`` are templates. ``{key}`` is replaced by the number with that metric key.
    ``measure`` is the key of the number that was compared with ``threshold``.
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
    why: str = ""
    confidence: Literal["high", "medium", "low", ""] = ""
    """Confidence that the reported cause is right; empty = not rated."""
    saving: Saving | None = None
    events: list[int] = []
    """Numbers of some events that show the finding, most important first."""
    event_count: int = 0
    snippet: str = ""
    """Code of the fix, as plain text; empty = none."""


class Notices(Struct, frozen=True, tag_field="kind", tag="notices"):
    """Findings, most important first. ``about`` is their subject: the training, the data, or the question of the view."""

    name: str
    title: str
    about: Literal["answer", "training", "data"]
    notices: list[Notice]
