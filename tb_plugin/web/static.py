"""Static files of the page.

Browsers may cache a file for a year if its name contains a content hash.
"""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path

import msgspec

BUNDLE = Path(__file__).parent.parent / "static"
YEAR_SECONDS = 365 * 24 * 3600
_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
    ".json": "application/json",
    ".map": "application/json",
}
_NOT_BUILT = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Torch Trace</title></head>
<body style="font: 14px system-ui, sans-serif; max-width: 40em; margin: 3em auto; line-height: 1.5">
<h1 style="font-size: 20px">The page of Torch Trace has not been built</h1>
<p>The plugin runs from a source tree in which the frontend was never built. In that tree, run
<code>make build</code> (it needs Node 20 or newer), then reload this page. A wheel from PyPI contains the page.</p>
<p>Meanwhile the numbers are there on the command line: <code>torch-trace report PATH</code>.</p>
</body></html>
"""
# TensorBoard imports this module and calls render(). The page itself is index.html next to it.
_ENTRY = b'export function render() { location.replace(new URL("./index.html", import.meta.url)); }\n'


class Asset(msgspec.Struct, frozen=True):
    """A file of the page. ``expires_seconds`` is 0 if the file name contains no content hash."""

    content: bytes
    content_type: str
    etag: str
    expires_seconds: int


def find_asset(name: str, bundle: Path = BUNDLE) -> Asset | None:
    """Returns the file at a URL path, or None if it does not exist."""
    path = _files(bundle).get(name)
    if path is not None:
        hashed = name.startswith("assets/")
        return _asset(path.read_bytes(), path.suffix, YEAR_SECONDS if hashed else 0)
    if name == "index.html":
        return _asset(_NOT_BUILT, ".html", 0)
    if name == "index.js":
        return _asset(_ENTRY, ".js", 0)
    return None


def _files(bundle: Path) -> dict[str, Path]:
    return {
        path.relative_to(bundle).as_posix(): path
        for path in bundle.rglob("*")
        if path.is_file() and not path.is_symlink() and path.name != "__init__.py"
    }


def _asset(content: bytes, suffix: str, expires_seconds: int) -> Asset:
    content_type = _TYPES.get(suffix) or mimetypes.types_map.get(suffix, "application/octet-stream")
    return Asset(content, content_type, hashlib.blake2b(content, digest_size=12).hexdigest(), expires_seconds)
