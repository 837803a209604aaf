"""Facts: named numbers of a view of all workers."""

from __future__ import annotations

from tb_plugin.payloads import Figures, Scalar, View


def facts_of(view: View) -> dict[str, Scalar]:
    """Returns the facts of a view of all workers as ``<view>.<key>``; empty if it has none.

    They come from the payload ``facts``, as on the page and in the report.
    """
    held = view.payloads.get("facts")
    figures = held.figures if isinstance(held, Figures) else []
    return {f"{view.id}.{figure.metric.key}": figure.value for figure in figures}
