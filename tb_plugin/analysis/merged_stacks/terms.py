"""Names of the numbers of merged stacks.

Host and device time of a trace, or the units of a stack file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tb_plugin.analysis.metrics import Metrics

Value = TypeVar("Value")


@dataclass(frozen=True)
class Terms:
    """The shown numbers and their metric keys. ``weight`` is the sort order: "host" or "device"."""

    metrics: Metrics
    weight: str = "host"
    has_device: bool = False
    has_kinds: bool = True
    """True if the kinds of frames (Python calls, operators, ...) are known."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Metric keys that replace those of a trace; empty = not shown. Missing keys stay."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Returns the columns that are sent but not shown."""
        return () if self.has_kinds else ("node_kind",)

    def key(self, number: str) -> str:
        """Returns the key of the metric that shows a number."""
        return self.keys.get(number, number)

    def shown_numbers(self, numbers: Mapping[str, Value]) -> dict[str, Value]:
        """Returns the shown numbers, by metric key."""
        shown = (number for number in numbers if (self.has_device or "device" not in number) and self.key(number))
        return {self.key(number): numbers[number] for number in shown}
