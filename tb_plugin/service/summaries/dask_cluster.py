"""Rank summaries computed on an existing Dask cluster.

Only this module imports ``dask.distributed``. For security, the scheduler address comes only from a command-line
flag or an environment variable, never from files or the Dask configuration. The scheduler and its workers must be
trusted, because they run code and read traces.
"""

from __future__ import annotations

import logging
import os
import queue
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import msgspec

from tb_plugin import settings
from tb_plugin.errors import BadRequest, MissingPackage, UserError
from tb_plugin.service.summaries.compute import Outcome, RankJob, code_digest, summarize_rank
from tb_plugin.storage.secrets import redact

# The scheduler of a Dask cluster, such as tcp://10.0.0.1:8786.
SCHEDULER_VARIABLE = settings.SCHEDULER.name
# CA file, certificate file and key file for a scheduler at tls://.
CA_VARIABLE, CERT_VARIABLE, KEY_VARIABLE = settings.TLS_CA_FILE.name, settings.TLS_CERT.name, settings.TLS_KEY.name
CONNECT_SECONDS = 10.0
# Number of attempts after an unreachable storage or an unexpected error.
RETRIES = 2
# Maximum number of submitted jobs.
_MAX_IN_FLIGHT = 1024
_PACKAGE = "torch-trace-tb"
log = logging.getLogger("torch_trace")


class Scheduler(msgspec.Struct, frozen=True):
    address: str
    ca_file: str = ""
    cert: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if not self.address.startswith(("tcp://", "tls://")):
            raise BadRequest(
                "The scheduler address must be tcp://HOST:PORT or tls://HOST:PORT.",
                self.address,
                "Correct the address.",
            )
        files = (self.ca_file, self.cert, self.key)
        if any(files) != all(files):
            raise BadRequest(
                "TLS needs three files: CA certificate, client certificate and client key.",
                self.address,
                "Specify the CA certificate, the client certificate and the client key.",
            )
        if self.address.startswith("tls://") and not all(files):
            raise BadRequest(
                "The scheduler address starts with tls://, but no certificate files are set.",
                self.address,
                "Specify the CA certificate, the client certificate and the client key.",
            )


def from_environment() -> Scheduler | None:
    """Returns the scheduler in the environment variables, or None. Raises BadRequest."""
    address = os.environ.get(SCHEDULER_VARIABLE, "").strip()
    files = (os.environ.get(name, "").strip() for name in (CA_VARIABLE, CERT_VARIABLE, KEY_VARIABLE))
    return Scheduler(address, *files) if address else None


def connect_or_none() -> Scheduler | None:
    """Returns the scheduler in the environment variables, or None. Logs errors instead of raising them."""
    try:
        return from_environment()
    except BadRequest as error:
        log.warning("%s: %s", SCHEDULER_VARIABLE, error)
        return None


class Cluster:
    """A connection to a scheduler, for use by one thread.

    The caller assigns a unique key to each job. Job names are not unique if a trace is rewritten while a job runs.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._client = _connected(scheduler)
        self._running: dict[Any, tuple[str, RankJob]] = {}
        """(key, job) by Dask future."""
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        try:
            self._check_versions()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancels all submitted jobs and disconnects."""
        with suppress(Exception):  # the scheduler may be unreachable
            if self._running:
                self._client.cancel(list(self._running), force=True)
        with suppress(Exception):
            self._client.close(timeout=2)

    def submit(self, jobs: Mapping[str, RankJob]) -> None:
        """Submits jobs by key. At most ``room`` jobs are allowed."""
        coded = [replace(job, code=code_digest()) for job in jobs.values()]
        futures = self._client.map(_on_worker, coded, pure=False, retries=RETRIES, key="torch-trace-summarize")
        self._running.update(zip(futures, jobs.items(), strict=True))
        for future in futures:
            future.add_done_callback(self._ended.put)

    def cancel(self, keys: Collection[str]) -> None:
        futures = [future for future, (key, _) in self._running.items() if key in keys]
        for future in futures:
            del self._running[future]
        if futures:
            self._client.cancel(futures, force=True)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def room(self) -> int:
        """Returns how many more jobs may be submitted. A small number is returned as 0, because batches are cheaper."""
        room = _MAX_IN_FLIGHT - self.running
        return room if room >= _MAX_IN_FLIGHT // 4 else 0

    def done(self, seconds: float, most: int = _MAX_IN_FLIGHT) -> list[tuple[str, Outcome]]:
        """Waits up to ``seconds`` for a finished job. Returns (key, outcome) pairs of finished jobs.

        Returns at most ``most`` pairs, so that the results fit in memory. Raises UserError if the connection is
        lost.
        """
        ended: list[Any] = []
        try:
            ended.append(self._ended.get(timeout=seconds))
            while len(ended) < most:
                ended.append(self._ended.get_nowait())
        except queue.Empty:
            pass
        if self._client.status != "running":
            raise _away(self.scheduler, "The connection was lost")
        known = ((future, self._running.pop(future, None)) for future in ended)  # without cancelled jobs
        return [(job[0], self._outcome(future, job[1])) for future, job in known if job is not None]

    def _outcome(self, future: Any, job: RankJob) -> Outcome:
        try:
            outcome = future.result(timeout=CONNECT_SECONDS)
        except Exception as error:  # any error of a worker, or of Dask if a worker died
            return Outcome(job.name, "failed", reason=_reason(error))
        finally:
            future.release()
        if not isinstance(outcome, Outcome):
            return Outcome(job.name, "failed", reason="The cluster sent an unexpected response.")
        return outcome

    def _check_versions(self) -> None:
        """Raises UserError if a worker does not have this package.

        A worker that joins later reports this with each job.
        """
        from importlib.metadata import version

        try:
            answers = self._client.run(version, _PACKAGE, on_error="return")
        except Exception as error:
            raise _away(self.scheduler, _reason(error)) from error
        if not answers:  # an adaptive cluster may start workers later; or all workers failed
            log.warning(
                "The cluster at %s has no workers yet. Ranks are computed when workers have started.",
                self.scheduler.address,
            )
        lacking = [worker for worker, answer in answers.items() if not isinstance(answer, str)]
        if lacking:
            what = f"{len(lacking)} of {len(answers)} cluster workers lack {_PACKAGE}: {', '.join(lacking[:3])}."
            raise UserError(
                what,
                self.scheduler.address,
                f"Install the same version of {_PACKAGE} on all workers and on this machine.",
            )


def compute_jobs(jobs: Sequence[RankJob], scheduler: Scheduler) -> Iterator[Outcome]:
    """Yields the outcomes of jobs as they finish. Raises UserError if the cluster is unreachable."""
    coming = [(str(number), job) for number, job in enumerate(jobs)][::-1]
    with closing(Cluster(scheduler)) as cluster:
        while coming or cluster.running:
            if new := [coming.pop() for _ in range(min(cluster.room, len(coming)))]:
                cluster.submit(dict(new))
            yield from (outcome for _, outcome in cluster.done(1.0))


def _on_worker(job: RankJob) -> Outcome:
    """Runs a job on a worker of the cluster. Raises TryAgain if a retry may succeed. Dask then repeats the job."""
    from distributed import get_worker

    # A machine may have several Dask workers. Each reads one trace at a time within its own limit.
    outcome = summarize_rank(job, get_worker().memory_manager.memory_limit)
    if outcome.again:
        raise TryAgain(outcome.reason)
    return outcome


class TryAgain(Exception):
    """Raised if a storage was unreachable while a rank was summarised."""


def _connected(scheduler: Scheduler) -> Any:
    try:
        from distributed import Client
        from distributed.security import Security
    except ImportError as error:
        what = "Using a Dask cluster requires the package distributed."
        raise MissingPackage(
            what, scheduler.address, "Install the package: pip install 'torch-trace-tb[dask]'"
        ) from error
    security = None
    if scheduler.ca_file:
        security = Security(  # type: ignore[no-untyped-call]  # distributed has types here and there
            tls_ca_file=scheduler.ca_file,
            tls_client_cert=scheduler.cert,
            tls_client_key=scheduler.key,
            require_encryption=True,
        )
    # Dask logs addresses and arguments every second while a scheduler is unreachable.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        return Client(  # type: ignore[no-untyped-call]
            scheduler.address, security=security, timeout=CONNECT_SECONDS, set_as_default=False, name="torch-trace"
        )
    except Exception as error:  # refused connection, other Dask version, invalid certificate
        raise _away(scheduler, _reason(error)) from error


def _away(scheduler: Scheduler, reason: str) -> UserError:
    what = f"The cluster cannot be used: {reason.rstrip('.')}."
    do = "Check that the scheduler is running and reachable from this machine"
    do += "." if scheduler.ca_file else ", and whether it requires tls://."
    return UserError(what, scheduler.address, do)


def _reason(error: BaseException) -> str:
    text = " ".join(redact(str(error) or type(error).__name__).split())[:300]
    if type(error).__name__ == "KilledWorker":
        return "The worker died repeatedly on this rank, probably because memory ran out."
    if "No module named 'tb_plugin'" in text:
        return f"A worker of the cluster lacks {_PACKAGE}: install the same version on all workers and on this machine."
    return text
