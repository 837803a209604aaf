"""Metrics: title, unit and definition of every number."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin.extensions import BUNDLED
from tb_plugin.payloads import Metric
from tb_plugin.registry import metrics_by_module

_HEAD = """# Metrics

[Concepts](../concepts/time.md) explain the terms. Times are integer nanoseconds, ratios 0 to 1.
The page and text output show larger units. The same keys name columns and figures in JSON and Python."""


BY_MODULE = metrics_by_module()


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
