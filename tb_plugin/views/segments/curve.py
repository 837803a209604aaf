"""Reserved bytes over the history, by stream and pool."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.phrases import counted
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.labels import pool_texts, stream_texts
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.model.snapshot.table import NEVER
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Line, Series

Int64 = npt.NDArray[np.int64]

LINES = 8
"""Streams and pools with a line of their own, those that ever held most; the others are one."""
COLORS = tuple(f"slice{i}" for i in range(LINES + 1) if i != 2)
"""Colours of these lines: all slices but that with the colour of the reserved bytes of all."""
WIDTH = 1000
"""Points that are drawn at most; of events between two the highest sum is kept."""


def reserved_of(held: DeviceLevels) -> Series:
    """Returns how many bytes the segments of each stream and pool hold after each event at which that changes."""
    begin, end, size = (held.segment(name).astype(np.int64) for name in ("begin", "end", "size"))
    keys = np.stack((held.segment("pool"), held.segment("stream")), axis=1)
    found, of = np.unique(keys, axis=0, return_inverse=True)
    of = of.reshape(-1)
    over = np.flatnonzero(end != NEVER)
    event = np.concatenate((begin, end[over]))
    change, whose = np.concatenate((size, -size[over])), np.concatenate((of, of[over]))
    at, place = np.unique(event, return_inverse=True)
    place = place.reshape(-1)
    ends = [MISSING, max(held.count - 1, MISSING)]
    x = np.unique(np.concatenate((at, np.array(ends))))
    total = np.zeros((len(found), len(x)), np.int64)
    np.add.at(total, (whose, np.searchsorted(x, at)[place]), change)
    total = np.cumsum(total, axis=1)
    kept = _kept(x, total.sum(axis=0))
    most = np.argsort(-total.max(axis=1, initial=0), kind="stable")
    pools, streams = (
        pool_texts(held.snapshot, found[:, 0]).to_pylist(),
        stream_texts(held.snapshot, found[:, 1]).to_pylist(),
    )
    whole = Line(METRICS.metric("pool_reserved_bytes"), "memcpy", total.sum(axis=0)[kept].tolist())
    lines = [whole] if len(most) != 1 else []
    for i, one in enumerate(most[:LINES].tolist()):
        title = f"{pools[one] or 'unknown'} pool, stream {streams[one] or 'unknown'}"
        lines.append(Line(METRICS.metric("pool_reserved_bytes", title=title), COLORS[i], total[one, kept].tolist()))
    if len(most) > LINES:
        rest = total[most[LINES:]][:, kept].sum(axis=0)
        title = counted(len(most) - LINES, "other")
        lines.append(Line(METRICS.metric("pool_reserved_bytes", title=title), "rest", rest.tolist()))
    return Series("reserved", "Reserved by stream and pool", held.name, METRICS.metric("event_number"),
                  x[kept].tolist(), lines, "lines")  # fmt: skip


def _kept(x: Int64, total: Int64) -> Int64:
    """Positions to draw: all, or of each of many columns the last and the highest."""
    if len(x) <= WIDTH:
        return np.arange(len(x))
    column = (x - x[0]) * (WIDTH // 2) // max(int(x[-1] - x[0]) + 1, 1)
    last = np.flatnonzero(np.diff(column, append=column[-1] + 1))
    order = np.lexsort((-total, column))
    highest = order[np.diff(column[order], prepend=-1) != 0]
    return np.unique(np.concatenate((np.zeros(1, np.int64), last, highest)))
