"""Questions to worker processes, and the state of submitted questions.

A question is a small frozen object. It is pickled and sent to a worker. The worker calls its method ``answer``.
``Workers.submit(question)`` returns a job whose type is the type of this answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from tb_plugin.errors import TorchTraceError
from tb_plugin.payloads import Figure

if TYPE_CHECKING:
    from tb_plugin.service.workers.model_cache import OpenModels

Answer_co = TypeVar("Answer_co", covariant=True)
Answer = TypeVar("Answer")

# Stage of a job before its first report: in the queue, or in a worker that is starting.
WAITING = "waiting"
# Seconds without a request after which a parse or a computation is stopped.
ABANDONED_READ_SECONDS = 15.0


class Progress(NamedTuple):
    """Progress of an answer.

    ``fraction`` is the fraction of the input that this ``stage`` has read, 0..1. ``events`` is the number of events
    read so far. ``counts`` contains the same number for each kind of event. ``since`` is the start of the stage in
    monotonic seconds of the waiting process.
    """

    stage: str
    fraction: float = 0.0
    events: int = 0
    counts: Mapping[str, int] = {}
    profile_info: Sequence[Figure] = ()
    since: float = 0.0


# Receives progress. The parent gets at most ten reports per second and stage.
Report = Callable[[Progress], None]


class Question(Protocol[Answer_co]):
    """A question to a worker: a frozen Struct, because it is pickled. Equal questions share one answer."""

    def answer(self, models: OpenModels, report: Report) -> Answer_co:
        """Computes the answer in the worker process. It must be picklable. Raises UserError."""
        ...


class Ready(msgspec.Struct, frozen=True):
    """Does nothing. This question only starts a worker."""

    def answer(self, models: OpenModels, report: Report) -> None:
        pass


class Options(TypedDict, total=False):
    key: str
    heavy: bool
    peak_memory_bytes: int
    label: str


class Killable(Protocol):
    def kill(self) -> None: ...


class Job(Generic[Answer]):
    """A submitted question. ``progress`` is the last progress report of the worker. ``future`` receives the answer."""

    def __init__(self, question: Question[Answer], **options: Unpack[Options]) -> None:
        self.question = question
        self.key = options.get("key", "")
        self.heavy = options.get("heavy", False)
        self.peak_memory_bytes = options.get("peak_memory_bytes", 0)
        self.label = options.get("label") or self.key
        self.long = False
        """True if it was stopped to make room. Like a parse, it may not use the last free worker."""
        self.stopped: TorchTraceError | None = None
        self.gives_way = False
        """True if the worker was stopped and the job returns to the queue."""
        self.queued_at = time.monotonic()
        self.running_since: float | None = None
        self.unwanted_since: float | None = None
        """Time when the job was abandoned, in monotonic seconds; None = not abandoned."""
        self.process: Killable | None = None
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
        return self.progress.fraction

    def restart(self) -> None:
        self.progress = Progress(WAITING, since=time.monotonic())

    def report(self, progress: Progress) -> None:
        same = progress.stage == self.progress.stage
        self.progress = progress._replace(since=self.progress.since if same else time.monotonic())
