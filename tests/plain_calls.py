"""What a rank contributes to Distributed, call by call and nanosecond by nanosecond: no columns, no algebra of ranges."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tb_plugin.analysis.bus_bandwidth import has_larger_side
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.collective_names import NOT_COLLECTIVE, collective_name
from tb_plugin.analysis.communication import (
    BACKEND,
    calls_collective,
    communication_ranges,
    computation_ranges,
    is_communication,
)
from tb_plugin.analysis.dtypes import element_bytes
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import rows_in
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

Row = dict[str, Any]
_UNKNOWN = (
    "elements",
    "comm_bytes",
    "group_size",
    "sequence",
    "source_rank",
    "destination_rank",
    "issued_ns",
)


@dataclass(frozen=True)
class About:
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

    def filled(self, other: About) -> About:
        if other.collective != self.collective:
            return self
        mine, theirs = asdict(self), asdict(other)
        return About(**{key: theirs[key] if value in ("", -1) else value for key, value in mine.items()})


@dataclass(frozen=True)
class Found:
    row: int
    about: About
    first: bool
    caller: int | None
    head: int | None
    batch: int | None = None


def plain_calls(trace: TraceTable) -> list[Row]:
    """All collectives in order of their start."""
    host = [i for i, is_one in enumerate(calls_collective(trace).tolist()) if is_one]
    closes = {row for row in host if name_of(trace, row) == "nccl:coalesced"}
    chains = chains_of(trace, host, closes)
    said = {head: described(trace, members) for head, members in chains.items()}
    owner = {member: head for head, members in chains.items() for member in members}
    by_id = {int(trace.external_id[row]): row for row in host if trace.external_id[row] > 0}
    kernels = [i for i in range(len(trace)) if trace.is_collective[i] and trace.kind[i] == EventKind.KERNEL]
    callers = {row: caller_of(trace, row, owner, by_id) for row in kernels}
    carried = batches(trace, chains, said, callers, owner, closes)
    counted: set[tuple[Any, ...]] = set()
    found: list[Found] = []
    for row in kernels:
        caller = callers[row]
        head = None if caller is None else owner[caller]
        number, members = carried.get(row, (None, []))
        if members:
            found += [Found(row, said[member], True, caller, head, number) for member in members]
            continue
        launched = None if head is None else said[head]
        own = stated(trace, row)
        about = own.filled(launched) if own and launched else own or launched
        about = about or About(collective_name(name_of(trace, row)))
        key = (head, about) if caller is not None else (row,)
        found.append(Found(row, about, key not in counted, caller, head, number))
        counted.add(key)
    chosen = is_communication(trace)
    for head, members in chains.items():
        if own_rows := [member for member in members if chosen[member]]:
            row = own_rows[-1] if BACKEND.match(name_of(trace, own_rows[-1])) else own_rows[0]
            found.append(Found(row, said[head], True, None, head))
    found = [one for one in found if one.about.collective not in NOT_COLLECTIVE]
    found.sort(key=lambda one: (int(trace.start_ns[one.row]), -int(trace.dur_ns[one.row])))
    return [told(trace, one) for one in found]


def told(trace: TraceTable, one: Found) -> Row:
    about, start, launch = one.about, int(trace.start_ns[one.row]), int(trace.launch[one.row])
    inside, outside = about.inside, about.outside
    elements = max(inside, outside) if has_larger_side(about.collective) else inside if inside >= 0 else outside
    elements = elements if 0 <= elements <= 1 << 48 else -1
    size = element_bytes(about.dtype) if about.dtype else None
    moved = 0 if about.collective == "barrier" else (elements * size if size is not None and elements >= 0 else -1)
    begun = launch if launch != MISSING else one.caller
    issuing = begun if begun is not None else (one.head if one.head not in (None, one.row) else None)
    issued = int(trace.start_ns[issuing]) if issuing is not None else -1
    row = {
        "step": step_at(trace, start if begun is None else int(trace.start_ns[begun]), on_host=begun is not None),
        "collective": about.collective, "dtype": about.dtype, "elements": elements,
        "comm_bytes": moved if one.first or moved == -1 else 0, "group": about.group, "group_ranks": about.ranks,
        "group_size": about.group_size, "sequence": about.sequence, "source_rank": about.source,
        "destination_rank": about.destination, "start_ns": start, "dur_ns": int(trace.dur_ns[one.row]),
        "on_device": bool(trace.kind[one.row] == EventKind.KERNEL), "event": one.row, "batch": one.batch,
        "issued_ns": issued,
    }  # fmt: skip
    return row | {key: None if row[key] == -1 else row[key] for key in _UNKNOWN}


def chains_of(trace: TraceTable, host: list[int], closes: set[int]) -> dict[int, list[int]]:
    """Outermost collective row -> it and the rows inside it on the same thread. What closes a batch holds nothing."""
    chains: dict[int, list[int]] = {}
    heads: dict[int, tuple[int, int]] = {}
    for row in host:
        track, end = int(trace.track[row]), int(trace.start_ns[row] + trace.dur_ns[row])
        head, until = heads.get(track, (-1, -1))
        if head >= 0 and end <= until:
            chains[head].append(row)
        else:
            heads[track] = (row, max(until, int(trace.start_ns[row])) if row in closes else end)
            chains[row] = [row]
    return chains


def batches(
    trace: TraceTable,
    chains: Mapping[int, list[int]],
    said: Mapping[int, About],
    callers: Mapping[int, int | None],
    owner: Mapping[int, int],
    closes: set[int],
) -> dict[int, tuple[int, list[int]]]:
    """Kernel -> number of its batch, and the chains that it stands for."""
    launching: dict[int, list[int]] = {}
    for row, caller in callers.items():
        if caller is not None:
            launching.setdefault(owner[caller], []).append(row)
    found: dict[int, tuple[int, list[int]]] = {}
    open_calls: dict[int, list[int]] = {}
    members_of: dict[int, list[int]] = {}
    for head in sorted(chains):
        here = open_calls.setdefault(int(trace.track[head]), [])
        is_end = head in closes or said[head].collective == "end_coalescing"
        states = any(stated(trace, row) for row in chains[head])
        if head in launching:
            if is_end:
                members_of[head] = list(here)
            here.clear()
        elif is_end or said[head].collective in NOT_COLLECTIVE or not states:
            here.clear()
        else:
            here.append(head)
    for number, head in enumerate(sorted(members_of, key=lambda head: launching[head][0])):
        first, *others = launching[head]
        found[first] = (number, [] if stated(trace, first) else members_of[head])
        found |= {row: (number, []) for row in others}
    return found


def caller_of(trace: TraceTable, row: int, owner: Mapping[int, int], by_id: Mapping[int, int]) -> int | None:
    operator = int(trace.operator[row])
    while operator != MISSING:
        if operator in owner:
            return operator
        operator = int(trace.operator[operator])
    return by_id.get(int(trace.external_id[row]))


def stated(trace: TraceTable, row: int) -> About | None:
    args = trace.collectives
    at = {each: i for i, each in enumerate(args.row.tolist())}.get(row)
    if at is None:
        return None
    info = trace.metadata.get("distributedInfo", {})
    rank, text = info.get("rank", -1), trace.strings
    collective, ranks = collective_name(text[args.name[at]]), text[args.group_ranks[at]]
    listed = listed_in(ranks)
    other = listed[1 - listed.index(rank)] if len(listed) == 2 and rank in listed else -1
    source, destination = int(args.source_rank[at]), int(args.destination_rank[at])
    ends = {
        "send": (rank, other if destination < 0 else destination),
        "recv": (other if source < 0 else source, rank),
    }.get(collective, (-1, -1))
    return About(
        collective, text[args.dtype[at]], int(args.in_elements[at]), int(args.out_elements[at]), text[args.group_name[at]],
        ranks, int(args.group_size[at]), int(args.sequence[at]), *ends,
    )  # fmt: skip


def described(trace: TraceTable, members: list[int]) -> About:
    for row in members:
        if (about := stated(trace, row)) is not None:
            return about
    names = [name_of(trace, row) for row in members]
    collective = collective_name(next((name for name in names if BACKEND.match(name)), names[0]))
    groups = trace.metadata.get("distributedInfo", {}).get("pg_config", [])
    sizes = {group["pg_size"] for group in groups}
    size = sizes.pop() if len(sizes) == 1 else -1
    for row in reversed(members):
        dtype, elements = inputs(trace, row)
        if elements >= 0:
            outside = elements * size if collective in ("all_gather", "gather") and size > 0 else -1
            return About(collective, dtype, elements, outside, group_size=size)
    return About(collective, group_size=size)


def inputs(trace: TraceTable, row: int) -> tuple[str, int]:
    args, elements = trace.operators, dict[str, int]()
    for at in [i for i, each in enumerate(args.row.tolist()) if each == row]:
        shapes, types = (listed_in(trace.strings[ids[at]]) for ids in (args.shapes, args.types))
        for shape, dtype in zip(shapes, types, strict=False):
            if isinstance(dtype, str) and element_bytes(dtype) is not None and isinstance(shape, list):
                elements[dtype] = elements.get(dtype, 0) + math.prod(shape)
    return max(elements.items(), key=lambda item: item[1]) if elements else ("", -1)


def listed_in(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return []
    return value if isinstance(value, list) else []


def name_of(trace: TraceTable, row: int) -> str:
    return trace.strings[int(trace.name[row])]


def step_at(trace: TraceTable, time: int, on_host: bool) -> str | None:
    steps = trace.steps
    bounds = (steps.host_start_ns, steps.host_end_ns) if on_host else (steps.start_ns, steps.end_ns)
    spans = zip(steps.label, *(each.tolist() for each in bounds), strict=True)
    return next((label for label, start, end in spans if start <= time < end), None)


def plain_before(trace: TraceTable, rows: list[Row]) -> list[list[int]]:
    """The time before each call and its six parts, each moment for itself."""
    devices = device_busy(trace)
    loads = [(int(trace.start_ns[row]), int(trace.end_ns[row])) for row in rows_in(trace, Cause.INPUT)]
    idle = [
        (*span, Cause(cause))
        for device in devices
        for *span, cause in zip(*(x.tolist() for x in _columns(trace, device)), strict=True)
    ]
    copies = [
        (int(trace.start_ns[i]), int(trace.end_ns[i]))
        for i in range(len(trace)) if trace.kind[i] in (EventKind.MEMCPY, EventKind.MEMSET)
    ]  # fmt: skip
    sets = [spans(computation_ranges(trace)), spans(communication_ranges(trace)), copies]
    if devices:
        sets.append([(a, b) for a, b, cause in idle if cause == Cause.INPUT])
        sets.append([(a, b) for a, b, cause in idle if cause <= Cause.PYTHON and cause != Cause.INPUT])
    else:
        sets += [loads, [(0, 1 << 62)]]
    found = []
    for row in rows:
        mine = (row["group"], row["group_ranks"])
        earlier = [
            other["start_ns"] + other["dur_ns"]
            for other in rows[: rows.index(row)]
            if (other["group"], other["group_ranks"]) == mine and other["event"] != row["event"]
        ]
        first = dict(zip(trace.steps.label, trace.steps.start_ns.tolist(), strict=True)).get(row["step"], 0)
        begin = min(max(earlier, default=first), row["start_ns"])
        parts = [0] * 6
        for moment in range(begin, row["start_ns"]):
            part = next((i for i, each in enumerate(sets) if any(a <= moment < b for a, b in each)), 5)
            parts[part] += 1
        found.append([row["start_ns"] - begin, *parts])
    return found


def _columns(trace: TraceTable, device: int) -> tuple[Any, Any, Any]:
    account = idle_account(trace, device)
    return account.start_ns, account.end_ns, account.cause


def spans(ranges: Any) -> list[tuple[int, int]]:
    return list(zip(ranges.start.tolist(), ranges.end.tolist(), strict=True))
