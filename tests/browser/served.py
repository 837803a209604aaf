"""What TensorBoard is to the plugin, for log directories that a test has made: its routes and a page around them.

A TensorBoard takes seconds of CPU to start, and its workers as much again. Samples and recordings are served by a real one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server

from tb_plugin.service.pool import Workers
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore
from tb_plugin.web.routes import BASE, Routes
from tests.browser.harness import HOST


@contextmanager
def served(logdir: Path | str, cache: Path, workers: Workers) -> Iterator[str]:
    """The plugin on a free port of the loopback interface; gives its address, with a slash at the end."""
    workspace = Workspace(open_catalog([("", str(logdir))]), workers, FileStore(cache))
    routes = Routes(lambda: workspace)

    def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith(BASE):
            return routes(environ, start_response)
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
        return [HOST.encode()]

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        workspace.close()


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Says nothing: a request is no news."""
