"""Declarations of the memory view's findings."""

from __future__ import annotations

import msgspec


class Check(msgspec.Struct, frozen=True):
    """A finding of the memory view, with its Markdown texts for docs/reference/rules.md."""

    id: str
    detects: str
    threshold: str
    severity: str
    notes: str = ""
    cases: tuple[str, ...] = ("",)
    """Cases of the finding with different advice; "" is the default case."""

    def advice_key(self, case: str = "") -> str:
        """Returns the key of the advice in ``profilers``. Raises KeyError if the finding does not declare this case."""
        if case not in self.cases:
            raise KeyError(f"{self.id} declares no advice for the case {case!r}.")
        return f"{self.id}.{case}" if case else self.id
