"""Questions for worker processes, and their progress.

A question is a small frozen object that is pickled for the worker. It knows how to compute its answer, and so its type:
``Workers.submit(question)`` returns a job of that type.
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
    """The progress of an answer.

    ``stage`` is the current stage, ``fraction`` the fraction of the input that was read, 0..1. ``events`` were read so
    far, ``counts`` of them by kind (``readers.base.ReadState``); ``about`` is the metadata at the start of the file.
    ``since`` is the start of the stage, in monotonic seconds of the waiting process; the worker omits it.
    """

    stage: str
    fraction: float = 0.0
    events: int = 0
    counts: Mapping[str, int] = {}
    profile_info: Sequence[Figure] = ()
    since: float = 0.0


# Receives progress. At most ten reports a second per stage reach the parent.
Report = Callable[[Progress], None]


class Question(Protocol[Answer_co]):
    """A question for a worker. A frozen dataclass: it is pickled, and equal questions share an answer."""

    def answer(self, models: OpenModels, report: Report) -> Answer_co:
        """Returns the answer, which can be pickled. Runs in the worker; ``models`` are the open models of the
        process.

        Raises UserError.
        """
        ...


class Ready(msgspec.Struct, frozen=True):
    """Asks for nothing, to warm up a worker."""

    def answer(self, models: OpenModels, report: Report) -> None:
        """Returns at once."""
