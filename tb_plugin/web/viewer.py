"""The server of ``torch-trace view``.

It serves the page for one path, on this machine only.
Each path begins with a secret token. The page uses relative addresses, so it needs no cookie, and it works behind an
ssh tunnel, behind jupyter-server-proxy and in a frame of a notebook.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from tb_plugin.errors import BadRequest
from tb_plugin.service.dropped_files import DroppedFiles
from tb_plugin.service.workspace import Workspace
from tb_plugin.web.routes import BASE, Routes

HOST = "127.0.0.1"
_REFUSED = b"Refused: open the whole address that torch-trace view printed, which contains a token.\n"
# Pages that may show this page in a frame: notebooks behind the same proxy, on this machine, or in VS Code.
_FRAMES = "frame-ancestors 'self' http://localhost:* http://127.0.0.1:* vscode-webview:"
_FROM_OTHER_PAGES = ("cross-site", "same-site")


class Viewer:
    """The WSGI application: the routes of the plugin below ``/TOKEN/``."""

    def __init__(self, workspace: Workspace, dropped: DroppedFiles | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        self._routes = Routes(lambda: workspace, dropped)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        token, slash, rest = str(environ.get("PATH_INFO", "")).lstrip("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.token.encode()) or _is_from_other_page(environ):
            start_response(
                "403 Forbidden", [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
            )
            return [_REFUSED]
        if not slash:  # relative, because a proxy may have a path of its own
            start_response("302 Found", [("Location", f"{token}/"), ("Content-Type", "text/plain")])
            return [b""]

        def with_policy(status: str, headers: list[tuple[str, str]], *exc_info: object) -> object:
            # Links of the page must not pass the token on.
            more = [("Referrer-Policy", "no-referrer"), ("Content-Security-Policy", _FRAMES)]
            return start_response(status, [*headers, *more], *exc_info)

        return self._routes({**environ, "PATH_INFO": BASE + (rest or "index.html")}, with_policy)


def _is_from_other_page(environ: dict[str, Any]) -> bool:
    """Returns True for requests by pages of other origins, except navigation: a notebook may show the page in a frame."""
    site, mode = (str(environ.get(f"HTTP_SEC_FETCH_{name}", "")).lower() for name in ("SITE", "MODE"))
    return site in _FROM_OTHER_PAGES and mode != "navigate"


class _QuietHandler(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        pass


def start_server(viewer: Viewer, port: int) -> tuple[BaseWSGIServer, str]:
    """Returns a server that listens, and its address. ``port`` 0 is any free port. Raises BadRequest."""
    try:
        server = make_server(HOST, port, viewer, threaded=True, request_handler=_QuietHandler)
    except (OSError, SystemExit) as error:  # werkzeug exits if the port is taken
        raise BadRequest("This port cannot be used.", str(port), "Choose another --port, or leave it out.") from error
    return server, f"http://{HOST}:{server.server_port}/{viewer.token}/"
