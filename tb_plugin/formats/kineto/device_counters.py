"""GPU counters of Kineto, with the device and unit of each series."""

from __future__ import annotations

import re

import numpy as np
from msgspec.structs import replace

from tb_plugin.devices import unit_of_counter
from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.lib.arrays import Bool
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import CounterEvents, CounterSeries

MOST_OF_ONE_NAME = 16  # groups of equally named series with more members are not renumbered
_PROCESS = re.compile(r"GPU (\d+) Counters\Z")


def of_devices(counters: CounterEvents, interner: Interner) -> tuple[CounterEvents, CounterSeries]:
    """Returns the counters, and the device and unit of each series. Series of the same device get unique names."""
    devices = {
        int(pid): found[1] for pid in np.unique(counters.pid) if (found := _PROCESS.match(interner.texts[int(pid)]))
    }
    if not devices:
        return counters, CounterSeries()
    counters = _numbered_series(counters, np.isin(counters.pid, list(devices)), interner)
    rows = np.flatnonzero(np.isin(counters.pid, list(devices)))
    pid, name, series = np.unique(np.stack([c[rows] for c in (counters.pid, counters.name, counters.series)]), axis=1)
    units = [unit_of_counter(interner.texts[each]) for each in name.tolist()]
    known = CounterSeries(
        pid=pid,
        name=name,
        series=series,
        unit=np.array([interner.text(unit) if unit else MISSING for unit in units], np.int32),
        device=np.array([interner.text(devices[each]) for each in pid.tolist()], np.int32),
    )
    return counters, known


def _numbered_series(counters: CounterEvents, chosen: Bool, interner: Interner) -> CounterEvents:
    """Numbers the series that always have the same count of values at one time, aggregated in several ways."""
    rows = np.flatnonzero(chosen)
    _, key = np.unique(
        np.stack([column[rows] for column in (counters.pid, counters.name, counters.series)]),
        axis=1,
        return_inverse=True,
    )
    pairs = np.stack((key.ravel().astype(np.int64), counters.time_ns[rows]))
    moments, moment, size = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
    most, least = (np.full(int(moments[0][-1]) + 1, start, np.int64) for start in (0, len(rows)))
    np.maximum.at(most, moments[0], size)
    np.minimum.at(least, moments[0], size)
    order = np.argsort(moment.ravel(), kind="stable")
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows)) - np.repeat(np.cumsum(size) - size, size)
    renamed = np.flatnonzero(((most > 1) & (most <= MOST_OF_ONE_NAME) & (least == most))[key.ravel()])
    pairs = np.stack((counters.series[rows[renamed]].astype(np.int64), place[renamed]))
    names, which = np.unique(pairs, axis=1, return_inverse=True)
    ids = [interner.text(f"{interner.texts[text]} #{number + 1}".strip()) for text, number in names.T.tolist()]
    series = counters.series.copy()
    series[rows[renamed]] = np.array(ids, np.int32)[which.ravel()]
    return replace(counters, series=series)
