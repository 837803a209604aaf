"""Runs and workers of distributed jobs.

First, the folders of one job become one run. Files do not contain a job name. Profiles are merged if they report the
same world size, backend and process group, and have distinct ranks and overlapping times. A repeated rank means two
jobs, a restart or a copy. Then only unambiguous folders are merged. Containers reuse host names and process ids, so
folders are compared as well. Then the workers of each run are named after their ranks.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from pathlib import PurePosixPath

import msgspec
from msgspec.structs import replace

from tb_plugin import settings
from tb_plugin.formats.base import JobInfo
from tb_plugin.formats.format_entry import as_identifying_reader
from tb_plugin.lib.intervals import RECORDING_SLACK_NS, split_by_gaps
from tb_plugin.model.trace.worker_names import rank_worker
from tb_plugin.service.discovery.claims import unique_names
from tb_plugin.service.profile_files import ProfileFiles, Root, run_name

# The value ``folders`` keeps each folder a separate run.
GROUP_VARIABLE = settings.GROUP.name
_LONGEST_NS = 86_400 * 10**9
_NAMED = re.compile(r"rank(\d{1,9})\Z")
# The job that each profile reports, if its file was read.
Jobs = Mapping[ProfileFiles, JobInfo | None]
# Root, clock, world size, backend, group.
_Key = tuple[Root, str, int, str, str]
# The parts of a path below a log directory.
_Folder = tuple[str, ...]
# Start and end of a recording, and its profile.
_Recording = tuple[int, int, ProfileFiles]


def is_on() -> bool:
    return os.environ.get(GROUP_VARIABLE, "").strip().lower() != "folders"


def first_candidates(found: Iterable[ProfileFiles]) -> list[ProfileFiles]:
    """Returns the first and the last profile of each run, to find out whether the run may belong to a job."""
    first: dict[str, dict[str, ProfileFiles]] = defaultdict(dict)
    for one in found:
        if as_identifying_reader(one.reader) is not None:
            first[one.run].setdefault(one.worker, one)
    every = [[*workers.values()] for workers in first.values()]
    return [one for profiles in every for one in dict.fromkeys((profiles[0], profiles[-1]))]


def later_candidates(found: Iterable[ProfileFiles], jobs: Jobs) -> list[ProfileFiles]:
    """Returns the profiles whose ranks are needed to name runs, workers and spans.

    ``jobs`` contains a sample of the profiles of each run. A run is skipped if no profile in the sample reports a
    rank, or if the run has all ranks of its job and its workers are named after them.
    """
    asked: list[ProfileFiles] = []
    incomplete = incomplete_runs(found := list(found), jobs)
    for run, profiles in _ungrouped_runs(found).items():
        sample = [(one, job) for one in profiles if (job := jobs.get(one)) is not None]
        workers = {one.worker for one in profiles if as_identifying_reader(one.reader) is not None}
        are_ranks = all(map(_NAMED.match, workers)) and all(one.worker == rank_worker(job.rank) for one, job in sample)
        if sample and (run in incomplete or not are_ranks or _is_unclear(profiles, jobs)):
            asked += profiles
    return asked


def incomplete_runs(found: Iterable[ProfileFiles], jobs: Jobs) -> set[str]:
    """Returns the runs that have fewer workers than the world size in ``jobs``."""
    workers: dict[str, set[str]] = defaultdict(set)
    for one in found:
        workers[one.run].add(one.worker)
    return {one.run for one, job in jobs.items() if job is not None and job.world_size > len(workers[one.run])}


def recording_span(one: ProfileFiles, job: JobInfo) -> tuple[int, int]:
    """Returns start and end of a recording in nanoseconds. If the end is unknown, both values are the start."""
    start_ns = job.start_ns or 0
    end_ns = (one.time_unix_ms or 0) * 1_000_000 + 999_999 if job.clock == "unix" else 0
    # The time in the file name is when the file was written: the end of the recording.
    return (start_ns, end_ns if 0 <= end_ns - start_ns <= _LONGEST_NS else start_ns)


def concurrent_groups(found: Iterable[ProfileFiles], jobs: Jobs) -> list[list[ProfileFiles]]:
    """Groups profiles that different ranks recorded at the same time, in order of time."""
    recorded: dict[tuple[_Key, int], list[_Recording]] = defaultdict(list)
    for one in found:
        if (job := jobs.get(one)) is not None and job.start_ns is not None:
            recorded[_key(one, job), job.rank].append((*recording_span(one, job), one))
    processes = [_process(key, rank, items, jobs) for (key, rank), items in recorded.items()]
    return [[process.profiles[i] for process, i in cycle] for cycle in _cycles(processes)]


def span_names(names: Sequence[Set[str]]) -> list[str]:
    """Returns one span per recording: the name that its files share, made unique, else a number."""
    recordings = [(str(number), min(own), len(own)) for number, own in enumerate(names, 1)]
    return unique_names(
        [number if count > 1 or name.isdigit() or name == "default" else name for number, name, count in recordings]
    )


def group_jobs(found: Sequence[ProfileFiles], jobs: Jobs, several: bool) -> list[ProfileFiles]:
    """Merges each job into one run. ``several``: run names start with that of the log directory."""
    by_key: dict[_Key, list[_Process]] = defaultdict(list)
    for process in _processes(found, jobs):
        by_key[process.key].append(process)
    groups = [
        (folder, group)
        for processes in by_key.values()
        for folder, group in _groups_below(processes)
        if len(group) > 1 and not _is_one_run(group)
    ]
    members = {one for _, group in groups for process in group for one in process.profiles}
    names = {one.run for one in found if one not in members}
    new: dict[ProfileFiles, ProfileFiles] = {}
    for folder, group in sorted(groups, key=lambda item: (item[0], item[1][0].begin_ns)):
        name = _free(run_name(group[0].key[0], "/".join(folder), several), names, "job ")
        names.add(name)
        new.update(_renamed(name, group))
    return [new.get(one, one) for one in found]


class _Process(msgspec.Struct):
    key: _Key
    rank: int
    folder: _Folder = ()
    profiles: list[ProfileFiles] = msgspec.field(default_factory=list)
    times: list[tuple[int, int]] = msgspec.field(default_factory=list)
    steps: list[int | None] = msgspec.field(default_factory=list)

    @property
    def begin_ns(self) -> int:
        return self.times[0][0]

    @property
    def end_ns(self) -> int:
        return max(end for _, end in self.times)


def _processes(found: Iterable[ProfileFiles], jobs: Jobs) -> list[_Process]:
    """Returns one process per rank of each job, for all profiles that report a job and a start time.

    Profiles with the same host and process id belong to the same process only if they are in the same folder, or in
    a folder that contains no other rank.
    """
    recorded: dict[tuple[_Key, int, str, _Folder], list[_Recording]] = defaultdict(list)
    found = list(found)
    ranks = _ranks_below(found, jobs)
    for one in found:
        job = jobs.get(one)
        if job is None or job.start_ns is None:
            continue
        key = _key(one, job)
        process = job.process or f"{one.run}/{one.worker}"
        recorded[key, job.rank, process, _own(_folder(one), ranks[key])].append((*recording_span(one, job), one))
    return [_process(key, rank, items, jobs) for (key, rank, _, _), items in recorded.items()]


def _process(key: _Key, rank: int, items: Iterable[_Recording], jobs: Jobs) -> _Process:
    items = sorted(items, key=lambda item: (item[0], item[2].names))
    made = _Process(key, rank, _common([_folder(one) for _, _, one in items]))
    made.profiles = [one for _, _, one in items]
    made.times = [(begin, end) for begin, end, _ in items]
    made.steps = [job.first_step if (job := jobs[one]) else None for one in made.profiles]
    return made


def _key(one: ProfileFiles, job: JobInfo) -> _Key:
    return (one.root, job.clock, job.world_size, job.backend, job.group)


def _folder(one: ProfileFiles) -> _Folder:
    return PurePosixPath(one.place).parent.parts


def _ranks_below(found: Iterable[ProfileFiles], jobs: Jobs) -> dict[_Key, dict[_Folder, set[int]]]:
    ranks: dict[_Key, dict[_Folder, set[int]]] = defaultdict(lambda: defaultdict(set))
    for one in found:
        job = jobs.get(one)
        if job is not None and job.start_ns is not None:
            folder = _folder(one)
            for depth in range(len(folder) + 1):
                ranks[_key(one, job)][folder[:depth]].add(job.rank)
    return ranks


def _own(folder: _Folder, ranks: Mapping[_Folder, set[int]]) -> _Folder:
    return next((folder[:depth] for depth in range(len(folder)) if len(ranks[folder[:depth]]) == 1), folder)


def _groups_below(processes: Sequence[_Process]) -> list[tuple[_Folder, list[_Process]]]:
    groups = [(process.folder, [process]) for process in processes]
    for depth in range(max(len(process.folder) for process in processes), -1, -1):
        below: dict[_Folder, list[list[_Process]]] = defaultdict(list)
        higher = []
        for folder, group in groups:
            if len(folder) < depth:
                higher.append((folder, group))
            else:
                below[folder[:depth]].append(group)
        merged = [
            group for here in below.values() for group in (_merged(here, RECORDING_SLACK_NS) if len(here) > 1 else here)
        ]
        groups = higher + [(_common([process.folder for process in group]), group) for group in merged]
    return groups


def _merged(groups: list[list[_Process]], slack_ns: int) -> list[list[_Process]]:
    merged = []
    extents = [(min(p.begin_ns for p in group), max(p.end_ns for p in group)) for group in groups]
    for places in split_by_gaps(extents, slack_ns):
        cluster = [groups[place] for place in places]
        ranks = [process.rank for group in cluster for process in group]
        if len(set(ranks)) == len(ranks):
            merged.append([process for group in cluster for process in group])
        elif slack_ns:
            merged += _merged(cluster, 0)
        else:
            merged += cluster
    return merged


def _is_one_run(group: Sequence[_Process]) -> bool:
    runs = {one.run for process in group for one in process.profiles}
    workers = [{one.worker for one in process.profiles} for process in group]
    return len(runs) == 1 and sum(map(len, workers)) == len(group) == len(set.union(*workers))


def _renamed(run: str, group: Sequence[_Process]) -> dict[ProfileFiles, ProfileFiles]:
    _, _, world, backend, _ = group[0].key
    why = (
        f"{len(group)} of {world} ranks of one {backend} job: their files report the same world size, backend and group,"
        f" distinct ranks and overlapping times. Set {GROUP_VARIABLE}=folders to keep folders separate."
    )
    cycles = _cycles(group)
    spans = span_names([{process.profiles[i].recording for process, i in cycle} for cycle in cycles])
    return {
        process.profiles[i]: replace(
            process.profiles[i], run=run, worker=rank_worker(process.rank), span=span, grouped_by=why
        )
        for span, cycle in zip(spans, cycles, strict=True)
        for process, i in cycle
    }


def _cycles(group: Sequence[_Process]) -> list[list[tuple[_Process, int]]]:
    cycles: list[list[tuple[_Process, int]]] = []
    for process in sorted(group, key=lambda process: (-len(process.profiles), process.rank)):
        left = list(cycles)
        for i in range(len(process.profiles)):
            fits = [(_distance(process, i, *cycle[0]), n) for n, cycle in enumerate(left)]
            known = [(apart, n) for apart, n in fits if apart is not None]
            if known:
                left.pop(min(known)[1]).append((process, i))
            else:
                cycles.append([(process, i)])
    return sorted(cycles, key=lambda cycle: min(process.times[i][0] for process, i in cycle))


def _distance(one: _Process, i: int, other: _Process, k: int) -> tuple[bool, int] | None:
    (begin, end), (first, last) = one.times[i], other.times[k]
    same_step = one.steps[i] is not None and one.steps[i] == other.steps[k]
    away = max(first - end, begin - last, 0)
    if away > RECORDING_SLACK_NS:
        return None
    return (not same_step, abs(first - begin))


def _common(folders: Sequence[_Folder]) -> _Folder:
    common = folders[0]
    for folder in folders[1:]:
        while folder[: len(common)] != common:
            common = common[:-1]
    return common


def _free(name: str, taken: Set[str], what: str = "") -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({what}{number})"
    return free


def label_by_rank(found: Sequence[ProfileFiles], jobs: Jobs) -> list[ProfileFiles]:
    """Returns the profiles after renaming the workers to the ranks in ``jobs``.

    Recordings of one rank at different times become different spans. If recordings of one rank overlap, their
    workers keep their names, because the files are copies or belong to different jobs.
    """
    new: dict[ProfileFiles, ProfileFiles] = {}
    for profiles in _ungrouped_runs(found).values():
        new.update(_labelled(profiles, jobs))
    return [new.get(one, one) for one in found]


def _ungrouped_runs(found: Iterable[ProfileFiles]) -> dict[str, list[ProfileFiles]]:
    runs: dict[str, list[ProfileFiles]] = defaultdict(list)
    for one in found:
        if not one.grouped_by:
            runs[one.run].append(one)
    return runs


def _is_unclear(profiles: Sequence[ProfileFiles], jobs: Jobs) -> bool:
    known = [(one, info) for one in profiles if (info := jobs.get(one)) is not None]
    workers: dict[int, set[str]] = defaultdict(set)
    ranks: dict[str, set[int]] = defaultdict(set)
    for one, info in known:
        workers[info.rank].add(one.worker)
        ranks[one.worker].add(info.rank)
    is_several = any(len(each) > 1 for each in workers.values()) or any(len(each) > 1 for each in ranks.values())
    return is_several or not _are_concurrent(known)


def _are_concurrent(known: Iterable[tuple[ProfileFiles, JobInfo]]) -> bool:
    spans: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    hosts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one, info in known:
        if info.start_ns is not None:
            spans[one.span, info.clock].append(recording_span(one, info))
            hosts[one.span, info.clock].add(info.process.rpartition(":")[0])
    return all(len(hosts[span]) > 1 or len(split_by_gaps(times)) == 1 for span, times in spans.items())


def _labelled(profiles: Sequence[ProfileFiles], jobs: Jobs) -> dict[ProfileFiles, ProfileFiles]:
    ranks: dict[str, set[int]] = defaultdict(set)
    for one in profiles:
        if (info := jobs.get(one)) is not None:
            ranks[one.worker].add(info.rank)
    only = {worker: next(iter(each)) for worker, each in ranks.items() if len(each) == 1}
    # Files of other formats without a rank get the rank of the trace with the same worker name.
    rank_of = {one: info.rank if (info := jobs.get(one)) else only.get(one.worker) for one in profiles}
    groups: dict[int, list[ProfileFiles]] = defaultdict(list)
    for one, rank in rank_of.items():
        if rank is not None:
            groups[rank].append(one)
    mine = {rank: group for rank, group in groups.items() if _is_one_worker(group, jobs)}
    named = {one: rank_worker(rank) for rank, group in mine.items() for one in group}
    # A name that is still used by another worker is not assigned to a second one.
    taken = {one.worker for one in profiles if one not in named and as_identifying_reader(one.reader) is not None}
    named = {one: worker for one, worker in named.items() if worker not in taken}
    spans = {} if not _is_unclear(profiles, jobs) else _spans([one for one in profiles if one in named], jobs)
    taken_spans: dict[str, set[str]] = defaultdict(set)
    for one in profiles:
        if one not in named:
            taken_spans[one.worker].add(one.span)
    new: dict[ProfileFiles, ProfileFiles] = {}
    for one, worker in named.items():
        span = _free(spans.get(one, one.span), taken_spans[worker])
        taken_spans[worker].add(span)
        if (worker, span) != (one.worker, one.span):
            new[one] = replace(one, worker=worker, span=span, file_worker=one.worker)
    return new


def _is_one_worker(group: Sequence[ProfileFiles], jobs: Jobs) -> bool:
    if len({one.worker for one in group}) == 1:
        return True
    known = sorted(
        (*recording_span(one, info), info.process, info.clock) for one in group if (info := jobs.get(one)) is not None
    )
    if len({clock for *_, clock in known}) > 1:
        return False
    for (begin, end, process, _), (after, _, other, _) in pairwise(known):
        # A process has one profiler, so its recordings never overlap, even if the end of the first one is unknown.
        is_same = process != "" and process == other
        if after <= end + (0 if is_same or end > begin else RECORDING_SLACK_NS):
            return False
    return True


def _spans(profiles: Sequence[ProfileFiles], jobs: Jobs) -> dict[ProfileFiles, str]:
    cycles = concurrent_groups(profiles, jobs)
    spans = span_names([_recording_names(cycle) for cycle in cycles])
    return {one: span for span, cycle in zip(spans, cycles, strict=True) for one in cycle}


def _recording_names(cycle: Sequence[ProfileFiles]) -> set[str]:
    spans, workers = {one.recording for one in cycle}, {one.worker for one in cycle}
    return workers if spans == {"default"} and len(workers) == 1 else spans
