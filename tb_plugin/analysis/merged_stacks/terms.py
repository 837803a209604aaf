"""Metrics of merged stacks.

For a trace, the metrics are host and device time. For a stack file, they depend on the units in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from tb_plugin.analysis.metrics import Metrics

Value = TypeVar("Value")


class Terms(msgspec.Struct, frozen=True):
    """The numbers to show, and their metric keys.

    ``weight`` is the number by which nodes are sorted: "host" or "device".
    """

    metrics: Metrics
    weight: str = "host"
    has_device: bool = False
    has_kinds: bool = True
    """Whether the kinds of frames are known, such as Python calls and operators."""
    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Metric keys that replace those of a trace. If a key is empty, its number is hidden."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Returns the columns that are sent but not shown."""
        return () if self.has_kinds else ("node_kind",)

    def key(self, number: str) -> str:
        return self.keys.get(number, number)

    def metric_values(self, numbers: Mapping[str, Value]) -> dict[str, Value]:
        """Returns the numbers to show, by metric key."""
        shown = (number for number in numbers if (self.has_device or "device" not in number) and self.key(number))
        return {self.key(number): numbers[number] for number in shown}
