"""Profiles of the log directories, updated by a background thread."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.errors import BadRequest, NotFoundError, UserError
from tb_plugin.model.trace.window import parse_window
from tb_plugin.payloads import Catalog, Problem, ProfileName, ReadInfo, RunInfo, Skipped, SpanInfo, WorkerInfo
from tb_plugin.service.discovery.ignore_file import Ignore
from tb_plugin.service.discovery.merged_files import Merged, Ranks
from tb_plugin.service.discovery.scan import Discovery, Scanner
from tb_plugin.service.profile_files import ProfileFiles, Root, pattern_names
from tb_plugin.service.states import Changes, Entry

log = logging.getLogger("torch_trace")

# Seconds between scans: together with the scan itself, a change is visible within ten seconds.
SCAN_SECONDS = 5.0
# Maximum pause after a scan that waited for a slow disk or storage.
_LONGEST_PAUSE_SECONDS = 8.0
# Maximum pause after a scan with much computation, as for tens of thousands of files.
_LONGEST_REST_SECONDS = 30.0
# Maximum average CPU share of scanning.
_IDLE_SHARE = 0.02
_MAX_SKIPPED = 1000

_NUMBERS = re.compile(r"([0-9]{1,300})")
# Fields that identify a profile.
PARTS = ("run", "worker", "span")


class Place(msgspec.Struct, frozen=True):
    """Request parameters that identify a profile; None = not given."""

    run: str | None = None
    worker: str | None = None
    span: str | None = None
    window: str = ""
    """Window of a large trace (``model/trace/window.py``); "" = as much as fits in memory."""
    capture: str = ""
    """Capture of CUDA graphs (``service/graph_captures.py``); "" = one in the folder of the trace."""

    @property
    def names_nothing(self) -> bool:
        return (self.run, self.worker, self.span) == (None, None, None)


def place_of(entry: Entry, capture: str = "") -> Place:
    return Place(*entry.key, entry.window, capture)


class ProfileCatalog:
    """All profiles of the log directories.

    Either call ``start`` to scan in the background, or call ``scan``. ``dropped`` is called with an entry if its
    file changed, or if its file was deleted before it was read. If a file is deleted later, the data read from it
    stays available.
    """

    def __init__(self, scanner: Scanner, every_seconds: float = SCAN_SECONDS) -> None:
        self.dropped: Callable[[Entry], None] = lambda entry: None
        self.ticked: Callable[[], None] = lambda: None
        self.ranks: Ranks = lambda found: [()] * len(found)
        """Returns the ranks of merged files that are already in the cache."""
        self.changes = Changes()
        self._scanner = scanner
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        self._scanning = threading.Lock()
        self._entries: dict[tuple[str, str, str], Entry] = {}
        self._discovery = Discovery()
        self._merged = Merged()
        self._last_scan_unix_ms: int | None = None
        self._first = threading.Event()
        self._stop = threading.Event()
        self._soon = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def roots(self) -> Sequence[Root]:
        return self._scanner.roots

    def start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._keep_scanning, name="torch-trace-scan", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def scan(self) -> None:
        with self._scanning:
            self._scan()

    def _scan(self) -> None:
        discovery = self._scanner.scan()
        with self._lock:
            if discovery is self._discovery and not any(_is_left(entry) for entry in self._entries.values()):
                self._last_scan_unix_ms = time.time_ns() // 1_000_000
                if not self._entries:  # the time is reported only without profiles
                    self.changes.note()
                return
        self._merged.ask(discovery.profiles, self.ranks)
        self._take(discovery)
        self._last_scan_unix_ms = time.time_ns() // 1_000_000
        self._first.set()

    def split(self, found: ProfileFiles, ranks: Sequence[str]) -> None:
        self._merged.tell(found, ranks)
        self._take()

    def split_merged_files(self) -> None:
        """Replaces each merged file whose ranks are known by one profile per rank."""
        if self._discovery.profiles:
            self._merged = Merged()
            self._merged.ask(self._discovery.profiles, self.ranks)
            self._take()

    def _take(self, scanned: Discovery | None = None) -> None:
        with self._lock:
            discovery = scanned or self._discovery
            unread = {error.where for error in discovery.problems}
            every = self._merged.split(discovery.profiles)
            fresh = {(found.run, found.worker, found.span): found for found in every}
            gone = []
            listed = {(found.root, found.names) for found in discovery.profiles}
            for key, entry in list(self._entries.items()):
                found = fresh.get(key)
                if found is not None and _same(found, entry.files) and not entry.gone:
                    entry.appear(found)
                elif found is None and entry.files.root.folder.url in unread and self._entries:
                    # The storage failed: its known profiles stay until it responds again.
                    continue
                elif found is None and entry.state == "ready" and (entry.files.root, entry.files.names) not in listed:
                    entry.vanish()
                else:
                    gone.append(self._entries.pop(key))
            added = [Entry(found, changes=self.changes) for key, found in fresh.items() if key not in self._entries]
            if added:
                entries = [*self._entries.values(), *added]
                self._entries = {entry.key: entry for entry in sorted(entries, key=lambda entry: _place(entry.files))}
            self._discovery = discovery
        self.changes.note()
        for entry in gone:
            for each in entry.all():
                self.dropped(each)

    def rescan(self) -> None:
        """Requests a scan within a second; without the background thread, scans immediately."""
        if self._thread is None:
            self.scan()
        else:
            self._soon.set()

    def wait_first(self, seconds: float) -> bool:
        """Waits up to ``seconds`` for the end of the first scan. Returns whether the scan has finished."""
        return self._first.wait(seconds)

    @property
    def is_active(self) -> bool:
        """Returns whether to show the tab: False only in a directory of event files, which other tabs show.

        An empty directory is active, so that the page says what was looked for. True until the first scan ends.
        """
        found = self._entries or self._discovery.problems
        return bool(found) or not self._first.is_set() or not self._discovery.has_event_files

    def entries(self) -> list[Entry]:
        with self._lock:
            return list(self._entries.values())

    def skipped(self) -> list[tuple[str, str]]:
        with self._lock:
            return list(self._discovery.skipped)

    def problems(self) -> list[UserError]:
        """Returns one error for each log directory that the last scan could not read."""
        with self._lock:
            return list(self._discovery.problems)

    def ignored(self, entry: Entry) -> tuple[str, ...]:
        """Returns the ids of the rules that are excluded for a profile by its log directory."""
        root, run = entry.files.root, entry.files.run
        with self._lock:
            told = self._discovery.ignored.get(root, Ignore())
        return told.of(*pattern_names(root, run))

    def find(self, place: Place, strict: bool = False) -> Entry:
        """Returns the profile; unless ``strict``, by default the first. Raises NotFoundError, BadRequest."""
        parse_window(place.window)
        entries = self.matching(place)
        if place.names_nothing and not strict:
            return entries[0].at(place.window)
        if place.worker not in (None, entries[0].files.worker):  # the name of a merged file selects its first rank
            entries = [entry for entry in entries if entry.files.worker == entries[0].files.worker]
        _check_single(entries, PARTS)
        return entries[0].at(place.window)

    def matching(self, place: Place) -> list[Entry]:
        """Returns all profiles that match a request. Raises NotFoundError if there are none."""
        entries = self.entries()
        if not entries:
            if self.problems():
                raise self.problems()[0]
            do = "Check the path, or wait until the scan has finished."
            raise NotFoundError("No profile was found.", _displayed_roots(self.roots), do)
        place = self._renamed(place, entries)
        for which in PARTS:
            wanted = getattr(place, which)
            names = list(dict.fromkeys(getattr(entry.files, which) for entry in entries))
            if wanted is not None and wanted not in names:
                by_file = [entry for entry in entries if which == "worker" and entry.files.file_worker == wanted]
                if not by_file:
                    raise NotFoundError(f"There is no {which} {wanted}.", wanted, f"Available: {_few(names)}.")
                entries = by_file
                continue
            entries = [entry for entry in entries if wanted in (None, getattr(entry.files, which))]
        return entries

    def workers(self, place: Place) -> list[Entry]:
        """Returns all workers of the run and span, by default the first. Raises NotFoundError, BadRequest."""
        if place.names_nothing:
            place = Place(*self.find(place).key, place.window)
        parse_window(place.window)
        place = self._renamed(place, self.entries())
        entries = self.matching(Place(place.run, None, place.span))
        _check_single(entries, ("run", "span"))
        return [entry.at(place.window) for entry in entries]

    def _renamed(self, place: Place, entries: Sequence[Entry]) -> Place:
        if place.worker is None or any(_fits(place, entry) for entry in entries):
            return place
        run = self._merged.run_of(place.run, place.worker, place.span)
        return place if run is None else replace(place, run=run, worker=None)

    def payload(self) -> Catalog:
        runs: dict[str, dict[str, list[SpanInfo]]] = {}
        entries = self.entries()
        why = {entry.files.run: entry.files.grouped_by for entry in entries}
        discovery = self._discovery
        titles = {entry.files.run: discovery.title(entry.files.root, entry.files.run) for entry in entries}
        for entry in entries:
            found = entry.files
            runs.setdefault(found.run, {}).setdefault(found.worker, []).append(_span_info(entry))
        from tb_plugin.service.dropped_files import upload_limit_bytes
        from tb_plugin.service.path_mappings import path_mappings
        from tb_plugin.service.perfetto_address import perfetto_url

        mappings, invalid = path_mappings()
        return Catalog(
            logdir=_displayed_roots(self.roots),
            scanning=not self._first.is_set(),
            scanned_files=self._discovery.files,
            last_scan_unix_ms=None if entries else self._last_scan_unix_ms,
            runs=[
                RunInfo(
                    run,
                    [WorkerInfo(w, spans) for w, spans in workers.items()],
                    why[run],
                    titles[run].text,
                    titles[run].is_first,
                    titles[run].is_invented,
                )
                for run, workers in runs.items()
            ],
            skipped=[Skipped(path, reason) for path, reason in self.skipped()[:_MAX_SKIPPED]],
            problems=[*(problem_of(error) for error in self.problems()), *invalid],
            perfetto_url=perfetto_url(),
            first=_first_name(discovery.first, entries),
            path_mappings=mappings,
            upload_limit_bytes=upload_limit_bytes() if any(root.is_dropped for root in self.roots) else 0,
        )

    def _keep_scanning(self) -> None:
        due = 0.0
        while not self._stop.is_set():
            try:
                if (begun := time.monotonic()) >= due or self._soon.is_set():
                    self._soon.clear()
                    worked = time.thread_time()
                    self.scan()
                    took, worked = time.monotonic() - begun, time.thread_time() - worked
                    due = time.monotonic() + max(self._every_seconds, pause_seconds(took, worked))
                self.ticked()
            except Exception:  # top level of a thread: a failed scan must not end scanning
                log.exception("The scan of the log directory failed.")
                due = time.monotonic() + self._every_seconds
                self._first.set()
                self.changes.note()
            self._stop.wait(min(1.0, self._every_seconds))


def _first_name(first: ProfileFiles | None, entries: Sequence[Entry]) -> ProfileName | None:
    """Returns the names of the first profile; its ranks have names of their own after a merged file is read."""
    if first is None:
        return None
    same = (entry for entry in entries if (entry.files.root, entry.files.names) == (first.root, first.names))
    return next((ProfileName(*entry.key) for entry in same), None)


def pause_seconds(took: float, worked: float) -> float:
    """Returns the pause after a scan of ``took`` wall seconds and ``worked`` CPU seconds."""
    return max(min(_LONGEST_PAUSE_SECONDS, 10 * took), min(_LONGEST_REST_SECONDS, worked / _IDLE_SHARE))


def problem_of(error: BaseException) -> Problem:
    if isinstance(error, UserError):
        return Problem(error.what, error.where, error.do)
    return Problem("An internal error happened.", str(error), "The log contains the details. Please report this error.")


def _check_single(entries: Sequence[Entry], parts: Sequence[str]) -> None:
    for which in parts:
        names = list(dict.fromkeys(getattr(entry.files, which) for entry in entries))
        if len(names) > 1:
            raise BadRequest(f"There are {len(names)} {which}s.", which, f"Choose one: {_few(names)}.")


def _is_left(entry: Entry) -> bool:
    return entry.gone or (entry.vanished and entry.state != "ready")


def _fits(place: Place, entry: Entry) -> bool:
    return all(getattr(place, which) in (None, getattr(entry.files, which)) for which in PARTS)


def _same(new: ProfileFiles, old: ProfileFiles) -> bool:
    return (new.names, new.fingerprint, new.root, new.rank) == (old.names, old.fingerprint, old.root, old.rank)


def _place(found: ProfileFiles) -> tuple[object, ...]:
    return (_natural(found.run), _natural(found.worker), not found.span.isdigit(), _natural(found.span))


def _natural(name: str) -> tuple[object, ...]:
    parts = _NUMBERS.split(name)
    return (tuple(int(part) if i % 2 else part for i, part in enumerate(parts)), name)


def _few(names: list[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def _displayed_roots(roots: Sequence[Root]) -> str:
    return ", ".join(root.folder.url for root in roots if not root.is_dropped)


def _is_empty(read: ReadInfo) -> bool:
    return bool(read.records) and read.events_loaded == 0


def _modified_unix_ms(found: ProfileFiles) -> int | None:
    times = [file.modified_ns for file in found.files if file.modified_ns is not None]
    return max(times) // 1_000_000 if times else None


def _span_info(entry: Entry) -> SpanInfo:
    found = entry.files
    problem = problem_of(entry.problem) if entry.problem is not None else None
    if entry.vanished:
        problem = Problem(
            "The file was deleted.", found.url, "The page shows the data that was read before, until TensorBoard stops."
        )
    return SpanInfo(
        id=found.span,
        time_unix_ms=found.time_unix_ms,
        files=list(found.names),
        size_bytes=found.size_bytes,
        state=entry.state,
        fraction=entry.fraction,
        problem=problem,
        model=registry.model_of(found.reader).id,
        format=found.reader.title,
        key_figures=entry.summary.key_figures if entry.summary else [],
        is_empty=entry.summary is not None and _is_empty(entry.summary.read),
        modified_unix_ms=_modified_unix_ms(found),
        device=entry.summary.device if entry.summary else None,
        step_count=len(entry.summary.steps) if entry.summary else None,
    )
