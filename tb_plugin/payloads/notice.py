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


class Notices(Struct, frozen=True, tag_field="kind", tag="notices"):
    """A Notices lists findings, most important first; ``about`` tells those on the training from those on the data."""

    name: str
    title: str
    about: Literal["answer", "training", "data"]
    notices: list[Notice]
