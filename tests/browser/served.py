"""What TensorBoard is to the plugin: its routes and a page around them, in the process of the tests.

A TensorBoard takes seconds of CPU to start, and its workers as much again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.utils import redirect

from tb_plugin.service.workers.pool import Workers
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore
from tb_plugin.web.routes import BASE, Routes
from tests.browser.harness import HOST

_MOUNTED = re.compile(r"(/\d+)(/.*)")
_ASSETS = f"{BASE}assets/"


class Mounts:
    """Many log directories on one port, each below a path of its own, as TensorBoard has it with ``--path_prefix``.

    Scripts and styles come from one path whichever directory is asked: a browser fetches and compiles them once.
    """

    def __init__(self) -> None:
        self._routes: dict[str, Routes] = {}
        self._address = ""

    @contextmanager
    def started(self) -> Iterator[Mounts]:
        """Serves meanwhile."""
        with _listening(self._app) as self._address:
            yield self

    @contextmanager
    def mount(self, logdir: Path | str, cache: Path, workers: Workers) -> Iterator[str]:
        """The address of a log directory, with a slash at the end."""
        workspace = Workspace(open_catalog([("", str(logdir))]), workers, FileStore(cache))
        prefix = f"/{len(self._routes)}"
        self._routes[prefix] = Routes(lambda: workspace)
        try:
            yield f"{self._address}{prefix[1:]}/"
        finally:
            workspace.close()

    def _app(self, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        mounted = _MOUNTED.fullmatch(environ["PATH_INFO"])
        if mounted is None:  # files of the page, which are the same for all
            return self._routes["/0"](environ, start_response)
        prefix, path = mounted.groups()
        if path.startswith(_ASSETS):
            response = redirect(path, 301)
            response.headers["Cache-Control"] = "private, max-age=3600"
            return response(environ, start_response)
        return _answer(self._routes[prefix], {**environ, "SCRIPT_NAME": prefix, "PATH_INFO": path}, start_response)


@contextmanager
def served(logdir: Path | str, cache: Path, workers: Workers) -> Iterator[str]:
    """The plugin on a free port of the loopback interface; gives its address, with a slash at the end."""
    workspace = Workspace(open_catalog([("", str(logdir))]), workers, FileStore(cache))
    routes = Routes(lambda: workspace)
    try:
        with _listening(lambda environ, start_response: _answer(routes, environ, start_response)) as address:
            yield address
    finally:
        workspace.close()


def _answer(routes: Routes, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    if environ["PATH_INFO"].startswith(BASE):
        return routes(environ, start_response)
    start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
    return [HOST.encode()]


@contextmanager
def _listening(app: Callable[..., Iterable[bytes]]) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Says nothing: a request is no news."""
