"""Which jobs are ended early: the rules that keep one profile, or one person, from holding all workers.

An answer may take as long as a person would wait for it, and no longer; one that nobody waits for any more is stopped
after a moment; and where all workers are busy with answers that take long while short ones wait, the longest gives way
and is begun anew when it leaves a worker free. All times are monotonic seconds.
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

ANSWER_VARIABLE = settings.ANSWER_SECONDS.name
"""Environment variable: how long an answer may take; 0: as long as it needs."""
DEFAULT_SECONDS = 120.0
FORSAKEN_SECONDS = 5.0
"""A running answer that nobody waits for is stopped after so long: most are done before."""
GIVE_WAY_SECONDS = 2.0
"""An answer that took so long gives way when another one has waited for so long."""
TICK_SECONDS = 0.25
"""How often the rules are looked at while anything is under way."""


def answer_seconds() -> float | None:
    """Returns how long an answer may take; None: as long as it needs."""
    text = os.environ.get(ANSWER_VARIABLE, "").strip()
    try:
        seconds = float(text) if text else DEFAULT_SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        log.warning("%s=%s is not a number of seconds; the default is used.", ANSWER_VARIABLE, text)
        seconds = DEFAULT_SECONDS
    return seconds or None


def late(job: Job[Any], now: float, limit_seconds: float | None) -> UserError | None:
    """Returns why a job has to end for the time that it took or waited; None when it may go on. Reads have no limit."""
    if limit_seconds is None or job.heavy:
        return None
    if job.running_since is None:
        if job.process is None and now - job.asked_at > limit_seconds:
            what = f"All workers were busy for {limit_seconds:g} s."
            return TookTooLong(what, job.about, "Try again later, or allow more of them with TORCH_TRACE_WORKERS.")
        return None
    if now - job.running_since > limit_seconds:
        what = f"The answer took longer than {limit_seconds:g} s and was stopped."
        return TookTooLong(what, job.about, f"Choose fewer steps, or allow more time with {ANSWER_VARIABLE}.")
    return None


def forsaken(job: Job[Any], now: float) -> Cancelled | None:
    """Returns why a job ends that nobody waits for any more; None where somebody does, or did a moment ago."""
    since = job.unwanted_since
    if since is None or now - since <= FORSAKEN_SECONDS:
        return None
    return Cancelled(f"The request for {job.name} of {job.about} was cancelled.")


def giving_way(waiting: Iterable[Job[Any]], running: Iterable[Job[Any]], now: float) -> Job[Any] | None:
    """Returns the running answer that gives way to short ones that have waited; None where none has to.

    To be asked when no worker is free. Reads never hold all of them.
    """
    if not any(job.is_short and now - job.asked_at > GIVE_WAY_SECONDS for job in waiting):
        return None
    slow = [job for job in running if job.is_short and now - (job.running_since or now) > GIVE_WAY_SECONDS]
    return min(slow, key=lambda job: job.running_since or now, default=None)
