"""The parts of all workers together: waiting and transfer of matched collectives, and the tables of the view."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.base import Frame, Part
from tb_plugin.analyses.distributed.match import Calls, codes, match
from tb_plugin.analyses.distributed.names import POINT_TO_POINT, UNEVEN, bus_factor
from tb_plugin.analyses.distributed.profile import CALL, DEVICE, GROUP, STEP, frame, table
from tb_plugin.analyses.distributed.waiting import BOUND, ESTIMATED, TIMINGS, Waiting, caused_ns, waiting
from tb_plugin.trace.intervals import measure_by

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

_NODE = re.compile(r"^(.*)_(\d+)$")

WORKER = {
    "worker": pa.string(), "step_total_ns": pa.int64(), "compute_ns": pa.int64(), "compute_alone_ns": pa.int64(),
    "overlap_ns": pa.int64(), "exposed_communication_ns": pa.int64(), "step_other_ns": pa.int64(),
    "latency_ns": pa.int64(), "wait_ns": pa.int64(), "transfer_ns": pa.int64(), "calls": pa.int64(),
    "matched": pa.int64(), "unmatched": pa.int64(), "bounded": pa.int64(), "estimated": pa.int64(),
    "arrived_last": pa.int64(), "last_share": pa.float64(), "caused_wait_ns": pa.int64(),
}  # fmt: skip
Row = dict[str, object]
_SINGLE_FIRST = (
    "worker", "step", "collective", "dtype", "comm_bytes", "group", "dur_ns", "wait_ns", "transfer_ns", "timing",
    "last_worker", "algorithm_bandwidth", "bus_bandwidth", "matched_workers",
)  # fmt: skip
"""Columns of single collectives that a person looks for stand first."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The calls of all workers, worker by worker in order of time: n rows, with what the other workers say about them.

    Numbers are -1 where the traces do not say.
    """

    data: pa.Table
    """The columns of CALL."""
    worker: Int64
    step: Int64
    """Position in the labels of the steps; the one after the last for a call in no step."""
    start_ns: Int64
    end_ns: Int64
    bytes: Int64
    factor: Float64
    """Bus bandwidth over algorithm bandwidth; NaN where there is none."""
    rated: Bool
    """A bandwidth has a meaning for calls of this kind."""
    match: Int64
    waiting: Waiting

    @property
    def moving_ns(self) -> Int64:
        """When the transfer begins."""
        return self.end_ns - self.waiting.transfer_ns

    @property
    def matched(self) -> Bool:
        """Another worker has the call as well."""
        return self.match >= 0

    def take(self, keep: Bool) -> Seen:
        """Some of the rows."""
        w = self.waiting
        return Seen(
            self.data.filter(pa.array(keep)), self.worker[keep], self.step[keep], self.start_ns[keep],
            self.end_ns[keep], self.bytes[keep], self.factor[keep], self.rated[keep], self.match[keep],
            Waiting(w.workers[keep], w.last[keep], w.transfer_ns[keep], w.timing[keep]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Together:
    """All workers, in natural order of their names, restricted to the chosen steps."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    """Of the steps of any worker and of its calls, in order."""
    steps: Sequence[Sequence[Row]]
    seen: Seen
    world_size: int | None
    process_groups: Sequence[Row]
    devices: Sequence[Row]

    @property
    def alone(self) -> bool:
        """One worker only: nothing can be matched."""
        return len(self.names) == 1

    @cached_property
    def times(self) -> tuple[Int64, Int64, Int64]:
        """Latency, waiting and transfer in nanoseconds, each [worker, step]: lengths of unions.

        The last column is of calls in no step. Waiting and transfer are 0 for one worker alone.
        """
        seen, shape = self.seen, (len(self.names), len(self.labels) + 1)
        key = self._place
        latency = measure_by(key, seen.start_ns, seen.end_ns, shape[0] * shape[1])
        m = seen.matched
        transfer = measure_by(key[m], seen.moving_ns[m], seen.end_ns[m], shape[0] * shape[1])
        wait = measure_by(key[m], seen.start_ns[m], seen.end_ns[m], shape[0] * shape[1]) - transfer
        return latency.reshape(shape), wait.reshape(shape), transfer.reshape(shape)

    @cached_property
    def caused_ns(self) -> Int64:
        """For each worker how long the others wait for it, summed over workers and steps as the times are."""
        seen, m = self.seen, self.seen.matched
        return caused_ns(
            self._place[m], seen.start_ns[m], seen.moving_ns[m], seen.end_ns[m], seen.waiting.last[m], len(self.names)
        )

    @property
    def _place(self) -> Int64:
        return self.seen.worker * (len(self.labels) + 1) + self.seen.step

    def count(self, rows: Bool) -> Int64:
        """How many of the chosen calls each worker has."""
        return np.bincount(self.seen.worker[rows], minlength=len(self.names))


def together(parts: Sequence[Part], chosen: tuple[str, ...] | None) -> Together:
    """Matches whole traces, then keeps the calls and steps that were chosen."""
    parts = sorted(parts, key=lambda part: _natural(part.worker))
    names = tuple(part.worker or f"worker {i}" for i, part in enumerate(parts))
    wanted = None if chosen is None else set(chosen)
    steps = [
        [row for row in part.frames["steps"].data.to_pylist() if wanted is None or row["step"] in wanted]
        for part in parts
    ]
    worlds = [w for part in parts if isinstance(w := part.facts.get("distributed.world_size"), int)]
    world_size = max(worlds, default=None)
    data = pa.concat_tables([part.frames["collectives"].data for part in parts])
    worker = np.repeat(np.arange(len(parts)), [part.frames["collectives"].data.num_rows for part in parts])
    labels = _labels(data, steps)
    seen = _seen(data, worker, labels, len(parts), world_size)
    if wanted is not None:
        seen = seen.take(np.append(np.array([label in wanted for label in labels], np.bool_), False)[seen.step])
    groups: dict[tuple[object, object], Row] = {}
    for part in parts:
        for row in part.frames["process_groups"].data.to_pylist():
            groups.setdefault((row["group"], row["group_ranks"]), row)
    return Together(
        names=names,
        labels=labels,
        steps=steps,
        seen=seen,
        world_size=world_size,
        process_groups=sorted(groups.values(), key=lambda row: _natural(f"{row['group']} {row['group_ranks']}")),
        devices=[
            _placed(name, row)
            for name, part in zip(names, parts, strict=True)
            for row in part.frames["devices"].data.to_pylist()
        ],
    )


def _labels(data: pa.Table, steps: Sequence[Sequence[Row]]) -> tuple[str, ...]:
    found = {str(row["step"]) for rows in steps for row in rows}
    found |= {label for label in pc.unique(data["step"]).to_pylist() if label is not None}
    return tuple(
        sorted(found, key=lambda label: (not label.isdecimal(), int(label) if label.isdecimal() else 0, label))
    )


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Numbers in names by their value: rank2 before rank10."""
    pieces = re.findall(r"\d+|\D+", name)
    return [(piece.isdecimal(), int(piece) if piece.isdecimal() else 0, piece) for piece in pieces]


def _seen(data: pa.Table, worker: Int64, labels: tuple[str, ...], workers: int, world_size: int | None) -> Seen:
    """Reads the columns, matches the calls and times them."""
    start, dur, size = _numbers(data, "start_ns"), _numbers(data, "dur_ns"), _numbers(data, "group_size")
    collective, names = _texts(data, "collective")
    step = pc.fill_null(pc.index_in(data["step"], value_set=pa.array(labels, pa.string())), len(labels))
    steps = step.to_numpy().astype(np.int64)
    calls = _calls(data, worker, steps, collective, names, (workers, world_size))
    all_here = world_size is None or world_size <= workers
    two_ended = _is(collective, names, POINT_TO_POINT)
    label = match(calls) if workers > 1 else np.full(len(worker), -1, np.int64)
    _, first, which = np.unique(codes(collective, size), return_index=True, return_inverse=True)
    factors = [bus_factor(names[collective[row]], int(size[row])) for row in first.tolist()]
    factor = np.array([np.nan if one is None else one for one in factors], np.float64)[which]
    needs_size = _is(collective, names, {"all_gather", "gather", "reduce_scatter"}) & (size < 1)
    return Seen(
        data=data,
        worker=worker,
        step=steps,
        start_ns=start,
        end_ns=start + dur,
        bytes=_numbers(data, "comm_bytes"),
        factor=factor,
        rated=~needs_size & ~_is(collective, names, {"all_to_allv"}),
        match=label,
        waiting=waiting(calls, label, dur, np.where(two_ended, 2, size), all_here),
    )


def _calls(
    data: pa.Table, worker: Int64, step: Int64, collective: Int64, names: Sequence[str], here: tuple[int, int | None]
) -> Calls:
    """What matching compares. ``here`` is how many workers are here, and how many ranks the job has (None = unknown)."""
    group = codes(_texts(data, "group")[0], _texts(data, "group_ranks")[0])
    elements = _numbers(data, "elements")
    point = _is(collective, names, POINT_TO_POINT)
    source, target = _numbers(data, "source_rank"), _numbers(data, "destination_rank")
    unknown = point & ((source < 0) | (target < 0))
    if here[0] == 2 and here[1] in (None, 2):
        # Each is the other's end, whatever is recorded; of a kernel for both directions nothing says which it was.
        source = np.select(
            [_is(collective, names, {"send"}), _is(collective, names, {"recv"})], [worker, 1 - worker], 2
        )
        target, unknown = np.zeros_like(source), np.zeros_like(point)
    source, target = np.where(point, source, -1), np.where(point, target, -1)
    # The two ends of a transfer have different names and number their calls on their own.
    name = np.where(point, len(names), collective)
    uneven = _is(collective, names, UNEVEN)
    return Calls(
        worker=worker,
        step=step,
        group=codes(group, source, target),
        name=name,
        kind=codes(name, _texts(data, "dtype")[0], np.where(uneven, -1, elements)),
        sequence=np.where(point, -1, _numbers(data, "sequence")),
        lost=unknown,
    )


def _is(collective: Int64, names: Sequence[str], wanted: Set[str]) -> Bool:
    """Rows whose collective, a position in ``names``, is one of the wanted ones."""
    return np.isin(collective, [i for i, name in enumerate(names) if name in wanted])


def _numbers(data: pa.Table, key: str) -> Int64:
    """A column of whole numbers; -1 for null."""
    values: Int64 = pc.fill_null(data[key], -1).to_numpy().astype(np.int64)
    return values


def _texts(data: pa.Table, key: str) -> tuple[Int64, list[str]]:
    """A column of texts as positions in the list of its distinct texts."""
    encoded = data[key].combine_chunks().dictionary_encode()
    positions: Int64 = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return positions, encoded.dictionary.to_pylist()


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
    every = [
        frame("workers", "Workers", table(WORKER, worker_rows(data)), ("worker",), "worker", ("compute_ns",)),
        frame("steps", "Steps", table(steps, step_rows(data)), ("worker", "step"), "worker", ("compute_ns",)),
        frame(
            "operations",
            "Communication operations",
            _operations(data),
            ("worker", "collective", "dtype", "group"),
            "collective",
            ("matched",),
        ),
        frame(
            "collectives",
            "Single collectives",
            _singles(data),
            ("worker", "call"),
            "collective",
            ("call", "group_ranks", "elements", "on_device", "match", "bus_factor", "source_rank", "destination_rank"),
        ),
        frame("process_groups", "Process groups", table(GROUP, data.process_groups), ("group", "group_ranks"), "group"),
        frame("devices", "Devices", table(devices, data.devices), ("worker", "device"), "worker"),
    ]
    return {one.name: one for one in every}


def worker_rows(data: Together) -> list[Row]:
    """One row a worker: sums over the chosen steps."""
    seen, alone = data.seen, data.alone
    latency, wait, transfer = (times.sum(axis=1).tolist() for times in data.times)
    one_each = np.flatnonzero(seen.matched)[np.unique(seen.match[seen.matched], return_index=True)[1]]
    last = seen.waiting.last[one_each]
    counts = {
        "matched": data.count(seen.matched),
        "unmatched": data.count(~seen.matched),
        "bounded": data.count(seen.waiting.timing == TIMINGS.index(BOUND)),
        "estimated": data.count(seen.waiting.timing == TIMINGS.index(ESTIMATED)),
        "arrived_last": np.bincount(last[last >= 0], minlength=len(data.names)),
        "caused_wait_ns": data.caused_ns,
    }
    # A worker takes part also in what it lacks and is taken to have arrived last at.
    lacked = last[seen.waiting.timing[one_each] == TIMINGS.index(ESTIMATED)]
    taken = counts["matched"] + np.bincount(lacked[lacked >= 0], minlength=len(data.names))
    share = counts["arrived_last"] / np.maximum(taken, 1)
    calls = data.count(np.ones(len(seen.worker), np.bool_)).tolist()
    return [
        {
            "worker": name,
            **{key: sum(int(str(row[key])) for row in data.steps[w]) for key in STEP if key != "step"},
            "latency_ns": latency[w],
            "wait_ns": None if alone else wait[w],
            "transfer_ns": None if alone else transfer[w],
            "calls": calls[w],
            **{key: None if alone else int(values[w]) for key, values in counts.items()},
            "last_share": float(share[w]) if taken[w] else None,
        }
        for w, name in enumerate(data.names)
    ]


def step_rows(data: Together) -> list[Row]:
    """One row for each worker and step."""
    latency, wait, transfer = (times.tolist() for times in data.times)
    position = {label: i for i, label in enumerate(data.labels)}
    rows = []
    for w, name in enumerate(data.names):
        for row in data.steps[w]:
            at = position[str(row["step"])]
            times: Row = {"latency_ns": latency[w][at]}
            times |= {"wait_ns": None, "transfer_ns": None}
            if not data.alone:
                times |= {"wait_ns": wait[w][at], "transfer_ns": transfer[w][at]}
            rows.append({"worker": name, **row, **times})
    return rows


def _operations(data: Together) -> pa.Table:
    """Calls of a worker by collective, type and group, in order of their first call."""
    seen = data.seen
    keys = ("collective", "dtype", "group")
    code = codes(seen.worker, *(_texts(seen.data, key)[0] for key in keys))
    _, first, code = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first)
    head, count = first[order], len(first)
    place = np.argsort(order)[code]
    m, known = seen.matched, seen.bytes >= 0
    calls, matched = np.bincount(place, minlength=count), np.bincount(place[m], minlength=count)
    sized = np.bincount(place[known], minlength=count) == calls
    size = _sums(place[known], seen.bytes[known], count)
    latency = measure_by(place, seen.start_ns, seen.end_ns, count)
    transfer = measure_by(place[m], seen.moving_ns[m], seen.end_ns[m], count)
    algorithm, bus = _bandwidth(seen, place, count)
    described = {row["group"]: row["group_description"] for row in reversed(data.process_groups)}
    groups = seen.data["group"].take(head)
    columns = {
        "worker": pa.array([data.names[w] for w in seen.worker[head].tolist()], pa.string()),
        **{key: seen.data[key].take(head).combine_chunks() for key in keys},
        "group_description": pa.array([described.get(name, "") for name in groups.to_pylist()], pa.string()),
        "calls": pa.array(calls),
        "matched": _known(matched, np.full(count, not data.alone)),
        "comm_bytes": _known(size, sized),
        "mean_comm_bytes": _known(size / calls, sized),
        "latency_ns": pa.array(latency),
        "mean_latency_ns": pa.array(latency / calls),
        "transfer_ns": _known(transfer, matched > 0),
        "mean_transfer_ns": _known(transfer / np.maximum(matched, 1), matched > 0),
        "algorithm_bandwidth": _known(algorithm, ~np.isnan(algorithm)),
        "bus_bandwidth": _known(bus, ~np.isnan(bus)),
    }
    return pa.table(columns)


def _bandwidth(seen: Seen, place: Int64, count: int) -> tuple[Float64, Float64]:
    """For each of ``count`` places the bytes of its matched calls over their transfer time, and that times the factor.

    Bytes per second; NaN where a size, a factor or a group size that they need is unknown.
    """
    m = seen.matched
    at, size = place[m], seen.bytes[m]
    time, moved = _sums(at, seen.waiting.transfer_ns[m], count), _sums(at, np.maximum(size, 0), count)
    unfit = np.bincount(at[(size < 0) | ~seen.rated[m]], minlength=count) > 0
    on_bus = np.bincount(at, weights=size * seen.factor[m], minlength=count)
    per_ns: Float64 = np.where((time > 0) & (moved > 0) & ~unfit, 1e9 / np.maximum(time, 1), np.nan)
    return moved * per_ns, on_bus * per_ns


def _singles(data: Together) -> pa.Table:
    seen, w = data.seen, data.seen.waiting
    m, count = seen.matched, len(seen.worker)
    wait = seen.end_ns - seen.start_ns - w.transfer_ns
    algorithm, bus = _bandwidth(seen, np.arange(count), count)
    names = pa.array(data.names, pa.string())
    added = {
        "bus_factor": _known(seen.factor, ~np.isnan(seen.factor)),
        "match": _known(seen.match, m),
        "matched_workers": _known(w.workers, m),
        "timing": pa.array(TIMINGS, pa.string()).take(_known(w.timing, m)),
        "wait_ns": _known(wait, m),
        "transfer_ns": _known(w.transfer_ns, m),
        "last_worker": names.take(_known(w.last, w.last >= 0)),
        "algorithm_bandwidth": _known(algorithm, ~np.isnan(algorithm)),
        "bus_bandwidth": _known(bus, ~np.isnan(bus)),
    }
    columns = {"worker": names.take(pa.array(seen.worker)), **{key: seen.data[key] for key in CALL}, **added}
    return pa.table(columns).select([*_SINGLE_FIRST, *(key for key in columns if key not in _SINGLE_FIRST)])


def _sums(place: Int64, values: Int64, count: int) -> Int64:
    total = np.zeros(count, np.int64)
    np.add.at(total, place, values)
    return total


def _known(values: npt.NDArray[np.generic], known: Bool) -> pa.Array:
    """Null where not known."""
    return pa.array(values, mask=~known)
