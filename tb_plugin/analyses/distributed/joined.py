"""The parts of all workers as one: their calls matched over whole traces, and everything else side by side.

It is made once for a run and kept; what is asked of chosen steps is worked out of it (``together.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.base import Frame, Params, Part, coverage_of
from tb_plugin.analyses.collective_names import POINT_TO_POINT, UNEVEN, bus_factor
from tb_plugin.analyses.distributed.groups import group_codes, kind_codes
from tb_plugin.analyses.distributed.match import Calls, codes, match
from tb_plugin.analyses.distributed.redundancy import redundancy
from tb_plugin.analyses.distributed.stated import ranks_at_least, stated_tables
from tb_plugin.analyses.distributed.waiting import waiting
from tb_plugin.payloads import Notices
from tb_plugin.trace.memo import remembered

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

RANKS, LABELS, COMMON = "ranks", "labels", "common_steps"
"""Tables of a joined part: a row for each worker in natural order of names, then those that are no rank; the labels of the
steps of any rank and of its calls, in order; and those that all profiles have."""
CALLS, STEPS, KERNELS = "calls", "steps", "kernels"
"""Tables of all workers one after the other: ``worker`` is a row of RANKS. A call's ``step_place`` is a row of LABELS, the
one after the last for a call in no step."""
GROUPS, DEVICES = "process_groups", "devices"
REPEATED = "repeated"
"""Payload: the notice about what ranks hold alike."""

_NODE = re.compile(r"^(.*)_(\d+)$")


def is_joined(parts: Sequence[Part]) -> bool:
    """Returns whether these parts are one that ``join`` made."""
    return len(parts) == 1 and RANKS in parts[0].frames


def join(parts: Sequence[Part]) -> Part:
    """Returns the parts of all workers of a run as one."""
    return _join(parts[0], tuple(parts))


@remembered
def _join(first: Part, parts: tuple[Part, ...]) -> Part:
    """``join``; the first part takes it along when it goes."""
    every = parts
    parts, strangers = _told_apart(tuple(sorted(parts, key=lambda part: natural(part.worker))))
    names = tuple(part.worker or f"worker {i}" for i, part in enumerate(parts))
    worlds = [w for part in parts if isinstance(w := part.facts.get("distributed.world_size"), int)]
    stated = stated_tables(parts, names)
    labels = _labels(parts)
    # A job whose size nobody states is at least as large as its groups.
    world_size = max(worlds, default=None)
    size = max(world_size or 0, ranks_at_least(stated)) or None
    tables = {
        RANKS: _ranks(names, [*parts, *strangers]),
        LABELS: pa.table({"step": pa.array(labels, pa.string())}),
        COMMON: _common(every),
        CALLS: _calls(_stacked(parts, "collectives"), labels, len(parts), size),
        STEPS: _stacked(parts, STEPS),
        GROUPS: _groups(parts),
        DEVICES: _devices(parts, names),
        **({KERNELS: _stacked(parts, KERNELS)} if any(KERNELS in part.frames for part in parts) else {}),
        **stated,
    }
    return Part(
        coverage=coverage_of(every, Params()),
        facts={"distributed.world_size": world_size},
        frames={name: Frame(name, name, (), data, (), "") for name, data in tables.items()},
        payloads={REPEATED: Notices(REPEATED, "", "training", redundancy(parts))},
        steps=tuple(dict.fromkeys(label for part in every for label in part.steps)),
    )


def _told_apart(parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Returns the ranks of a job, and the others: any trace may lie in the same folder.

    Where the ranks state the size of their job, a profile that does not and has no call is none of them.
    """
    states = [part.facts.get("distributed.world_size") is not None for part in parts]
    calls = [part.frames["collectives"].data.num_rows > 0 for part in parts]
    is_rank = [not any(states) or stated or called for stated, called in zip(states, calls, strict=True)]
    ranks = tuple(part for part, keep in zip(parts, is_rank, strict=True) if keep)
    return ranks, tuple(part for part, keep in zip(parts, is_rank, strict=True) if not keep)


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Returns what sorts numbers in names by their value: rank2 before rank10."""
    pieces = re.findall(r"\d+|\D+", name)
    return [(piece.isdecimal(), int(piece) if piece.isdecimal() else 0, piece) for piece in pieces]


def step_order(label: str) -> tuple[bool, int, str]:
    """Returns what sorts labels of steps: numbers by their value, before all others."""
    return not label.isdecimal(), int(label) if label.isdecimal() else 0, label


def _ranks(names: Sequence[str], parts: Sequence[Part]) -> pa.Table:
    """A row for each profile: its name, whether it is a rank of the job, and what tells its place and time."""
    return pa.table(
        {
            "worker": pa.array([*names, *(part.worker for part in parts[len(names) :])], pa.string()),
            "is_rank": pa.array([i < len(names) for i in range(len(parts))]),
            "rank": pa.array([part.facts.get("distributed.rank") for part in parts], pa.int64()),
            "base_time_ns": pa.array([part.facts.get("distributed.base_time_ns") for part in parts], pa.int64()),
        }
    )


def _common(parts: Sequence[Part]) -> pa.Table:
    """The labels of steps that all profiles have."""
    every = [set(part.steps) for part in parts]
    return pa.table(
        {"step": pa.array([label for label in parts[0].steps if all(label in mine for mine in every)], pa.string())}
    )


def _stacked(parts: Sequence[Part], name: str) -> pa.Table:
    """A table of all workers, with the worker's number; of those that have it."""
    having = [(i, part.frames[name].data) for i, part in enumerate(parts) if name in part.frames]
    worker = np.repeat(
        np.array([i for i, _ in having], np.int64), np.array([data.num_rows for _, data in having], np.int64)
    )
    stacked = pa.concat_tables([data for _, data in having], promote_options="default")
    return stacked.add_column(0, "worker", pa.array(worker))


def _labels(parts: Sequence[Part]) -> list[str]:
    """Labels of the steps of any worker and of its calls, in order."""
    found: set[str] = set()
    for part in parts:
        for name in (STEPS, "collectives"):
            found.update(label for label in pc.unique(part.frames[name].data["step"]).to_pylist() if label is not None)
    return sorted(found, key=step_order)


def _groups(parts: Sequence[Part]) -> pa.Table:
    """The process groups of all workers, each once."""
    rows: dict[tuple[object, object], dict[str, object]] = {}
    for part in parts:
        for row in part.frames[GROUPS].data.to_pylist():
            rows.setdefault((row["group"], row["group_ranks"]), row)
    schema = parts[0].frames["process_groups"].data.schema
    order = sorted(rows.values(), key=lambda row: natural(f"{row['group']} {row['group_ranks']}"))
    return pa.Table.from_pylist(order, schema=schema)


def _devices(parts: Sequence[Part], names: Sequence[str]) -> pa.Table:
    """The devices of all workers, with node and process as recorded, else from names such as ``node_1234``."""
    rows = []
    for name, part in zip(names, parts, strict=True):
        named = _NODE.match(name)
        for row in part.frames[DEVICES].data.to_pylist():
            node = row["node"] or (named.group(1) if named else "")
            process = row["process"] or (f"process {named.group(2)}" if named else name)
            rows.append({**row, "worker": name, "node": node, "process": process})
    schema = parts[0].frames["devices"].data.schema.append(pa.field("worker", pa.string()))
    return pa.Table.from_pylist(rows, schema=schema)


def _calls(data: pa.Table, labels: Sequence[str], workers: int, world_size: int | None) -> pa.Table:
    """The calls of all workers, worker by worker in order of time, with what the others say about each of them."""
    worker: Int64 = data["worker"].to_numpy().astype(np.int64)
    dur, size = numbers_of(data, "dur_ns"), numbers_of(data, "group_size")
    collective, names = texts_of(data, "collective")
    found = pc.fill_null(pc.index_in(data["step"], value_set=pa.array(labels, pa.string())), len(labels))
    steps = found.to_numpy().astype(np.int64)
    calls = _matched_by(data, worker, steps, collective, names, (workers, world_size))
    label = match(calls) if workers > 1 else np.full(len(worker), -1, np.int64)
    two_ended = _is(collective, names, POINT_TO_POINT)
    all_here = world_size is None or world_size <= workers
    times = waiting(calls, label, dur, np.where(two_ended, 2, size), all_here)
    needs_size = _is(collective, names, {"all_gather", "gather", "reduce_scatter"}) & (size < 1)
    made = {
        "step_place": steps,
        "match": label,
        "matched_workers": times.workers,
        "last": times.last,
        "transfer_ns": times.transfer_ns,
        "timing": times.timing,
        "bus_factor": _factors(collective, names, size),
        "rated": ~needs_size & ~_is(collective, names, {"all_to_allv"}),
    }
    for key, values in made.items():
        data = data.append_column(key, pa.array(values))
    return data


def _factors(collective: Int64, names: Sequence[str], size: Int64) -> npt.NDArray[np.float64]:
    """Bus bandwidth over algorithm bandwidth of each call; NaN where there is none."""
    _, first, which = np.unique(codes(collective, size), return_index=True, return_inverse=True)
    factors = [bus_factor(names[collective[row]], int(size[row])) for row in first.tolist()]
    found: npt.NDArray[np.float64] = np.array([np.nan if one is None else one for one in factors], np.float64)[which]
    return found


def _matched_by(
    data: pa.Table, worker: Int64, step: Int64, collective: Int64, names: Sequence[str], here: tuple[int, int | None]
) -> Calls:
    """What matching compares. ``here`` is how many workers are here, and how many ranks the job has (None = unknown)."""
    group = group_codes(*texts_of(data, "group"), *texts_of(data, "group_ranks"))
    elements = numbers_of(data, "elements")
    point = _is(collective, names, POINT_TO_POINT)
    source, target = numbers_of(data, "source_rank"), numbers_of(data, "destination_rank")
    unknown = point & ((source < 0) | (target < 0))
    if here[0] == 2 and here[1] in (None, 2):
        # Each is the other's end, whatever is recorded; of a kernel for both directions nothing says which it was.
        source = np.select(
            [_is(collective, names, {"send"}), _is(collective, names, {"recv"})], [worker, 1 - worker], 2
        )
        target, unknown = np.zeros_like(source), np.zeros_like(point)
    # Whatever goes which way in a group of two, each is the other's end.
    both = _is(collective, names, {"send_recv"}) & (numbers_of(data, "group_size") == 2) & _stated(data, "group")
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
        sequence=np.where(point, -1, numbers_of(data, "sequence")),
        lost=unknown,
    )


def _is(collective: Int64, names: Sequence[str], wanted: Set[str]) -> Bool:
    """Rows whose collective, a position in ``names``, is one of the wanted ones."""
    return np.isin(collective, [i for i, name in enumerate(names) if name in wanted])


def _stated(data: pa.Table, key: str) -> Bool:
    """Which rows have a text in a column."""
    found: Bool = np.asarray(pc.not_equal(pc.fill_null(data[key], ""), ""))
    return found


def numbers_of(data: pa.Table, key: str) -> Int64:
    """Returns a column of whole numbers; -1 for null."""
    values: Int64 = pc.fill_null(data[key], -1).to_numpy().astype(np.int64, copy=False)
    return values


def texts_of(data: pa.Table, key: str) -> tuple[Int64, list[str]]:
    """Returns a column of texts as positions in the list of its distinct texts."""
    encoded = data[key].combine_chunks().dictionary_encode()
    positions: Int64 = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return positions, encoded.dictionary.to_pylist()
