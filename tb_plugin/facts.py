"""What a machine reads of a view about all workers: its named numbers, flat, as those of a profile are."""

from __future__ import annotations

from tb_plugin.payloads import Figures, Scalar, View


def facts_of(view: View) -> dict[str, Scalar]:
    """Returns the named numbers of a view about all workers, by ``<view>.<key>``; empty where it has none.

    They are its payload ``facts``, one definition for the page, the report and Python.
    """
    held = view.payloads.get("facts")
    figures = held.figures if isinstance(held, Figures) else []
    return {f"{view.id}.{figure.metric.key}": figure.value for figure in figures}
