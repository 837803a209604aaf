"""De-duplication of identical requests.

A request that no client waits for is cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Unpack, cast

from tb_plugin.errors import Cancelled
from tb_plugin.service.workers.pool import Workers
from tb_plugin.service.workers.question import Answer, Job, Options, Question

# Seconds between checks that the client is still connected.
LOOK_SECONDS = 0.25
_gone: ContextVar[Callable[[], bool] | None] = ContextVar("torch_trace_gone", default=None)


@contextmanager
def waiting_for(gone: Callable[[], bool]) -> Iterator[None]:
    """Cancels the questions of the ``with`` block as soon as ``gone`` returns True, because the client disconnected."""
    token = _gone.set(gone)
    try:
        yield
    finally:
        _gone.reset(token)


class _Flight:
    def __init__(self, job: Job[Any]) -> None:
        self.job = job
        self.waiting = 0


class Desk:
    """Submits questions and waits for answers. Identical concurrent questions share one answer."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lock = threading.RLock()  # leaving a queued job ends it immediately
        self._flights: dict[Question[Any], _Flight] = {}

    def ask(self, question: Question[Answer], **options: Unpack[Options]) -> Answer:
        """Returns the answer to a question. Raises the error of the answer, or Cancelled if the client disconnected."""
        flight = self._join(question, options)
        try:
            return cast(Answer, _wait(flight.job.future))
        finally:
            with self._lock:
                flight.waiting -= 1
                if not flight.waiting and not flight.job.future.done():
                    self._workers.leave(flight.job)

    def _join(self, question: Question[Any], options: Options) -> _Flight:
        with self._lock:
            flight = self._flights.get(question)
            if flight is None or flight.job.future.done() or not self._workers.wanted(flight.job):
                flight = _Flight(self._workers.submit(question, **options))
                if not flight.job.future.done():
                    self._flights[question] = flight
            flight.waiting += 1
        # Called without the lock, because the callback of a finished future runs immediately.
        if flight.waiting == 1:
            flight.job.future.add_done_callback(partial(self._land, question, flight))
        return flight

    def _land(self, question: Question[Any], flight: _Flight, future: Future[Any]) -> None:
        with self._lock:
            if self._flights.get(question) is flight:
                del self._flights[question]


def _wait(future: Future[Answer]) -> Answer:
    gone = _gone.get()
    while gone is not None and not future.done():
        try:
            return future.result(LOOK_SECONDS)
        except TimeoutError:
            if not future.done() and gone():
                raise Cancelled("The request was cancelled.") from None
    return future.result()
