"""Paths and URLs of log directories."""

from __future__ import annotations

import os
import re

SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.\-]*)://")


def expand(url: str) -> str:
    """Expands ``~`` and ``$VARS`` in a local path, and removes a trailing slash. A URL is returned unchanged."""
    for prefix in ("file://", "local://"):
        url = url.removeprefix(prefix)
    if scheme_of(url) is not None:
        return url.rstrip("/") if not url.endswith("://") else url
    path = os.path.expandvars(os.path.expanduser(url))  # noqa: PTH111 (both expansions on text)
    return path.rstrip("/") or "/" if path else "."


def scheme_of(url: str) -> str | None:
    """Returns the scheme of a URL, such as ``s3``, or None for a local path."""
    match = SCHEME.match(url)
    return match.group(1).lower() if match else None


def parse_spec(spec: str) -> list[tuple[str, str]]:
    """Parses a ``--logdir_spec`` such as ``name:path,name:path`` into (name, path) pairs. Names may be empty."""
    pairs = []
    for item in filter(None, (part.strip() for part in spec.split(","))):
        # Same rules as TensorBoard. A drive letter is special only on Windows.
        named = scheme_of(item) is None and ":" in item and item[0] != "/" and not os.path.splitdrive(item)[0]
        name, _, path = item.partition(":") if named else ("", "", item)
        pairs.append((name, path))
    return pairs
