"""Facts: the numbers of a view of all workers, by name."""

from __future__ import annotations

from tb_plugin.payloads import Figures, Scalar, View


def facts_of(view: View) -> dict[str, Scalar]:
    """Returns the facts of a view of all workers, by name ``<view>.<key>``. Empty if the view has no facts.

    Facts are the numbers in the payload ``facts``. The page and the report use the same numbers.
    """
    held = view.payloads.get("facts")
    figures = held.figures if isinstance(held, Figures) else []
    return {f"{view.id}.{figure.metric.key}": figure.value for figure in figures}
