"""Notices: findings about the training and about the trace itself."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Figure, Link

Severity = Literal["high", "medium", "low", "info"]


class Reference(Struct, frozen=True):
    """A reference names an outside document; the page shows it as a link that the person may follow."""

    text: str
    url: str


class Saving(Struct, frozen=True):
    """By how much a step would be shorter without what a finding is about: nanoseconds, means over the steps.

    The truth lies between ``low_ns`` and ``high_ns``; ``shared_ns`` of the latter other findings would save as well.
    ``step_ns`` is the mean time of a step.
    """

    low_ns: float
    high_ns: float
    shared_ns: float
    step_ns: float = 0.0


class Notice(Struct, frozen=True, tag_field="kind", tag="notice"):
    """A notice is one finding.

    ``text`` and ``todo`` are templates: ``{key}`` stands for the figure with that metric key. ``measure`` is the key of
    the figure shown as the badge, ``threshold`` the value it was compared with.
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
    """What it is about, in a few words; empty: its text says all."""
    why: str = ""
    """Why it matters, a template as well."""
    confidence: Literal["high", "medium", "low", ""] = ""
    """How sure it is that what was seen is the cause; empty: no more than its text says."""
    saving: Saving | None = None
    """None where nobody can tell what mending it would save."""
    events: list[int] = []
    """Numbers of events that show it, what matters most first; not all of them."""
    shown_by: int = 0
    """How many events show it."""


class Notices(Struct, frozen=True, tag_field="kind", tag="notices"):
    """A Notices lists findings, most important first; ``about`` tells those on the training from those on the data."""

    name: str
    title: str
    about: Literal["answer", "training", "data"]
    notices: list[Notice]
