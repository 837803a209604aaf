"""What the numbers of merged stacks are called: host and device time of a trace, or whatever a file of stacks counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tb_plugin.analysis.metrics import Metrics

Value = TypeVar("Value")


@dataclass(frozen=True)
class Terms:
    """Terms say which numbers are shown, under which keys. ``weight`` is what rows are ordered by: "host" or "device"."""

    metrics: Metrics
    weight: str = "host"
    has_device: bool = False
    has_kinds: bool = True
    """It is known of frames what they are: calls of Python, operators, ..."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Key of a metric for that of a number of a trace; empty: the number is not shown. Others keep theirs."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Returns columns that are sent and not shown."""
        return () if self.has_kinds else ("node_kind",)

    def key(self, number: str) -> str:
        """Returns the key of the metric that shows a number."""
        return self.keys.get(number, number)

    def named(self, numbers: Mapping[str, Value]) -> dict[str, Value]:
        """Returns the numbers that are shown, by the keys of their metrics."""
        shown = (number for number in numbers if (self.has_device or "device" not in number) and self.key(number))
        return {self.key(number): numbers[number] for number in shown}
