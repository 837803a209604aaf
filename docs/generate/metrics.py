"""Metrics: title, unit and definition of every number."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping

from tb_plugin import analysis, rules, views
from tb_plugin.analysis.metrics import SHARED, Metrics
from tb_plugin.extensions import BUNDLED
from tb_plugin.payloads import Metric

_HEAD = """# Metrics

[Concepts](../concepts/time.md) explain the terms. Times are integer nanoseconds, ratios 0 to 1.
The page and text output show larger units. The same keys name columns and figures in JSON and Python."""


def _by_module() -> dict[str, Mapping[str, Metric]]:
    """Returns the metrics that each module defines, and the metrics that several modules share."""
    own: dict[str, Mapping[str, Metric]] = {"shared": SHARED}
    known = {id(metric) for metric in SHARED.values()}
    seen: set[int] = set()
    packages = (analysis, rules, views, *map(importlib.import_module, BUNDLED))
    for name in (each.name for p in packages for each in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")):
        metrics = vars(importlib.import_module(name)).get("METRICS")
        if isinstance(metrics, Metrics) and id(metrics) not in seen:
            seen.add(id(metrics))
            own[name] = {key: metric for key, metric in metrics.items() if id(metric) not in known}
            known |= {id(metric) for metric in metrics.values()}
    return own


BY_MODULE = _by_module()


def _sections() -> Iterator[tuple[str, list[Metric]]]:
    """Yields the metrics of each view. Metrics of several views come first."""
    found: dict[str, list[Metric]] = {}
    for module, metrics in BY_MODULE.items():
        parts = module.split(".")
        depth = 1 if parts[0] in BUNDLED else 2
        section = "rules" if "rules" in parts else parts[min(depth, len(parts) - 1)]
        found.setdefault(section, []).extend(metrics.values())
    yield "Several views", found.pop("shared")
    for section in sorted(found):
        if found[section]:
            yield section.replace("_", " ").capitalize(), found[section]


def page() -> str:
    """Returns the page."""
    lines = [_HEAD]
    for title, metrics in _sections():
        lines += ["", f"## {title}", "|key|unit|title|definition|", "|---|---|---|---|"]
        lines += [f"|`{each.key}`|{each.unit}|{each.title}|{each.definition}|" for each in metrics]
    return "\n".join(lines)
