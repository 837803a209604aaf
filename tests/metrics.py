"""All metrics of the product, gathered from the views that define them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from tb_plugin import analysis, rules, views
from tb_plugin.analysis.metrics import SHARED, Metrics
from tb_plugin.payloads import Metric


def _by_view() -> dict[str, Mapping[str, Metric]]:
    """What each module defines itself, and what they share: one object is one definition."""
    own: dict[str, Mapping[str, Metric]] = {"shared": SHARED}
    known = {id(metric) for metric in SHARED.values()}
    seen: set[int] = set()
    packages = (analysis, rules, views)
    for name in (each.name for p in packages for each in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")):
        metrics = vars(importlib.import_module(name)).get("METRICS")
        if isinstance(metrics, Metrics) and id(metrics) not in seen:
            seen.add(id(metrics))
            own[name] = {key: metric for key, metric in metrics.items() if id(metric) not in known}
            known |= {id(metric) for metric in metrics.values()}
    return own


BY_VIEW = _by_view()
ALL = Metrics(*BY_VIEW.values())
