"""Roles of device work: sharding, pipeline, offloading, experts.

A role depends on the kind of work and on the ranges that enclose its launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.annotations import launched_by, open_at
from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.communication import exposed_ranges
from tb_plugin.analysis.copy_directions import DIRECTIONS, directions_of
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.analysis.reported_collectives import matching_names, reported_collectives
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import Ranges, intersect, join, measure, measure_within, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable

# Smaller copies are numbers that a program reads, not offloaded tensors.
LEAST_BYTES = 1 << 16
_KEYS = [direction.key for direction in DIRECTIONS]


class Role(IntEnum):
    """Role of device work. If several roles apply, the role that is defined first is used."""

    SEND = 0
    RECEIVE = 1
    EXCHANGE = 2
    GATHER_AHEAD = 3
    GATHER_FORWARD = 4
    GATHER_BACKWARD = 5
    REDUCE_GRADIENTS = 6
    COPY_IN = 7
    COPY_OUT = 8
    OFFLOAD_TO_HOST = 9
    OFFLOAD_TO_DEVICE = 10
    ROUTE = 11
    DISPATCH = 12
    EXPERTS = 13
    COMBINE = 14


PIPELINE = (Role.SEND, Role.RECEIVE, Role.EXCHANGE)
GATHERS = (Role.GATHER_AHEAD, Role.GATHER_FORWARD, Role.GATHER_BACKWARD)
SHARDING = (*GATHERS, Role.REDUCE_GRADIENTS, Role.COPY_IN, Role.COPY_OUT)
OFFLOAD = (Role.OFFLOAD_TO_HOST, Role.OFFLOAD_TO_DEVICE)
MOE = (Role.ROUTE, Role.DISPATCH, Role.EXPERTS, Role.COMBINE)
# Role by its written form.
WORDS = {role.name.lower().replace("_", " "): role for role in Role}
# Roles by training method.
METHODS = {"pipeline": PIPELINE, "sharding": SHARDING, "offload": OFFLOAD, "experts": MOE}


class Roles(msgspec.Struct, frozen=True, eq=False):
    """Device work that has a role, sorted by row."""

    row: Int64
    role: npt.NDArray[np.int8]
    bytes: Int64
    """Number of bytes that are moved (-1 = unknown)."""
    exposed_ns: Int64
    """Exposed time of communication and of offloading copies, in nanoseconds. 0 for work of other roles."""

    def __len__(self) -> int:
        return len(self.row)

    def among(self, *roles: Role) -> Bool:
        """Returns whether each row has one of these roles."""
        return np.isin(self.role, roles)


@cached_by_argument
def roles_of(trace: TraceTable) -> Roles:
    """Returns all device work in the trace that has a role."""
    names = trace.recorder.parallel
    every = (
        names.sharding, names.sending, names.receiving, names.exchanging, names.routing, names.experts,
        names.dispatching, names.combining,
    )  # fmt: skip
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    if not name_matches(trace, "|".join(f"(?:{each})" for each in every if each)).any():
        # Training on one device: only optimizer copies remain to check.
        work = _large_copies(trace, work)
        work = work[_Within(trace, work)(names.offloading)] if len(work) else work
    role = np.full(len(work), MISSING, np.int8)
    if len(work):
        within = _Within(trace, work)
        _communication(trace, work, within, role)
        _offload(trace, work, within, role)
        rest = ~trace.is_collective[work] & (role == MISSING)
        role[rest & within(names.copying_in)] = Role.COPY_IN
        role[rest & within(names.copying_out)] = Role.COPY_OUT
        _experts(trace, work, within, role)
    found = np.flatnonzero(role != MISSING)
    work, role = work[found], role[found]
    return Roles(work, role, _bytes(trace, work), _exposed(trace, work, role))


def _large_copies(trace: TraceTable, work: Int64) -> Int64:
    copies = work[trace.kind[work] == EventKind.MEMCPY]
    large: Int64 = copies[_bytes(trace, copies) >= LEAST_BYTES]
    return large


class _Within:
    """Tests whether device work was launched inside a range whose name matches a pattern."""

    def __init__(self, trace: TraceTable, work: Int64) -> None:
        self._trace = trace
        source = launched_by(trace, work).astype(np.int64)
        self._known = source != MISSING
        source = source[self._known]
        self._track, self._start = trace.track[source], trace.start_ns[source]
        kinds = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.PYTHON)
        self._ranges = of_kind(trace.kind, *kinds)

    def __call__(self, pattern: str) -> Bool:
        none = np.empty(0, np.int64)
        return self._in(np.flatnonzero(name_matches(self._trace, pattern) & self._ranges) if pattern else none)

    @property
    def backward(self) -> Bool:
        """Returns whether each row was launched inside a backward operator."""
        return self._in(backward_operators(self._trace).row)

    def _in(self, ranges: Int64) -> Bool:
        found = np.zeros(len(self._known), np.bool_)
        if len(ranges):
            found[self._known] = open_at(self._trace, ranges, self._track, self._start)
        return found


def _communication(trace: TraceTable, work: Int64, within: _Within, role: npt.NDArray[np.int8]) -> None:
    names, talks = trace.recorder.parallel, trace.is_collective[work]
    if not talks.any():
        return
    rows = np.flatnonzero(talks)
    what = reported_collectives(trace, work[rows])[0]

    def called(*families: str) -> Bool:
        found = np.zeros(len(work), np.bool_)
        found[rows] = matching_names(trace, what, lambda text: collective_name(text) in families)
        return found

    shards = within(names.sharding) & talks
    gathers, reduces = shards & called("all_gather"), shards & called("reduce_scatter", "all_reduce")
    if gathers.any():
        role[gathers] = np.where(within.backward[gathers], Role.GATHER_BACKWARD, Role.GATHER_FORWARD)
        role[gathers & within(names.ahead)] = Role.GATHER_AHEAD
    role[reduces] = Role.REDUCE_GRADIENTS
    # A kernel that sends and receives may be an all-to-all: only recorded facts or a range tell.
    stated = np.zeros(len(work), np.bool_)
    stated[rows] = what != trace.name[work[rows]]
    for one, family, pattern in (
        (Role.EXCHANGE, "send_recv", names.exchanging), (Role.SEND, "send", names.sending),
        (Role.RECEIVE, "recv", names.receiving),
    ):  # fmt: skip
        role[talks & (called(family) & stated | within(pattern)) & (role == MISSING)] = one


def _offload(trace: TraceTable, work: Int64, within: _Within, role: npt.NDArray[np.int8]) -> None:
    at = np.flatnonzero(np.isin(work, _large_copies(trace, work)))
    if not len(at):
        return
    at = at[within(trace.recorder.parallel.offloading)[at]]
    way = directions_of(trace, work[at])
    role[at[way == _KEYS.index("dtoh")]] = Role.OFFLOAD_TO_HOST
    role[at[way == _KEYS.index("htod")]] = Role.OFFLOAD_TO_DEVICE


def _experts(trace: TraceTable, work: Int64, within: _Within, role: npt.NDArray[np.int8]) -> None:
    """Sets the roles of expert work. Without expert GEMMs, only its name gives an all-to-all a role."""
    names, talks = trace.recorder.parallel, trace.is_collective[work]
    kernels = trace.kind[work] == EventKind.KERNEL
    own = {pattern: name_matches(trace, pattern)[work] | within(pattern) for pattern in (names.routing, names.experts)}
    free = (role == MISSING) & kernels & ~talks
    role[free & own[names.experts]] = Role.EXPERTS
    role[free & own[names.routing]] = Role.ROUTE
    products = role == Role.EXPERTS
    for one, pattern in ((Role.DISPATCH, names.dispatching), (Role.COMBINE, names.combining)):
        called = name_matches(trace, pattern)[work]
        role[(called | (talks & within(pattern))) & ((role == MISSING) | (role == Role.ROUTE))] = one
    if not products.any():
        return
    rows = np.flatnonzero(talks & (role == MISSING))
    what = reported_collectives(trace, work[rows])[0]
    rows = rows[matching_names(trace, what, lambda text: collective_name(text) in ("all_to_all", "all_to_allv"))]
    for device in np.unique(trace.device[work[rows]]).tolist():
        mine = rows[trace.device[work[rows]] == device]
        products_here = work[products & (trace.device[work] == device)]
        role[mine] = _by_order(trace, work[mine], products_here)


def _by_order(trace: TraceTable, exchanges: Int64, products: Int64) -> Int64:
    """Returns the role of each all-to-all (-1 = none): DISPATCH before expert GEMMs, COMBINE after them."""
    order = np.argsort(trace.start_ns[exchanges], kind="stable")
    begin, end = trace.start_ns[exchanges][order], trace.ends(exchanges)[order]
    products_here = np.sort(trace.start_ns[products])
    following = np.append(begin[1:], np.iinfo(np.int64).max)
    behind = np.searchsorted(products_here, following, side="left") > np.searchsorted(products_here, end, side="left")
    # Alternating: after a dispatch with products comes a combine, even if other products follow it.
    place = np.arange(len(order))
    before = np.maximum.accumulate(np.where(behind, -1, place))
    odd = (place - before) % 2 == 1  # the first, third, ... in a row with products after them
    found = np.full(len(order), MISSING, np.int64)
    dispatches = behind & odd
    found[order[dispatches]] = Role.DISPATCH
    found[order[1:][dispatches[:-1]]] = Role.COMBINE
    return found


def _bytes(trace: TraceTable, work: Int64) -> Int64:
    """Returns the moved bytes: recorded for copies, computed from elements for collectives (-1 = unknown)."""
    args = trace.device_args
    size = np.full(len(trace), MISSING, np.int64)
    size[args.row] = args.bytes
    found = size[work]
    talks = trace.is_collective[work]
    found[talks] = reported_collectives(trace, work[talks])[1]
    return found


def exposed_ns(trace: TraceTable, mine: Bool) -> int:
    """Returns the exposed time of work selected by a mask over ``roles_of``, without double counting."""
    roles = roles_of(trace)
    found = []
    for alone, some in _exposed_ranges(trace, roles.row, roles.role):
        rows = roles.row[some & mine]
        found.append(intersect(alone, union(trace.start_ns[rows], trace.ends(rows))))
    return measure(join(*found))


def _exposed(trace: TraceTable, work: Int64, role: npt.NDArray[np.int8]) -> Int64:
    """Returns the exposed time of each collective and each offloading copy."""
    found = np.zeros(len(work), np.int64)
    for alone, some in _exposed_ranges(trace, work, role):
        found[some] = measure_within(alone, trace.start_ns[work[some]], trace.ends(work[some]))
    return found


def _exposed_ranges(trace: TraceTable, work: Int64, role: npt.NDArray[np.int8]) -> Iterator[tuple[Ranges, Bool]]:
    """Yields exposed time ranges with their mask: first of communication, then of offloading copies."""
    yield exposed_ranges(trace), trace.is_collective[work]
    copies = np.isin(role, OFFLOAD)
    if copies.any():
        mine = work[copies]
        others = np.setdiff1d(np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK)), mine)
        busy = union(trace.start_ns[others], trace.ends(others))
        yield subtract(union(trace.start_ns[mine], trace.ends(mine)), busy), copies
