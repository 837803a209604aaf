"""Figures: a few numbers with names, such as a headline."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Figure


class Figures(Struct, frozen=True, tag_field="kind", tag="figures"):
    """Numbers with names, about one subject."""

    name: str
    title: str
    subtitle: str
    figures: list[Figure]
    style: Literal["headline", "list"] = "list"
