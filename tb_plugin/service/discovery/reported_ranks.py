"""Worker names that are derived from the rank in each file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from tb_plugin.formats.base import JobInfo
from tb_plugin.formats.format_entry import as_identifying_reader
from tb_plugin.lib.intervals import RECORDING_SLACK_NS, split_by_gaps
from tb_plugin.model.trace.worker_names import rank_worker
from tb_plugin.service.discovery.distributed_jobs import concurrent_groups, recording_span, span_names
from tb_plugin.service.profile_files import ProfileFiles

_NAMED = re.compile(r"rank(\d{1,9})\Z")


def profiles_without_rank(
    found: Iterable[ProfileFiles], infos: Mapping[ProfileFiles, JobInfo | None]
) -> list[ProfileFiles]:
    """Returns one profile for each worker whose rank is unknown.

    ``infos`` contains a sample of the profiles of each run. A run is skipped if no profile in the sample reports a
    rank, or if the worker names are already ranks.
    """
    asked: list[ProfileFiles] = []
    for profiles in _runs(found).values():
        sample = [(one, info) for one in profiles if (info := infos.get(one)) is not None]
        workers = {one.worker: one for one in reversed(profiles) if as_identifying_reader(one.reader) is not None}
        are_ranks = all(map(_NAMED.match, workers)) and all(
            one.worker == rank_worker(info.rank) for one, info in sample
        )
        if sample and not are_ranks:
            known = {one.worker for one, _ in sample}
            asked += [one for worker, one in workers.items() if worker not in known]
    return asked


def profiles_with_ambiguous_times(
    found: Iterable[ProfileFiles], infos: Mapping[ProfileFiles, JobInfo | None]
) -> list[ProfileFiles]:
    """Returns all profiles of each run in which a rank has several workers, or in which a span contains several
    recordings.
    """
    return [one for profiles in _runs(found).values() if _is_unclear(profiles, infos) for one in profiles]


def label_by_rank(found: Sequence[ProfileFiles], infos: Mapping[ProfileFiles, JobInfo | None]) -> list[ProfileFiles]:
    """Returns the profiles after renaming the workers to the ranks in ``infos``.

    Recordings of one rank at different times become different spans. If recordings of one rank overlap, their
    workers keep their names, because the files are copies or belong to different jobs.
    """
    new: dict[ProfileFiles, ProfileFiles] = {}
    for profiles in _runs(found).values():
        new.update(_labelled(profiles, infos))
    return [new.get(one, one) for one in found]


def _runs(found: Iterable[ProfileFiles]) -> dict[str, list[ProfileFiles]]:
    runs: dict[str, list[ProfileFiles]] = defaultdict(list)
    for one in found:
        if not one.grouped_by:
            runs[one.run].append(one)
    return runs


def _is_unclear(profiles: Sequence[ProfileFiles], infos: Mapping[ProfileFiles, JobInfo | None]) -> bool:
    known = [(one, info) for one in profiles if (info := infos.get(one)) is not None]
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


def _labelled(
    profiles: Sequence[ProfileFiles], infos: Mapping[ProfileFiles, JobInfo | None]
) -> dict[ProfileFiles, ProfileFiles]:
    ranks: dict[str, set[int]] = defaultdict(set)
    for one in profiles:
        if (info := infos.get(one)) is not None:
            ranks[one.worker].add(info.rank)
    only = {worker: next(iter(each)) for worker, each in ranks.items() if len(each) == 1}
    # Files of other formats without a rank get the rank of the trace with the same worker name.
    rank_of = {one: info.rank if (info := infos.get(one)) else only.get(one.worker) for one in profiles}
    groups: dict[int, list[ProfileFiles]] = defaultdict(list)
    for one, rank in rank_of.items():
        if rank is not None:
            groups[rank].append(one)
    mine = {rank: group for rank, group in groups.items() if _is_one_worker(group, infos)}
    named = {one: rank_worker(rank) for rank, group in mine.items() for one in group}
    # A name that is still used by another worker is not assigned to a second one.
    taken = {one.worker for one in profiles if one not in named and as_identifying_reader(one.reader) is not None}
    named = {one: worker for one, worker in named.items() if worker not in taken}
    spans = {} if not _is_unclear(profiles, infos) else _spans([one for one in profiles if one in named], infos)
    places: set[tuple[str, str]] = {(one.worker, one.span) for one in profiles if one not in named}
    new: dict[ProfileFiles, ProfileFiles] = {}
    for one, worker in named.items():
        span = _free(worker, spans.get(one, one.span), places)
        places.add((worker, span))
        if (worker, span) != (one.worker, one.span):
            new[one] = replace(one, worker=worker, span=span, file_worker=one.worker)
    return new


def _is_one_worker(group: Sequence[ProfileFiles], infos: Mapping[ProfileFiles, JobInfo | None]) -> bool:
    if len({one.worker for one in group}) == 1:
        return True
    known = sorted(
        (*recording_span(one, info), info.process, info.clock) for one in group if (info := infos.get(one)) is not None
    )
    if len({clock for *_, clock in known}) > 1:
        return False
    for (begin, end, process, _), (after, _, other, _) in pairwise(known):
        # A process has one profiler, so its recordings never overlap, even if the end of the first one is unknown.
        is_same = process != "" and process == other
        if after <= end + (0 if is_same or end > begin else RECORDING_SLACK_NS):
            return False
    return True


def _spans(profiles: Sequence[ProfileFiles], infos: Mapping[ProfileFiles, JobInfo | None]) -> dict[ProfileFiles, str]:
    cycles = concurrent_groups(profiles, infos)
    spans = span_names([_names(cycle) for cycle in cycles])
    return {one: span for span, cycle in zip(spans, cycles, strict=True) for one in cycle}


def _names(cycle: Sequence[ProfileFiles]) -> set[str]:
    spans, workers = {one.recording for one in cycle}, {one.worker for one in cycle}
    return workers if spans == {"default"} and len(workers) == 1 else spans


def _free(worker: str, span: str, places: set[tuple[str, str]]) -> str:
    number, free = 1, span
    while (worker, free) in places:
        number += 1
        free = f"{span} ({number})"
    return free
