"""Separate traces for the ranks of one merged file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.lib.arrays import Bool, Int32
from tb_plugin.lib.groupby import places_of
from tb_plugin.model.trace.extra_columns import moved_columns
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.merged_processes import PROCESSES, RANK_METADATA, processes
from tb_plugin.model.trace.report import Issue
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.model.trace.worker_names import rank_worker

Columns = TypeVar("Columns", bound=Any)

# Rank numbers, as in process names and in the output of merging tools.
_RANK = re.compile(r"(?<![a-z])(?:rank|tp|dp|pp|ep)[ _-]*(\d{1,6})(?!\d)", re.IGNORECASE)
# Argument in which TraceFuse writes the rank of each event.
_RANK_COLUMN = "rank"
_MOST_RANKS = 1_000_000
# Maximum number of ranks. Each needs a pass over the rows and its own cache files.
_MOST_WORKERS = 256
# Maximum length of a text that is used as a worker name.
_MAX_LABEL_CHARACTERS = 64
_ROWS = (
    "start_ns", "dur_ns", "name", "category", "kind", "pid", "tid", "correlation", "external_id", "is_collective",
    "uses_matrix_unit", "matrix_eligible",
)  # fmt: skip
_SECTIONS = ("operators", "python", "device_args", "collectives", "asynchronous")


class RankTrace(msgspec.Struct, frozen=True, eq=False):
    """One rank of a merged file: the worker name, and a function that builds the trace."""

    label: str
    make: Callable[[], RawTrace]


def rank_traces(raw: RawTrace) -> list[RankTrace]:
    """Returns the ranks of a merged file; none if there is only one, or if they cannot be separated."""
    found = None if raw.is_external_id_sure else processes(raw)
    if found is None:
        return []
    process, labels = found
    stated = _argument_ranks(raw)
    process = _filled_by_place(_filled(process, stated))
    work = of_kind(raw.kind, *DEVICE_WORK)
    if (process[work | (raw.kind == EventKind.OPERATOR)] == MISSING).any():
        return []
    numbers = _rank_numbers(raw, process, stated, labels)
    working = np.bincount(process[work], minlength=len(labels)) > 0
    # A process without device work is a rank only if the file contains its rank number, or lists it as a rank.
    is_listed = RANK_METADATA in raw.metadata
    ranks = [
        n for n in np.unique(process[process != MISSING]).tolist() if working[n] or numbers[n] is not None or is_listed
    ]
    if not 2 <= len(ranks) <= _MOST_WORKERS:
        return []
    raw = _with_numbered_devices(raw)
    names = _worker_names([numbers[n] for n in ranks], [labels[n] for n in ranks])
    pids = _process_of_pids(raw, process)
    left = int((~np.isin(process, ranks)).sum())
    return [
        RankTrace(name, partial(_one_process, raw, process, pids, n, numbers[n], labels[n], _issues(name, names, left)))
        for n, name in zip(ranks, names, strict=True)
    ]


def _argument_ranks(raw: RawTrace) -> Int32:
    stated = np.full(len(raw.pid), MISSING, np.int32)
    for column in raw.others:
        if column.key == _RANK_COLUMN and np.issubdtype(column.value.dtype, np.integer) and not column.is_text:
            is_rank = (column.value >= 0) & (column.value < _MOST_RANKS)
            stated[column.row[is_rank]] = column.value[is_rank]
    return stated


def _filled(process: Int32, stated: Int32) -> Int32:
    known = np.flatnonzero((process != MISSING) & (stated != MISSING))
    ranks, first = np.unique(stated[known], return_index=True)
    if not len(ranks):
        return process
    place = np.minimum(np.searchsorted(ranks, stated), len(ranks) - 1)
    return np.where((process == MISSING) & (ranks[place] == stated), process[known][first][place], process)


def _filled_by_place(process: Int32) -> Int32:
    known = np.flatnonzero(process != MISSING)
    if len(known) == len(process) or np.count_nonzero(np.diff(process[known])) >= len(np.unique(process[known])):
        return process
    place = np.searchsorted(known, np.arange(len(process)), side="right") - 1
    return process[known[np.maximum(place, 0)]]


def _rank_numbers(raw: RawTrace, process: Int32, stated: Int32, labels: Sequence[str]) -> list[int | None]:
    ranks: list[set[int]] = [set() for _ in labels]
    for n, rank in _pairs(process, stated).T.tolist():
        ranks[n].add(rank)
    names: list[set[str]] = [set() for _ in labels]
    for n, pid in _pairs(process, raw.pid).T.tolist():
        names[n].add(raw.process_names.get(raw.strings[pid], ""))
    numbers = [
        _only_one(_numbers_in([label])) or _only_one(ranks[n]) or _only_one(_numbers_in(names[n]))
        for n, label in enumerate(labels)
    ]
    known = [one[0] for one in numbers if one]
    return [one[0] if one and len(set(known)) == len(known) else None for one in numbers]


def _pairs(process: Int32, values: Int32) -> npt.NDArray[np.int64]:
    rows = np.flatnonzero((process != MISSING) & (values != MISSING))
    width = int(values.max(initial=0)) + 1
    return np.stack(np.divmod(np.unique(process[rows].astype(np.int64) * width + values[rows]), width))


def _numbers_in(texts: Iterable[str]) -> set[int]:
    found = [_RANK.findall(text) for text in texts]
    return {int(numbers[0]) for numbers in found if len(numbers) == 1}


def _only_one(numbers: set[int]) -> tuple[int, ...]:
    return tuple(numbers) if len(numbers) == 1 else ()


def _worker_names(numbers: Sequence[int | None], labels: Sequence[str]) -> list[str]:
    if None not in numbers:
        return [rank_worker(number) for number in numbers if number is not None]
    if not any(label.isdecimal() or label.startswith("#") or len(label) > _MAX_LABEL_CHARACTERS for label in labels):
        return list(labels)
    return [f"process {place} of {len(labels)}" for place in range(1, len(labels) + 1)]


def _with_numbered_devices(raw: RawTrace) -> RawTrace:
    rows = np.flatnonzero(raw.device != MISSING)
    pairs = _pairs(raw.pid[rows], raw.device[rows].astype(np.int32)).T.tolist()
    stated: dict[int, list[int]] = {}
    for pid, device in pairs:
        if raw.devices[device].id != raw.strings[pid]:
            stated.setdefault(pid, []).append(device)
    own = np.full(len(raw.strings) + 1, MISSING, np.int16)
    new = own.copy()
    for pid, device in pairs:
        if len(stated.get(pid, ())) == 1 and raw.devices[device].id == raw.strings[pid]:
            own[pid], new[pid] = device, stated[pid][0]
    is_own = (raw.device != MISSING) & (raw.device == own[raw.pid])
    return replace(raw, device=np.where(is_own, new[raw.pid], raw.device))


def _process_of_pids(raw: RawTrace, process: Int32) -> Int32:
    owner, pid = _pairs(process, raw.pid)
    of_pid = np.full(len(raw.strings) + 1, MISSING, np.int32)  # the last entry is for index -1
    single = np.bincount(pid)[pid] == 1
    of_pid[pid[single]] = owner[single]
    return of_pid


def _issues(name: str, names: Sequence[str], left: int) -> tuple[Issue, ...]:
    others = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    text = f"The file holds traces of {len(names)} processes ({others}). This worker is {name}."
    told = [Issue("merged_processes", "note", text, 1)]
    if left:
        text = "Events without a known rank belong to no worker."
        told.append(Issue("unknown_rank", "note", text, left))
    return tuple(told)


def _one_process(
    raw: RawTrace, process: Int32, of_pid: Int32, n: int, rank: int | None, label: str, issues: tuple[Issue, ...]
) -> RawTrace:
    place, pids = np.flatnonzero(process == n), of_pid == n
    position = places_of(place, len(process))
    counters = _taken(raw.counters, pids[raw.counters.pid])
    memory = pids[raw.memory.pid]
    flows, arrows = raw.flows, raw.arrows
    arrows = _taken(arrows, pids[arrows.start_pid] & pids[arrows.end_pid])
    others = len(process) - len(place) + int((~memory).sum())
    others += len(np.unique(raw.counters.event)) - len(np.unique(counters.event))
    kept = raw.report.events_loaded - others
    devices, device = _devices(raw, raw.device[place])
    report = replace(
        raw.report,
        events_loaded=kept,
        events_in_file=raw.report.events_in_file - others,
        issues=(*raw.report.issues, *issues),
    )
    found = replace(
        raw,
        **{name: getattr(raw, name)[place] for name in _ROWS},
        **{name: _section(getattr(raw, name), position) for name in _SECTIONS},
        devices=devices,
        device=device,
        nth=None if raw.nth is None else raw.nth[place],
        others=moved_columns(raw.others, position),
        memory=_taken(raw.memory, memory),
        reported_memory=_taken(raw.reported_memory, memory) if len(raw.reported_memory.name) else raw.reported_memory,
        counters=counters,
        counter_series=_taken(raw.counter_series, pids[raw.counter_series.pid]),
        flows=_taken(flows, pids[flows.start_pid] & pids[flows.end_pid]),
        arrows=replace(arrows, start_row=position[arrows.start_row], end_row=position[arrows.end_row]),
        metadata=_metadata(raw, rank),
        report=report,
    )
    return _as_exported(found, label)


def _devices(raw: RawTrace, device: npt.NDArray[np.int16]) -> tuple[tuple[DeviceInfo, ...], npt.NDArray[np.int16]]:
    properties = raw.metadata.get("deviceProperties")
    listed = {
        str(item.get("id")) for item in (properties if isinstance(properties, list) else ()) if isinstance(item, dict)
    }
    used = set(np.unique(device).tolist())
    kept = [i for i, info in enumerate(raw.devices) if i in used or info.id in listed]
    place = np.full(len(raw.devices) + 1, MISSING, np.int16)  # the last entry is for index -1
    place[kept] = np.arange(len(kept), dtype=np.int16)
    return tuple(raw.devices[i] for i in kept), place[device]


def _taken(columns: Columns, kept: Bool) -> Columns:
    taken: Columns = replace(
        columns,
        **{f: column[kept] if len(column := getattr(columns, f)) else column for f in columns.__struct_fields__},
    )
    return taken


def _section(section: Columns, position: Int32) -> Columns:
    row = position[section.row]
    kept: Columns = replace(_taken(section, row != MISSING), row=row[row != MISSING])
    return kept


def _as_exported(raw: RawTrace, label: str) -> RawTrace:
    """Returns a rank of a file that Torch Trace merged with its own metadata, process ids and names of processes."""
    metadata = dict(raw.metadata)
    ranks = metadata.pop(RANK_METADATA, None)
    own = ranks.get(label) if isinstance(ranks, dict) else None
    if not isinstance(own, dict):
        return raw
    metadata |= {key: value for key, value in own.items() if key != PROCESSES}
    listed = own.get(PROCESSES)
    old = {pid: text for pid, text in (listed if isinstance(listed, dict) else {}).items() if isinstance(text, str)}
    found = pc.index_in(pa.array(list(old), pa.large_string()), value_set=raw.strings.array)
    place = pc.fill_null(found, MISSING).to_numpy().astype(np.int64)
    strings, ids = raw.strings.extended(pa.array(list(old.values()), pa.large_string()))
    of_pid = np.arange(len(strings) + 1, dtype=np.int32)
    of_pid[place] = ids
    of_pid[-1] = MISSING  # also for listed processes without events

    def moved(columns: Columns, *fields: str) -> Columns:
        renamed: Columns = replace(columns, **{name: of_pid[getattr(columns, name)] for name in fields})
        return renamed

    names = {pid: name.removeprefix(f"{label} ") for pid, name in raw.process_names.items()}
    return replace(
        moved(raw, "pid"),
        strings=strings,
        memory=moved(raw.memory, "pid"),
        counters=moved(raw.counters, "pid"),
        counter_series=moved(raw.counter_series, "pid"),
        flows=moved(raw.flows, "start_pid", "end_pid"),
        arrows=moved(raw.arrows, "start_pid", "end_pid"),
        process_names={old[pid]: name for pid, name in names.items() if pid in old},
        thread_names={(old[pid], tid): name for (pid, tid), name in raw.thread_names.items() if pid in old},
        process_order={},
        thread_order={(old[pid], tid): place for (pid, tid), place in raw.thread_order.items() if pid in old},
        metadata=metadata,
    )


def _metadata(raw: RawTrace, rank: int | None) -> dict[str, Any]:
    found = dict(raw.metadata)
    info = found.get("distributedInfo")
    if isinstance(info, dict):
        found["distributedInfo"] = {key: value for key, value in info.items() if key != "rank"}
        if rank is not None:
            found["distributedInfo"]["rank"] = rank
    elif rank is not None:
        found["distributedInfo"] = {"rank": rank}
    return found
