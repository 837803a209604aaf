"""Processes of a trace file merged from several ranks."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import codes
from tb_plugin.model.trace.report import Issue
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.table import RawTrace

# Metadata by rank, in files that Torch Trace merged, and in it the process ids of the rank by those in the file.
RANK_METADATA, PROCESSES = "rankMetadata", "processes"
# Prefixes and suffixes of process numbers written by merging tools.
_TAGS = (
    re.compile(r"(?s)(.*\D)\d+"),  # "[TP00] 5000", "rank0_5000"
    re.compile(r"(?s)\d+(\D.*)"),  # "5000 (rank 0)", "5000_0"
)
# Number of rows per device that are compared with the launches of each process.
_SAMPLED_ROWS = 4096
# Maximum number of device-process pairs to compare, enough for 256 ranks. With more, processes stay unknown.
_MOST_PAIRS = 1 << 16
# A process fits if it matches at least this share of the launches of the best one.
_MIN_FIT_SHARE = 0.99
# PyTorch numbers operators uniquely per process; a larger share of repeated numbers means several processes.
_MIN_REPEATED_SHARE = 0.01


class Merged(msgspec.Struct, frozen=True, eq=False):
    """A raw trace with separate devices per process, and the process of each row; None = a single process."""

    raw: RawTrace
    process: Int32 | None = None


def separate_processes(raw: RawTrace) -> Merged:
    """Gives each process of a merged trace its own devices. Returns other traces unchanged."""
    if raw.is_external_id_sure:  # such ids do not come from a framework
        return Merged(raw)
    found = processes(raw)
    if found is None:
        return Merged(_warned(raw, _repeated(raw), "repeated_ids", _REPEATED_IDS))
    process, labels = found
    raw = _with_issue(_with_devices(raw, process, labels), labels)
    unclear = of_kind(raw.kind, *DEVICE_WORK) & (process == MISSING)
    return Merged(_warned(raw, int(unclear.sum()), "unclear_process", _UNCLEAR), process)


_UNCLEAR = "Several processes use the same ids. It is uncertain which of them launched this device work."
_REPEATED_IDS = (
    "Operators of one process have the same id: several traces were merged. Launches may be matched wrongly."
)


def _warned(raw: RawTrace, count: int, code: str, text: str) -> RawTrace:
    if not count:
        return raw
    return replace(raw, report=replace(raw.report, issues=(*raw.report.issues, Issue(code, "note", text, count))))


def _with_issue(raw: RawTrace, labels: Sequence[str]) -> RawTrace:
    names = ", ".join(labels[:8]) + (", ..." if len(labels) > 8 else "")
    text = f"The file holds traces of {len(labels)} processes ({names}). Views add up their work."
    return _warned(raw, 1, "merged_processes", text)


def _repeated(raw: RawTrace) -> int:
    if not of_kind(raw.kind, *DEVICE_WORK).any():
        return 0
    rows = np.flatnonzero((raw.kind == EventKind.OPERATOR) & (raw.external_id > 0))
    distinct = np.count_nonzero(np.bincount(codes(raw.pid[rows].astype(np.int64), raw.external_id[rows])))
    count = len(rows) - int(distinct)
    return count if count > _MIN_REPEATED_SHARE * len(rows) else 0


def processes(raw: RawTrace) -> tuple[Int32, list[str]] | None:
    """Returns the process of each row (-1 = unknown) and the names of the processes; None for a single process."""
    if (stated := _stated(raw)) is not None:
        return stated
    on_device = of_kind(raw.kind, *ON_DEVICE)
    pids = len(raw.strings)
    counted = raw.pid + 1  # -1 = none
    operating = np.bincount(counted[raw.kind == EventKind.OPERATOR], minlength=pids + 1) > 0
    hosts = np.flatnonzero(operating[1:])
    if len(hosts) < 2:
        return None
    devices = np.flatnonzero(np.bincount(counted[on_device], minlength=pids + 1)[1:])
    used = np.flatnonzero(np.bincount(counted, minlength=pids + 1)[1:])
    texts = {int(pid): raw.strings[int(pid)] for pid in used}
    for tag_of in (*map(_tag_by, _TAGS), _tag_by_offset(raw, on_device, texts)):
        tags = {pid: tag_of(text) for pid, text in texts.items()}
        if _are_ranks(tags, hosts, devices):
            number = {tag: i for i, tag in enumerate(dict.fromkeys(tags[int(pid)] for pid in hosts))}
            of_pid = np.full(pids + 1, MISSING, np.int32)
            of_pid[list(texts)] = [
                number.get(tags[pid] or _tag_in(text, number), MISSING) for pid, text in texts.items()
            ]
            process = of_pid[raw.pid]
            if _fits(raw, process):
                return process, _labels(raw, process, list(number))
    by_launches = _by_launches(raw, on_device, hosts)
    return None if by_launches is None else (by_launches, _labels(raw, by_launches))


def _stated(raw: RawTrace) -> tuple[Int32, list[str]] | None:
    ranks = raw.metadata.get(RANK_METADATA)
    if not isinstance(ranks, dict) or len(ranks) < 2:
        return None
    number: dict[str, int] = {}
    for n, rank in enumerate(ranks.values()):
        listed = rank.get(PROCESSES) if isinstance(rank, dict) else None
        number |= dict.fromkeys(listed if isinstance(listed, dict) else (), n)
    of_pid = np.full(len(raw.strings) + 1, MISSING, np.int32)  # the last entry is for index -1
    used = np.unique(raw.pid[raw.pid != MISSING]).tolist()
    of_pid[used] = [number.get(raw.strings[pid], MISSING) for pid in used]
    process = of_pid[raw.pid]
    return None if (process == MISSING).all() else (process, list(ranks))


def _tag_in(text: str, tags: Iterable[str]) -> str:
    return next((tag for tag in tags if not tag.isdecimal() and (text.startswith(tag) or text.endswith(tag))), "")


def _tag_by(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def tag_of(text: str) -> str:
        match = pattern.fullmatch(text)
        return match[1] if match and not text.removeprefix("-").isdecimal() else ""

    return tag_of


def _tag_by_offset(raw: RawTrace, on_device: Bool, texts: Mapping[int, str]) -> Callable[[str], str]:
    rows = np.flatnonzero(on_device & (raw.device != MISSING))
    pairs = np.unique(np.stack((raw.pid[rows].astype(np.int64), raw.device[rows].astype(np.int64))), axis=1)
    offsets = set()
    for pid, device in pairs.T.tolist():
        number, own = texts.get(pid, ""), raw.devices[device].id
        if not _is_number(number) or not _is_number(own):
            return lambda text: ""
        offsets.add(int(number) - int(own))
    ascending = sorted(offsets)

    def tag_of(text: str) -> str:
        below = bisect_right(ascending, int(text)) if _is_number(text) else 0
        return str(ascending[below - 1]) if below else ""

    return tag_of


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 19


def _are_ranks(tags: Mapping[int, str], hosts: Int64, devices: Int64) -> bool:
    of_hosts = {tags[int(pid)] for pid in hosts}
    return len(of_hosts) > 1 and "" not in of_hosts and {tags[int(pid)] for pid in devices} <= of_hosts


def _fits(raw: RawTrace, process: Int32) -> bool:
    calls = np.flatnonzero((raw.kind == EventKind.RUNTIME) & (raw.correlation > 0))
    work = np.flatnonzero(of_kind(raw.kind, *DEVICE_WORK) & (raw.correlation > 0))
    launched = work[np.isin(raw.correlation[work], raw.correlation[calls])]
    _, number = np.unique(np.concatenate((raw.correlation[calls], raw.correlation[launched])), return_inverse=True)
    key = number * (int(process.max(initial=0)) + 2) + np.concatenate((process[calls], process[launched])) + 1
    own = np.isin(key[len(calls) :], key[: len(calls)])
    return bool(2 * own.sum() >= len(launched))


def _by_launches(raw: RawTrace, on_device: Bool, hosts: Int64) -> Int32 | None:
    calls = np.flatnonzero((raw.kind == EventKind.RUNTIME) & (raw.correlation > 0))
    calls = calls[np.isin(raw.pid[calls], hosts)]
    launching, of_call = np.unique(raw.pid[calls], return_inverse=True)
    if len(launching) < 2:
        return None
    order = np.argsort(raw.correlation[calls], kind="stable")
    ids, owner = raw.correlation[calls][order], of_call[order]
    collide = bool(((ids[1:] == ids[:-1]) & (owner[1:] != owner[:-1])).any())
    if collide:
        process = _by_place(raw, launching)
        if process is not None and _fits(raw, process):
            return process
    return _by_votes(raw, on_device, calls, of_call, launching, collide)


def _by_place(raw: RawTrace, launching: Int32) -> Int32 | None:
    pids, first = np.unique(raw.pid, return_index=True)
    first = first[np.searchsorted(pids, launching)]
    pids, last = np.unique(raw.pid[::-1], return_index=True)
    last = len(raw.pid) - 1 - last[np.searchsorted(pids, launching)]
    order = np.argsort(first)
    if (last[order][:-1] > first[order][1:]).any():
        return None
    process = np.searchsorted(first[order], np.arange(len(raw.pid)), side="right") - 1
    return np.maximum(process, 0).astype(np.int32)


def _by_votes(
    raw: RawTrace, on_device: Bool, calls: Int64, of_call: Int64, launching: Int32, collide: bool
) -> Int32 | None:
    work = np.flatnonzero(of_kind(raw.kind, *DEVICE_WORK) & (raw.correlation > 0))
    work = work[np.argsort(raw.pid[work], kind="stable")]
    devices, first = np.unique(raw.pid[work], return_index=True)
    if len(devices) * len(launching) > _MOST_PAIRS:
        unknown = np.full(len(devices), MISSING, np.int32)
        return (
            _pid_processes(raw, on_device, launching, np.arange(len(launching)), devices, unknown) if collide else None
        )
    score = np.zeros((len(devices), len(launching)), np.int64)
    samples = [rows[:: len(rows) // _SAMPLED_ROWS + 1] for rows in np.split(work, first[1:])] if len(work) else []
    calls = calls[np.lexsort((raw.correlation[calls], of_call))]
    for j, own in enumerate(np.split(calls, np.cumsum(np.bincount(of_call))[:-1])):
        ids = raw.correlation[own]
        for i, rows in enumerate(samples):
            at = own[np.minimum(np.searchsorted(ids, raw.correlation[rows]), len(ids) - 1)]
            hit = (raw.correlation[at] == raw.correlation[rows]) & (raw.start_ns[at] <= raw.start_ns[rows])
            score[i, j] = hit.sum()
    if not score.any():
        return None
    of_host, of_device = _assigned(raw, score, samples, collide)
    if len(set(of_host.tolist())) < 2:
        return None
    return _pid_processes(raw, on_device, launching, of_host, devices, of_device)


def _pid_processes(
    raw: RawTrace, on_device: Bool, hosts: Int32, of_host: Int64 | Int32, devices: Int32, of_device: Int32
) -> Int32:
    process = np.full(len(raw.pid), MISSING, np.int32)
    for pids, of, chosen in ((hosts, of_host, ~on_device), (devices, of_device, on_device)):
        table = np.full(len(raw.strings) + 1, MISSING, np.int32)
        table[pids] = of
        process[chosen] = table[raw.pid[chosen]]
    return process


def _assigned(raw: RawTrace, score: Int64, samples: Sequence[Int64], collide: bool) -> tuple[Int32, Int32]:
    """Returns the process of each launching host and of each device; -1 = unclear. Unique ids join hosts of a device."""
    of_host = np.arange(score.shape[1], dtype=np.int32)
    best = score.max(axis=1)
    if not collide:
        for row in score:
            share = np.flatnonzero(row)
            if len(share):
                of_host[np.isin(of_host, of_host[share])] = of_host[share].min()
        of_device = np.where(best > 0, of_host[score.argmax(axis=1)], MISSING)
    else:
        fits = (score >= _MIN_FIT_SHARE * best[:, None]) & (score > 0)
        of_device = np.full(len(score), MISSING, np.int32)
        ids = [np.unique(raw.correlation[rows]) for rows in samples]
        while len(clear := np.flatnonzero((fits.sum(axis=1) == 1) & (of_device == MISSING))):
            of_device[clear] = fits[clear].argmax(axis=1)
            for i in clear.tolist():  # a launch has work on one device only, so equal ids mean different processes
                for other in np.flatnonzero(of_device == MISSING).tolist():
                    shared = np.isin(ids[other], ids[i]).sum()
                    fits[other, of_device[i]] &= 2 * shared <= min(len(ids[i]), len(ids[other]))
        # A process without a device may share a device that was assigned to another process.
        without = np.setdiff1d(of_host, of_device)
        of_device[((2 * score[:, without] >= best[:, None]) & (score[:, without] > 0)).any(axis=1)] = MISSING
    number = np.unique(of_host, return_inverse=True)[1].astype(np.int32)
    of_device = np.where(of_device == MISSING, MISSING, number[of_device]).astype(np.int32)
    return number, of_device


def _labels(raw: RawTrace, process: Int32, tags: Sequence[str] = ()) -> list[str]:
    labels = [re.sub(r"^[\W_]+|[\W_]+$", "", tag) for tag in tags]
    if labels and all(labels) and len(set(labels)) == len(labels) and not all(map(str.isdecimal, tags)):
        return labels
    operators = np.flatnonzero((raw.kind == EventKind.OPERATOR) & (process != MISSING))
    numbers, first = np.unique(process[operators], return_index=True)
    pids = {int(n): raw.strings[int(raw.pid[operators[at]])] for n, at in zip(numbers, first, strict=True)}
    return [pids.get(number, f"#{number}") for number in range(int(process.max(initial=0)) + 1)]


def _with_devices(raw: RawTrace, process: Int32, labels: Sequence[str]) -> RawTrace:
    rows = np.flatnonzero(raw.device != MISSING)
    width = len(labels) + 1
    pairs, which = np.unique(raw.device[rows].astype(np.int64) * width + process[rows] + 1, return_inverse=True)
    of = pairs // width
    shared = np.flatnonzero(np.bincount(of, minlength=len(raw.devices))[of] > 1)
    if not len(shared):
        return raw
    devices, place = list(raw.devices), of.copy()
    labelled = [*labels, "?"]
    for pair in shared.tolist():
        old = raw.devices[int(of[pair])]
        place[pair] = len(devices)
        devices.append(replace(old, id=f"{labelled[int(pairs[pair] % width) - 1]}:{old.id}"))
    gone = np.zeros(len(devices), np.bool_)
    gone[of[shared]] = True
    left = np.cumsum(~gone) - 1
    device = raw.device.copy()
    device[rows] = left[place[which]]
    raw = replace(raw, device=device, devices=tuple(d for d, lost in zip(devices, gone, strict=True) if not lost))
    return _with_rows_of(raw, rows[np.isin(which, shared)])


def _with_rows_of(raw: RawTrace, rows: Int64) -> RawTrace:
    rows = rows[of_kind(raw.kind[rows], *ON_DEVICE)]
    strings, ids = raw.strings.extended(pa.array([device.id for device in raw.devices], pa.large_string()))
    new = ids[raw.device[rows]]
    old = raw.pid[rows]
    pid = raw.pid.copy()
    pid[rows] = new
    names, order = dict(raw.process_names), dict(raw.process_order)
    threads, thread_order = dict(raw.thread_names), dict(raw.thread_order)
    moved = np.unique(np.stack((old, new, raw.tid[rows])), axis=1)
    for before, after, tid in moved.T.tolist():
        was, now, thread = raw.strings[before], strings[after], raw.strings[tid]
        for table in (names, order):
            if was in table:
                table[now] = table[was]  # type: ignore[assignment]
        for table_of in (threads, thread_order):
            if (was, thread) in table_of:
                table_of[now, thread] = table_of[was, thread]  # type: ignore[assignment]
    raw = replace(
        raw, pid=pid, strings=strings, process_names=names, process_order=order, thread_names=threads,
        thread_order=thread_order,
    )  # fmt: skip
    of_pid = np.arange(len(strings) + 1, dtype=np.int32)
    of_pid[-1] = MISSING
    pairs = np.unique(moved[:2], axis=1)
    single = np.flatnonzero(
        np.bincount(pairs[0])[pairs[0]] == 1
    )  # a process on several devices keeps its name in the file
    single = single[~np.isin(pairs[0, single], np.unique(pid))]
    of_pid[pairs[0, single]] = pairs[1, single]
    return replace(
        raw,
        counters=replace(raw.counters, pid=of_pid[raw.counters.pid]),
        counter_series=replace(raw.counter_series, pid=of_pid[raw.counter_series.pid]),
        arrows=replace(raw.arrows, start_pid=of_pid[raw.arrows.start_pid], end_pid=of_pid[raw.arrows.end_pid]),
    )
