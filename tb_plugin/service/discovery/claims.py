"""Profiles found by readers, their files and span ids."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tb_plugin.formats.base import Candidate, Reader
from tb_plugin.service.profile_files import ProfileFiles, Root, run_name
from tb_plugin.storage.listing import StoredFile


class Draft(msgspec.Struct, frozen=True, eq=False):
    """A profile found by a reader. It has no run, worker and span names yet."""

    root: Root
    reader: Reader[Any]
    candidate: Candidate
    files: list[StoredFile]
    is_present: bool = True
    """False if the trace is missing and only its rank summary exists."""
    is_chosen: bool = False
    """True if the user gave the path of this file. Its content then decides whether it is a trace, not its name."""


class Claims:
    """Profiles of one log directory. A file belongs to the first profile that claims it."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._files: set[str] = set()

    def leaves(self, draft: Draft) -> bool:
        return self._files.isdisjoint(draft.candidate.names) and self._files.isdisjoint(draft.candidate.also)

    def leaves_file(self, path: str) -> bool:
        return path not in self._files

    def add(self, draft: Draft) -> None:
        if self.leaves(draft):
            self.drafts.append(draft)
            self._files.update(draft.candidate.names, draft.candidate.also)


def number_spans(drafts: Iterable[Draft], several: bool, readers: Sequence[str]) -> list[ProfileFiles]:
    """Returns the profiles with a span id that is unique per worker.

    The ids are "1", "2", ... in order of time. Profiles that have no time come last. The first profile opens by
    default. Among profiles that have no time, the order of ``readers`` decides: PyTorch JSON comes before Perfetto.
    """
    groups: dict[tuple[str, str], list[Draft]] = defaultdict(list)
    for draft in drafts:
        groups[run_name(draft.root, draft.candidate.run, several), draft.candidate.worker].append(draft)
    # All workers of a run number their recordings alike, even if one of them lacks a recording.
    recordings: dict[str, set[int]] = defaultdict(set)
    for (run, _), group in groups.items():
        recordings[run].update(d.candidate.time_unix_ns or 0 for d in group if d.candidate.stage)
    numbers = {run: {time: i + 1 for i, time in enumerate(sorted(times))} for run, times in recordings.items()}
    found: list[ProfileFiles] = []
    for (run, worker), group in sorted(groups.items(), key=lambda item: item[0]):
        timed = [d for d in group if _order(d) is not None]
        timed.sort(key=lambda d: _order(d) or (0, ()))
        untimed = [d for d in group if _order(d) is None]
        untimed.sort(key=lambda d: (readers.index(d.reader.id), d.candidate.names))
        ids = unique_names([_stage(d.candidate, numbers[run]) or str(i + 1) for i, d in enumerate(timed)])
        ids += ["default" if i == 0 else f"default-{i + 1}" for i in range(len(untimed))]
        found += [_profile_files(run, worker, span, draft) for span, draft in zip(ids, timed + untimed, strict=True)]
    return found


def _stage(candidate: Candidate, numbers: Mapping[int, int]) -> str:
    if not candidate.stage or len(numbers) < 2:
        return candidate.stage
    return f"{candidate.stage}-{numbers[candidate.time_unix_ns or 0]}"


def unique_names(ids: Sequence[str]) -> list[str]:
    """Returns the names; the second equal name becomes ``name (2)``."""
    count = Counter[str]()
    found = []
    for each in ids:
        count[each] += 1
        found.append(each if count[each] == 1 else f"{each} ({count[each]})")
    return found


def _profile_files(run: str, worker: str, span: str, draft: Draft) -> ProfileFiles:
    return ProfileFiles(
        run=run,
        worker=worker,
        span=span,
        time_unix_ms=_time_of(draft.candidate),
        root=draft.root,
        files=tuple(draft.files),
        reader=draft.reader,
        stage=draft.candidate.stage,
        place=draft.candidate.place,
        is_present=draft.is_present,
    )


def _order(draft: Draft) -> tuple[int, tuple[str, ...]] | None:
    candidate = draft.candidate
    time = candidate.time_unix_ns if candidate.time_unix_ns is not None else _nanoseconds_of(candidate.span)
    if time is None and candidate.span is None:
        return None
    return (int(candidate.span or "0") if time is None else time, candidate.names)


def _time_of(candidate: Candidate) -> int | None:
    stated = candidate.time_unix_ns
    return time_of(candidate.span) if stated is None else stated // 1_000_000


# In 1973. A smaller number is a counter, not a time.
_FIRST_PLAUSIBLE_MS = 10**11


def time_of(token: str | None) -> int | None:
    """Returns the time in a file name as milliseconds since 1970, or None if the number is not a plausible time."""
    nanoseconds = _nanoseconds_of(token)
    return None if nanoseconds is None else nanoseconds // 1_000_000


def _nanoseconds_of(token: str | None) -> int | None:
    """Returns a plausible time in nanoseconds since 1970. Old PyTorch versions write milliseconds."""
    if not token or not token.isdigit():
        return None
    number = int(token)
    for unit in (1_000_000, 1_000, 1):
        if _FIRST_PLAUSIBLE_MS <= number * unit // 1_000_000 < _FIRST_PLAUSIBLE_MS * 100:
            return number * unit
    return None
