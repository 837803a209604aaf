"""One process, worker processes and a real Dask cluster compute the same summaries; a worker that dies costs a retry."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tb_plugin import cli
from tb_plugin.analyses.base import Params
from tb_plugin.errors import UserError
from tb_plugin.service import cluster as clusters
from tb_plugin.service.catalog import Place
from tb_plugin.service.cluster import Cluster, Scheduler, computed
from tb_plugin.service.engines import in_pool, in_this_process
from tb_plugin.service.listed_summaries import SUFFIX
from tb_plugin.service.pool import InlineWorkers
from tb_plugin.service.summarizing import code_digest, job_of
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import _filesystem
from tests import synthetic_job
from tests.depth import needs_time
from tests.service.fakes import catalog_of, until
from tests.stores import free_port

pytestmark = needs_time
RANKS = 64


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A run of 64 ranks, some 2,000 events each."""
    logs = tmp_path_factory.mktemp("logs")
    synthetic_job.write(synthetic_job.Job(ranks=RANKS, steps=5, layers=3), logs / "job")
    return logs


def jobs_of(logs, to):
    catalog = catalog_of(logs)
    catalog.scan()
    return [job_of(entry.found, str(to), None) for entry in catalog.entries()]


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


@contextmanager
def running(*arguments):
    """A command of Dask, until the block ends."""
    quiet = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "True", "DASK_LOGGING__DISTRIBUTED": "error"}
    command = [str(Path(sys.executable).with_name("dask")), *arguments, "--host", "127.0.0.1", "--no-dashboard"]
    process = subprocess.Popen(
        command, env=os.environ | quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """A scheduler and two workers, from the command line; the workers stand in ``processes``."""
    pytest.importorskip("distributed")
    address = f"tcp://127.0.0.1:{free_port()}"
    folder = str(tmp_path_factory.mktemp("dask"))
    with ExitStack() as stack:
        stack.enter_context(running("scheduler", "--port", address.rpartition(":")[2]))
        worker = ("worker", address, "--no-nanny", "--nthreads", "1", "--local-directory", folder)
        processes = [stack.enter_context(running(*worker)) for _ in range(2)]
        scheduler = Scheduler(address)
        assert until(lambda: workers_of(scheduler) == 2, 60)
        scheduler_and = type("Dask", (), {"scheduler": scheduler, "processes": processes})
        yield scheduler_and


def workers_of(scheduler):
    try:
        cluster = Cluster(scheduler)
    except UserError:
        return 0
    try:
        return len(cluster._client.scheduler_info(n_workers=-1)["workers"])
    except TypeError:  # of older releases
        return len(cluster._client.scheduler_info()["workers"])
    finally:
        cluster.close()


def test_worker_processes_compute_the_same_and_one_that_is_killed_costs_a_retry(logs, expected, tmp_path):
    outcomes = []
    for outcome in in_pool(jobs_of(logs, tmp_path / "to"), 2):
        outcomes.append(outcome)
        if len(outcomes) == 5:
            os.kill(worker_of_this_process(), signal.SIGKILL)
    assert {outcome.kind for outcome in outcomes} == {"written"} and len(outcomes) == RANKS
    assert contents(tmp_path / "to") == expected


def worker_of_this_process():
    import psutil

    return next(child.pid for child in psutil.Process().children() if "tb_plugin" in " ".join(child.cmdline()))


def test_a_cluster_computes_the_same_and_one_worker_that_is_killed_costs_a_retry(logs, expected, dask, tmp_path):
    outcomes = []
    for outcome in computed(jobs_of(logs, tmp_path / "to"), dask.scheduler):
        outcomes.append(outcome)
        if len(outcomes) == 5:
            dask.processes[0].kill()
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
    assert said.out.startswith("3 ranks: 2 computed, 0 current, 1 failed; ")
    assert "job/rank1/1: " in said.err
    bad.write_bytes(whole)
    assert cli.main(command) == 0
    assert capsys.readouterr().out.startswith("3 ranks: 1 computed, 2 current, 0 failed; ")
    assert len(list((mine / "job").glob(f"*{SUFFIX}"))) == 3


def test_workers_read_and_write_a_bucket(logs, expected, dask, object_stores, tmp_path, monkeypatch):
    store = object_stores("s3")
    for key, value in store.environment.items():
        monkeypatch.setenv(key, value)
    fs, bucket = _filesystem(store.url)
    if not fs.exists(bucket):
        fs.mkdir(bucket)
    name = f"ranks-{uuid.uuid4().hex[:8]}"
    some = sorted((logs / "job").iterdir())[:3]
    for path in some:
        fs.pipe_file(f"{bucket}/{name}/job/{path.name}", path.read_bytes())
    url = f"{store.url}/{name}"
    # The workers were started without the environment that leads to the emulator: this one has it.
    address, folder = dask.scheduler.address, str(tmp_path)
    with running("worker", address, "--no-nanny", "--nthreads", "1", "--name", "cloud", "--local-directory", folder):
        for process in dask.processes:
            process.kill()
        assert until(lambda: workers_of(dask.scheduler) == 1, 60)
        assert cli.main(["summarize", url, "--scheduler", address]) == 0
    assert cli.main(["summarize", url, "--workers", "0", "--to", f"{url}-elsewhere"]) == 0
    beside = {
        path.rpartition("/")[2]: fs.cat_file(path) for path in fs.find(f"{bucket}/{name}") if path.endswith(SUFFIX)
    }
    elsewhere = {path.rpartition("/")[2]: fs.cat_file(path) for path in fs.find(f"{bucket}/{name}-elsewhere")}
    assert beside == elsewhere and len(beside) == 3
    assert all(expected[key] == body for key, body in beside.items())
    # A laptop opens the bucket of summaries alone, and that of the traces without reading one.
    for each in (url, f"{url}-elsewhere"):
        workspace = Workspace(catalog_of(each), InlineWorkers(), FileStore(tmp_path / uuid.uuid4().hex))
        workspace.catalog.scan()
        store.door.requests.clear()
        place = Place(workspace.catalog.entries()[0].found.run, None, "1")
        assert until(lambda: isinstance(workspace.view(place, "distributed", Params()), bytes), 30)
        assert not [
            line
            for line in store.door.requests
            if line.startswith("GET") and ".gz?" in line + "?" and SUFFIX not in line
        ]
        workspace.close()


def test_workers_with_other_code_or_none_are_refused(logs, dask, monkeypatch, tmp_path):
    assert len(code_digest()) == 16
    jobs = jobs_of(logs, tmp_path)[:1]
    with running("worker", dask.scheduler.address, "--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path)):
        assert until(lambda: workers_of(dask.scheduler) >= 1, 60)
        monkeypatch.setattr(clusters, "code_digest", lambda: "another")
        (outcome,) = computed(jobs, dask.scheduler)
        assert (outcome.kind, outcome.reason.partition(".")[0]) == (
            "failed",
            "The worker has another version of torch-trace-tb",
        )
        monkeypatch.setattr(clusters, "_PACKAGE", "no-such-package")
        with pytest.raises(UserError, match="1 of 1 workers of the cluster have no no-such-package"):
            list(computed(jobs, dask.scheduler))


def test_a_cluster_that_is_not_there(logs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 0.3)
    assert (
        cli.main(["summarize", str(logs), "--scheduler", f"tcp://127.0.0.1:{free_port()}", "--to", str(tmp_path)]) == 3
    )
    assert "The cluster cannot be used: " in capsys.readouterr().err
