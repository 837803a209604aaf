"""The states of a profile, and every way from one to another.

::

    found --begin--> loading --settle--> ready --lose--> found
                     loading --fail----> failed --forgive--> found
                     loading --release-> found   nobody waits any more, or what was read is no use
    any of them --leave: the file is another one now; another entry stands for it, or will after the next scan
    ready --vanish--> ready --appear--> ready    the file is away, what was read of it is shown

A load is an object of its own. What comes back from one that is not under way any more changes nothing: each way out of
``loading`` takes the load, and says whether it was that one. Every change is noted, so that what was made of the states
of all profiles is kept until there is one.
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
from tb_plugin.service.workers.parse_result import Summary
from tb_plugin.service.workers.question import Progress
from tb_plugin.service.workers.request import WAITING, Job

# Windows of one profile with a stored state.
MAX_WINDOWS = 8


class Changes:
    """Counts all changes of a catalog."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """Returns the count. Read it before the data, so that concurrent changes are seen later."""
        return self._count

    def note(self) -> None:
        """Counts one change."""
        with self._lock:
            self._count += 1


class Load:
    """One attempt to read a profile, with its progress."""

    def __init__(self) -> None:
        self.path = ""
        """The column file that it writes."""
        self.job: Job[Summary] | None = None
        self.copy: Progress | None = None
        """Progress of copying a remote profile into the local cache; None without a copy."""
        self._is_part = False

    def copying(self, progress: Progress) -> None:
        """Sets the progress of the copy."""
        self.copy = progress

    def reading(self, job: Job[Summary], path: str, is_part: bool) -> None:
        """Records that a worker reads the file, or a window of it (``is_part``), into a column file."""
        self.path, self._is_part, self.job = path, is_part, job

    @property
    def fraction(self) -> float:
        """Returns the fraction of the file that was read, 0..1; for a remote file, copying is the first half."""
        job, copy = self.job, self.copy
        parsed = 0.0
        if job is not None:
            parsed = job.fraction
            if self._is_part:  # looked through once to find the window, then read
                parsed = (parsed if job.progress.stage in (WAITING, "surveying") else 1 + parsed) / 2
        return parsed if copy is None else (copy.fraction + parsed) / 2

    @property
    def progress(self) -> Progress | None:
        """Returns the progress of the current stage; None before the first."""
        return self.job.progress if self.job is not None else self.copy


class Standing(msgspec.Struct, frozen=True):
    """The state of a profile; replaced as a whole, so that readers see consistent values."""

    state: State = "found"
    load: Load | None = None
    problem: UserError | None = None
    summary: Summary | None = None
    path: str = ""
    """The last ready column file."""

    @property
    def fraction(self) -> float:
        """Returns the fraction of the file that was read, 0..1; for a remote file, copying is the first half."""
        if self.state == "ready":
            return 1.0
        return 0.0 if self.load is None else self.load.fraction


class Entry:
    """One profile, or one window of it, and its state. Documented methods change it, from any thread."""

    def __init__(self, found: ProfileFiles, window: str = "", changes: Changes | None = None) -> None:
        self._found = found
        self.window = window
        """The requested window; "": the whole trace, or as much as fits."""
        self._windows: dict[str, Entry] = {}
        self._changes = Changes() if changes is None else changes
        self._lock = threading.Lock()
        self._now = Standing()
        self._gone = self._vanished = False
        self._need_bytes = 0
        self._polled = 0.0

    @property
    def files(self) -> ProfileFiles:
        """Returns its name in the picker and its files, as of the last scan."""
        return self._found

    @property
    def key(self) -> tuple[str, str, str]:
        """Returns run, worker, span."""
        return (self._found.run, self._found.worker, self._found.span)

    @property
    def now(self) -> Standing:
        """Returns its standing. Take values that must be consistent from one result."""
        return self._now

    @property
    def state(self) -> State:
        """Returns the name of its state."""
        return self._now.state

    @property
    def problem(self) -> UserError | None:
        """Returns the error of a failed load; None unless ``failed``."""
        return self._now.problem

    @property
    def summary(self) -> Summary | None:
        """Returns the summary; None unless ``ready``."""
        return self._now.summary

    @property
    def path(self) -> str:
        """Returns the path of its column file, once ready."""
        return self._now.path

    @property
    def load(self) -> Load | None:
        """Returns the current load; None unless ``loading``."""
        return self._now.load

    @property
    def job(self) -> Job[Summary] | None:
        """Returns the job of the current load, once it has one."""
        load = self._now.load
        return None if load is None else load.job

    @property
    def gone(self) -> bool:
        """Returns True when the file vanished or changed: another entry replaces it, or will after the next scan."""
        return self._gone

    @property
    def vanished(self) -> bool:
        """Returns True when the file vanished but its data is available."""
        return self._vanished

    @property
    def polled(self) -> float:
        """Returns the time of the last request, monotonic seconds."""
        return self._polled

    @property
    def fraction(self) -> float:
        """Returns the fraction of its standing."""
        return self._now.fraction

    def progress(self, now: Standing) -> Progress:
        """Returns the progress of the current loading stage, for that standing."""
        return (now.load and now.load.progress) or Progress(WAITING, since=self._polled)

    def at(self, window: str) -> Entry:
        """Returns the entry of a window, or the profile itself. The oldest windows are dropped when there are many."""
        if not window:
            return self
        if window not in self._windows:
            resting = [text for text, entry in list(self._windows.items()) if entry.state != "loading"]
            for old in resting[: 1 - MAX_WINDOWS]:
                self._windows.pop(old, None)
        # Two requests at once must get the same one.
        return self._windows.setdefault(window, Entry(self._found, window, self._changes))

    def all(self) -> list[Entry]:
        """Returns the entry itself and those of its windows."""
        return [self, *list(self._windows.values())]

    def ask(self) -> None:
        """Records a request: a load continues while there are requests."""
        self._polled = time.monotonic()

    def peak_memory_bytes(self, estimate: Callable[[], int]) -> int:
        """Returns the estimated memory for reading the whole profile."""
        if not self._need_bytes:
            self._need_bytes = estimate()
        return self._need_bytes

    def begin(self) -> Load | None:
        """Goes from ``found`` to ``loading``. Returns the new load; None if there is nothing to load."""
        load = Load()
        with self._lock:
            if self._now.state != "found" or self._gone:
                return None
            self._now = replace(self._now, state="loading", load=load)
        self._changes.note()
        return load

    def settle(self, load: Load, summary: Summary, path: str) -> bool:
        """Goes from ``loading`` to ``ready``. Returns False, and changes nothing, if the load is not current."""
        return self._end(load, Standing("ready", None, None, summary, path))

    def fail(self, load: Load, problem: UserError) -> bool:
        """Goes from ``loading`` to ``failed``, until its file changes or ``forgive`` is called. Returns as
        ``settle``.
        """
        return self._end(load, Standing("failed", None, problem, None, self._now.path))

    def release(self, load: Load | None) -> bool:
        """Goes from ``loading`` back to ``found``: the next request starts again. Returns as ``settle``."""
        return load is not None and self._end(load, Standing(path=self._now.path))

    def lose(self) -> str:
        """Goes from ``ready`` to ``found``: its columns are missing or damaged. Returns their path; "" if it was not
        ready.
        """
        return self._now.path if self._from("ready") else ""

    def forgive(self) -> None:
        """Goes from ``failed`` to ``found``."""
        self._from("failed")

    def leave(self) -> Load | None:
        """Records that the file changed, or vanished before it was read. Returns the load to stop, if any."""
        with self._lock:
            self._gone = True
        load = self._now.load
        released = self.release(load)
        self._changes.note()
        return load if released else None

    def appear(self, found: ProfileFiles) -> None:
        """Records that the unchanged file exists again; ``found`` is its listing."""
        changed = self._vanished or found != self._found
        self._vanished = False
        for entry in self.all():
            entry._found = found
        if changed:
            self._changes.note()

    def vanish(self) -> None:
        """Records that the file of a ``ready`` entry vanished."""
        if not self._vanished:
            self._vanished = True
            self._changes.note()

    def _end(self, load: Load, standing: Standing) -> bool:
        with self._lock:
            if self._now.load is not load:
                return False
            self._now = standing
        self._changes.note()
        return True

    def _from(self, state: State) -> bool:
        with self._lock:
            if self._now.state != state:
                return False
            self._now = Standing(path=self._now.path)
        self._changes.note()
        return True
