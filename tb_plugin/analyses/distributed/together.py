"""The parts of all workers together: their steps, their calls as columns, matched, with waiting and transfer."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.base import Part
from tb_plugin.analyses.collective_names import POINT_TO_POINT, UNEVEN, bus_factor
from tb_plugin.analyses.distributed.groups import group_codes, kind_codes
from tb_plugin.analyses.distributed.match import Calls, codes, match
from tb_plugin.analyses.distributed.stated import StatedJob, stated_job
from tb_plugin.analyses.distributed.waiting import Waiting, caused_ns, waiting
from tb_plugin.trace.intervals import measure_by
from tb_plugin.trace.memo import remembered

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

_NODE = re.compile(r"^(.*)_(\d+)$")

Row = dict[str, object]


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
        """Returns when the transfer of each call begins."""
        return self.end_ns - self.waiting.transfer_ns

    @property
    def matched(self) -> Bool:
        """Returns whether another worker has each call as well."""
        return self.match >= 0

    def take(self, keep: Bool) -> Seen:
        """Returns some of the rows."""
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
    strangers: tuple[str, ...]
    """Workers that are no rank of the job: left out."""
    labels: tuple[str, ...]
    """Labels of the steps of any worker and of its calls, in order."""
    steps: Sequence[Sequence[Row]]
    seen: Seen
    world_size: int | None
    process_groups: Sequence[Row]
    devices: Sequence[Row]
    stated: StatedJob
    """What the workers state of their communication, in the chosen steps."""
    kernels: pa.Table | None = None
    """What the workers compute in all steps, kernel by kernel; ``worker`` is a place in ``names``."""

    @property
    def size(self) -> int | None:
        """Returns the ranks of the job as recorded, else how many it has at least, as groups say; None where nobody says."""
        return self.world_size or (self.stated.ranks_at_least if self.stated.ranks_at_least > 1 else None)

    @property
    def alone(self) -> bool:
        """Returns whether there is one worker only: nothing can be matched then."""
        return len(self.names) == 1

    @cached_property
    def times(self) -> tuple[Int64, Int64, Int64]:
        """Returns latency, waiting and transfer in nanoseconds, each [worker, step]: lengths of unions.

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
        """Returns for each worker how long the others wait for it, summed over workers and steps as the times are."""
        seen, m = self.seen, self.seen.matched
        return caused_ns(
            self._place[m], seen.start_ns[m], seen.moving_ns[m], seen.end_ns[m], seen.waiting.last[m], len(self.names)
        )

    @property
    def _place(self) -> Int64:
        return self.seen.worker * (len(self.labels) + 1) + self.seen.step

    def count(self, rows: Bool) -> Int64:
        """Returns how many of the chosen calls each worker has."""
        return np.bincount(self.seen.worker[rows], minlength=len(self.names))


def together(parts: tuple[Part, ...], chosen: tuple[str, ...] | None) -> Together:
    """Returns all workers: matches whole traces, then keeps the calls and steps that were chosen."""
    return _together(parts[0], parts, chosen)


@remembered
def _together(first: Part, parts: tuple[Part, ...], chosen: tuple[str, ...] | None) -> Together:
    """``together``; the first part takes it along when it goes."""
    parts = tuple(sorted(parts, key=lambda part: _natural(part.worker)))
    parts, strangers = _told_apart(parts)
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
    stated = stated_job(parts, names, chosen)
    # A job whose size nobody states is at least as large as its groups.
    seen = _seen(data, worker, labels, len(parts), max(world_size or 0, stated.ranks_at_least) or None)
    if wanted is not None:
        seen = seen.take(np.append(np.array([label in wanted for label in labels], np.bool_), False)[seen.step])
    groups: dict[tuple[object, object], Row] = {}
    for part in parts:
        for row in part.frames["process_groups"].data.to_pylist():
            groups.setdefault((row["group"], row["group_ranks"]), row)
    return Together(
        names=names,
        strangers=strangers,
        labels=labels,
        steps=steps,
        seen=seen,
        world_size=world_size,
        stated=stated,
        process_groups=sorted(groups.values(), key=lambda row: _natural(f"{row['group']} {row['group_ranks']}")),
        devices=[
            _placed(name, row)
            for name, part in zip(names, parts, strict=True)
            for row in part.frames["devices"].data.to_pylist()
        ],
        kernels=_kernels(parts),
    )


def _kernels(parts: tuple[Part, ...]) -> pa.Table | None:
    tables = [part.frames["kernels"].data for part in parts if "kernels" in part.frames]
    if len(tables) != len(parts):
        return None
    counts = [each.num_rows for each in tables]
    whole = pa.concat_tables([each.set_column(1, "kernel", each["kernel"].cast(pa.string())) for each in tables])
    return whole.append_column("worker", pa.array(np.repeat(np.arange(len(parts)), counts)))


def _told_apart(parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Returns the ranks of a job, and the names of the others: any trace may lie in the same folder.

    Where the ranks state the size of their job, a profile that does not and has no call is none of them.
    """
    states = [part.facts.get("distributed.world_size") is not None for part in parts]
    calls = [part.frames["collectives"].data.num_rows > 0 for part in parts]
    is_rank = [not any(states) or stated or called for stated, called in zip(states, calls, strict=True)]
    ranks = tuple(part for part, keep in zip(parts, is_rank, strict=True) if keep)
    return ranks, tuple(part.worker for part, keep in zip(parts, is_rank, strict=True) if not keep)


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
    collective, names = texts_of(data, "collective")
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
    group = group_codes(*texts_of(data, "group"), *texts_of(data, "group_ranks"))
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
    # Whatever goes which way in a group of two, each is the other's end.
    both = _is(collective, names, {"send_recv"}) & (_numbers(data, "group_size") == 2) & _stated(data, "group")
    source, target, unknown = np.where(both, 0, source), np.where(both, 0, target), unknown & ~both
    source, target = np.where(point, source, -1), np.where(point, target, -1)
    # The two ends of a transfer have different names and number their calls on their own.
    name = np.where(point, len(names), collective)
    uneven = _is(collective, names, UNEVEN)
    group = codes(group, source, target)
    return Calls(
        worker=worker,
        step=step,
        group=group,
        name=name,
        kind=kind_codes(worker, group, name, texts_of(data, "dtype")[0], np.where(uneven, -1, elements)),
        sequence=np.where(point, -1, _numbers(data, "sequence")),
        lost=unknown,
    )


def _is(collective: Int64, names: Sequence[str], wanted: Set[str]) -> Bool:
    """Rows whose collective, a position in ``names``, is one of the wanted ones."""
    return np.isin(collective, [i for i, name in enumerate(names) if name in wanted])


def _stated(data: pa.Table, key: str) -> Bool:
    """Which rows have a text in a column."""
    found: Bool = np.asarray(pc.not_equal(pc.fill_null(data[key], ""), ""))
    return found


def _numbers(data: pa.Table, key: str) -> Int64:
    """A column of whole numbers; -1 for null."""
    values: Int64 = pc.fill_null(data[key], -1).to_numpy().astype(np.int64)
    return values


def texts_of(data: pa.Table, key: str) -> tuple[Int64, list[str]]:
    """Returns a column of texts as positions in the list of its distinct texts."""
    encoded = data[key].combine_chunks().dictionary_encode()
    positions: Int64 = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return positions, encoded.dictionary.to_pylist()


def _placed(worker: str, row: Row) -> Row:
    """Node and process as recorded, else from names such as ``node_1234``."""
    named = _NODE.match(worker)
    node = row["node"] or (named.group(1) if named else "")
    process = row["process"] or (f"process {named.group(2)}" if named else worker)
    return {**row, "worker": worker, "node": node, "process": process}
