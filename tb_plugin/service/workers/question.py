"""What a worker process is asked, and what it says meanwhile.

A question is a small frozen object that travels to the worker; it knows how it is answered there, and so the type of its
answer: ``Workers.submit(question)`` gives a job of just that type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from tb_plugin.payloads import Figure

if TYPE_CHECKING:
    from tb_plugin.service.workers.model_cache import OpenModels

Answer_co = TypeVar("Answer_co", covariant=True)


class Progress(NamedTuple):
    """How far an answer is.

    ``stage`` names what is done now, ``fraction`` is how much of the input is read, 0..1. ``events`` are read so far,
    ``counts`` of them by kind (``readers.base.ReadState``); ``about`` is what the file states ahead of them. ``since`` is
    when the stage began, in monotonic seconds of the process that waits; the worker leaves it out.
    """

    stage: str
    fraction: float = 0.0
    events: int = 0
    counts: Mapping[str, int] = {}
    about: Sequence[Figure] = ()
    since: float = 0.0


Report = Callable[[Progress], None]
"""Takes how far an answer is. Within a stage at most ten reports a second travel to the parent."""


class Question(Protocol[Answer_co]):
    """Something that a worker answers. A frozen dataclass: it is pickled on its way, and equal ones have one answer."""

    def answer(self, models: OpenModels, report: Report) -> Answer_co:
        """Returns the answer, something that pickles. Runs in the worker; ``models`` is what the process keeps open.

        Raises UserError.
        """
        ...


@dataclass(frozen=True)
class Ready:
    """Asks for nothing: whoever does wants a worker that has all that it needs imported."""

    def answer(self, models: OpenModels, report: Report) -> None:
        """Returns at once."""
