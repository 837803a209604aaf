"""Rules: what each detects, and what it needs."""

from __future__ import annotations

from tb_plugin.rules import RULES


def page() -> str:
    """Returns the page."""
    return "\n".join(["# Rules", "", *(f"- `{rule.id}`: {rule.title}" for rule in RULES)])
