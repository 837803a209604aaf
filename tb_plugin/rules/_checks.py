"""Findings of one view, about memory."""

from __future__ import annotations

import msgspec


class Check(msgspec.Struct, frozen=True):
    """A finding of a view: what docs/reference/rules.md says about it. Texts are Markdown sentences."""

    id: str
    detects: str
    threshold: str
    severity: str
    notes: str = ""
    cases: tuple[str, ...] = ("",)
    """Cases with advice of their own; "" is the usual one."""

    def advice_key(self, case: str = "") -> str:
        """Returns the key of its advice in ``profilers``. Raises KeyError for a case that is not declared."""
        if case not in self.cases:
            raise KeyError(f"{self.id} declares no advice for the case {case!r}.")
        return f"{self.id}.{case}" if case else self.id
