"""Scan of log directories for profiles.

In one file: all steps of a scan share what earlier scans found.
"""

from __future__ import annotations

import functools
import operator
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from tb_plugin.errors import UserError
from tb_plugin.formats.base import Candidate, JobInfo, ListedFile, Reader
from tb_plugin.formats.format_entry import FormatEntry, as_identifying_reader
from tb_plugin.formats.unsupported_files import LOOKED_INTO, advice_for_unread, identify_unsupported, in_short, place_of
from tb_plugin.service import file_head
from tb_plugin.service.discovery import distributed_jobs, ignore_file, title_file
from tb_plugin.service.discovery.claims import Claims, Draft, number_spans
from tb_plugin.service.discovery.first_profile import first_profile, shows_device_work
from tb_plugin.service.discovery.ignore_file import Ignore
from tb_plugin.service.discovery.summary_files import (
    NOTHING_LIKE_IT,
    SUFFIX,
    ListedSummaries,
    candidates_without_trace,
    reported_job,
)
from tb_plugin.service.discovery.title_file import Title, Titles
from tb_plugin.service.file_head import read_head
from tb_plugin.service.profile_files import ProfileFiles, Root, full_path, pattern_names
from tb_plugin.storage.listing import Listing, StoredFile

NOT_A_TRACE = "The file does not look like a profiler trace. Write one with torch.profiler's export_chrome_trace(path)."
_EVENT_FILE = ".tfevents."
_DAMAGED = "The archive is damaged: copy the file again, or record the trace again."
_EMPTY = "The file is empty: copy it again, or stop the profiler before the program ends."
_NOTHING = "The file has no content: copy it again, or stop the profiler before the program ends."
_Parsed = TypeVar("_Parsed")
# Root, path, fingerprint.
_File = tuple["Root", str, str]
# Root, path, fingerprint, reader id.
_SniffKey = tuple["Root", str, str, str]
# Maximum number of log directories listed concurrently.
_MAX_LISTINGS = 16
# Maximum number of files inspected concurrently; each is a request to a storage.
_MAX_LOOKS = 16
# Maximum number of unclaimed files inspected per log directory, to explain them.
_MAX_FOREIGN = 32
# Bytes: smaller local files are inspected even with a certain name (Git LFS pointers, error pages). In a store
# each inspection is a request.
_SMALL = 1024


class Discovery(msgspec.Struct):
    """The result of one scan. ``problems`` contains one error per unreadable log directory."""

    profiles: list[ProfileFiles] = msgspec.field(default_factory=list)
    skipped: list[tuple[str, str]] = msgspec.field(default_factory=list)
    files: int = 0
    has_event_files: bool = False
    """Whether a file contains TensorBoard events (scalars, images), by its name."""
    problems: list[UserError] = msgspec.field(default_factory=list)
    ignored: dict[Root, Ignore] = msgspec.field(default_factory=dict)
    titles: dict[Root, Titles] = msgspec.field(default_factory=dict)
    first: ProfileFiles | None = None
    """The profile that opens first; None without profiles."""

    def title(self, root: Root, run: str) -> Title:
        return self.titles.get(root, Titles()).of(*pattern_names(root, run))


class Scanner:
    """Scans log directories. Caches the result of each unchanged listing, and which files are not traces."""

    def __init__(self, roots: Sequence[Root], readers: Sequence[Reader[Any]]) -> None:
        self.roots = roots
        self.readers = readers
        self._are_several = sum(not root.is_dropped for root in roots) > 1
        self._summaries = ListedSummaries()
        self._known: dict[Root, tuple[Listing, _Sorted]] = {}
        self._sniffed: dict[_SniffKey, str] = {}
        self._jobs: dict[_File, JobInfo | None] = {}
        self._device_work: dict[_File, bool] = {}
        self._last: tuple[list[_Sorted], Discovery] | None = None

    def scan(self) -> Discovery:
        """Scans once. Errors are part of the result. Returns the same object if nothing has changed."""
        discovery = Discovery()
        results: list[_Sorted] = []
        drafts: list[Draft] = []
        used: set[_SniffKey] = set()
        for root, listing in zip(self.roots, self._list_all(), strict=True):
            if isinstance(listing, UserError):
                discovery.problems.append(listing)
                continue
            known = self._known.get(root)
            # Most listings are unchanged, so the previous result is reused.
            result = known[1] if known is not None and known[0] == listing else self._sort(root, listing)
            if result.final:
                self._known[root] = (listing, result)
            results.append(result)
            used.update(result.sniffed)
            drafts += result.drafts
            discovery.files += len(listing.files)
            discovery.has_event_files |= result.has_event_files
            unlisted = in_short((entry.path, entry.reason) for entry in listing.unlisted)
            discovery.skipped += [(full_path(root, path), reason) for path, reason in unlisted]
            discovery.skipped += result.refused
            discovery.ignored[root], discovery.titles[root] = result.ignore, result.titles
        is_new = self._summaries.list()
        unchanged = not is_new and len(results) == len(self.roots)
        if self._last is not None and unchanged and _are_same(results, self._last[0]):
            return self._last[1]
        self._sniffed = {key: why for key, why in self._sniffed.items() if key in used}
        found = number_spans(drafts, self._are_several, [reader.id for reader in self.readers])
        beside = {result.root: result.summaries for result in results}
        discovery.profiles, final = self._grouped(
            [self._summaries.with_summary(one, beside[one.root]) for one in found]
        )
        if self._summaries.problem is not None:
            discovery.problems.append(self._summaries.problem)
        discovery.first = first_profile(
            discovery.profiles, lambda one: discovery.title(one.root, one.run), self._has_device_work
        )
        self._last = (results, discovery) if final else None
        return discovery

    def _has_device_work(self, one: ProfileFiles) -> bool:
        if isinstance(one.reader, FormatEntry) and one.reader.records_devices:
            return True
        if not one.root.folder.is_local:
            return True  # a request per file would take long
        key = _identity(one)
        if key not in self._device_work:
            try:
                self._device_work[key] = shows_device_work(file_head.read_head(one.root.folder, one.files[0]))
            except (zlib.error, UserError):
                return False
        return self._device_work[key]

    def _grouped(self, found: list[ProfileFiles]) -> tuple[list[ProfileFiles], bool]:
        if not found or not distributed_jobs.is_on():
            return found, True
        first = self._job_infos(distributed_jobs.first_candidates(found))
        asked = first | self._job_infos(distributed_jobs.later_candidates(found, first))
        # A run with all ranks of its job is already complete.
        incomplete = distributed_jobs.incomplete_runs(found, first)
        parts = {one: job for one, job in asked.items() if one.run in incomplete}
        self._jobs = {key: self._jobs[key] for key in map(_identity, asked) if key in self._jobs}
        final = all(_identity(one) in self._jobs for one in asked)
        return distributed_jobs.label_by_rank(
            distributed_jobs.group_jobs(found, parts, self._are_several), asked
        ), final

    def _job_infos(self, asked: Iterable[ProfileFiles]) -> dict[ProfileFiles, JobInfo | None]:
        known = [one for one in asked if as_identifying_reader(one.reader) is not None]
        new = [one for one in known if _identity(one) not in self._jobs]
        if new:
            with ThreadPoolExecutor(_MAX_LOOKS, "torch-trace-ask") as threads:
                # Files that cannot be read now are tried again at the next scan.
                for one, job in zip(new, threads.map(_ask, new), strict=True):
                    if not isinstance(job, UserError):
                        self._jobs[_identity(one)] = job
        return {one: self._jobs.get(_identity(one)) for one in known}

    def _list_all(self) -> Iterable[Listing | UserError]:
        if len(self.roots) == 1:
            return [_list(self.roots[0])]
        with ThreadPoolExecutor(_MAX_LISTINGS, "torch-trace-list") as threads:
            return list(threads.map(_list, self.roots))

    def _sort(self, root: Root, listing: Listing) -> _Sorted:
        summaries = {file.path.removesuffix(SUFFIX): file for file in listing.files if file.path.endswith(SUFFIX)}
        files = {file.path: file for file in listing.files if not file.path.endswith(SUFFIX)}
        listed = tuple(ListedFile(file.path, file.size, file.fingerprint) for file in files.values())
        drafts = [
            Draft(root, reader, candidate, [files[name] for name in candidate.names])
            for reader in self.readers
            for candidate in reader.find(listed)
        ]
        if root.folder.is_file:
            drafts = _chosen_file_drafts(root, self.readers, drafts, tuple(files.values()))
        # The sort is stable: of equally strong claims, the first reader wins.
        drafts.sort(key=lambda draft: draft.candidate.strength, reverse=True)
        taken = Claims()
        refused: dict[Draft, str] = {}
        final = True
        small = [draft for draft in drafts if _is_doubtful(draft)]
        doubts = dict(zip(small, self._sniff(small), strict=True))
        for draft in drafts:
            if draft.candidate.certain:
                why = doubts.get(draft, "")
                if isinstance(why, UserError):
                    final = False
                elif why:
                    refused[draft] = why
                    continue
                taken.add(draft)
        uncertain = [draft for draft in drafts if taken.leaves(draft) and draft not in refused]
        for draft, why in zip(uncertain, self._sniff(uncertain), strict=True):
            if why == "":
                taken.add(draft)
            elif isinstance(why, UserError):
                # The storage may respond at the next scan.
                refused[draft], final = why.what, False
            else:
                refused[draft] = why
        away = {main: file for main, file in summaries.items() if main not in files}
        for reader, candidate in candidates_without_trace(self.readers, away):
            taken.add(Draft(root, reader, candidate, [away[candidate.names[0]]], is_present=False))
        left = {draft.candidate: why for draft, why in refused.items() if taken.leaves(draft)}
        shown = {candidate.place: why for candidate, why in left.items() if not candidate.is_quiet}
        told, looked, is_all = self._others(
            root, [file for file in files.values() if taken.leaves_file(file.path)], shown
        )
        final &= is_all
        ignored = _parsed(root, files.get(ignore_file.NAME), ignore_file.parse)
        titles = _parsed(root, files.get(title_file.NAME), title_file.parse)
        final &= ignored is not None and titles is not None
        sniffed = [*(_sniff_key(draft) for draft in (*small, *uncertain)), *looked]
        told += [(file.path, NOTHING_LIKE_IT) for main, file in away.items() if taken.leaves_file(main)]
        skipped = [(full_path(root, place), why) for place, why in told]
        has_event_files = any(_EVENT_FILE in path for path in files)
        return _Sorted(
            root,
            taken.drafts,
            skipped,
            sniffed,
            final,
            ignored or Ignore(),
            titles or Titles(),
            summaries,
            has_event_files,
        )

    def _others(
        self, root: Root, files: Sequence[StoredFile], refused: dict[str, str]
    ) -> tuple[list[tuple[str, str]], list[_SniffKey], bool]:
        """Returns (path, reason) pairs of files that belong to no profile, the inspected files, and whether all of
        these could be read.

        A file gets a reason only if a reader refused it, if its format is known but not supported, or if its name
        looks like a trace.
        """
        told: list[tuple[str, str]] = []
        asked: list[StoredFile] = []
        for file in files:
            place, what = place_of(file.path)
            if what:
                told.append((place, what))
            elif file.path in refused:
                continue
            elif file.size and LOOKED_INTO.search(file.path):
                asked.append(file)
            elif text := advice_for_unread(file.path):
                told.append((file.path, text if file.size else _EMPTY))
        kept = {place for place, _ in told}
        told += [(place, why) for place, why in refused.items() if place not in kept and not place_of(place)[1]]
        keys = [(root, file.path, file.fingerprint, "") for file in asked[:_MAX_FOREIGN]]
        new = [file for file, key in zip(asked, keys, strict=False) if key not in self._sniffed]
        if new:
            with ThreadPoolExecutor(_MAX_LOOKS, "torch-trace-look") as threads:
                for file, why in zip(new, threads.map(functools.partial(_what, root), new), strict=True):
                    if why is not None:
                        self._sniffed[root, file.path, file.fingerprint, ""] = why
        heads = {key[1]: self._sniffed.get(key) for key in keys}
        told += [(file.path, text) for file in asked if (text := heads.get(file.path) or advice_for_unread(file.path))]
        return in_short(told), keys, all(key in self._sniffed for key in keys)

    def _sniff(self, drafts: Sequence[Draft]) -> list[str | UserError]:
        unknown: dict[_File, list[Draft]] = defaultdict(list)
        for draft in drafts:
            if _sniff_key(draft) not in self._sniffed:
                unknown[_first_file(draft)].append(draft)
        failed: dict[_SniffKey, UserError] = {}
        if unknown:
            with ThreadPoolExecutor(_MAX_LOOKS, "torch-trace-look") as threads:
                for asking, answers in zip(unknown.values(), threads.map(_look, unknown.values()), strict=True):
                    for draft, why in zip(asking, answers, strict=True):
                        if isinstance(why, UserError):
                            failed[_sniff_key(draft)] = why
                        else:
                            self._sniffed[_sniff_key(draft)] = why
        return [failed.get(key) or self._sniffed[key] for key in map(_sniff_key, drafts)]


def _are_same(results: Sequence[_Sorted], before: Sequence[_Sorted]) -> bool:
    return len(results) == len(before) and all(map(operator.is_, results, before))


def _list(root: Root) -> Listing | UserError:
    try:
        return root.folder.list()
    except UserError as error:
        return error


class _Sorted(msgspec.Struct, frozen=True):
    root: Root
    drafts: list[Draft]
    refused: list[tuple[str, str]]
    sniffed: list[_SniffKey]
    final: bool
    ignore: Ignore
    titles: Titles
    summaries: dict[str, StoredFile]
    has_event_files: bool


def _parsed(root: Root, file: StoredFile | None, parse: Callable[[bytes, str], _Parsed]) -> _Parsed | None:
    """Parses a file about the log directory. Returns None if the storage fails."""
    if file is None or file.size == 0:
        return parse(b"", "")
    try:
        return parse(root.folder.head(file, ignore_file.MOST_BYTES + 1), full_path(root, file.path))
    except UserError:
        return None


def _chosen_file_drafts(
    root: Root, readers: Sequence[Reader[Any]], drafts: list[Draft], files: Sequence[StoredFile]
) -> list[Draft]:
    by_name = {draft.reader.id: replace(draft, is_chosen=True) for draft in drafts}
    made = []
    for file in files:
        name = PurePosixPath(file.path).name
        for reader in readers:
            draft = by_name.get(reader.id)
            candidate = Candidate(reader.id, "", name, None, (file.path,), certain=False)
            made.append(draft or Draft(root, reader, candidate, [file], is_chosen=True))
    return made


def _is_doubtful(draft: Draft) -> bool:
    most = _SMALL if draft.root.folder.is_local else 0
    return draft.candidate.certain and not draft.candidate.root and draft.files[0].size <= most


def _sniff_key(draft: Draft) -> _SniffKey:
    return (*_first_file(draft), draft.reader.id)


def _first_file(draft: Draft) -> _File:
    return (draft.root, draft.files[0].path, draft.files[0].fingerprint)


def _look(drafts: Sequence[Draft]) -> Sequence[str | UserError]:
    """Inspects the first bytes of one file for all readers that claim the file.

    Returns one value per draft: "" if the file is accepted, a reason if it is refused, or the error of the storage.
    If the file name proves the format, the file is refused only if it is empty or has another known format. The
    reader reports damage later.
    """
    root, file = drafts[0].root, drafts[0].files[0]
    if file.size == 0:
        return [identify_unsupported(file.path, b"") or _EMPTY] * len(drafts)
    try:
        head = read_head(root.folder, file)
    except zlib.error:
        return ["" if draft.candidate.certain else _DAMAGED for draft in drafts]
    except UserError as error:
        return [error] * len(drafts)
    if not head.strip():
        return [_NOTHING] * len(drafts)
    why = identify_unsupported(file.path, head, is_chosen=drafts[0].is_chosen)
    refused = identify_unsupported(file.path, head, is_refused=True) or NOT_A_TRACE
    # A file known from another tool may still belong to a folder that a reader supports.
    asked = [draft for draft in drafts if draft.candidate.root or not why]
    return [
        "" if draft in asked and (draft.candidate.certain or draft.reader.sniff(head)) else why or refused
        for draft in drafts
    ]


def _what(root: Root, file: StoredFile) -> str | None:
    try:
        return identify_unsupported(file.path, read_head(root.folder, file))
    except zlib.error:
        return ""
    except UserError:
        return None


def _identity(one: ProfileFiles) -> _File:
    return (one.root, one.place, one.fingerprint)


def _ask(one: ProfileFiles) -> JobInfo | UserError | None:
    """Returns the job that a profile reports, the error of the storage, or None without a job."""
    if one.summaries or not one.is_present:
        return reported_job(one)
    reader = as_identifying_reader(one.reader)
    files = {file.path: file for file in one.files}
    if reader is None or not one.size_bytes:
        return None
    try:
        return reader.identify(one.names, lambda name: read_head(one.root.folder, files[name]))
    except zlib.error:
        return None
    except UserError as error:
        return error
