"""One question on its way to a worker and back."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Generic, TypeVar

from tb_plugin.errors import TorchTraceError
from tb_plugin.service.workers.question import Progress, Question
from tb_plugin.service.workers.worker_process import Process

WAITING = "waiting"
"""Stage of a job before its task reports one: in the queue, or in a worker that is starting."""


Answer = TypeVar("Answer")


class Job(Generic[Answer]):
    """One question on its way. ``progress`` is what its worker reported last; ``future`` carries the answer."""

    def __init__(
        self, question: Question[Answer], key: str = "", heavy: bool = False, need_bytes: int = 0, about: str = ""
    ) -> None:
        self.question = question
        self.key = key
        self.heavy = heavy
        self.need_bytes = need_bytes
        self.about = about or key
        self.long = False
        """It took so long once that it had to give way: like a read, it may not hold the last free worker."""
        self.stopped: TorchTraceError | None = None
        """Why it ends before it is answered."""
        self.gives_way = False
        """Its worker is ended, and it goes back to the queue."""
        self.asked_at = time.monotonic()
        self.running_since: float | None = None
        self.unwanted_since: float | None = None
        """Since when nobody waits for it."""
        self.process: Process | None = None
        self.future: Future[Answer] = Future()
        self.restart()

    @property
    def name(self) -> str:
        """Returns the kind of question."""
        return type(self.question).__name__

    @property
    def is_short(self) -> bool:
        """Returns True for what is, as far as anybody knows yet, neither a read nor an answer that took long before."""
        return not self.heavy and not self.long

    @property
    def fraction(self) -> float:
        """Returns how much of its input is read, 0..1."""
        return self.progress.fraction

    def restart(self) -> None:
        """Forgets the progress: nothing is done yet, or no longer."""
        self.progress = Progress(WAITING, since=time.monotonic())

    def report(self, progress: Progress) -> None:
        """Takes what the worker says, and the time when that is a new stage."""
        same = progress.stage == self.progress.stage
        self.progress = progress._replace(since=self.progress.since if same else time.monotonic())
