"""Questions to worker processes, and their progress.

A question is a small frozen object. It is pickled and sent to a worker. The worker calls its method ``answer``.
``Workers.submit(question)`` returns a job whose type is the type of this answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import msgspec

from tb_plugin.payloads import Figure

if TYPE_CHECKING:
    from tb_plugin.service.workers.model_cache import OpenModels

Answer_co = TypeVar("Answer_co", covariant=True)


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
    """A question to a worker process.

    Implement this protocol as a frozen Struct, because questions are pickled. Equal questions share one answer.
    """

    def answer(self, models: OpenModels, report: Report) -> Answer_co:
        """Computes the answer in the worker process. The answer must be picklable.

        ``models`` contains the open models of the process. Raises UserError.
        """
        ...


class Ready(msgspec.Struct, frozen=True):
    """Does nothing. This question only starts a worker."""

    def answer(self, models: OpenModels, report: Report) -> None:
        pass
