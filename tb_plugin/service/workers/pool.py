"""A pool of worker processes that parse and analyse.

Each worker is a new interpreter started by ``subprocess``. ``multiprocessing`` is not used because every worker
would run the main script again. If a script without a ``__main__`` guard calls ``tb_plugin.open``, it would start
itself forever. ``concurrent.futures`` is not used because it cannot stop a running task, and one dead process
breaks the pool.

Time limits prevent that one profile or one user occupies all workers. An answer has a time limit. An abandoned
answer is stopped after a few seconds. If all workers are busy and short jobs wait, the answer that runs longest is
stopped and repeated later. All times are monotonic seconds.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack, cast

from tb_plugin import settings
from tb_plugin.errors import Cancelled, TookTooLong, TorchTraceError, UserError
from tb_plugin.lib.model_cache import LIMIT_BYTES
from tb_plugin.service.workers.memory_budget import budget_bytes, cores
from tb_plugin.service.workers.question import Answer, Job, Options, Progress, Question, Ready, Report
from tb_plugin.service.workers.worker_process import Death, Process, Seat

if TYPE_CHECKING:
    from tb_plugin.service.workers.model_cache import OpenModels

log = logging.getLogger("torch_trace")

WORKERS_VARIABLE = settings.WORKERS.name
# Maximum number of worker processes.
_MAX_WORKERS = 4
_BYTES_PER_WORKER = 1024**3
_RETIRE_BYTES = 1024**3
# Cached values may take 1/4 of the memory at which a worker is replaced.
_MEMO_DIVISOR = 4
# Time limit of an answer in seconds; 0 = unlimited.
ANSWER_VARIABLE = settings.ANSWER_SECONDS.name
DEFAULT_SECONDS = 120.0
# Seconds after which an abandoned answer is stopped; most finish before.
ABANDONED_ANSWER_SECONDS = 5.0
# An answer that runs this many seconds is stopped for one that has waited as long.
GIVE_WAY_SECONDS = 2.0
# Seconds between checks of the time limits.
TICK_SECONDS = 0.25


class Workers:
    budget: int
    """Memory in bytes for all concurrent parses. A larger profile is opened as a window."""

    def submit(self, question: Question[Answer], **options: Unpack[Options]) -> Job[Answer]:
        raise NotImplementedError

    def cancel(self, job: Job[Answer]) -> None:
        """Stops a job. Its future raises Cancelled, unless the job was already done."""

    def leave(self, job: Job[Answer]) -> None:
        """Marks a job as abandoned. The job is stopped unless it finishes soon."""

    def wanted(self, job: Job[Answer]) -> bool:
        """Marks an abandoned job as needed again. Returns False if the job was already stopped."""
        return True

    def close(self) -> None:
        """Kills all worker processes. Unfinished jobs raise Cancelled."""


class InlineWorkers(Workers):
    """Answers every question immediately in the calling thread. Used in short-lived processes."""

    def __init__(self, report: Report = lambda progress: None, budget: int | None = None) -> None:
        # Imported here, because a pool starts before these heavy imports.
        from tb_plugin.service.workers.model_cache import OpenModels

        self.budget = budget or budget_bytes()
        self._report = report
        self._models: OpenModels = OpenModels()

    def submit(self, question: Question[Answer], **options: Unpack[Options]) -> Job[Answer]:
        job = Job(question, **options)
        try:
            report = self._report if job.heavy else lambda progress: None
            job.future.set_result(question.answer(self._models, report))
        except Exception as error:  # raised by the future
            job.future.set_exception(error)
        return job


class Pool(Workers):
    """At most ``size`` worker processes, started when needed. At most ``heavy`` of them parse at the same time.

    Concurrent parses use at most ``budget`` bytes together. A parse that needs more runs alone. A job is given
    preferably to the idle worker that last used the same key, because that worker has the data in memory.
    ``limit_seconds`` is the time limit of an answer (None = unlimited).
    """

    def __init__(
        self,
        size: int | None = None,
        heavy: int | None = None,
        budget: int | None = None,
        limit_seconds: float | None = None,
    ) -> None:
        self.size = size or default_size()
        # One worker is reserved for answers, so that a parse does not block the page of another profile.
        self.heavy = heavy or max(1, self.size - 1)
        self.budget = budget or budget_bytes()
        # Python rarely returns freed memory to the system, so a worker that has grown large is replaced.
        self._retire_bytes = min(_RETIRE_BYTES, self.budget // self.size)
        self._changed = threading.Condition()
        self._pending: list[Job[Any]] = []
        self._seats: list[Seat] = []
        self._limit_seconds = limit_seconds
        self._watching = False
        self._warmed = False
        self._closed = False
        _open_pools.add(self)

    def warm(self) -> None:
        """Starts one worker in advance, so that the first question does not wait for imports."""
        with self._changed:
            warmed, self._warmed = self._warmed, True
        if not warmed:
            self.submit(Ready())

    def submit(self, question: Question[Answer], **options: Unpack[Options]) -> Job[Answer]:
        job = Job(question, **options)
        with self._changed:
            if self._closed:
                raise Cancelled("The worker pool is closed.")
            self._pending.append(job)
            # Checked only until all workers exist, when the queue is still short.
            if len(self._seats) < self.size and self._lacks_a_seat():
                self._seats.append(Seat(min(LIMIT_BYTES, self._retire_bytes // _MEMO_DIVISOR)))
                threading.Thread(
                    target=self._work, args=(self._seats[-1],), name="torch-trace-pool", daemon=True
                ).start()
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="torch-trace-watch", daemon=True).start()
            self._changed.notify_all()
        return job

    def _lacks_a_seat(self) -> bool:
        asking = sum(not isinstance(each.question, Ready) for each in self._pending)
        return max(asking, 1) > sum(seat.is_free for seat in self._seats)

    def cancel(self, job: Job[Answer]) -> None:
        """Removes a waiting job from the queue. For a running job, kills the worker."""
        with self._changed:
            waiting = self._stop(job, Cancelled(job.name))
        # Called without the lock, because callbacks of a future may take other locks.
        if waiting:
            job.future.set_exception(Cancelled(job.name))

    def leave(self, job: Job[Answer]) -> None:
        """Removes a waiting job from the queue. A running job is stopped unless it finishes soon."""
        with self._changed:
            job.unwanted_since = time.monotonic()
            waiting = job in self._pending
        if waiting:
            self.cancel(job)

    def wanted(self, job: Job[Answer]) -> bool:
        with self._changed:
            if job.stopped is None:
                job.unwanted_since = None
            return job.stopped is None

    def _stop(self, job: Job[Any], why: TorchTraceError) -> bool:
        job.stopped = job.stopped or why
        if job in self._pending:
            self._pending.remove(job)
            self._changed.notify_all()  # jobs that waited for it may run now
            return True
        if job.process is not None:
            job.process.kill()
        return False

    def _watch(self) -> None:
        while True:
            ended: list[tuple[Job[Any], TorchTraceError]] = []
            with self._changed:
                running = [seat.job for seat in self._seats if seat.job is not None]
                self._changed.wait(TICK_SECONDS if running or self._pending else None)
                if self._closed:
                    return
                now = time.monotonic()
                running = [seat.job for seat in self._seats if seat.job is not None]
                for job in [*self._pending, *running]:
                    why: TorchTraceError | None = timeout_error(job, now, self._limit_seconds)
                    why = why or _abandoned_error(job, now)
                    if why is not None and job.stopped is None and self._stop(job, why):
                        ended.append((job, why))
                if self.heavy < self.size <= len(running):
                    slow = giving_way(self._pending, running, now)
                    if slow is not None and slow.process is not None:
                        slow.long = slow.gives_way = True
                        slow.process.kill()
            for job, why in ended:
                job.future.set_exception(why)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            waiting, self._pending = self._pending, []
            for seat in self._seats:
                if seat.job is not None:
                    seat.job.stopped = Cancelled(seat.job.name)
                seat.end()
            self._changed.notify_all()
        for job in waiting:
            job.future.set_exception(Cancelled(job.name))

    def _work(self, seat: Seat) -> None:
        while (job := self._take(seat)) is not None:
            try:
                result, error = self._attempt(seat, job), None
            except Exception as raised:  # top level of the pool: the future raises it
                result, error = None, raised
            with self._changed:
                seat.job = job.process = job.running_since = None
                seat.used(job.key)
                if isinstance(error, _GaveWay) and job.stopped is not None:
                    error = job.stopped
                elif isinstance(error, _GaveWay):
                    self._pending.append(job)
                self._changed.notify_all()
            if error is None:
                job.future.set_result(result)
            elif not isinstance(error, _GaveWay):
                job.future.set_exception(error)

    def _take(self, seat: Seat) -> Job[Any] | None:
        with self._changed:
            while not self._closed:
                job = self._next(seat)
                if job is not None:
                    self._pending.remove(job)
                    seat.job = job
                    if self._pending:
                        self._changed.notify_all()  # other workers may have left them to this idle worker
                    return job
                self._changed.wait()
            return None

    def _next(self, seat: Seat) -> Job[Any] | None:
        running = [other.job for other in self._seats if other.job is not None]
        slow = [job for job in running if not job.is_short]
        left = self.budget - sum(job.peak_memory_bytes for job in running if job.heavy)
        full = bool(slow) and len(slow) >= self.heavy
        # Only the first parse in the queue may start: otherwise small ones would delay a large one forever.
        parse = next((job for job in self._pending if job.heavy), None)
        if parse is not None and (full or (parse.peak_memory_bytes > left and any(job.heavy for job in running))):
            parse = None
        allowed = [job for job in self._pending if job is parse or job.is_short or (job.long and not full)]
        for job in allowed:
            if job.key in seat.warm:
                return job
        others = [other for other in self._seats if other is not seat and other.job is None]
        return next((job for job in allowed if not any(job.key in other.warm for other in others)), None)

    def _attempt(self, seat: Seat, job: Job[Answer]) -> Answer:
        """Runs a job, and runs it again if its worker dies. Raises the error of the job, or WorkerDied."""
        deaths: list[Death] = []
        while len(deaths) < 2:
            try:
                with self._changed:
                    if job.stopped is not None:
                        raise job.stopped
                    job.process = process = seat.start()
                    # The time to start a process is not charged to the question.
                    job.running_since = time.monotonic() if process.started else None
                return self._run(seat, process, job)
            except (EOFError, OSError, ValueError) as error:
                deaths.append(seat.bury(error))
                job.restart()
                if job.stopped is not None:
                    raise job.stopped from error
                if job.gives_way:
                    job.gives_way = False
                    raise _GaveWay from error
                log.warning("A worker process died (%s) during %s of %s.", deaths[-1], job.name, job.label)
        raise deaths[-1].error(job.label)

    def _run(self, seat: Seat, process: Process, job: Job[Answer]) -> Answer:
        """Sends a job to a process and waits for the result. Raises EOFError or OSError if the process dies."""
        from tb_plugin.service.workers.worker_main import Bug, Done, Failed, Logged, receive, send

        send(process.questions, job.question)
        while True:
            message = receive(process.answers)
            if not process.started:
                process.started, job.running_since = True, time.monotonic()
            match message:
                case Progress():
                    job.report(message)
                case Logged(level, text):
                    log.log(level, "%s", text)
                case Done(answer, resident_bytes):
                    if resident_bytes > self._retire_bytes:
                        seat.end()
                    return cast(Answer, answer)  # it belongs to this question: a worker has only one at a time
                case Failed(error):
                    raise error
                case Bug(text):
                    log.error("A bug in %s:\n%s", job.name, text)
                    raise WorkerBug(text.strip().rpartition("\n")[2])


class _GaveWay(Exception):
    pass


class WorkerBug(TorchTraceError):
    """Raised if a job failed with an unexpected error. The log contains the traceback."""


def answer_seconds() -> float | None:
    """Returns the time limit of an answer; None = unlimited."""
    text = os.environ.get(ANSWER_VARIABLE, "").strip()
    try:
        seconds = float(text) if text else DEFAULT_SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        log.warning("%s=%s is not a number of seconds; the default is used.", ANSWER_VARIABLE, text)
        seconds = DEFAULT_SECONDS
    return seconds or None


def timeout_error(job: Job[Any], now: float, limit_seconds: float | None) -> UserError | None:
    """Returns the error of a job that exceeds its time limit, else None. Parses have no time limit."""
    if limit_seconds is None or job.heavy:
        return None
    if job.running_since is None:
        if job.process is None and now - job.queued_at > limit_seconds:
            what = f"All workers were busy for {limit_seconds:g} s."
            return TookTooLong(what, job.label, "Try again later, or allow more workers with TORCH_TRACE_WORKERS.")
        return None
    if now - job.running_since > limit_seconds:
        what = f"The computation took longer than {limit_seconds:g} s and was stopped."
        return TookTooLong(what, job.label, f"Choose fewer steps, or allow more time with {ANSWER_VARIABLE}.")
    return None


def _abandoned_error(job: Job[Any], now: float) -> Cancelled | None:
    since = job.unwanted_since
    if since is None or now - since <= ABANDONED_ANSWER_SECONDS:
        return None
    return Cancelled(f"The request for {job.name} of {job.label} was cancelled.")


def giving_way(waiting: Iterable[Job[Any]], running: Iterable[Job[Any]], now: float) -> Job[Any] | None:
    """Returns the running job to stop for short jobs that wait too long. Call it only if no worker is free."""
    if not any(job.is_short and now - job.queued_at > GIVE_WAY_SECONDS for job in waiting):
        return None
    slow = [job for job in running if job.is_short and now - (job.running_since or now) > GIVE_WAY_SECONDS]
    return min(slow, key=lambda job: job.running_since or now, default=None)


def default_size() -> int:
    """Returns the number of workers: TORCH_TRACE_WORKERS, or a number that fits the CPU cores and the memory budget."""
    wanted = os.environ.get(WORKERS_VARIABLE, "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return max(1, min(cores(), _MAX_WORKERS, budget_bytes() // _BYTES_PER_WORKER))


_open_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


@atexit.register
def _close_pools() -> None:
    for pool in list(_open_pools):
        pool.close()
