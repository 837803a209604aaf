"""Steps of two inference servers by mode."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.payloads import Column
from tb_plugin.views.diff.metrics import METRICS

NAME = "serving_modes"
_VALUES = ("mode_steps", "mode_mean_ns", "mode_p95_ns", "mode_tokens_per_second")


def modes_frame(base: Part, exp: Part) -> dict[str, Frame]:
    """Returns one row per mode that either side has; empty if there are no modes."""
    sides = {side: part.frames[NAME] for side, part in (("base", base), ("exp", exp)) if NAME in part.frames}
    if not sides:
        return {}
    rows = {side: {row["mode"]: row for row in frame.data.to_pylist()} for side, frame in sides.items()}
    names = sorted({name for of in rows.values() for name in of})
    data: dict[str, list[Any]] = {"mode": names}
    for value in _VALUES:
        for side in ("base", "exp"):
            data[f"{side}_{value}"] = [rows.get(side, {}).get(name, {}).get(value) for name in names]
    pairs = list(zip(data["base_mode_mean_ns"], data["exp_mode_mean_ns"], strict=True))
    data["delta_mode_mean_ns"] = [None if None in pair else pair[1] - pair[0] for pair in pairs]
    data["mode_time_ratio"] = [pair[1] / pair[0] if None not in pair and pair[0] else None for pair in pairs]
    types = {
        key: pa.string() if key == "mode" else pa.int64() if key.endswith("_steps") else pa.float64() for key in data
    }
    lent = next(column for frame in sides.values() for column in frame.columns if column.metric.key == "mode")
    return {
        NAME: Frame(
            name=NAME,
            title="Modes",
            columns=[Column(lent.metric), *METRICS.columns(*(key for key in data if key != "mode"))],
            data=pa.table({key: pa.array(values, types[key]) for key, values in data.items()}),
            row_key=("mode",),
            name_column="mode",
        )
    }
