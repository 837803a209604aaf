"""Merged tables of all workers of a run, with matched calls.

The merged tables are computed once per run and cached. ``job_data.py`` selects steps from the merged tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple, replace

from tb_plugin.analysis.base import Frame, Params, Part, coverage_of
from tb_plugin.analysis.bus_bandwidth import bus_factor
from tb_plugin.analysis.collective_names import POINT_TO_POINT, UNEVEN
from tb_plugin.analysis.simulate.ranks import TABLES
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import codes, group_sorted, quantile_by
from tb_plugin.lib.malloc_trim import give_back_memory
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.clocks.anchors import SYNCHRONIZING, anchors_of
from tb_plugin.views.distributed.clocks.lateness import lateness_of
from tb_plugin.views.distributed.clocks.offsets import clocks_of, clocks_table
from tb_plugin.views.distributed.comparable_profiles import integer_fact, why_not_compared
from tb_plugin.views.distributed.matching.groups import Groups, ReportedGroup, groups_of_callers, rows_with_shapes
from tb_plugin.views.distributed.matching.keys import compared_columns, groups_in, is_one_of, numbers_of, texts_of
from tb_plugin.views.distributed.matching.match import ENDS, fill_from_collective, match_calls, no_matches
from tb_plugin.views.distributed.missing_ranks import DUMPS, recorder_rows
from tb_plugin.views.distributed.natural_order import in_order, natural_key
from tb_plugin.views.distributed.rank.path import PATH_CALLS, PATH_STEPS
from tb_plugin.views.distributed.rank.reported import ranks_at_least, reported_tables
from tb_plugin.views.distributed.waiting import waits_and_transfers

# RANKS: one row per worker in natural order of names, then ignored workers. LABELS: labels of all steps, sorted.
# COMMON: steps that all profiles have.
RANKS, LABELS, COMMON = "ranks", "labels", "common_steps"
# clocks, one row per rank
CLOCKS = "clocks"
# tables of all workers: worker is an index into RANKS, step_place of a call an index into LABELS (one past the end for
# calls outside the steps)
CALLS, STEPS, KERNELS = "calls", "steps", "kernels"
# columns of CALLS, in the order of the fields of Lateness
LATE = ("arrival", "lateness_ns", "arrival_skew_ns", "last_arrived")
GROUPS, DEVICES = "process_groups", "devices"
# ranks of each group: group_code of a call is an index into it
MEMBERS = "members"

# collectives for which all ranks report the same size, so calls of equal size belong together
ALIKE = frozenset({"all_reduce", "broadcast", "reduce", "barrier"})
_MOST_RANKS = (1 << 31) - 1
# above this size of calls, returning memory to the system is worth the time
_LARGE_BYTES = 20_000_000


def is_merged(parts: Sequence[Part]) -> bool:
    """Returns whether ``parts`` only contains the result of ``join``."""
    return len(parts) == 1 and RANKS in parts[0].frames


def join_again(parts: Sequence[Part]) -> Part:
    """Returns ``join(parts)``. The result is cached together with the first part."""
    return _joined_once(parts[0], tuple(parts))


@cached_by_argument
def _joined_once(first: Part, every: tuple[Part, ...]) -> Part:
    return join(every)


def join(given: Iterable[Part], beside: Sequence[Part] = ()) -> Part:
    """Merges the parts of all workers of a run. ``beside`` contains the parts of flight recorders.

    To save memory, the calls of each part are released after they are concatenated.
    """
    every = tuple(given)
    ordered = _in_order(every)
    reasons = why_not_compared(ordered)
    parts = tuple(part for part, why in zip(ordered, reasons, strict=True) if not why)
    left_out = [(part, why) for part, why in zip(ordered, reasons, strict=True) if why]
    names = tuple(part.worker or f"worker {i}" for i, part in enumerate(parts))
    worlds = [w for part in parts if (w := integer_fact(part, "distributed.world_size")) is not None]
    stated = reported_tables(parts, names)
    labels = _labels(parts)
    # A job with unknown size is at least as large as its groups.
    world_size = max(worlds, default=None)
    size = max(world_size or 0, ranks_at_least(stated)) or None
    data = _stacked(parts, "collectives")
    every, parts = (tuple(map(_without_calls, each)) for each in (every, parts))
    left_out = [(_without_calls(part), why) for part, why in left_out]
    del ordered
    if data.nbytes > _LARGE_BYTES:
        give_back_memory()
    ranks = _ranks(names, parts, left_out)
    groups, inferred = _call_groups(data, parts, ranks["rank"].to_pylist()[: len(parts)], size)
    members = _members(groups)
    data = data.append_column("group_code", pa.array(groups.code))
    data = data.append_column("inferred_group", inferred)
    calls, clocks = _calls(data, labels, ranks.slice(0, len(parts)), size, numbers_of(members, "size"))
    tables = {
        RANKS: ranks,
        LABELS: pa.table({"step": pa.array(labels, pa.string())}),
        COMMON: _common(every),
        CLOCKS: clocks,
        CALLS: calls,
        MEMBERS: members,
        STEPS: _stacked(parts, STEPS),
        GROUPS: _groups(parts, world_size),
        DEVICES: _devices(parts, names),
        **{name: _stacked(parts, name) for name in (KERNELS, *TABLES) if any(name in part.frames for part in parts)},
        **stated,
        **{
            name: _stacked(parts, name)
            for name in (PATH_CALLS, PATH_STEPS)
            if any(name in part.frames for part in parts)
        },
    }
    if beside:
        tables[DUMPS] = recorder_rows(tables[CALLS], tables[GROUPS], names, beside)
    return Part(
        coverage=coverage_of(every, Params()),
        facts={"distributed.world_size": world_size},
        frames={name: Frame(name, name, (), data, (), "") for name, data in tables.items()},
        steps=tuple(dict.fromkeys(label for part in every for label in part.steps)),
    )


def _in_order(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: natural_key(part.worker)))


def _without_calls(part: Part) -> Part:
    return replace(part, frames={name: frame for name, frame in part.frames.items() if name != "collectives"})


def _ranks(names: Sequence[str], ranks: Sequence[Part], left_out: Sequence[tuple[Part, str]]) -> pa.Table:
    """Returns one row per profile: name, reason why the profile is ignored, rank and clock reading.

    The reason is empty for ranks of the job.
    """
    parts = [*ranks, *(part for part, _ in left_out)]
    return pa.table(
        {
            "worker": pa.array([*names, *(part.worker for part, _ in left_out)], pa.string()),
            "left_out": pa.array([*("" for _ in ranks), *(why for _, why in left_out)], pa.string()),
            "rank": pa.array([integer_fact(part, "distributed.rank") for part in parts], pa.int64()),
            "base_time_ns": pa.array([integer_fact(part, "distributed.base_time_ns") for part in parts], pa.int64()),
        }
    )


def _common(parts: Sequence[Part]) -> pa.Table:
    every = [set(part.steps) for part in parts]
    return pa.table(
        {"step": pa.array([label for label in parts[0].steps if all(label in mine for mine in every)], pa.string())}
    )


def _stacked(parts: Sequence[Part], name: str) -> pa.Table:
    """Concatenates the tables ``name`` of all workers, and adds a column ``worker``."""
    having = [(i, part.frames[name].data) for i, part in enumerate(parts) if name in part.frames]
    worker = np.repeat(
        np.array([i for i, _ in having], np.int64), np.array([data.num_rows for _, data in having], np.int64)
    )
    stacked = pa.concat_tables(
        [_encoded_ranks(data) for _, data in having], promote_options="default"
    ).unify_dictionaries()
    return stacked.add_column(0, "worker", pa.array(worker)).combine_chunks()


def _encoded_ranks(data: pa.Table) -> pa.Table:
    """Dictionary-encodes the lists of ranks, which need the most memory in jobs of thousands of ranks."""
    if "group_ranks" not in data.column_names or pa.types.is_dictionary(data["group_ranks"].type):
        return data
    at = data.column_names.index("group_ranks")
    return data.set_column(at, "group_ranks", data["group_ranks"].dictionary_encode())


def _labels(parts: Sequence[Part]) -> list[str]:
    found: set[str] = set()
    for part in parts:
        for name in (STEPS, "collectives"):
            found.update(label for label in pc.unique(part.frames[name].data["step"]).to_pylist() if label is not None)
    return sorted(found, key=in_order)


def _groups(parts: Sequence[Part], world_size: int | None) -> pa.Table:
    rows: dict[tuple[object, object], dict[str, object]] = {}
    for part in parts:
        for row in part.frames[GROUPS].data.to_pylist():
            rows.setdefault((row["group"], row["group_ranks"]), row)
    schema = parts[0].frames[GROUPS].data.schema.append(pa.field("group_shape", pa.string()))
    order = sorted(rows.values(), key=lambda row: natural_key(f"{row['group']} {row['group_ranks']}"))
    return pa.Table.from_pylist(rows_with_shapes(order, world_size), schema=schema)


def _devices(parts: Sequence[Part], names: Sequence[str]) -> pa.Table:
    """Returns the devices of all workers. An unknown process is named like its worker."""
    rows = [
        {**row, "worker": name, "process": row["process"] or name}
        for name, part in zip(names, parts, strict=True)
        for row in part.frames[DEVICES].data.to_pylist()
    ]
    schema = parts[0].frames["devices"].data.schema.append(pa.field("worker", pa.string()))
    return pa.Table.from_pylist(rows, schema=schema)


def _stated_groups(parts: Sequence[Part]) -> list[ReportedGroup]:
    return [
        ReportedGroup(worker, row["group"], row["group_ranks"], row["group_description"])
        for worker, part in enumerate(parts)
        for row in part.frames[GROUPS].data.to_pylist()
    ]


def _members(groups: Groups) -> pa.Table:
    """Returns ranks and size of each ``group_code``. Unknown or truncated lists of ranks are null."""
    known = pa.array(
        [list(each.listed) if each.listed and not each.cut else None for each in groups.ranks], pa.list_(pa.int64())
    )
    return pa.table({"ranks": known, "size": pc.list_value_length(known).cast(pa.int64())})


def _call_groups(
    data: pa.Table, parts: Sequence[Part], ranks: Sequence[int | None], world_size: int | None
) -> tuple[Groups, pa.Array]:
    """Returns the groups of all calls, and the names of groups that are inferred from the callers."""
    listed = _stated_groups(parts)
    groups, names = groups_in(data, listed), dict[int, str]()
    if world_size == len(parts) > 1 and None not in ranks:
        collective, titles = texts_of(data, "collective")
        is_blank = is_one_of(*texts_of(data, "group"), {""}) & is_one_of(collective, titles, ALIKE)
        kind = codes(collective, texts_of(data, "dtype")[0], numbers_of(data, "elements"))
        worker = numbers_of(data, "worker")
        groups, names = groups_of_callers(groups, worker, kind, np.flatnonzero(is_blank), ranks, listed)
    name_of = pa.array([names.get(code) for code in range(len(groups.ranks))], pa.string())
    return groups, name_of.take(pa.array(groups.code)).dictionary_encode()


def _calls(
    data: pa.Table, labels: Sequence[str], ranks: pa.Table, world_size: int | None, sizes: Int64
) -> tuple[pa.Table, pa.Table]:
    """Returns the matched calls of all workers, sorted by worker and time, and the clocks of the workers.

    ``sizes`` has the number of ranks of each ``group_code`` (-1 = unknown).
    """
    workers, groups = ranks.num_rows, numbers_of(data, "group_code")
    worker: Int64 = data["worker"].to_numpy().astype(np.int64)
    dur, size = numbers_of(data, "dur_ns"), numbers_of(data, "group_size")
    collective, names = texts_of(data, "collective")
    found = pc.fill_null(pc.index_in(data["step"], value_set=pa.array(labels, pa.string())), len(labels))
    steps = found.to_numpy().astype(np.int64)
    calls = compared_columns(data, steps, len(labels), (workers, world_size), groups)
    matches = match_calls(calls) if workers > 1 else no_matches(len(worker))
    label, two_ended = matches.label, is_one_of(collective, names, POINT_TO_POINT)
    all_here = world_size is None or world_size <= workers
    size = fill_from_collective(label, np.where(size >= 1, size, sizes[groups]))
    times = waits_and_transfers(calls, label, dur, np.where(two_ended, 2, size), all_here)
    synchronizing = is_one_of(collective, names, SYNCHRONIZING)
    start, on_device = numbers_of(data, "start_ns"), data["on_device"].to_numpy()
    anchors = anchors_of(worker, label, calls.group, start + dur, on_device, synchronizing)
    is_stated, zero = _zeros(ranks["base_time_ns"])
    clocks = clocks_of(anchors, zero)
    late = lateness_of(clocks, worker, label, calls.group, start)
    moved, rated = _bytes(data, collective, names, label)
    data = data.set_column(data.column_names.index("comm_bytes"), "comm_bytes", pa.array(moved, mask=moved < 0))
    added = {
        "step_place": steps,
        "match": label,
        "match_kind": np.where((label >= 0) & two_ended, ENDS, matches.by),
        "matched_workers": times.workers,
        "last": times.last,
        "transfer_ns": times.transfer_ns,
        "timing": times.timing,
        "bus_factor": _factors(collective, names, size),
        "rated": rated,
        "ranks_of_group": np.minimum(size, _MOST_RANKS).astype(np.int32),
        **dict(zip(LATE, astuple(late), strict=True)),
    }
    for key, values in added.items():
        data = data.append_column(key, pa.array(values))
    return data, clocks_table(clocks, is_stated)


def _bytes(data: pa.Table, collective: Int64, names: Sequence[str], label: Int64) -> tuple[Int64, Bool]:
    """Returns the bytes of each call, and whether the bandwidth of the call is meaningful.

    A missing size comes from another call of the same collective. If the group size is unknown, some calls may only
    report the bytes of one rank.
    """
    stated = numbers_of(data, "comm_bytes")
    is_part = is_one_of(collective, names, {"all_gather", "gather", "reduce_scatter"}) & (
        numbers_of(data, "group_size") < 1
    )
    whole = fill_from_collective(label, np.where(is_part, -1, stated))
    alike = ~is_one_of(collective, names, UNEVEN)
    found = np.where(alike & (whole >= 0), whole, stated)
    rated = ~(is_part & ~(alike & (whole >= 0))) & ~is_one_of(collective, names, {"all_to_allv"})
    return found, rated


def _zeros(base_time_ns: pa.ChunkedArray) -> tuple[Bool, Int64]:
    """Returns whether each rank reports a clock reading at the start of the trace, and the clock reading.

    If a rank reports none, the median of the other ranks is used.
    """
    stated: Bool = np.asarray(pc.is_valid(base_time_ns))
    zero: Int64 = pc.fill_null(base_time_ns, 0).to_numpy().astype(np.int64)
    middle = quantile_by(np.zeros(int(stated.sum()), np.int64), zero[stated], 1, 50)
    return stated, np.where(stated, zero, middle)


def _factors(collective: Int64, names: Sequence[str], size: Int64) -> npt.NDArray[np.float64]:
    """Returns the factor of nccl-tests from algorithm bandwidth to bus bandwidth for each call; NaN if undefined."""
    kinds = group_sorted(collective, size)
    factors = [bus_factor(names[collective[row]], int(size[row])) for row in kinds.first.tolist()]
    found: npt.NDArray[np.float64] = np.array([np.nan if one is None else one for one in factors], np.float64)[kinds.of]
    return found
