"""The parts of all workers together: waiting and transfer of matched collectives, and the tables of the view."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tb_plugin.analyses.base import Frame, Part
from tb_plugin.analyses.distributed.calls import Call
from tb_plugin.analyses.distributed.match import Match, match
from tb_plugin.analyses.distributed.names import bus_factor
from tb_plugin.analyses.distributed.profile import CALL, DEVICE, GROUP, STEP, calls_from, frame
from tb_plugin.trace.intervals import measure, union

_NODE = re.compile(r"^(.*)_(\d+)$")

WORKER = {
    "worker": pa.string(), "step_total_ns": pa.int64(), "compute_ns": pa.int64(), "compute_alone_ns": pa.int64(),
    "overlap_ns": pa.int64(), "exposed_communication_ns": pa.int64(), "step_other_ns": pa.int64(),
    "latency_ns": pa.int64(), "wait_ns": pa.int64(), "transfer_ns": pa.int64(), "calls": pa.int64(),
    "matched": pa.int64(), "unmatched": pa.int64(), "arrived_last": pa.int64(), "caused_wait_ns": pa.int64(),
}  # fmt: skip
OPERATION = {
    "worker": pa.string(), "collective": pa.string(), "dtype": pa.string(), "group": pa.string(), "calls": pa.int64(),
    "matched": pa.int64(), "comm_bytes": pa.int64(), "mean_comm_bytes": pa.float64(), "latency_ns": pa.int64(),
    "mean_latency_ns": pa.float64(), "transfer_ns": pa.int64(), "mean_transfer_ns": pa.float64(),
    "algorithm_bandwidth": pa.float64(), "bus_bandwidth": pa.float64(),
}  # fmt: skip
SINGLE = {
    **{"worker": pa.string()}, **CALL, "bus_factor": pa.float64(), "match": pa.int64(), "matched_workers": pa.int64(),
    "wait_ns": pa.int64(), "transfer_ns": pa.int64(), "last_worker": pa.string(),
    "algorithm_bandwidth": pa.float64(), "bus_bandwidth": pa.float64(),
}  # fmt: skip
Row = dict[str, object]


@dataclass(frozen=True)
class Seen:
    """A call with what the other workers say about it; ``transfer_ns`` is None when no other has it."""

    call: Call
    number: int
    match: int | None = None
    workers: int = 0
    last: str | None = None
    transfer_ns: int | None = None

    @property
    def start_ns(self) -> int:
        """When the transfer begins."""
        return self.call.start_ns + self.call.dur_ns - (self.transfer_ns or 0)


@dataclass(frozen=True)
class Together:
    """All workers, in the order of the parts, restricted to the chosen steps."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    steps: Sequence[Sequence[Row]]
    seen: Sequence[Sequence[Seen]]
    world_size: int | None
    process_groups: Sequence[Row]
    devices: Sequence[Row]

    @property
    def alone(self) -> bool:
        """One worker only: nothing can be matched."""
        return len(self.names) == 1

    def times(self, worker: int, step: str | None = None) -> tuple[int, int | None, int | None]:
        """Latency, waiting and transfer of a worker, in one step or in all: unions inside each step, summed up."""
        by_step: dict[str | None, list[Seen]] = defaultdict(list)
        for seen in self.seen[worker]:
            if step is None or seen.call.step == step:
                by_step[seen.call.step].append(seen)
        latency = sum(_union(group) for group in by_step.values())
        matched = [[s for s in group if s.transfer_ns is not None] for group in by_step.values()]
        if self.alone:
            return latency, None, None
        transfer = sum(_union(group, True) for group in matched)
        return latency, sum(_union(group) for group in matched) - transfer, transfer


def _union(group: Sequence[Seen], transfer: bool = False) -> int:
    start = np.array([s.start_ns if transfer else s.call.start_ns for s in group], np.int64)
    end = np.array([s.call.start_ns + s.call.dur_ns for s in group], np.int64)
    return measure(union(start, end))


def together(parts: Sequence[Part], chosen: tuple[str, ...] | None) -> Together:
    """Matches whole traces, then keeps the calls and steps that were chosen."""
    parts = sorted(parts, key=lambda part: _natural(part.worker))
    names = tuple(part.worker or f"worker {i}" for i, part in enumerate(parts))
    calls = [calls_from(part) for part in parts]
    seen = [[Seen(call, i) for i, call in enumerate(mine)] for mine in calls]
    for number, found in enumerate(match(calls)):
        for place in found.places:
            seen[place.worker][place.call] = _seen(calls, seen, names, number, found, place.worker, place.call)
    wanted = None if chosen is None else set(chosen)
    steps = [
        [row for row in part.frames["steps"].data.to_pylist() if wanted is None or row["step"] in wanted]
        for part in parts
    ]
    labels = dict.fromkeys(str(row["step"]) for rows in steps for row in rows)
    worlds = [w for part in parts if isinstance(w := part.facts.get("distributed.world_size"), int)]
    groups: dict[tuple[object, object], Row] = {}
    for part in parts:
        for row in part.frames["process_groups"].data.to_pylist():
            groups.setdefault((row["group"], row["group_ranks"]), row)
    return Together(
        names=names,
        labels=tuple(sorted(labels, key=lambda label: (not label.isdecimal(), int(label) if label.isdecimal() else 0))),
        steps=steps,
        seen=[[s for s in mine if wanted is None or s.call.step in wanted] for mine in seen],
        world_size=max(worlds, default=None),
        process_groups=list(groups.values()),
        devices=[
            _placed(name, row)
            for name, part in zip(names, parts, strict=True)
            for row in part.frames["devices"].data.to_pylist()
        ],
    )


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Numbers in names by their value: rank2 before rank10."""
    pieces = re.findall(r"\d+|\D+", name)
    return [(piece.isdecimal(), int(piece) if piece.isdecimal() else 0, piece) for piece in pieces]


def _seen(
    calls: Sequence[Sequence[Call]],
    seen: Sequence[Sequence[Seen]],
    names: tuple[str, ...],
    number: int,
    found: Match,
    worker: int,
    at: int,
) -> Seen:
    call = calls[worker][at]
    transfer = min(found.transfer_ns, call.dur_ns)
    return Seen(call, seen[worker][at].number, number, len(found.places), names[found.last], transfer)


def _placed(worker: str, row: Row) -> Row:
    """Node and process as recorded, else from names such as ``node_1234``."""
    named = _NODE.match(worker)
    node = row["node"] or (named.group(1) if named else worker)
    process = row["process"] or (f"process {named.group(2)}" if named else worker)
    return {**row, "worker": worker, "node": node, "process": process}


def frames(data: Together) -> dict[str, Frame]:
    """The tables of the view by name."""
    devices = {"node": pa.string(), "process": pa.string(), "worker": pa.string(), **DEVICE}
    steps = {"worker": pa.string(), **STEP, "latency_ns": pa.int64(), "wait_ns": pa.int64(), "transfer_ns": pa.int64()}
    operations = _operation_rows(data)
    every = [
        frame("workers", "Workers", WORKER, worker_rows(data), ("worker",), "worker", ("compute_ns",)),
        frame("steps", "Steps", steps, _step_rows(data), ("worker", "step"), "worker", ("compute_ns",)),
        frame(
            "operations",
            "Communication operations",
            OPERATION,
            operations,
            ("worker", "collective", "dtype", "group"),
            "collective",
        ),
        frame(
            "collectives",
            "Single collectives",
            SINGLE,
            _single_rows(data),
            ("worker", "call"),
            "collective",
            ("call", "group_ranks", "elements", "on_device", "match", "bus_factor"),
        ),
        frame("process_groups", "Process groups", GROUP, list(data.process_groups), ("group", "group_ranks"), "group"),
        frame("devices", "Devices", devices, list(data.devices), ("worker", "device"), "worker"),
    ]
    return {table.name: table for table in every}


def worker_rows(data: Together) -> list[Row]:
    """One row a worker: sums over the chosen steps."""
    rows: list[Row] = []
    caused: dict[str, int] = defaultdict(int)
    last: dict[str, set[int]] = defaultdict(set)
    for mine in data.seen:
        for s in mine:
            if s.last is not None and s.match is not None:
                caused[s.last] += s.call.dur_ns - (s.transfer_ns or 0)
                last[s.last].add(s.match)
    for w, name in enumerate(data.names):
        latency, wait, transfer = data.times(w)
        matched = sum(s.match is not None for s in data.seen[w])
        sums = {key: sum(int(str(row[key])) for row in data.steps[w]) for key in STEP if key != "step"}
        rows.append(
            {
                "worker": name,
                **sums,
                "latency_ns": latency,
                "wait_ns": wait,
                "transfer_ns": transfer,
                "calls": len(data.seen[w]),
                "matched": None if data.alone else matched,
                "unmatched": None if data.alone else len(data.seen[w]) - matched,
                "arrived_last": None if data.alone else len(last[name]),
                "caused_wait_ns": None if data.alone else caused[name],
            }
        )
    return rows


def _step_rows(data: Together) -> list[Row]:
    rows = []
    for w, name in enumerate(data.names):
        for row in data.steps[w]:
            latency, wait, transfer = data.times(w, str(row["step"]))
            rows.append({**row, "worker": name, "latency_ns": latency, "wait_ns": wait, "transfer_ns": transfer})
    return rows


def _operation_rows(data: Together) -> list[Row]:
    """Calls of a worker by collective, type and group, in order of their first call."""
    rows: list[Row] = []
    for w, name in enumerate(data.names):
        groups: dict[tuple[str, str, str], list[Seen]] = defaultdict(list)
        for s in data.seen[w]:
            groups[s.call.collective, s.call.dtype, s.call.group].append(s)
        for (collective, dtype, group), every in groups.items():
            matched = [s for s in every if s.transfer_ns is not None]
            sizes = [s.call.bytes for s in every if s.call.bytes is not None]
            latency, transfer = _union(every), _union(matched, True)
            algorithm, bus = _bandwidth(matched)
            rows.append(
                {
                    "worker": name,
                    "collective": collective,
                    "dtype": dtype,
                    "group": group,
                    "calls": len(every),
                    "matched": None if data.alone else len(matched),
                    "comm_bytes": sum(sizes) if len(sizes) == len(every) else None,
                    "mean_comm_bytes": sum(sizes) / len(every) if len(sizes) == len(every) else None,
                    "latency_ns": latency,
                    "mean_latency_ns": latency / len(every),
                    "transfer_ns": transfer if matched else None,
                    "mean_transfer_ns": transfer / len(matched) if matched else None,
                    "algorithm_bandwidth": algorithm,
                    "bus_bandwidth": bus,
                }
            )
    return rows


def _bandwidth(matched: Sequence[Seen]) -> tuple[float | None, float | None]:
    """Bytes over transfer time, and the same times the factor; None when a size or factor is unknown."""
    time = sum(s.transfer_ns or 0 for s in matched)
    if not time or any(s.call.bytes is None for s in matched):
        return None, None
    factors = [bus_factor(s.call.collective, s.call.group_size) for s in matched]
    moved = sum(s.call.bytes or 0 for s in matched)
    collective = matched[0].call.collective
    one_sided = collective in ("all_gather", "gather", "reduce_scatter") and any(s.call.group_size < 1 for s in matched)
    if not moved or collective == "all_to_allv" or one_sided:
        return None, None
    on_bus = [(s.call.bytes or 0) * f for s, f in zip(matched, factors, strict=True) if f is not None]
    return moved / time * 1e9, sum(on_bus) / time * 1e9 if len(on_bus) == len(matched) else None


def _single_rows(data: Together) -> list[Row]:
    rows: list[Row] = []
    for w, name in enumerate(data.names):
        for s in data.seen[w]:
            call, known = s.call, s.transfer_ns is not None
            algorithm, bus = _bandwidth([s]) if known else (None, None)
            rows.append(
                {
                    "worker": name,
                    "call": s.number,
                    "step": call.step,
                    "collective": call.collective,
                    "dtype": call.dtype,
                    "elements": None if call.elements < 0 else call.elements,
                    "comm_bytes": call.bytes,
                    "group": call.group,
                    "group_ranks": call.ranks,
                    "group_size": None if call.group_size < 0 else call.group_size,
                    "sequence": None if call.sequence < 0 else call.sequence,
                    "start_ns": call.start_ns,
                    "dur_ns": call.dur_ns,
                    "on_device": call.on_device,
                    "bus_factor": bus_factor(call.collective, call.group_size),
                    "match": s.match,
                    "matched_workers": s.workers or None,
                    "wait_ns": call.dur_ns - (s.transfer_ns or 0) if known else None,
                    "transfer_ns": s.transfer_ns,
                    "last_worker": s.last,
                    "algorithm_bandwidth": algorithm,
                    "bus_bandwidth": bus,
                }
            )
    return rows
