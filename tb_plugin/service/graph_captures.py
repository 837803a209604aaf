"""Traces of CUDA graph captures, found automatically or chosen by the user.

A process may have one file per captured graph. All of its files are used together. If several captures could match,
none is used until the user chooses one. An unreadable capture does not prevent loading the trace.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

import msgspec
from msgspec.structs import replace

from tb_plugin.errors import BadRequest, CacheFileLost, Cancelled, NotFoundError, UserError
from tb_plugin.payloads import CaptureInfo, How
from tb_plugin.registry import model_of
from tb_plugin.service.catalog import ProfileCatalog, problem_of
from tb_plugin.service.loader import Loader, file_of
from tb_plugin.service.profile_files import ProfileFiles, Root
from tb_plugin.service.states import Entry
from tb_plugin.service.workers.memory_budget import MEMORY_VARIABLE
from tb_plugin.service.workers.model_cache import ModelFile

# Value of --capture that disables captures.
NONE = "none"
# Models that may describe graphs: recordings of captures, and stacks by graph node.
TRACE, STACKS = "trace", "stack_profile"
_SAYS_SO = re.compile(r"(?<![a-z])(?:captur(?:e|es|ed|ing)|py_stacks)(?![a-z])", re.IGNORECASE)
# Patterns for the rank in a worker name. Other numbers may mean anything, such as the batch size.
_RANKS = (re.compile(r"rank[-_ ]?(\d{1,9})", re.IGNORECASE), re.compile(r"(?<![a-z])tp[-_]?(\d{1,9})", re.IGNORECASE))
_NUMBER = re.compile(r"\d+")
# Number of attempts if a capture keeps changing.
_CHANGES = 10
_PAUSE_SECONDS = 0.3


class Choice(msgspec.Struct, frozen=True):
    """The captures of one profile. If there is no capture, ``problem`` may contain the reason."""

    entries: tuple[Entry, ...] = ()
    how: How = "none"
    problem: UserError | None = None
    companions: tuple[Entry, ...] = ()
    """All profiles in the folder of the trace that could be its captures."""


class Opened(msgspec.Struct, frozen=True):
    entry: Entry
    captures: tuple[Entry, ...] = ()

    @property
    def file(self) -> ModelFile:
        captures, names = tuple(map(file_of, self.captures)), tuple(map(name_of, self.captures))
        return replace(file_of(self.entry), captures=captures, names=names, captures_key=_source(self.captures))

    @property
    def key(self) -> str:
        return "|".join([self.entry.path, *(capture.path for capture in self.captures), _source(self.captures)])

    def lost(self, error: CacheFileLost) -> Entry:
        """Returns the profile or the capture whose column file is missing."""
        return next((capture for capture in self.captures if capture.path == error.where), self.entry)


class Captures:
    def __init__(self, catalog: ProfileCatalog, loader: Loader) -> None:
        self._catalog = catalog
        self._loader = loader
        self._others: dict[str, ProfileCatalog] = {}
        self._listed: list[Entry] = []
        self._by_folder: dict[tuple[Root, str], list[Entry]] = {}

    def allow(self, text: str, scanned: Callable[[str], ProfileCatalog]) -> None:
        """Adds captures of a path that is no profile in the catalog. Raises NotFoundError, StorageError."""
        known = text in ("", NONE) or text in self._others
        if known or any(self._entries_with_name(root, text) for root in self._catalog.roots):
            return
        found = scanned(text)
        if not any(_tells(entry.files) for entry in found.entries()):
            reasons = [reason for _, reason in found.skipped()]
            do = " ".join(reasons[:1]) or "Specify a path, a URL, RUN/WORKER/SPAN, or none."
            raise NotFoundError("No capture was found.", text, do)
        self._others[text] = found

    def of(self, entry: Entry, text: str) -> Choice:
        """Returns the captures that ``text`` selects; by default those in the folder of the trace."""
        beside = tuple(self._neighbours(entry.files))
        if text == NONE:
            return Choice(companions=beside)
        if not text:
            clear = tuple(each for kind in _by_model(beside) if _is_clear(kind) for each in kind)
            return Choice(clear, "beside" if clear else "none", companions=beside)
        entries = (
            self._other(self._others[text]) if text in self._others else self._entries_with_name(entry.files.root, text)
        )
        fitting = _same_process(entry.files, [one for one in entries if _tells(one.files)])
        taken = tuple(one for one in fitting if one.files.url != entry.files.url)
        return Choice(taken, "named", None if taken else _no_capture_error(text, entries), beside)

    def info(self, entry: Entry, text: str) -> CaptureInfo | None:
        """Returns which captures a profile uses, or None if the profile replays no graph or is not loaded."""
        if entry.summary is None or not entry.summary.has_replays:
            return None
        choice = self.of(entry, text)
        problem = choice.problem or next(filter(None, map(_refused, choice.entries)), None)
        return CaptureInfo(
            names=[name_of(each) for each in choice.entries],
            how=choice.how,
            beside=[name_of(each) for each in choice.companions],
            problem=None if problem is None else problem_of(problem),
            own=entry.summary.has_captures,
        )

    def ready(self, entry: Entry, text: str) -> Opened | None:
        """Starts loading the captures of a loaded profile. Returns None until all of them are loaded."""
        asked = self._asked(entry, text)
        waiting = False
        for capture in asked:
            with suppress(UserError):  # ``info`` reports the error
                waiting |= self._loader.ready(capture).summary is None
        return None if waiting else _with(entry, asked)

    def progress(self, entry: Entry, text: str) -> tuple[int, float]:
        """Returns the number of profiles, and the sum of loaded fractions, including the profile itself."""
        asked = self._asked(entry, text)
        return 1 + len(asked), 1.0 + sum(capture.fraction for capture in asked)

    def waited(self, entry: Entry, text: str) -> Opened:
        """Waits for the captures of a profile. Raises Cancelled if a capture file keeps changing."""
        for _ in range(_CHANGES):
            asked = self._asked(entry, text)
            for capture in asked[1:]:
                self._loader.begin(capture)
            try:
                for capture in asked:
                    with suppress(UserError):  # ``info`` reports the error
                        self._loader.wait(capture, lambda fraction: None)
                return _with(entry, asked)
            except Cancelled:
                time.sleep(_PAUSE_SECONDS)  # until the next scan lists the new file
        raise Cancelled(f"A capture of {entry.files.url} keeps changing.")

    def key(self, entry: Entry, text: str) -> str:
        """Returns a cache key of the captures of a profile, or "" if there are none."""
        used = [each for each in self.of(entry, text).entries if _refused(each) is None]
        return "|".join([_source(used), *map(self._loader.key, used)]) if used else ""

    def for_all(self, text: str, worker: str | None, workers: int) -> Callable[[Entry], str]:
        """Returns the capture text by profile: a catalog capture for ``worker`` only, a path for all."""
        if text == NONE or text in self._others or workers == 1:
            return lambda entry: text
        return lambda entry: text if entry.files.worker == worker else ""

    def _asked(self, entry: Entry, text: str) -> tuple[Entry, ...]:
        if entry.summary is None or not entry.summary.has_replays:
            return ()
        return self.of(entry, text).entries

    def _entries_with_name(self, root: Root, text: str) -> list[Entry]:
        entries = self._catalog.entries()
        mine = [entry for entry in entries if entry.files.root is root] if root.name else []
        return _under(entries, text) or _under(mine, f"{root.name}/{text}")

    @staticmethod
    def _other(catalog: ProfileCatalog) -> list[Entry]:
        if any(entry.gone for entry in catalog.entries()):
            catalog.scan()
        return catalog.entries()

    def _neighbours(self, found: ProfileFiles) -> list[Entry]:
        where = _folder(found)
        if model_of(found.reader).id != TRACE or _SAYS_SO.search(found.stem) or _SAYS_SO.search(where.name):
            return []
        entries = self._catalog.entries()
        if entries != self._listed:
            self._by_folder = _by_folder(entries)
            self._listed = entries
        return _same_process(found, self._by_folder.get((found.root, str(where)), []))


def name_of(entry: Entry) -> str:
    """Returns the full name of a profile: RUN/WORKER/SPAN."""
    return "/".join(entry.key)


def _source(captures: Sequence[Entry]) -> str:
    if len(captures) < 2:
        return "".join(map(name_of, captures))
    runs = ", ".join(dict.fromkeys(capture.files.run for capture in captures))
    return f"{runs} ({len(captures)} recordings)"


def _with(entry: Entry, captures: Iterable[Entry]) -> Opened:
    return Opened(entry, tuple(capture for capture in captures if _refused(capture) is None))


def _refused(capture: Entry) -> UserError | None:
    now = capture.now
    if now.summary is not None and now.summary.window is not None:
        what, do = (
            "The capture is too large to be opened completely.",
            f"Increase {MEMORY_VARIABLE}, or choose a smaller capture.",
        )
        return UserError(what, capture.files.url, do)
    return now.problem


def _is_clear(entries: Sequence[Entry]) -> bool:
    workers = {(entry.files.run, entry.files.worker) for entry in entries}
    like = {(entry.files.run, _NUMBER.sub("#", entry.files.worker), _rank(entry.files.worker)) for entry in entries}
    return len(workers) == len(entries) and len(like) == 1


def _no_capture_error(text: str, entries: Sequence[Entry]) -> UserError:
    if not entries:
        return NotFoundError(f"There is no profile {text}.", text, "Specify the capture as RUN/WORKER/SPAN.")
    return BadRequest(
        "The chosen profile contains no captures for this trace.",
        text,
        "Choose a trace of the same worker that contains the captures. Captures in the trace itself are used automatically.",
    )


def _under(entries: Iterable[Entry], text: str) -> list[Entry]:
    named = [(name_of(entry), entry) for entry in entries]
    same = [entry for name, entry in named if name == text]
    return same or [entry for name, entry in named if name.startswith(f"{text}/")]


def _tells(found: ProfileFiles) -> bool:
    return model_of(found.reader).id in (TRACE, STACKS)


def _by_model(entries: Iterable[Entry]) -> list[list[Entry]]:
    kinds: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        kinds[model_of(entry.files.reader).id].append(entry)
    return list(kinds.values())


def _folder(found: ProfileFiles) -> PurePosixPath:
    return PurePosixPath(found.place or found.names[0]).parent


def _by_folder(entries: Iterable[Entry]) -> dict[tuple[Root, str], list[Entry]]:
    found: dict[tuple[Root, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if not _tells(entry.files):
            continue
        where = _folder(entry.files)
        if _SAYS_SO.search(where.name):
            found[entry.files.root, str(where.parent)].append(entry)
        elif _SAYS_SO.search(entry.files.stem):
            found[entry.files.root, str(where)].append(entry)
    return dict(found)


def _same_process(found: ProfileFiles, entries: Sequence[Entry]) -> list[Entry]:
    """Returns the captures that may come from the same process as ``found``.

    Captures with the same worker name are preferred. Without one, a single capture is used. Among several, those of
    the same rank are used, or else those that have no rank. Later, the graphs of a capture are compared with the
    trace.
    """
    rank = _rank(found.worker)
    taken: list[Entry] = []
    for kind in _by_model(entries):
        same = [entry for entry in kind if entry.files.worker == found.worker]
        if not same and (len(kind) < 2 or rank is None):
            same = kind
        if not same:
            ranks = [_rank(entry.files.worker) for entry in kind]
            wanted = rank if rank in ranks else None
            same = [entry for entry, of in zip(kind, ranks, strict=True) if of == wanted]
        taken += same
    return taken


def _rank(worker: str) -> int | None:
    for pattern in _RANKS:
        if found := pattern.search(worker):
            return int(found[1])
    return None
