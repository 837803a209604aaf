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
from dataclasses import dataclass, replace

from tb_plugin.errors import UserError
from tb_plugin.payloads import State
from tb_plugin.service.profile_files import ProfileFiles
from tb_plugin.service.workers.parse_result import Summary
from tb_plugin.service.workers.question import Progress
from tb_plugin.service.workers.request import WAITING, Job

MAX_WINDOWS = 8
"""Windows of one profile whose state is kept."""


class Changes:
    """Counts the changes of everything that a catalog tells."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """Returns how many there were. Ask before looking: what changes meanwhile is then looked at again."""
        return self._count

    def note(self) -> None:
        """Counts one that has been made."""
        with self._lock:
            self._count += 1


class Load:
    """One attempt to read a profile, and how far it is."""

    def __init__(self) -> None:
        self.path = ""
        """The column file that it writes."""
        self.job: Job[Summary] | None = None
        self.copy: Progress | None = None
        """How far a remote profile is copied into the local cache; None when nothing has to be copied."""
        self._is_part = False

    def copying(self, progress: Progress) -> None:
        """Tells how far the copy is."""
        self.copy = progress

    def reading(self, job: Job[Summary], path: str, is_part: bool) -> None:
        """Tells that a worker reads the file, or a window of it (``is_part``), into a column file."""
        self.path, self._is_part, self.job = path, is_part, job

    @property
    def fraction(self) -> float:
        """Returns how much of the file is read, 0..1; of a remote file, copying is the first half."""
        job, copy = self.job, self.copy
        parsed = 0.0
        if job is not None:
            parsed = job.fraction
            if self._is_part:  # looked through once to find the window, then read
                parsed = (parsed if job.progress.stage in (WAITING, "surveying") else 1 + parsed) / 2
        return parsed if copy is None else (copy.fraction + parsed) / 2

    @property
    def progress(self) -> Progress | None:
        """Returns that of the stage that it is in; None before the first."""
        return self.job.progress if self.job is not None else self.copy


@dataclass(frozen=True)
class Standing:
    """Where a profile stands; replaced as a whole, so that who reads it sees what belongs together."""

    state: State = "found"
    load: Load | None = None
    """The one under way; set while ``loading``."""
    problem: UserError | None = None
    """Set while ``failed``."""
    summary: Summary | None = None
    """Set while ``ready``."""
    path: str = ""
    """The column file that was ready last."""

    @property
    def fraction(self) -> float:
        """Returns how much of the file is read, 0..1; of a remote file, copying is the first half."""
        if self.state == "ready":
            return 1.0
        return 0.0 if self.load is None else self.load.fraction


class Entry:
    """One profile, or one window of it, and its state. Only the methods that say so change it; any thread may."""

    def __init__(self, found: ProfileFiles, window: str = "", changes: Changes | None = None) -> None:
        self._found = found
        self.window = window
        """Which window was asked for; empty: all of the trace, or what fits of it."""
        self._windows: dict[str, Entry] = {}
        self._changes = Changes() if changes is None else changes
        self._lock = threading.Lock()
        self._now = Standing()
        self._gone = self._vanished = False
        self._need_bytes = 0
        self._polled = 0.0

    @property
    def found(self) -> ProfileFiles:
        """Returns its place in the picker and its files, as the last scan found them."""
        return self._found

    @property
    def key(self) -> tuple[str, str, str]:
        """Returns run, worker, span."""
        return (self._found.run, self._found.worker, self._found.span)

    @property
    def now(self) -> Standing:
        """Returns where it stands. Two things that must fit each other are taken from one answer of this."""
        return self._now

    @property
    def state(self) -> State:
        """Returns the name of its state."""
        return self._now.state

    @property
    def problem(self) -> UserError | None:
        """Returns what it failed with; None unless ``failed``."""
        return self._now.problem

    @property
    def summary(self) -> Summary | None:
        """Returns what is known of what was read; None unless ``ready``."""
        return self._now.summary

    @property
    def path(self) -> str:
        """Returns the path of its column file, once ready."""
        return self._now.path

    @property
    def load(self) -> Load | None:
        """Returns the load under way; None unless ``loading``."""
        return self._now.load

    @property
    def job(self) -> Job[Summary] | None:
        """Returns the job of the load under way, once it has one."""
        load = self._now.load
        return None if load is None else load.job

    @property
    def gone(self) -> bool:
        """Returns True when the file vanished or changed: another entry stands for it, or will after the next scan."""
        return self._gone

    @property
    def vanished(self) -> bool:
        """Returns True when the file is not there any more, but what was read of it is."""
        return self._vanished

    @property
    def polled(self) -> float:
        """Returns when somebody last asked, monotonic seconds."""
        return self._polled

    @property
    def fraction(self) -> float:
        """Returns that of where it stands."""
        return self._now.fraction

    def progress(self, now: Standing) -> Progress:
        """Returns that of the stage that loading is in, at that standing."""
        return (now.load and now.load.progress) or Progress(WAITING, since=self._polled)

    def at(self, window: str) -> Entry:
        """Returns the entry of a window; the profile's own for none. Of many windows the first that rest are forgotten."""
        if not window:
            return self
        if window not in self._windows:
            resting = [text for text, entry in list(self._windows.items()) if entry.state != "loading"]
            for old in resting[: 1 - MAX_WINDOWS]:
                self._windows.pop(old, None)
        # Two requests at once must get the same one.
        return self._windows.setdefault(window, Entry(self._found, window, self._changes))

    def all(self) -> list[Entry]:
        """Returns the entry itself and those of its windows, each loaded on its own."""
        return [self, *list(self._windows.values())]

    def ask(self) -> None:
        """Notes that somebody asked: a load goes on while somebody does."""
        self._polled = time.monotonic()

    def need_bytes(self, estimate: Callable[[], int]) -> int:
        """Returns the memory that reading all of the profile takes, estimated when that is first asked."""
        if not self._need_bytes:
            self._need_bytes = estimate()
        return self._need_bytes

    def begin(self) -> Load | None:
        """Goes from ``found`` to ``loading``. Returns the load that has to be done now; None where there is none to do."""
        load = Load()
        with self._lock:
            if self._now.state != "found" or self._gone:
                return None
            self._now = replace(self._now, state="loading", load=load)
        self._changes.note()
        return load

    def settle(self, load: Load, summary: Summary, path: str) -> bool:
        """Goes from ``loading`` to ``ready``. Returns False, and changes nothing, when another load is under way or none."""
        return self._end(load, Standing("ready", None, None, summary, path))

    def fail(self, load: Load, problem: UserError) -> bool:
        """Goes from ``loading`` to ``failed``, until its file changes or somebody says ``forgive``. Returns as ``settle``."""
        return self._end(load, Standing("failed", None, problem, None, self._now.path))

    def release(self, load: Load | None) -> bool:
        """Goes from ``loading`` back to ``found``: whoever asks begins again. Returns as ``settle``."""
        return load is not None and self._end(load, Standing(path=self._now.path))

    def lose(self) -> str:
        """Goes from ``ready`` to ``found``: its columns are gone or damaged. Returns their path; "" when it was not ready."""
        return self._now.path if self._from("ready") else ""

    def forgive(self) -> None:
        """Goes from ``failed`` to ``found``."""
        self._from("failed")

    def leave(self) -> Load | None:
        """Takes in that the file is another one now, or away before it was read. Returns the load to be stopped, if any."""
        with self._lock:
            self._gone = True
        load = self._now.load
        released = self.release(load)
        self._changes.note()
        return load if released else None

    def appear(self, found: ProfileFiles) -> None:
        """Takes in that the file is there, as the entry knows it; ``found`` says where it is listed."""
        changed = self._vanished or found != self._found
        self._vanished = False
        for entry in self.all():
            entry._found = found
        if changed:
            self._changes.note()

    def vanish(self) -> None:
        """Takes in that the file of what is ``ready`` is away."""
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
        """Back to ``found`` when it is in that state."""
        with self._lock:
            if self._now.state != state:
                return False
            self._now = Standing(path=self._now.path)
        self._changes.note()
        return True
