"""Where ranks are summarised: in this process, worker processes, or Dask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing

from tb_plugin.errors import UserError
from tb_plugin.service.summaries.compute import Outcome, RankJob, Summarize, memory_estimate, summarize_rank
from tb_plugin.service.workers.pool import Pool
from tb_plugin.service.workers.request import Job

# Maximum number of queued jobs per worker.
_QUEUED_PER_WORKER = 2


def in_this_process(jobs: Iterable[RankJob]) -> Iterator[Outcome]:
    """Runs the jobs one after another and yields their outcomes."""
    for job in jobs:
        yield summarize_rank(job)


def in_pool(jobs: Iterable[RankJob], workers: int) -> Iterator[Outcome]:
    """Runs the jobs in local worker processes and yields the outcomes as the jobs finish.

    A job is repeated once if its worker process dies.
    """
    coming = iter(jobs)
    with closing(Pool(workers, heavy=workers)) as pool:
        running: dict[Future[Outcome], Job[Outcome]] = {}
        while True:
            for job in coming:
                question = Summarize(job)
                need = min(memory_estimate(job), pool.budget)
                asked = pool.submit(question, key=job.name, heavy=True, peak_memory_bytes=need, about=job.name)
                running[asked.future] = asked
                if len(running) >= _QUEUED_PER_WORKER * workers:
                    break
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield _outcome(running.pop(future), future)


def _outcome(asked: Job[Outcome], future: Future[Outcome]) -> Outcome:
    error = future.exception()
    if error is None:
        return future.result()
    text = " ".join(filter(None, (error.what, error.do))) if isinstance(error, UserError) else str(error)
    return Outcome(asked.key, "failed", reason=text)
