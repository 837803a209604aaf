"""A submitted question and its state."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

from tb_plugin.errors import TorchTraceError
from tb_plugin.service.workers.question import Progress, Question

if TYPE_CHECKING:
    from tb_plugin.service.workers.worker_process import Process

# Stage of a job before its first report: in the queue, or in a worker that is starting.
WAITING = "waiting"


Answer = TypeVar("Answer")


class Job(Generic[Answer]):
    """A submitted question.

    ``progress`` is the last progress report of the worker. ``future`` receives the answer.
    """

    def __init__(
        self,
        question: Question[Answer],
        key: str = "",
        heavy: bool = False,
        peak_memory_bytes: int = 0,
        about: str = "",
    ) -> None:
        self.question = question
        self.key = key
        self.heavy = heavy
        self.peak_memory_bytes = peak_memory_bytes
        self.label = about or key
        self.long = False
        """True if the job was stopped before to make room.

        Such a job is treated like a parse: it may not use the last free worker.
        """
        self.stopped: TorchTraceError | None = None
        """The reason why the job was stopped."""
        self.gives_way = False
        """True if the worker was stopped and the job returns to the queue."""
        self.queued_at = time.monotonic()
        self.running_since: float | None = None
        self.unwanted_since: float | None = None
        """Time when the job was abandoned, in monotonic seconds; None = not abandoned."""
        self.process: Process | None = None
        self.future: Future[Answer] = Future()
        self.restart()

    @property
    def name(self) -> str:
        return type(self.question).__name__

    @property
    def is_short(self) -> bool:
        """Returns False for a parse, and for a job that was stopped before because it took too long."""
        return not self.heavy and not self.long

    @property
    def fraction(self) -> float:
        """Returns the fraction of the input read so far, 0..1."""
        return self.progress.fraction

    def restart(self) -> None:
        self.progress = Progress(WAITING, since=time.monotonic())

    def report(self, progress: Progress) -> None:
        """Stores a progress report and the start time of its stage."""
        same = progress.stage == self.progress.stage
        self.progress = progress._replace(since=self.progress.since if same else time.monotonic())
