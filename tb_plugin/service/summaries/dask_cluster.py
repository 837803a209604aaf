"""Rank summaries computed on an existing Dask cluster.

Only this module imports ``dask.distributed``. For security, the scheduler address comes only from a command-line
flag or an environment variable, never from files or the Dask configuration. The scheduler and its workers must be
trusted, because they run code and read traces.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
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
# A result is computed again if the worker that has it dies before it is fetched.
RESULT_SECONDS = 120.0
# Number of attempts after an unreachable storage or an unexpected error.
RETRIES = 2
# Maximum number of submitted jobs.
_MAX_IN_FLIGHT = 1024
_PACKAGE = "torch-trace-tb"
log = logging.getLogger("torch_trace")


class Scheduler(msgspec.Struct, frozen=True):
    """The address of a scheduler, and the TLS files for an address that starts with tls://."""

    address: str
    ca_file: str = ""
    cert: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        do = "Specify the CA certificate, the client certificate and the client key."
        files = (self.ca_file, self.cert, self.key)
        if not self.address.startswith(("tcp://", "tls://")):
            what = "The scheduler address must be tcp://HOST:PORT or tls://HOST:PORT."
            raise BadRequest(what, self.address, "Correct the address.")
        if any(files) != all(files):
            what = "TLS needs three files: CA certificate, client certificate and client key."
            raise BadRequest(what, self.address, do)
        if self.address.startswith("tls://") and not all(files):
            what = "The scheduler address starts with tls://, but no certificate files are set."
            raise BadRequest(what, self.address, do)


def compute_jobs(jobs: Sequence[RankJob], scheduler: Scheduler) -> Iterator[Outcome]:
    """Yields the outcomes of jobs as they finish. Raises UserError if the cluster is unreachable."""
    client = _connected(scheduler)
    coming = iter(jobs)
    names: dict[Any, str] = {}
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    try:
        _check_versions(client, scheduler)
        while True:
            # Submitted in batches, because many small submissions are slow.
            room = _MAX_IN_FLIGHT - len(names)
            new = list(islice(coming, room)) if room >= _MAX_IN_FLIGHT // 4 else []
            if new:
                coded = [replace(job, code=code_digest()) for job in new]
                futures = client.map(_on_worker, coded, pure=False, retries=RETRIES, key="torch-trace-summarize")
                names.update(zip(futures, (job.name for job in new), strict=True))
                for future in futures:
                    future.add_done_callback(ended.put)
            if not names:
                return
            try:
                future = ended.get(timeout=1.0)
            except queue.Empty:
                if client.status != "running":
                    raise _away(scheduler, "The connection was lost") from None
                continue
            yield _outcome(future, names.pop(future))
    finally:
        with suppress(Exception):  # the scheduler may be unreachable
            if names:
                client.cancel(list(names), force=True)
        with suppress(Exception):
            client.close(timeout=2)


def _outcome(future: Any, name: str) -> Outcome:
    try:
        outcome = future.result(timeout=RESULT_SECONDS)
    except Exception as error:  # any error of a worker, or of Dask if a worker died
        return Outcome(name, "failed", reason=_reason(error))
    finally:
        future.release()
    if not isinstance(outcome, Outcome):
        return Outcome(name, "failed", reason="The cluster sent an unexpected response.")
    return outcome


def _check_versions(client: Any, scheduler: Scheduler) -> None:
    """Raises UserError if a worker does not have this package. A worker that joins later reports this with each job."""
    from importlib.metadata import version

    try:
        answers = client.run(version, _PACKAGE, on_error="return")
    except Exception as error:
        raise _away(scheduler, _reason(error)) from error
    if not answers:  # an adaptive cluster may start workers later; or all workers failed
        log.warning(
            "The cluster at %s has no workers yet. Ranks are computed when workers have started.", scheduler.address
        )
    lacking = [worker for worker, answer in answers.items() if not isinstance(answer, str)]
    if lacking:
        what = f"{len(lacking)} of {len(answers)} cluster workers lack {_PACKAGE}: {', '.join(lacking[:3])}."
        do = f"Install the same version of {_PACKAGE} on all workers and on this machine."
        raise UserError(what, scheduler.address, do)


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
