"""Atomic writes into log directories on any file system."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from pathlib import Path, PureWindowsPath
from typing import Any

from tb_plugin.storage.cloud_urls import EXTRAS

# Storage schemes in which an object becomes visible only when complete.
_ATOMIC = {*EXTRAS, "https", "http"}


def write_below(fs: Any, root: str, path: str, content: bytes) -> None:
    """Writes a file (``fs`` None: locally). Raises ValueError if ``path``, which others may choose, leads out of ``root``."""
    if ".." in re.split(r"[/\\]", path) or PureWindowsPath(path).anchor:
        raise ValueError("a name that leads out of the directory")
    if fs is None:
        _write_local(Path(root) / path, content)
        return
    place = f"{root.rstrip('/')}/{path}"
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    if protocols & _ATOMIC:
        fs.pipe_file(place, content)
        return
    fs.makedirs(place.rpartition("/")[0], exist_ok=True)
    beside = f"{place}.part-{uuid.uuid4().hex}"
    try:
        fs.pipe_file(beside, content)
        # Hadoop does not overwrite when it moves. A file lost between these two lines is computed again.
        if fs.exists(place):
            fs.rm_file(place)
        fs.mv(beside, place)
    finally:
        with suppress(Exception):
            if fs.exists(beside):
                fs.rm_file(beside)


def _write_local(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # The temporary name does not contain the target name, which may already have the maximum length.
    beside = target.with_name(f".part-{uuid.uuid4().hex}")
    try:
        beside.write_bytes(content)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
