"""Splitting of files with several ranks into one profile per rank."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tb_plugin.service.profile_files import ProfileFiles, Root

# Log directory, names and fingerprint.
_File = tuple[Root, tuple[str, ...], str]
# Returns the ranks of each merged file; empty for other files, or if unknown.
Ranks = Callable[[Sequence[ProfileFiles]], Sequence[Sequence[str]]]


class Merged:
    """Files that contain the traces of several ranks, and the names of these ranks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranks: dict[_File, Sequence[str]] = {}
        self._runs: dict[tuple[str, str, str], str] = {}
        """For each merged file, given as (run, worker, span), the run that contains its ranks."""

    def ask(self, found: Sequence[ProfileFiles], ranks: Ranks) -> None:
        """Gets the ranks of new files from ``ranks``, and drops the ranks of deleted files."""
        unknown = [one for one in found if _file(one) not in self._ranks]
        new = dict(zip(map(_file, unknown), ranks(unknown), strict=True)) if unknown else {}
        with self._lock:
            self._ranks = {file: self._ranks.get(file, new.get(file, ())) for file in map(_file, found)}

    def tell(self, found: ProfileFiles, ranks: Sequence[str]) -> None:
        with self._lock:
            self._ranks[_file(found)] = ranks

    def split(self, found: Sequence[ProfileFiles]) -> list[ProfileFiles]:
        """Replaces merged files by one profile per rank: in a run of their own if theirs has other workers."""
        workers: dict[str, set[str]] = defaultdict(set)
        for one in found:
            workers[one.run].add(one.worker)
        runs: dict[tuple[str, str, str], str] = {}
        every = []
        for one in found:
            ranks = self._ranks.get(_file(one), ())
            if not ranks:
                every.append(one)
                continue
            run = runs[one.run, one.worker, one.span] = _run(one, workers)
            why = f"One file contains the merged traces of {len(ranks)} ranks: {one.url}."
            every += [
                replace(one, run=run, worker=rank, rank=rank, summaries=(), grouped_by=one.grouped_by or why)
                for rank in ranks
            ]
        self._runs = runs  # replaced in one assignment, because other threads read it
        return every

    def run_of(self, run: str | None, worker: str, span: str | None) -> str | None:
        """Returns the run that contains the ranks of a merged file, or None if ``worker`` is not a merged file."""
        for (old, name, number), found in self._runs.items():
            if name == worker and run in (None, old, found) and span in (None, number):
                return found
        return None


def _file(found: ProfileFiles) -> _File:
    return (found.root, found.names, found.fingerprint)


def _run(one: ProfileFiles, workers: dict[str, set[str]]) -> str:
    if len(workers[one.run]) == 1:
        return one.run
    name = f"{one.run}/{one.worker}"
    return name if name not in workers else f"{name} (ranks)"
