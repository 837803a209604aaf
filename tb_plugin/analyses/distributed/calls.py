"""The collectives of one worker: which rows of the trace are one call, and what it is about."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.collective_names import NOT_COLLECTIVE, collective_name, moved_elements
from tb_plugin.analyses.communication import BACKEND, calls_collective, communicates
from tb_plugin.analyses.dtypes import element_bytes
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]

_MOST_ELEMENTS = 1 << 48
"""More are no message but a broken number; their bytes would not fit into 64 bits."""


@dataclass(frozen=True)
class Call:
    """One collective as one worker saw it. -1 = the trace does not say."""

    step: str | None
    collective: str
    dtype: str
    elements: int
    bytes: int | None
    group: str
    ranks: str
    group_size: int
    sequence: int
    source_rank: int
    """Of point-to-point calls the rank in the job that sends ..."""
    destination_rank: int
    """... and the one that receives."""
    start_ns: int
    dur_ns: int
    on_device: bool


@dataclass(frozen=True)
class _About:
    """What the arguments of a row say."""

    collective: str
    dtype: str = ""
    inside: int = -1
    outside: int = -1
    group: str = ""
    ranks: str = ""
    group_size: int = -1
    sequence: int = -1
    source: int = -1
    destination: int = -1

    def filled(self, other: _About) -> _About:
        """Returns this with what only the other says about the same collective."""
        if other.collective != self.collective:
            return self
        mine, theirs = asdict(self), asdict(other)
        return _About(**{key: theirs[key] if value in ("", -1) else value for key, value in mine.items()})


def calls_of(trace: TraceTable) -> list[Call]:
    """Returns all collectives in order of their start.

    A device kernel that communicates is a call of its own, for its own time: the host call that launched it is not
    communication. Without such kernels the work of the process group on its own thread (``gloo:all_reduce``) is the call,
    and where even that is missing the dispatcher's operator (``c10d::allreduce_``).
    """
    host = np.flatnonzero(calls_collective(trace))
    kernels = np.flatnonzero(trace.is_collective & (trace.kind == EventKind.KERNEL))
    chains = _chains(trace, host)
    facts = _Facts(trace)
    described = {head: facts.of(members) for head, members in chains.items()}
    owner = {member: head for head, members in chains.items() for member in members}
    by_id = {int(trace.external_id[row]): row for row in host.tolist() if trace.external_id[row] > 0}
    counted: set[tuple[Any, ...]] = set()
    found: list[_Found] = []
    for row in kernels.tolist():
        caller = _caller(trace, row, owner, by_id)
        launched = described[owner[caller]] if caller is not None else None
        stated = facts.stated(row)
        about = stated.filled(launched) if stated and launched else stated or launched
        about = about or _About(collective_name(_name(trace, row)))
        if about.collective in NOT_COLLECTIVE:
            continue
        # Several kernels of one call move its bytes once.
        key = (owner[caller], about) if caller is not None else (row,)
        found.append(_Found(row, about, key not in counted, caller))
        counted.add(key)
    found += [_Found(row, about, True, None) for row, about in _host_calls(trace, chains, described)]
    calls = [_call(trace, one, step) for one, step in zip(found, _steps(trace, found), strict=True)]
    return sorted(calls, key=lambda call: (call.start_ns, -call.dur_ns))


@dataclass(frozen=True)
class _Found:
    """A row that is a call: what it is about, whether it is its call's first, and the collective that launched it."""

    row: int
    about: _About
    first: bool
    caller: int | None


def _host_calls(
    trace: TraceTable, chains: Mapping[int, list[int]], described: Mapping[int, _About]
) -> list[tuple[int, _About]]:
    """The calls whose time is the host's: the innermost work of a process group, else the outermost operator."""
    chosen = communicates(trace)
    found = []
    for head, members in chains.items():
        own = [member for member in members if chosen[member]]
        if own and described[head].collective not in NOT_COLLECTIVE:
            found.append((own[-1] if BACKEND.match(_name(trace, own[-1])) else own[0], described[head]))
    return found


def _chains(trace: TraceTable, host: Int64) -> dict[int, list[int]]:
    """Outermost collective row -> it and the rows inside it on the same thread, outermost first."""
    chains: dict[int, list[int]] = {}
    heads: dict[int, tuple[int, int]] = {}
    for row in host.tolist():
        track, end = int(trace.track[row]), int(trace.start_ns[row] + trace.dur_ns[row])
        head, until = heads.get(track, (-1, -1))
        if head >= 0 and end <= until:
            chains[head].append(row)
        else:
            heads[track] = (row, end)
            chains[row] = [row]
    return chains


def _caller(trace: TraceTable, row: int, owner: Mapping[int, int], by_id: Mapping[int, int]) -> int | None:
    """A collective row of the host that launched a kernel."""
    operator = int(trace.operator[row])
    while operator != MISSING:
        if operator in owner:
            return operator
        operator = int(trace.operator[operator])
    return by_id.get(int(trace.external_id[row]))


def _call(trace: TraceTable, found: _Found, step: str | None) -> Call:
    row, about = found.row, found.about
    elements = moved_elements(about.collective, about.inside, about.outside)
    if not 0 <= elements <= _MOST_ELEMENTS:
        elements = -1
    size = element_bytes(about.dtype) if about.dtype else None
    moved = 0 if about.collective == "barrier" else (elements * size if size is not None and elements >= 0 else None)
    return Call(
        step=step,
        collective=about.collective,
        dtype=about.dtype,
        elements=elements,
        bytes=moved if found.first or moved is None else 0,
        group=about.group,
        ranks=about.ranks,
        group_size=about.group_size,
        sequence=about.sequence,
        source_rank=about.source,
        destination_rank=about.destination,
        start_ns=int(trace.start_ns[row]),
        dur_ns=int(trace.dur_ns[row]),
        on_device=bool(trace.kind[row] == EventKind.KERNEL),
    )


def _steps(trace: TraceTable, found: list[_Found]) -> list[str | None]:
    """Returns of each call the step whose host window holds the call or launch, else the one whose window holds the start."""
    rows = np.array([one.row for one in found], np.int64)
    callers = np.array([MISSING if one.caller is None else one.caller for one in found], np.int64)
    begun = np.where(trace.launch[rows] != MISSING, trace.launch[rows], callers)
    on_host = begun != MISSING
    time = trace.start_ns[np.where(on_host, begun, rows)]
    steps = trace.steps
    host = _inside(time, steps.host_start_ns, steps.host_end_ns)
    device = _inside(time, steps.start_ns, steps.end_ns)
    return [None if at < 0 else steps.label[at] for at in np.where(on_host, host, device).tolist()]


def _inside(time: Int64, start: Int64, end: Int64) -> Int64:
    """For each time the window that holds it, of windows in order that do not overlap; -1 = none."""
    if not len(start):
        return np.full(len(time), -1)
    at = np.searchsorted(start, time, side="right") - 1
    return np.where((at >= 0) & (time < end[at]), at, -1)


def _name(trace: TraceTable, row: int) -> str:
    return trace.strings[int(trace.name[row])]


class _Facts:
    """Arguments of rows, looked up by row."""

    def __init__(self, trace: TraceTable) -> None:
        self._trace = trace
        self._stated = {row: i for i, row in enumerate(trace.collectives.row.tolist())}
        places = np.flatnonzero(trace.is_collective[trace.operators.row])
        self._operators = dict(zip(trace.operators.row[places].tolist(), places.tolist(), strict=True))
        self._default_size = _only_group_size(trace.metadata)
        info = trace.metadata.get("distributedInfo")
        rank = info.get("rank") if isinstance(info, dict) else None
        self._rank = rank if isinstance(rank, int) else -1

    def stated(self, row: int) -> _About | None:
        """Returns the collective's own metadata."""
        at = self._stated.get(row)
        if at is None:
            return None
        args = self._trace.collectives
        collective, ranks = collective_name(self._text(args.name[at])), self._text(args.group_ranks[at])
        source = destination = -1
        if collective == "send":
            source, destination = self._rank, self._peer(int(args.destination_rank[at]), ranks)
        elif collective == "recv":
            source, destination = self._peer(int(args.source_rank[at]), ranks), self._rank
        return _About(
            collective,
            self._text(args.dtype[at]),
            int(args.in_elements[at]),
            int(args.out_elements[at]),
            self._text(args.group_name[at]),
            ranks,
            int(args.group_size[at]),
            int(args.sequence[at]),
            source,
            destination,
        )

    def _peer(self, stated: int, ranks: str) -> int:
        """The other end of a send or recv: as stated, else the other one of a group of two."""
        listed = _list(ranks)
        if stated < 0 and len(listed) == 2 and self._rank in listed:
            other = listed[1 - listed.index(self._rank)]
            return other if isinstance(other, int) else -1
        return stated

    def of(self, members: list[int]) -> _About:
        """Returns of a call on the host its metadata, else its names and the shapes of its inputs."""
        for row in members:
            about = self.stated(row)
            if about is not None:
                return about
        names = [_name(self._trace, row) for row in members]
        name = next((name for name in names if BACKEND.match(name)), names[0])
        collective = collective_name(name)
        for row in reversed(members):
            dtype, elements = self._inputs(row)
            if elements >= 0:
                size = self._default_size
                # Only inputs are recorded; S of these two is the other side.
                outside = elements * size if collective in ("all_gather", "gather") and size > 0 else -1
                return _About(collective, dtype, elements, outside, group_size=size)
        return _About(collective, group_size=self._default_size)

    def _inputs(self, row: int) -> tuple[str, int]:
        """Dtype and elements of the input tensors; the largest dtype's elements when there are several."""
        at = self._operators.get(row)
        if at is None:
            return "", -1
        args = self._trace.operators
        shapes, types = _list(self._text(args.shapes[at])), _list(self._text(args.types[at]))
        elements: dict[str, int] = {}
        for shape, dtype in zip(shapes, types, strict=False):
            if isinstance(dtype, str) and element_bytes(dtype) is not None and _is_shape(shape):
                elements[dtype] = elements.get(dtype, 0) + math.prod(shape)
        if not elements:
            return "", -1
        return max(elements.items(), key=lambda item: item[1])

    def _text(self, identity: Any) -> str:
        return self._trace.strings[int(identity)] if identity >= 0 else ""


def _list(text: str) -> list[Any]:
    try:
        value = json.loads(text) if text else []
    except ValueError:
        return []
    return value if isinstance(value, list) else []


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and all(isinstance(size, int) for size in shape)


def groups_of(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the process groups that ``distributedInfo`` lists."""
    info = metadata.get("distributedInfo")
    groups = info.get("pg_config") if isinstance(info, dict) else None
    return [group for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []


def _only_group_size(metadata: Mapping[str, Any]) -> int:
    """The size of every group when all have the same: what a call without metadata ran on."""
    sizes = {group.get("pg_size") for group in groups_of(metadata)}
    size = sizes.pop() if len(sizes) == 1 else None
    return size if isinstance(size, int) else -1
