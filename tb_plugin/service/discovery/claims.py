"""Profiles as readers claim them by their names, and how they get their places in the picker."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tb_plugin.formats.base import Candidate, Reader
from tb_plugin.service.profile_files import ProfileFiles, Root, run_name
from tb_plugin.storage.listing import StoredFile


@dataclass(frozen=True, eq=False)
class Draft:
    """What a reader takes for a profile, before it has a place in the picker."""

    root: Root
    reader: Reader[Any]
    candidate: Candidate
    files: list[StoredFile]
    is_here: bool = True
    """False where its rank summary is all that is there."""
    is_chosen: bool = False
    """A person chose this file: its content decides, whatever its name."""


class Claims:
    """Profiles of one root that do not overlap: whoever comes first has its files."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._files: set[str] = set()

    def leaves(self, draft: Draft) -> bool:
        """Returns whether nobody has claimed any file of it."""
        return self._files.isdisjoint(draft.candidate.names) and self._files.isdisjoint(draft.candidate.also)

    def leaves_file(self, path: str) -> bool:
        """Returns whether nobody has claimed this file."""
        return path not in self._files

    def add(self, draft: Draft) -> None:
        """Takes a profile unless it overlaps with another one."""
        if self.leaves(draft):
            self.drafts.append(draft)
            self._files.update(draft.candidate.names, draft.candidate.also)


def numbered(drafts: Iterable[Draft], several: bool, readers: Sequence[str]) -> list[ProfileFiles]:
    """Returns the profiles with a span id that is unique in its worker: "1", "2", ... by time, then those without a token.

    Of these the first is what opens: in the order of the readers, so that PyTorch's JSON stands before packets of the same
    recording, which say less.
    """
    groups: dict[tuple[str, str], list[Draft]] = defaultdict(list)
    for draft in drafts:
        groups[run_name(draft.root, draft.candidate.run, several), draft.candidate.worker].append(draft)
    # All workers of a run number recordings alike, even if one of them lacks a recording.
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
        ids = _unique([_stage(d.candidate, numbers[run]) or str(i + 1) for i, d in enumerate(timed)])
        ids += ["default" if i == 0 else f"default-{i + 1}" for i in range(len(untimed))]
        found += [_found(run, worker, span, draft) for span, draft in zip(ids, timed + untimed, strict=True)]
    return found


def _stage(candidate: Candidate, numbers: Mapping[int, int]) -> str:
    """The stage, with the number of its recording (by time) where there are several; empty for none."""
    if not candidate.stage or len(numbers) < 2:
        return candidate.stage
    return f"{candidate.stage}-{numbers[candidate.time_unix_ns or 0]}"


def _unique(ids: Sequence[str]) -> list[str]:
    """The ids; the second of the same is ``id (2)``."""
    count = Counter[str]()
    found = []
    for each in ids:
        count[each] += 1
        found.append(each if count[each] == 1 else f"{each} ({count[each]})")
    return found


def _found(run: str, worker: str, span: str, draft: Draft) -> ProfileFiles:
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
        is_here=draft.is_here,
    )


def _order(draft: Draft) -> tuple[int, tuple[str, ...]] | None:
    """What the spans of a worker are sorted by; None when the names tell neither a time nor a number."""
    candidate = draft.candidate
    time = candidate.time_unix_ns if candidate.time_unix_ns is not None else _nanoseconds_of(candidate.span)
    if time is None and candidate.span is None:
        return None
    return (int(candidate.span or "0") if time is None else time, candidate.names)


def _time_of(candidate: Candidate) -> int | None:
    stated = candidate.time_unix_ns
    return time_of(candidate.span) if stated is None else stated // 1_000_000


_FIRST_PLAUSIBLE_MS = 10**11
"""Spring 1973; a smaller token is a counter and no time."""


def time_of(token: str | None) -> int | None:
    """Returns the wall time of a span token in ms since 1970; None when the number is no plausible time."""
    nanoseconds = _nanoseconds_of(token)
    return None if nanoseconds is None else nanoseconds // 1_000_000


def _nanoseconds_of(token: str | None) -> int | None:
    """Returns a token as ns since 1970, None for no time.

    Old PyTorch wrote ms, new writes ns; the sizes are a million apart.
    """
    if not token or not token.isdigit():
        return None
    number = int(token)
    for unit in (1_000_000, 1_000, 1):
        if _FIRST_PLAUSIBLE_MS <= number * unit // 1_000_000 < _FIRST_PLAUSIBLE_MS * 100:
            return number * unit
    return None
