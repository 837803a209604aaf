"""States of a profile and the transitions between them.

::

found --begin--> loading --settle--> ready --lose--> found
                     loading --fail----> failed --forgive--> found
                     loading --release-> found   abandoned, or the result is unusable
    any state --leave: the file changed; another entry replaces this one, now or after the next scan
    ready --vanish--> ready --appear--> ready    the file was deleted; its data stays available

Each load is a separate object. A transition out of ``loading`` takes the load as an argument. It does nothing if
another load has replaced that one. Every transition increases a counter, which tells whether cached values are
still valid.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from tb_plugin.errors import UserError
from tb_plugin.payloads import State
from tb_plugin.service.profile_files import ProfileFiles
from tb_plugin.service.workers.parse import Summary
from tb_plugin.service.workers.question import WAITING, Job, Progress

# Maximum number of windows per profile with a stored state.
MAX_WINDOWS = 8


class Changes:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """Returns the number of changes. Read it before the data that is cached under it."""
        return self._count

    def note(self) -> None:
        with self._lock:
            self._count += 1


class Load:
    def __init__(self) -> None:
        self.path = ""
        self.job: Job[Summary] | None = None
        self.copy: Progress | None = None
        """Progress of the copy of a remote profile into the local cache; None for local files."""
        self._is_part = False

    def copying(self, progress: Progress) -> None:
        self.copy = progress

    def reading(self, job: Job[Summary], path: str, is_part: bool) -> None:
        """Stores the worker job that writes the column file ``path``, of a window only if ``is_part``."""
        self.path, self._is_part, self.job = path, is_part, job

    @property
    def fraction(self) -> float:
        """Returns the loaded fraction, 0..1. For a remote file, copying is the first half."""
        job, copy = self.job, self.copy
        parsed = 0.0
        if job is not None:
            parsed = job.fraction
            if self._is_part:  # surveyed first, then read
                parsed = (parsed if job.progress.stage in (WAITING, "surveying") else 1 + parsed) / 2
        return parsed if copy is None else (copy.fraction + parsed) / 2

    @property
    def progress(self) -> Progress | None:
        return self.job.progress if self.job is not None else self.copy


class Standing(msgspec.Struct, frozen=True):
    """The immutable state of a profile. Transitions replace it, so that threads see consistent values."""

    state: State = "found"
    load: Load | None = None
    """The current load; None in all states except ``loading``."""
    problem: UserError | None = None
    """The error of a failed load; None in all states except ``failed``."""
    summary: Summary | None = None
    """None in all states except ``ready``."""
    path: str = ""

    @property
    def fraction(self) -> float:
        """Returns the loaded fraction, 0..1. For a remote file, copying is the first half."""
        if self.state == "ready":
            return 1.0
        return 0.0 if self.load is None else self.load.fraction


class Entry:
    """One profile or one window of a profile, with its current state. The methods are thread-safe."""

    def __init__(self, found: ProfileFiles, window: str = "", changes: Changes | None = None) -> None:
        self.files = found
        self.window = window
        """Requested window; "" = the whole trace, or as much of it as fits in memory."""
        self.now = Standing()
        """The current state. Store it to read several consistent values."""
        self.gone = False
        """Whether this entry is obsolete, because its file changed or was deleted."""
        self.vanished = False
        """Whether the file was deleted but its data is still available."""
        self.polled = 0.0
        """Time of the last request, in monotonic seconds."""
        self._windows: dict[str, Entry] = {}
        self._changes = Changes() if changes is None else changes
        self._lock = threading.Lock()
        self._need_bytes = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.files.run, self.files.worker, self.files.span)

    @property
    def state(self) -> State:
        return self.now.state

    @property
    def problem(self) -> UserError | None:
        return self.now.problem

    @property
    def summary(self) -> Summary | None:
        return self.now.summary

    @property
    def path(self) -> str:
        return self.now.path

    @property
    def load(self) -> Load | None:
        return self.now.load

    @property
    def job(self) -> Job[Summary] | None:
        """Returns the worker job of the current load, or None before it starts."""
        load = self.now.load
        return None if load is None else load.job

    @property
    def fraction(self) -> float:
        return self.now.fraction

    def progress(self, now: Standing) -> Progress:
        return (now.load and now.load.progress) or Progress(WAITING, since=self.polled)

    def at(self, window: str) -> Entry:
        """Returns the entry of a window (MAX_WINDOWS are kept); "" = the profile itself."""
        if not window:
            return self
        if window not in self._windows:
            resting = [text for text, entry in list(self._windows.items()) if entry.state != "loading"]
            for old in resting[: 1 - MAX_WINDOWS]:
                self._windows.pop(old, None)
        # Concurrent requests must get the same entry.
        return self._windows.setdefault(window, Entry(self.files, window, self._changes))

    def all(self) -> list[Entry]:
        return [self, *list(self._windows.values())]

    def ask(self) -> None:
        """Stores the time of a request. A load stops if there are no more requests."""
        self.polled = time.monotonic()

    def peak_memory_bytes(self, estimate: Callable[[], int]) -> int:
        """Returns the estimated memory to read the whole profile. ``estimate`` is called once; its result is cached."""
        if not self._need_bytes:
            self._need_bytes = estimate()
        return self._need_bytes

    def begin(self) -> Load | None:
        """Changes ``found`` to ``loading`` and returns the new load. Returns None in other states."""
        load = Load()
        with self._lock:
            if self.now.state != "found" or self.gone:
                return None
            self.now = replace(self.now, state="loading", load=load)
        self._changes.note()
        return load

    def settle(self, load: Load, summary: Summary, path: str) -> bool:
        """Changes ``loading`` to ``ready``. Returns False, without a change, if the load is not the current one."""
        return self._end(load, Standing("ready", None, None, summary, path))

    def fail(self, load: Load, problem: UserError) -> bool:
        """Changes ``loading`` to ``failed``. Returns False, without a change, if the load is not the current one."""
        return self._end(load, Standing("failed", None, problem, None, self.now.path))

    def release(self, load: Load | None) -> bool:
        """Changes ``loading`` to ``found``. Returns False if the load is not the current one."""
        return load is not None and self._end(load, Standing(path=self.now.path))

    def lose(self) -> str:
        """Changes ``ready`` to ``found`` because of a damaged column file. Returns its path, else ""."""
        return self.now.path if self._from("ready") else ""

    def forgive(self) -> None:
        self._from("failed")

    def leave(self) -> Load | None:
        """Marks the entry as obsolete, because its file changed. Returns the load to stop, or None."""
        with self._lock:
            self.gone = True
        load = self.now.load
        released = self.release(load)
        self._changes.note()
        return load if released else None

    def appear(self, found: ProfileFiles) -> None:
        """Changes the entry of a deleted file whose unchanged file exists again."""
        changed = self.vanished or found != self.files
        self.vanished = False
        for entry in self.all():
            entry.files = found
        if changed:
            self._changes.note()

    def vanish(self) -> None:
        if not self.vanished:
            self.vanished = True
            self._changes.note()

    def _end(self, load: Load, standing: Standing) -> bool:
        with self._lock:
            if self.now.load is not load:
                return False
            self.now = standing
        self._changes.note()
        return True

    def _from(self, state: State) -> bool:
        with self._lock:
            if self.now.state != state:
                return False
            self.now = Standing(path=self.now.path)
        self._changes.note()
        return True
