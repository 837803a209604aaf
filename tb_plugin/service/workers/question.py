"""Questions to worker processes, and their progress.

A question is a small frozen object that is pickled and sent to a worker. Its method ``answer`` computes the answer,
so ``Workers.submit(question)`` returns a job with the right type.
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

    ``fraction`` is the part of the input read so far in this ``stage``, 0..1. ``events`` is the number of events
    read so far, ``counts`` that by kind. ``since`` is the start of the stage in monotonic seconds of the waiting
    process.
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

    Implement it as a frozen Struct: it is pickled, and equal questions share one answer.
    """

    def answer(self, models: OpenModels, report: Report) -> Answer_co:
        """Computes the answer in the worker process. The answer must be picklable.

        ``models`` caches the open models of the process. Raises UserError.
        """
        ...


class Ready(msgspec.Struct, frozen=True):
    """Does nothing, to warm up a worker."""

    def answer(self, models: OpenModels, report: Report) -> None:
        """Returns immediately."""
