"""A person's file of rules about what kernels do, on its way from who reads it to who applies it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RuleFile:
    """A RuleFile holds the text as it was read; ``problem`` says why it was not."""

    text: str = ""
    problem: str = ""
