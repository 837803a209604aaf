"""The TensorBoard plugin.

TensorBoard imports this module at every start, so it must not import numpy, pyarrow, pandas or fsspec.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tensorboard.plugins import base_plugin

if TYPE_CHECKING:
    from tb_plugin.service.workers.pool import Pool
    from tb_plugin.service.workspace import Workspace
    from tb_plugin.web.routes import Routes


class TorchTracePlugin(base_plugin.TBPlugin):  # type: ignore[misc]  # TensorBoard has no types
    plugin_name = "torch_trace"

    def __init__(self, context: base_plugin.TBContext) -> None:
        flags = context.flags
        self._logdir: str = context.logdir or getattr(flags, "logdir", "") or ""
        self._logdir_spec: str = getattr(flags, "logdir_spec", "") or ""
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._workspace: Workspace | None = None
        self._routes: Routes | None = None

    def get_plugin_apps(self) -> dict[str, Callable[..., Iterable[bytes]]]:
        return {"/*": self._serve}

    def is_active(self) -> bool:
        """Returns whether to show the plugin: True during the first scan, without waiting for it."""
        if not (self._logdir or self._logdir_spec):
            return False
        # The first call may come while TensorBoard starts, so imports and scan run in a thread.
        workspace = self._workspace
        if workspace is None:
            threading.Thread(target=self._start, name="torch-trace-start", daemon=True).start()
            return True
        workspace.catalog.start()
        return workspace.catalog.is_active

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Torch Trace", disable_reload=True)

    def close(self) -> None:
        with self._lock:
            if self._workspace is not None:
                self._workspace.close()
            elif self._pool is not None:
                self._pool.close()

    def _start(self) -> None:
        self._open().catalog.start()

    def _workers(self) -> Pool:
        with self._lock:
            if self._pool is None:
                from tb_plugin.service.workers.pool import Pool, answer_seconds

                self._pool = Pool(limit_seconds=answer_seconds())
            return self._pool

    def _open(self) -> Workspace:
        pool = self._workers()
        with self._lock:
            if self._workspace is None:
                from tb_plugin.service.workspace import Workspace, open_catalog
                from tb_plugin.storage.cache import open_store
                from tb_plugin.storage.urls import parse_spec

                locations = parse_spec(self._logdir_spec) if self._logdir_spec else [("", self._logdir)]
                self._workspace = Workspace(open_catalog(locations), pool, open_store())
            return self._workspace

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        # The page was opened: a worker imports its libraries while this process lists files.
        self._workers().warm()
        return self._application()(environ, start_response)

    def _application(self) -> Routes:
        from tb_plugin.web.routes import Routes

        with self._lock:
            if self._routes is None:
                self._routes = Routes(self._open)
            return self._routes
