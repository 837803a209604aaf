"""Longest paths between collectives of one rank."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.critical_path.graph import Link, dependencies
from tb_plugin.analysis.critical_path.longest import LongestPaths
from tb_plugin.analysis.critical_path.steps import paths_of_steps
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import measure_within
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable


class PathsTo(msgspec.Struct, frozen=True, eq=False):
    """Longest paths to given times, from the previous collective or the start of the step."""

    collective: Int64
    """Index of this collective; -1 = the path leads to the start of the step."""
    device_ns: Int64
    host_ns: Int64
    lag_ns: Int64
    """Time that the path does not explain."""


def paths_to_collectives(trace: TraceTable, rows: Int64) -> tuple[PathsTo, PathsTo]:
    """Returns the paths to the starts of the collectives ``rows``, and the paths to the ends of the steps.

    Collectives outside of the steps have an empty path.
    """
    paths = paths_of_steps(trace)
    before = _Between(trace, paths, rows)
    links = paths.links
    # Time on the first chain of each dependency.
    to_links = before.segments(
        paths.step, links.tail, np.maximum(links.tail_ns, before.start_ns[paths.step]), paths.previous
    )
    weight = links.head_ns - np.maximum(links.tail_ns, before.start_ns[paths.step]) - links.lag_ns
    on_device = links.kind == Link.STREAM
    to_links = PathsTo(
        to_links.collective,
        to_links.device_ns + np.where(on_device, weight, 0),
        to_links.host_ns + np.where(on_device, 0, weight),
        to_links.lag_ns + links.lag_ns,
    )
    whole = _added_up(to_links, paths.previous)
    start = trace.start_ns[rows]
    step = trace.steps.at(start - 1)
    known = step != MISSING
    step = np.where(known, step, 0)
    chain = hardware_streams(trace).of[rows].astype(np.int64)
    ends = paths.windows.end_ns
    every = np.arange(len(ends))
    to_calls = before.extended(whole, step, chain, start)
    to_calls = PathsTo(
        np.where(known, to_calls.collective, MISSING),
        *(np.where(known, each, 0) for each in (to_calls.device_ns, to_calls.host_ns, to_calls.lag_ns)),
    )
    return to_calls, before.extended(whole, every, paths.goal, ends)


class _Between:
    def __init__(self, trace: TraceTable, paths: LongestPaths, rows: Int64) -> None:
        self.start_ns = paths.windows.start_ns
        self._trace, self._paths, self._graph = trace, paths, dependencies(trace)
        streams = hardware_streams(trace).of[rows]
        self._calls = {int(each): np.flatnonzero(streams == each) for each in np.unique(streams).tolist()}
        self._begin, self._end = trace.start_ns[rows], trace.ends(rows)

    def segments(self, step: Int64, chain: Int64, until: Int64, previous: Int64) -> PathsTo:
        """Returns the time on each chain since the dependency ``previous``, or since the last collective after it."""
        since = np.where(previous != MISSING, np.append(self._paths.links.head_ns, 0)[previous], self.start_ns[step])
        found = np.full(len(chain), MISSING, np.int64)
        device, host, lag = (np.zeros(len(chain), np.int64) for _ in range(3))
        for each in np.unique(chain).tolist():
            mine = np.flatnonzero(chain == each)
            begin = since[mine]
            if each in self._calls:
                calls = self._calls[each]
                place = np.searchsorted(self._begin[calls], until[mine]) - 1
                last = calls[place]
                is_later = (place >= 0) & (self._begin[last] >= begin)
                found[mine] = np.where(is_later, last, MISSING)
                begin = np.where(is_later, np.minimum(self._end[last], until[mine]), begin)
            begin = np.minimum(begin, until[mine])
            lag[mine] = measure_within(self._graph.lags_of(each), begin, until[mine])
            is_host = each < len(self._trace.tracks) and not self._trace.tracks[each].is_device
            (host if is_host else device)[mine] = until[mine] - begin - lag[mine]
        return PathsTo(found, device, host, lag)

    def extended(self, to_links: PathsTo, step: Int64, chain: Int64, until: Int64) -> PathsTo:
        """Returns the paths to times of chains."""
        previous = self._paths.last_link(step, chain, until)
        own = self.segments(step, chain, until, previous)
        on = (own.collective == MISSING) & (previous != MISSING)
        names = ("device_ns", "host_ns", "lag_ns")
        more = (getattr(own, name) + np.where(on, np.append(getattr(to_links, name), 0)[previous], 0) for name in names)
        collective = np.where(on, np.append(to_links.collective, MISSING)[previous], own.collective)
        return PathsTo(collective, *more)


def _added_up(own: PathsTo, previous: Int64) -> PathsTo:
    """Adds the previous dependencies up to a collective. Each round doubles the number of added dependencies."""
    found, device, host, lag = own.collective.copy(), own.device_ns.copy(), own.host_ns.copy(), own.lag_ns.copy()
    following = np.where(found == MISSING, previous, MISSING)
    while (at := np.flatnonzero(following != MISSING)).size:
        source = following[at]
        for values in (device, host, lag):
            values[at] = values[at] + values[source]
        found[at], following[at] = found[source], following[source]
    return PathsTo(found, device, host, lag)
