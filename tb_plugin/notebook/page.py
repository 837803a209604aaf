"""The page in a frame of a notebook.

The server of ``torch-trace view`` runs on a thread of the kernel, once per log directory, until the kernel ends.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

from tb_plugin.errors import BadRequest
from tb_plugin.lib import html
from tb_plugin.service.workers.pool import Pool, answer_seconds
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store
from tb_plugin.web.viewer import Viewer, start_server

_lock = threading.Lock()
# Addresses by log directory.
_servers: dict[str, str] = {}
_REMOTE = (
    "If the frame is empty, the kernel runs on another machine: install jupyter-server-proxy there and call "
    "show(proxy='/proxy/')."
)


class Page(Struct, frozen=True):
    """A frame with the page. ``address`` contains a secret token."""

    address: str
    height: int

    def __repr__(self) -> str:
        return f"<page {self.address}>"

    def _repr_html_(self) -> str:
        address = html.escape(self.address)
        return (
            f'<iframe src="{address}" title="Torch Trace" width="100%" height="{self.height}" '
            'style="border:0" referrerpolicy="no-referrer"></iframe>'
            f'<div><a href="{address}" target="_blank" rel="noreferrer">Open in a new tab</a>. {html.escape(_REMOTE)}</div>'
        )


def page_of(url: str, state: Mapping[str, str], height: int, proxy: str) -> Page:
    """Returns the page of a log directory. ``proxy`` is the path of a proxy for ports. Raises BadRequest."""
    if proxy and not (proxy.startswith(("/", "https://", "http://")) and proxy.endswith("/")):
        raise BadRequest("proxy must be a path or an address that ends in /.", proxy, "Example: /proxy/.")
    address = _address(url)
    if proxy:
        # http://127.0.0.1:PORT/TOKEN/ becomes PROXY PORT/TOKEN/
        address = proxy + address.split(":", 2)[2]
    keys = "".join(f"&p.torch_trace.{key}={quote(value, safe='')}" for key, value in state.items() if value)
    return Page(f"{address}#torch_trace{keys}", height)


def _address(url: str) -> str:
    with _lock:
        if url not in _servers:
            _servers[url] = _start(url)
        return _servers[url]


def _start(url: str) -> str:
    workspace = Workspace(open_catalog([("", url)]), Pool(limit_seconds=answer_seconds()), open_store())
    server, address = start_server(Viewer(workspace), 0)
    thread = threading.Thread(target=server.serve_forever, name="torch-trace-page", daemon=True)
    thread.start()

    def end() -> None:
        server.shutdown()
        server.server_close()
        workspace.close()

    atexit.register(end)
    return address
