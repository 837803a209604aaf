"""The encoded catalog, cached until the catalog changes.

Pages request the catalog repeatedly, so it is not encoded for each request.
"""

from __future__ import annotations

import gzip
import hashlib
import threading
import time
from functools import cached_property

import msgspec

from tb_plugin.payloads import Catalog
from tb_plugin.payloads.export import to_json
from tb_plugin.service.workspace import Workspace

PACK_LEVEL = 4
# Maximum CPU share of encoding while a profile loads and its progress changes constantly.
_SHARE = 0.1


class Body(msgspec.Struct, frozen=True, dict=True):
    plain: bytes

    @cached_property
    def tag(self) -> str:
        return hashlib.blake2b(self.plain, digest_size=12).hexdigest()

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.plain, compresslevel=PACK_LEVEL, mtime=0)


class CatalogCache:
    """Caches the response of ``GET runs``. After a change, one thread encodes the response again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: tuple[Workspace, int] | None = None
        self._body = Body(b"")
        self._until = 0.0

    def of(self, workspace: Workspace) -> Body:
        with self._lock:
            begun = time.monotonic()
            now = (workspace, workspace.catalog.changes.count)
            if now != self._of or begun >= self._until:
                catalog = workspace.runs()
                body = Body(to_json(catalog))
                if body.plain != self._body.plain:
                    self._body = body
                    _ = body.tag, body.packed
                self._of = now
                ended = time.monotonic()
                self._until = ended + (ended - begun) / _SHARE if _is_loading(catalog) else float("inf")
            return self._body


def _is_loading(catalog: Catalog) -> bool:
    return any(span.state == "loading" for run in catalog.runs for worker in run.workers for span in worker.spans)
