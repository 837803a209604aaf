"""Donut charts of tables: the largest rows and all other rows."""

from __future__ import annotations

import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.lib.tables import sorted_by
from tb_plugin.payloads import Breakdown, Link, Metric, Slice

SLICES = 10


def donut(name: str, title: str, frame: Frame, key: str, view: str, group: str = "", color: str = "") -> Breakdown:
    """Returns a donut of the largest rows by ``key`` and the rest. Slices link to ``group``, by default the first table.

    ``color`` names the column with the categories that color the slices. By default, each slice has a color of its own.
    """
    data = sorted_by(frame.data, [(key, "descending")])
    total = int(pc.sum(data[key]).as_py() or 0)
    (definition,) = (column.metric for column in frame.columns if column.metric.key == key)
    slices = []
    where = {"group": group} if group else {}
    for i, row in enumerate(data.slice(0, SLICES).to_pylist()):
        if row[key] > 0:
            text = str(row[frame.name_column])
            metric = Metric(
                text, row.get("readable") or text, definition.unit, definition.definition, definition.window
            )
            link = Link(view, where | {"where": f"{frame.name_column}:{text}"}, text)
            slices.append(Slice(metric, row[color] if color else f"slice{i}", row[key], link))
    rest = total - sum(int(s.value) for s in slices)
    if rest:
        others = data.num_rows - len(slices)
        text = f"{others} others"
        slices.append(Slice(Metric("rest", text, definition.unit, "All other rows.", definition.window), "rest", rest))
    return Breakdown(name, title, definition.definition, definition.unit, total, slices, "donut")
