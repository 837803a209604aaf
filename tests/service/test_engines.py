"""One process, worker processes and a real Dask cluster compute the same summaries; a worker that dies costs a retry."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tb_plugin import cli
from tb_plugin.analysis.base import Params
from tb_plugin.errors import UserError
from tb_plugin.service.catalog import Place
from tb_plugin.service.discovery.summary_files import SUFFIX
from tb_plugin.service.summaries import dask_cluster as clusters
from tb_plugin.service.summaries.compute import code_digest, in_pool, in_this_process, job_of
from tb_plugin.service.summaries.dask_cluster import Scheduler, compute_jobs
from tb_plugin.storage.files import _filesystem
from tests import synthetic_job
from tests.conftest import REPO
from tests.depth import DEEP, deep, needs_time
from tests.service.fakes import catalog_of, until, workspace_of
from tests.stores import Store, free_port, own_certificate

pytestmark = needs_time
RANKS = 64 if DEEP else 6


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A run of many ranks, some 2,000 events each."""
    logs = tmp_path_factory.mktemp("logs")
    synthetic_job.write(synthetic_job.Job(ranks=RANKS, steps=5, layers=3), logs / "job")
    return logs


def jobs_of(logs, to):
    catalog = catalog_of(logs)
    catalog.scan()
    return [job_of(entry.files, str(to), None) for entry in catalog.entries()]


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def expected(logs, tmp_path_factory):
    """What one process writes."""
    to = tmp_path_factory.mktemp("one")
    assert {outcome.kind for outcome in in_this_process(jobs_of(logs, to))} == {"written"}
    found = contents(to)
    assert len(found) == RANKS and all(name.endswith(SUFFIX) for name in found)
    return found


@dataclass
class Dask:
    """A cluster that runs."""

    scheduler: Scheduler
    workers: list[subprocess.Popen[bytes]]
    store: Store | None


@contextmanager
def running(environment, *arguments):
    """A command of Dask, until the block ends."""
    command = [str(Path(sys.executable).with_name("dask")), *arguments, "--host", "127.0.0.1", "--no-dashboard"]
    process = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": str(REPO)} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture(scope="module")
def dask(tmp_path_factory, object_stores):
    """A scheduler and two workers, started from the command line; the environment of the workers leads to a bucket."""
    pytest.importorskip("distributed")
    store = object_stores("s3") if DEEP else None
    address = f"tcp://127.0.0.1:{free_port()}"
    worker = (
        "worker",
        address,
        "--no-nanny",
        "--nthreads",
        "1",
        "--local-directory",
        str(tmp_path_factory.mktemp("dask")),
    )
    with ExitStack() as stack:
        stack.enter_context(running({}, "scheduler", "--port", address.rpartition(":")[2]))
        workers = [stack.enter_context(running(store.environment if store else {}, *worker)) for _ in range(2)]
        scheduler = Scheduler(address)
        assert until(lambda: workers_of(scheduler) == 2, 60)
        yield Dask(scheduler, workers, store)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A scheduler and a worker that speak TLS alone, with the file that holds authority, certificate and key."""
    pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    folder = tmp_path_factory.mktemp("tls")
    own = str(own_certificate(folder))
    address = f"tls://127.0.0.1:{free_port()}"
    files = ("--tls-ca-file", own, "--tls-cert", own, "--tls-key", own)
    scheduler = ("scheduler", "--protocol", "tls", "--port", address.rpartition(":")[2], *files)
    worker = ("worker", address, "--no-nanny", "--nthreads", "1", "--local-directory", str(folder / "dask"), *files)
    with ExitStack() as stack:
        for arguments in (scheduler, worker):
            stack.enter_context(running({}, *arguments))
        assert until(lambda: workers_of(Scheduler(address, own, own, own)) == 1, 60)
        yield address, files


def workers_of(scheduler):
    try:
        client = clusters._connected(scheduler)
    except UserError:
        return 0
    try:
        return len(client.scheduler_info(n_workers=-1)["workers"])
    except TypeError:  # of older releases
        return len(client.scheduler_info()["workers"])
    finally:
        client.close()


def test_worker_processes_compute_the_same_and_one_that_is_killed_costs_a_retry(logs, expected, tmp_path):
    outcomes = []
    for outcome in in_pool(jobs_of(logs, tmp_path / "to"), 2):
        outcomes.append(outcome)
        if len(outcomes) == 2:
            os.kill(worker_of_this_process(), signal.SIGKILL)
    assert {outcome.kind for outcome in outcomes} == {"written"} and len(outcomes) == RANKS
    assert contents(tmp_path / "to") == expected


def worker_of_this_process():
    import psutil

    return next(child.pid for child in psutil.Process().children() if "tb_plugin" in " ".join(child.cmdline()))


def test_a_cluster_computes_the_same_and_one_worker_that_is_killed_costs_a_retry(logs, expected, dask, tmp_path):
    outcomes = []
    for outcome in compute_jobs(jobs_of(logs, tmp_path / "to"), dask.scheduler):
        outcomes.append(outcome)
        if len(outcomes) == 2:
            dask.workers[0].kill()
    assert [outcome for outcome in outcomes if outcome.kind != "written"] == [] and len(outcomes) == RANKS
    assert all(not outcome.body for outcome in outcomes), "the client gets a few numbers of each"
    assert contents(tmp_path / "to") == expected


def test_a_rank_that_fails_stops_nobody_and_a_second_run_computes_what_is_missing(logs, dask, tmp_path, capsys):
    mine = tmp_path / "mine"
    (mine / "job").mkdir(parents=True)
    for path in sorted((logs / "job").iterdir())[:3]:
        (mine / "job" / path.name).write_bytes(path.read_bytes())
    bad = sorted((mine / "job").iterdir())[1]
    whole = bad.read_bytes()
    bad.write_bytes(b"no trace at all, but long enough to be taken for one by its name" * 40)
    command = ["summarize", str(mine), "--scheduler", dask.scheduler.address]
    assert cli.main(command) == 3
    said = capsys.readouterr()
    assert said.out.startswith("3 ranks: 2 computed, 0 up to date, 1 failed; ")
    assert "job/rank1/1: " in said.err
    bad.write_bytes(whole)
    assert cli.main(command) == 0
    assert capsys.readouterr().out.startswith("3 ranks: 1 computed, 2 up to date, 0 failed; ")
    assert len(list((mine / "job").glob(f"*{SUFFIX}"))) == 3


@deep
def test_workers_read_and_write_a_bucket(logs, expected, dask, tmp_path, monkeypatch):
    for key, value in dask.store.environment.items():
        monkeypatch.setenv(key, value)
    fs, bucket = _filesystem(dask.store.url)
    if not fs.exists(bucket):
        fs.mkdir(bucket)
    name = f"ranks-{uuid.uuid4().hex[:8]}"
    for path in sorted((logs / "job").iterdir())[:3]:
        fs.pipe_file(f"{bucket}/{name}/job/{path.name}", path.read_bytes())
    url = f"{dask.store.url}/{name}"
    assert cli.main(["summarize", url, "--scheduler", dask.scheduler.address]) == 0
    assert cli.main(["summarize", url, "--workers", "0", "--to", f"{url}-elsewhere"]) == 0
    beside = {path.rpartition("/")[2]: path for path in fs.find(f"{bucket}/{name}") if path.endswith(SUFFIX)}
    elsewhere = {path.rpartition("/")[2]: path for path in fs.find(f"{bucket}/{name}-elsewhere")}
    assert beside.keys() == elsewhere.keys() and len(beside) == 3
    for key in beside:
        assert fs.cat_file(beside[key]) == fs.cat_file(elsewhere[key]) == expected[key]
    # A laptop opens the summaries alone, and those beside the traces without reading one of these.
    for each in (url, f"{url}-elsewhere"):
        dask.store.door.requests.clear()
        assert workers_shown(each, tmp_path / uuid.uuid4().hex) == ["rank0", "rank1", "rank10"]
        asked = [line.partition("?")[0] for line in dask.store.door.requests]
        assert not [line for line in asked if line.endswith(".gz")], asked


def workers_shown(url, cache):
    with workspace_of(url, cache) as workspace:
        workspace.catalog.scan()
        place = Place(workspace.catalog.entries()[0].files.run, None, "1")
        answer = json.loads(workspace.group(place, "distributed", Params()))
        return [row["worker"] for row in answer["payloads"]["workers"]["rows"]]


@deep
def test_a_cluster_at_tls_computes_the_same_and_refuses_who_has_not_its_certificate(
    logs, expected, tls, tmp_path, capsys, monkeypatch
):
    address, files = tls
    mine = tmp_path / "job"
    mine.mkdir()
    for path in sorted((logs / "job").iterdir())[:2]:
        (mine / path.name).write_bytes(path.read_bytes())
    command = ["summarize", str(mine), "--to", str(tmp_path / "to"), "--scheduler", address]
    assert cli.main([*command, *files]) == 0
    assert capsys.readouterr().out.startswith("2 ranks: 2 computed, 0 up to date, 0 failed; ")
    written = contents(tmp_path / "to")
    assert len(written) == 2 and written.items() <= expected.items()
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 2.0)
    assert cli.main(command) == 2
    assert (
        "The scheduler address starts with tls://, but no certificate files are set. "
        "Specify the CA certificate, the client certificate and the client key." in capsys.readouterr().err
    )
    others = [str(own_certificate(tmp_path)) if each.endswith(".pem") else each for each in files]
    assert cli.main([*command, *others]) == 3
    assert "The cluster cannot be used: TLS certificate does not match." in capsys.readouterr().err
    assert cli.main([*command[:-1], address.replace("tls:", "tcp:")]) == 3
    said = capsys.readouterr().err
    assert "The cluster cannot be used: " in said and "whether it requires tls://." in said


def test_workers_with_other_code_or_none_are_refused(logs, dask, monkeypatch, tmp_path):
    assert len(code_digest()) == 16
    monkeypatch.setattr(clusters, "code_digest", lambda: "another")
    (outcome,) = compute_jobs(jobs_of(logs, tmp_path)[:1], dask.scheduler)
    assert (outcome.kind, outcome.reason.partition(".")[0]) == (
        "failed",
        "The worker has another version of torch-trace-tb",
    )
    monkeypatch.setattr(clusters, "_PACKAGE", "no-such-package")
    with pytest.raises(UserError, match="cluster workers lack no-such-package"):
        list(compute_jobs(jobs_of(logs, tmp_path)[:1], dask.scheduler))


def test_a_cluster_without_workers_is_told(monkeypatch, caplog):
    class Client:
        def run(self, function, *args, **more):
            return {}

        def close(self, timeout):
            pass

    monkeypatch.setattr(clusters, "_connected", lambda scheduler: Client())
    assert list(compute_jobs([], Scheduler("tcp://127.0.0.1:1"))) == []
    assert (
        "The cluster at tcp://127.0.0.1:1 has no workers yet. Ranks are computed when workers have started."
        in caplog.text
    )


def test_a_cluster_that_is_not_there(logs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 0.3)
    assert (
        cli.main(["summarize", str(logs), "--scheduler", f"tcp://127.0.0.1:{free_port()}", "--to", str(tmp_path)]) == 3
    )
    assert "The cluster cannot be used: " in capsys.readouterr().err
