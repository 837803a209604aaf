"""TensorBoard's side: import cost, activity, and a real TensorBoard behind a path prefix."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from werkzeug.test import Client

from tb_plugin.plugin import TorchTracePlugin
from tb_plugin.web import catalog_cache
from tb_plugin.web.routes import BASE
from tests.service.fakes import Pid, until, write_trace

HEAVY = {"pandas", "fsspec", "numpy", "pyarrow", "msgspec", "werkzeug"}


def python(code, **environment):
    env = os.environ | {"PYTHONPATH": str(Path.cwd())} | environment
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)


def test_import_is_light_and_quick():
    code = (
        "import sys, time; import tensorboard.plugins.base_plugin; t = time.perf_counter()\n"
        "import tb_plugin.plugin; print(time.perf_counter() - t); print(*sys.modules)"
    )
    runs = [python(code).stdout.splitlines() for _ in range(3)]
    assert not HEAVY & {name.partition(".")[0] for name in runs[0][1].split()}
    assert min(float(seconds) for seconds, _ in runs) < 0.05


def test_package_import_is_light():
    modules = python("import sys, tb_plugin; tb_plugin.__version__; print(*sys.modules)").stdout.split()
    assert not HEAVY & {name.partition(".")[0] for name in modules}


def plugin_of(logdir="", spec=""):
    return TorchTracePlugin(SimpleNamespace(logdir=logdir, flags=SimpleNamespace(logdir=logdir, logdir_spec=spec)))


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    made = []

    def make(**arguments):
        made.append(plugin_of(**arguments))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_constructor_does_nothing(plugin, tmp_path):
    made = plugin(logdir=str(tmp_path))
    assert made._workspace is None
    assert list(made.get_plugin_apps()) == ["/*"]
    assert made.frontend_metadata().es_module_path == "/index.js"


def test_inactive_without_a_logdir(plugin):
    assert not plugin().is_active()


def test_active_while_scanning_then_by_what_was_found(plugin, tmp_path):
    empty, events, full = tmp_path / "empty", tmp_path / "events", tmp_path / "full"
    empty.mkdir()
    events.mkdir()
    (events / "events.out.tfevents.1700000000.host.7.0").write_bytes(b"x")
    write_trace(full / "w.1.pt.trace.json")
    for logdir, active in ((empty, True), (events, False), (full, True)):
        made = plugin(logdir=str(logdir))
        assert made.is_active()
        assert until(lambda made=made: made._workspace and made._workspace.catalog.wait_first(5))
        assert made.is_active() is active


def test_whoever_opens_the_page_gets_one_worker_ahead_of_the_first_question(plugin, tmp_path):
    write_trace(tmp_path / "w.1.pt.trace.json")
    made = plugin(logdir=str(tmp_path))
    made.is_active()
    assert made._pool is None or not made._pool._seats, "TensorBoard is open, this page is not"
    client = Client(made._serve)
    for route in ("index.js", "runs", "runs"):
        client.get(BASE + route)
    pool = made._pool
    assert len(pool._seats) == 1
    assert until(lambda: pool._seats[0].warm)  # it has done a job
    ready = pool.submit(Pid()).future.result(60)
    assert [seat.process.pid for seat in pool._seats] == [ready]


def test_the_catalog_is_encoded_once_for_all_requests(plugin, tmp_path, monkeypatch):
    write_trace(tmp_path / "w.1.pt.trace.json")
    made, encoded = plugin(logdir=str(tmp_path)), []
    made._open().catalog.scan()
    monkeypatch.setattr(
        catalog_cache, "to_json", lambda catalog, real=catalog_cache.to_json: encoded.append(catalog) or real(catalog)
    )
    client = Client(made._serve)
    bodies = {client.get(BASE + "runs").data for _ in range(3)}
    assert len(bodies) == 1 and len(encoded) == 1


def test_the_first_worker_starts_before_what_this_process_imports():
    """A pool is there with a tenth of the modules: both processes load their libraries side by side."""
    modules = python("import sys, tb_plugin.service.workers.pool; print(*sys.modules)").stdout.split()
    assert not {"tb_plugin.registry", "tb_plugin.views", "tb_plugin.formats", "fsspec"} & set(modules)


def test_logdir_spec(plugin, tmp_path):
    for name in ("x", "y"):
        write_trace(tmp_path / name / "w.1.pt.trace.json")
    made = plugin(spec=f"one:{tmp_path}/x,two:{tmp_path}/y")
    workspace = made._open()
    workspace.catalog.scan()
    assert [run.name for run in workspace.runs().runs] == ["one", "two"]


@pytest.fixture(scope="module")
def tensorboard(tmp_path_factory):
    """A real TensorBoard over one trace, behind /pre; yields its base URL."""
    tmp = tmp_path_factory.mktemp("tensorboard")
    info = tmp / "site" / "torch_trace_tb-0.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-trace-tb\nVersion: 0.0.0\n")
    entry = "torch_trace = tb_plugin.plugin:TorchTracePlugin"
    (info / "entry_points.txt").write_text(f"[tensorboard_plugins]\n{entry}\n")
    write_trace(tmp / "logs" / "w.1.pt.trace.json")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    env = os.environ | {
        "PYTHONPATH": f"{tmp / 'site'}{os.pathsep}{Path.cwd()}",
        "TORCH_TRACE_CACHE": str(tmp / "cache"),
    }
    arguments = ["--logdir", str(tmp / "logs"), "--port", str(port), "--path_prefix", "/pre"]
    with (tmp / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", *arguments], env=env, stdout=log, stderr=log
        )
    url = f"http://localhost:{port}/pre/data"
    try:
        assert until(lambda: answers(f"{url}/plugins_listing"), 60), (tmp / "log").read_text()
        yield url
    finally:
        process.terminate()
        process.wait(20)
    assert "Traceback" not in (tmp / "log").read_text()


def answers(url):
    try:
        return fetch(url)[0] == 200
    except OSError:
        return False


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_real_tensorboard(tensorboard):
    listing = json.loads(fetch(f"{tensorboard}/plugins_listing")[1])["torch_trace"]
    assert listing["enabled"] and listing["tab_name"] == "Torch Trace"
    assert listing["loading_mechanism"]["module_path"] == "/pre/data/plugin/torch_trace/index.js"
    base = f"{tensorboard}/plugin/torch_trace"
    assert json.loads(fetch(f"{base}/runs")[1])["runs"][0]["name"] == "logs"
    assert until(lambda: json.loads(fetch(f"{base}/profile")[1])["state"] == "ready")
    status, body = fetch(f"{base}/view/overview")
    assert status == 200 and json.loads(body)["kind"] == "view"
    status, body = fetch(f"{base}/nonsense")
    assert status == 404 and set(json.loads(body)) == {"error"}
    assert fetch(f"{base}/index.html")[0] == fetch(f"{base}/index.js")[0] == 200
