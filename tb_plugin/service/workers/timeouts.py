"""Time limits of jobs.

The rules prevent that one profile or one user occupies all workers. An answer has a time limit. An abandoned answer
is stopped after a few seconds. If all workers are busy and short jobs wait, the answer that runs longest is stopped
and repeated later. All times are monotonic seconds.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from tb_plugin import settings
from tb_plugin.errors import Cancelled, TookTooLong, UserError
from tb_plugin.service.workers.request import Job

log = logging.getLogger("torch_trace")

# Time limit of an answer in seconds; 0 = unlimited.
ANSWER_VARIABLE = settings.ANSWER_SECONDS.name
DEFAULT_SECONDS = 120.0
# Seconds after which an abandoned answer is stopped; most finish before.
ABANDONED_ANSWER_SECONDS = 5.0
# Seconds without a request after which a parse or a computation is stopped.
ABANDONED_READ_SECONDS = 15.0
# An answer that runs this many seconds is stopped for one that has waited as long.
GIVE_WAY_SECONDS = 2.0
# Seconds between checks of these rules.
TICK_SECONDS = 0.25


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


def abandoned_error(job: Job[Any], now: float) -> Cancelled | None:
    """Returns the error of a job that was abandoned more than ABANDONED_ANSWER_SECONDS ago, else None."""
    since = job.unwanted_since
    if since is None or now - since <= ABANDONED_ANSWER_SECONDS:
        return None
    return Cancelled(f"The request for {job.name} of {job.label} was cancelled.")


def giving_way(waiting: Iterable[Job[Any]], running: Iterable[Job[Any]], now: float) -> Job[Any] | None:
    """Returns the running job that must be stopped so that short jobs can run, or None if no job waits too long.

    Call this function only if no worker is free. Parses never occupy all workers.
    """
    if not any(job.is_short and now - job.queued_at > GIVE_WAY_SECONDS for job in waiting):
        return None
    slow = [job for job in running if job.is_short and now - (job.running_since or now) > GIVE_WAY_SECONDS]
    return min(slow, key=lambda job: job.running_since or now, default=None)
