"""Named numbers of views about all workers, flat."""

from __future__ import annotations

from tb_plugin.payloads import Figures, Scalar, View


def facts_of(view: View) -> dict[str, Scalar]:
    """Returns the named numbers of a view about all workers, by ``<view>.<key>``; empty if it has none.

    They come from its payload ``facts``, which the page, the report and Python share.
    """
    held = view.payloads.get("facts")
    figures = held.figures if isinstance(held, Figures) else []
    return {f"{view.id}.{figure.metric.key}": figure.value for figure in figures}
