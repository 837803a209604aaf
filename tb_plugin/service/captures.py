"""Captures: which recording tells of the graphs that a trace replays; it lies beside the trace, or a person names it.

Nothing is guessed: where several could be meant, none is taken until somebody names one. What a capture costs, and whether
it can be read, is its own affair: the trace is told without it where it cannot.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tb_plugin.errors import BadRequest, Cancelled, KeptLost, NotFound, UserError
from tb_plugin.payloads import CaptureInfo, How
from tb_plugin.registry import model_of
from tb_plugin.service.budget import MEMORY_VARIABLE
from tb_plugin.service.catalog import ProfileCatalog, problem_of
from tb_plugin.service.found import Found, Root
from tb_plugin.service.loader import Loader, file_of
from tb_plugin.service.opened import CaptureFile, ModelFile
from tb_plugin.service.states import Entry

NONE = "none"
"""What a person writes who wants no capture to be used."""
MODEL = "trace"
"""The model of profiles that tell of graphs."""
_SAYS_SO = re.compile(r"(?<![a-z])captur(?:e|es|ed|ing)(?![a-z])", re.IGNORECASE)
_NAMED = 5
"""Profiles that a message names."""
_CHANGES = 10
"""How often a capture may change while somebody waits for it."""
_PAUSE_SECONDS = 0.3


@dataclass(frozen=True)
class Choice:
    """A choice is the capture of one profile: ``entry``, or none, and then ``problem`` may say why."""

    entry: Entry | None = None
    how: How = "none"
    problem: UserError | None = None
    beside: tuple[Entry, ...] = ()
    """All that lie beside it and could be meant."""


@dataclass(frozen=True)
class Opened:
    """A loaded profile, and its loaded capture if it has one."""

    entry: Entry
    capture: Entry | None = None

    @property
    def file(self) -> ModelFile:
        """Returns what a worker opens."""
        own = file_of(self.entry)
        if self.capture is None:
            return own
        return ModelFile(own.path, own.model, CaptureFile(file_of(self.capture), name_of(self.capture)))

    @property
    def key(self) -> str:
        """Names what is open, in this state."""
        return self.entry.path if self.capture is None else f"{self.entry.path}|{self.capture.path}"

    def lost(self, error: KeptLost) -> Entry:
        """Returns which of the two has lost its columns."""
        capture = self.capture
        return capture if capture is not None and error.where == capture.path else self.entry


class Captures:
    """Captures knows those of the profiles of a catalog, and those of other places that a command was given."""

    def __init__(self, catalog: ProfileCatalog, loader: Loader) -> None:
        self._catalog = catalog
        self._loader = loader
        self._others: dict[str, ProfileCatalog] = {}
        self._listed: list[Entry] = []
        self._by_folder: dict[tuple[object, str], list[Entry]] = {}

    def allow(self, text: str, scanned: Callable[[str], ProfileCatalog]) -> None:
        """Lets ``text`` name a path or URL, as a person may at a terminal, unless it names a profile of the catalog.

        ``scanned`` lists a path. Raises NotFound, BadRequest, StorageError.
        """
        known = text in ("", NONE) or text in self._others
        if known or any(self._named(root, text) for root in self._catalog.roots):
            return
        found = scanned(text)
        if not any(_is_trace(entry.found) for entry in found.entries()):
            reasons = [reason for _, reason in found.skipped()]
            do = " ".join(reasons[:1]) or "Name a trace by its path or URL, or as RUN/WORKER/SPAN; or none."
            raise NotFound("There is no capture.", text, do)
        self._others[text] = found

    def of(self, entry: Entry, text: str) -> Choice:
        """Returns the capture of a profile: the one that ``text`` names, none, or what lies beside it for an empty text."""
        beside = self._beside(entry.found)
        if text == NONE:
            return Choice(beside=tuple(beside))
        if not text:
            if len(beside) == 1:
                return Choice(beside[0], "beside", beside=tuple(beside))
            return Choice(beside=tuple(beside))
        entries = self._other(self._others[text]) if text in self._others else self._named(entry.found.root, text)
        fitting = _of_process(entry.found, [one for one in entries if _is_trace(one.found)])
        return Choice(*_only(entry, text, entries, fitting), beside=tuple(beside))

    def info(self, entry: Entry, text: str) -> CaptureInfo | None:
        """Returns what to tell of the capture of a profile; None where it replays nothing or nobody knows yet."""
        if entry.summary is None or not entry.summary.has_replays:
            return None
        choice = self.of(entry, text)
        problem = choice.problem or (_refused(choice.entry) if choice.entry is not None else None)
        return CaptureInfo(
            name="" if choice.entry is None else name_of(choice.entry),
            how=choice.how,
            beside=[name_of(each) for each in choice.beside],
            problem=None if problem is None else problem_of(problem),
        )

    def ready(self, entry: Entry, text: str) -> Opened | None:
        """Returns a loaded profile with its capture, once that is loaded: None until then, and it begins to load."""
        choice = self._asked(entry, text)
        if choice is None:
            return Opened(entry)
        try:
            if self._loader.ready(choice).summary is None:
                return None
        except UserError:  # ``info`` tells it
            return Opened(entry)
        return _with(entry, choice)

    def waited(self, entry: Entry, text: str) -> Opened:
        """Returns a loaded profile with its capture; waits until that is loaded.

        Raises Cancelled where its file changes all the time.
        """
        for _ in range(_CHANGES):
            choice = self._asked(entry, text)
            if choice is None:
                return Opened(entry)
            try:
                self._loader.wait(choice, lambda fraction: None)
                return _with(entry, choice)
            except Cancelled:
                time.sleep(_PAUSE_SECONDS)  # until the scan has seen the new file
            except UserError:  # ``info`` tells it
                return Opened(entry)
        raise Cancelled(f"The capture of {entry.found.url} changes all the time.")

    def key(self, entry: Entry, text: str) -> str:
        """Names the capture that a profile would be told with, if it replays anything: empty for none."""
        choice = self.of(entry, text).entry
        return "" if choice is None or _refused(choice) is not None else f"{name_of(choice)} {self._loader.key(choice)}"

    def for_all(self, text: str, worker: str | None, workers: int) -> Callable[[Entry], str]:
        """Returns the text for each of several workers: who names a capture names that of one of them.

        A path may hold those of all.
        """
        if text == NONE or text in self._others or workers == 1:
            return lambda entry: text
        return lambda entry: text if entry.found.worker == worker else ""

    def _named(self, root: Root, text: str) -> list[Entry]:
        """Profiles of that name; of a log directory its own also without the name that it gives to its runs."""
        entries = self._catalog.entries()
        same = [entry for entry in entries if name_of(entry) == text]
        own = f"{root.name}/{text}" if root.name else ""
        return same or [entry for entry in entries if entry.found.root is root and name_of(entry) == own]

    @staticmethod
    def _other(catalog: ProfileCatalog) -> list[Entry]:
        """The profiles of a place that nobody scans by the clock."""
        if any(entry.gone for entry in catalog.entries()):
            catalog.scan()
        return catalog.entries()

    def _asked(self, entry: Entry, text: str) -> Entry | None:
        if entry.summary is None or not entry.summary.has_replays:
            return None
        return self.of(entry, text).entry

    def _beside(self, found: Found) -> list[Entry]:
        """What lies beside a profile: in its folder under a name that says so, or in a folder there that does."""
        where = _folder(found)
        if _SAYS_SO.search(found.stem) or _SAYS_SO.search(where.name) or not _is_trace(found):
            return []
        entries = self._catalog.entries()
        if entries != self._listed:
            self._by_folder = _by_folder(entries)
            self._listed = entries
        return _of_process(found, self._by_folder.get((found.root, str(where)), []))


def name_of(entry: Entry) -> str:
    """Returns how a person names a profile of the catalog: RUN/WORKER/SPAN."""
    return "/".join(entry.key)


def _with(entry: Entry, capture: Entry) -> Opened:
    return Opened(entry, None if _refused(capture) is not None else capture)


def _refused(capture: Entry) -> UserError | None:
    """Why a profile that could be loaded tells nothing all the same, or why it could not."""
    now = capture.now
    if now.summary is not None and now.summary.window is not None:
        what, do = "The capture is too large to be opened whole.", f"Raise {MEMORY_VARIABLE}, or name a smaller one."
        return UserError(what, capture.found.url, do)
    return now.problem


def _only(
    entry: Entry, text: str, entries: Sequence[Entry], fitting: Sequence[Entry]
) -> tuple[Entry | None, How, UserError | None]:
    """The one that is meant; else why it is none."""
    if len(fitting) == 1 and fitting[0].found.url != entry.found.url:
        return fitting[0], "named", None
    if not entries:
        return None, "named", NotFound(f"There is no profile {text}.", text, "Name it as RUN/WORKER/SPAN.")
    if len(fitting) == 1:
        problem = BadRequest(
            "A trace is no capture of its own graphs.", text, "What it captured itself is used anyway."
        )
    elif fitting:
        names = ", ".join(name_of(each) for each in fitting[:_NAMED]) + (", ..." if len(fitting) > _NAMED else "")
        problem = BadRequest(f"{len(fitting)} profiles could be meant.", text, f"Name one: {names}.")
    elif any(_is_trace(each.found) for each in entries):
        problem = BadRequest("The captures are those of other workers.", text, "Name the one that is meant.")
    else:
        noun = model_of(entries[0].found.reader).noun
        problem = BadRequest(f"The capture is {noun}, and not a trace.", text, "Name a trace.")
    return None, "named", problem


def _is_trace(found: Found) -> bool:
    return model_of(found.reader).id == MODEL


def _folder(found: Found) -> PurePosixPath:
    return PurePosixPath(found.place or found.names[0]).parent


def _by_folder(entries: Iterable[Entry]) -> dict[tuple[object, str], list[Entry]]:
    """Profiles whose place says that they are captures, by the folder that they lie beside the profiles of."""
    found: dict[tuple[object, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if not _is_trace(entry.found):
            continue
        where = _folder(entry.found)
        if _SAYS_SO.search(where.name):
            found[entry.found.root, str(where.parent)].append(entry)
        elif _SAYS_SO.search(entry.found.stem):
            found[entry.found.root, str(where)].append(entry)
    return dict(found)


def _of_process(found: Found, entries: Sequence[Entry]) -> list[Entry]:
    """Those that may be of the same process: of the worker of that name, else of its rank, else those of no rank."""
    same = [entry for entry in entries if entry.found.worker == found.worker]
    if same or len(entries) == 0:
        return same
    rank = _rank(found.worker)
    ranked = [entry for entry in entries if _rank(entry.found.worker) == rank]
    if rank is not None and ranked:
        return ranked
    # A single one may be of any rank: what it tells is compared with the trace before it is believed.
    return list(entries) if rank is None or len(entries) == 1 else [e for e in entries if _rank(e.found.worker) is None]


def _rank(worker: str) -> int | None:
    """The number of the rank that a worker's name tells: after the word, else the first one of the name."""
    named = re.search(r"rank[-_]?(\d{1,9})", worker, re.IGNORECASE)
    found = named or re.search(r"(?:^|[-_.])(\d{1,5})(?=[-_.]|$)", worker)
    return None if found is None else int(found.group(1))
