"""All metrics of the product, gathered from the views that define them."""

from __future__ import annotations

from docs.generate.metrics import BY_MODULE as BY_VIEW
from tb_plugin.analysis.metrics import Metrics

__all__ = ["ALL", "BY_VIEW"]

ALL = Metrics(*BY_VIEW.values())
