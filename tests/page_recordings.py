"""The server's answers that the page's tests are given (frontend/tests): recorded, and compared by a test.

``make payload-fixtures`` asks the server again for what is recorded. ``python -m tests.page_recordings`` runs the tests over
a server and records what they ask, with names of test files what is new in them.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import Client

from tb_plugin.analysis.metrics import CHOSEN_STEPS, SUM
from tb_plugin.service.workers.pool import Pool, Workers
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore
from tb_plugin.web.routes import BASE, Routes
from tests.page_logdirs import LOGDIRS
from tests.samples import REPO

FRONTEND = REPO / "frontend"
FOLDER = FRONTEND / "tests" / "recorded"
PATIENCE_SECONDS = 60
FEW = 8
CHOSEN_SUM = SUM + CHOSEN_STEPS
Answer = tuple[int, Any]
"""Status and body."""


class Recorder:
    """Answers of one log directory, once the profile that they are about is read."""

    def __init__(self, logdir: Path, routes: Routes) -> None:
        self._logdir = str(logdir)
        self._client = Client(routes)
        self.answers: dict[str, Answer] = {}
        """By path and query. Every profile of the catalog is as if nobody had opened it."""
        self._catalog = self._ready("runs")

    def answer(self, path: str) -> Answer:
        """The answer to a path and query, as it was the first time."""
        if path not in self.answers:
            self.answers[path] = self._catalog if path == "runs" else self._ready(path)
        return self.answers[path]

    def recorded(self) -> dict[str, Answer]:
        """All answers, those of the catalog without runs that nobody asks for."""
        wanted = {run for path in self.answers for run in parse_qs(path.partition("?")[2]).get("run", [])}
        wanted |= {run for path in self.answers for run in parse_qs(path.partition("?")[2]).get("base_run", [])}
        status, body = self.answers["runs"]
        runs = [run for run in body["runs"] if run["name"] in wanted or len(self.answers) == 1]
        return {path: self.answers[path] for path in sorted(self.answers)} | {"runs": (status, {**body, "runs": runs})}

    def _ready(self, path: str) -> Answer:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            response = self._client.get(BASE + path, headers={"Host": "localhost"})
            body = _short(json.loads(response.get_data(as_text=True).replace(self._logdir, "/logs")))
            if path.startswith("view/counters"):
                body = _thin(body)
            if path == "runs":
                if not body["scanning"]:
                    return response.status_code, _timeless(body)
            elif response.status_code != 202 and body.get("state", "ready") in ("ready", "failed"):
                return response.status_code, body
            assert time.monotonic() < deadline, f"{path} does not become ready: {body}"
            time.sleep(0.05)


def _short(body: Any) -> Any:
    """A body without the definitions of metrics, which are most of many answers. Windows only mark sums."""
    if isinstance(body, dict):
        is_sum = str(body.get("window", "")).startswith(SUM)
        short = {"definition": "", "window": CHOSEN_SUM if is_sum else ""} if "definition" in body else {}
        return {key: short.get(key, _short(value)) for key, value in body.items()}
    return [_short(item) for item in body] if isinstance(body, list) else body


def _thin(body: Any) -> Any:
    """A body with the begin of every list: no test looks at a curve."""
    if isinstance(body, dict):
        return {key: _thin(value) for key, value in body.items()}
    return [_thin(item) for item in body[:FEW]] if isinstance(body, list) else body


def _timeless(catalog: dict[str, Any]) -> dict[str, Any]:
    """A catalog without what depends on when the files were copied and looked at."""
    for run in catalog["runs"]:
        for span in (span for worker in run["workers"] for span in worker["spans"]):
            span.update(state="found", fraction=0, key_figures=[], device=None, step_count=None, modified_unix_ms=None)
    return {**catalog, "last_scan_unix_ms": 0}


@contextmanager
def recorders(cache: Path, workers: Workers, names: Iterable[str]) -> Iterator[dict[str, Recorder]]:
    """A recorder for each log directory that has one of these names."""
    with ExitStack() as stack:
        made = {}
        for name in names:
            (empty := cache / "logs" / name).mkdir(parents=True)
            logdir = LOGDIRS[name](empty)
            workspace = Workspace(open_catalog([("", str(logdir))]), workers, FileStore(cache / "kept"))
            stack.callback(workspace.close)
            made[name] = Recorder(logdir, Routes(lambda workspace=workspace: workspace))  # type: ignore[misc]
        yield made


def load(name: str) -> dict[str, Answer]:
    """What is recorded of a log directory."""
    answers: dict[str, list[Any]] = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    return {path: (status, body) for path, (status, body) in answers.items()}


def dump(answers: dict[str, Answer]) -> bytes:
    """A file of recordings: one answer a line."""
    lines = (
        f"{json.dumps(path)}: {json.dumps(answer, ensure_ascii=False, separators=(',', ':'))}"
        for path, answer in answers.items()
    )
    return gzip.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), mtime=0)


def renew() -> None:
    """Asks the server again for everything that is recorded."""
    pool = Pool(2)
    with tempfile.TemporaryDirectory() as folder, recorders(Path(folder), pool, LOGDIRS) as by_name:
        for name, recorder in by_name.items():
            for path in load(name):
                recorder.answer(path)
            (FOLDER / f"{name}.json.gz").write_bytes(dump(recorder.recorded()))
    pool.close()


def main() -> None:
    """Runs the page's tests over a server; what they ask becomes the recordings. Of some tests: what is new is added."""
    if sys.argv[1:] == ["--renew"]:
        return renew()
    pool = Pool(2)
    with tempfile.TemporaryDirectory() as folder, recorders(Path(folder), pool, LOGDIRS) as by_name:
        for name, recorder in by_name.items():
            if sys.argv[1:] and (FOLDER / f"{name}.json.gz").exists():
                recorder.answers = load(name)
        lock = threading.Lock()

        def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            name, _, rest = environ["PATH_INFO"].lstrip("/").partition("/")
            query = environ["QUERY_STRING"]
            path = f"/{rest}".removeprefix(BASE) + (f"?{query}" if query else "")
            with lock:
                status, body = by_name[name].answer(path)
            start_response(f"{status} OK", [("Content-Type", "application/json"), ("Access-Control-Allow-Origin", "*")])
            return [json.dumps(body).encode()]

        server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {**os.environ, "VITE_RECORD": f"http://127.0.0.1:{server.server_port}"}
        command = ["npx", "vitest", "run", "--project", "page", *sys.argv[1:]]
        print("recording")
        failed = subprocess.run(command, cwd=FRONTEND, env=environment).returncode
        server.shutdown()
        for name, recorder in by_name.items():
            if recorder.answers:
                (FOLDER / f"{name}.json.gz").write_bytes(dump(recorder.recorded()))
    pool.close()
    sys.exit(failed)


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Says nothing: a request is no news."""


if __name__ == "__main__":
    main()
