"""Files that a user drops on the page of ``torch-trace view``."""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import uuid
from pathlib import Path
from typing import BinaryIO

from tb_plugin import settings
from tb_plugin.errors import BadRequest, StorageError, UserError
from tb_plugin.lib.temp_dirs import PrivateFolder

log = logging.getLogger("torch_trace")

VARIABLE = settings.UPLOAD_MB.name
RUN = "dropped"
_DEFAULT_LIMIT_BYTES = 2_000_000_000
_CHUNK_BYTES = 1 << 20
# Longest file name that all file systems accept, in bytes, with room for a number.
_MAX_NAME_BYTES = 200
_UNUSUAL = re.compile(r"[^\w .()\[\]+,@=-]")


class UploadTooLarge(UserError):
    status = 413


def upload_limit_bytes() -> int:
    """Returns the maximum size of a file; 0 = no files are accepted."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return _DEFAULT_LIMIT_BYTES
    try:
        return max(0, int(float(text) * 1_000_000))
    except (ValueError, OverflowError):
        log.warning("%s=%s is not a number; the default is used.", VARIABLE, text)
        return _DEFAULT_LIMIT_BYTES


class DroppedFiles:
    """A private temporary folder, removed by ``close`` and at the next start after a crash."""

    def __init__(self) -> None:
        self._private = PrivateFolder()
        self.folder = self._private.path / RUN
        self.folder.mkdir(mode=0o700)
        self._naming = threading.Lock()

    def close(self) -> None:
        self._private.remove()

    def save(self, name: str, size_bytes: int, stream: BinaryIO) -> Path:
        """Copies ``size_bytes`` bytes into a new file and returns it. Raises UserError, and then leaves no file."""
        safe = _base_name(name)
        limit = upload_limit_bytes()
        if size_bytes > limit:
            raise UploadTooLarge(
                f"The file is larger than {limit // 1_000_000:,} MB.",
                safe,
                f"Open it with torch-trace view FILE, or increase {VARIABLE}.",
            )
        # A scan never sees an incomplete file, because it is outside the scanned folder.
        partial = self._private.path / uuid.uuid4().hex
        try:
            if shutil.disk_usage(self._private.path).free < size_bytes:
                raise _no_space(safe)
            with partial.open("xb") as file:
                _copy(stream, file, size_bytes, safe)
            return self._move(partial, safe)
        except OSError as error:
            raise _no_space(safe, str(error)) from error
        finally:
            partial.unlink(missing_ok=True)

    def _move(self, partial: Path, name: str) -> Path:
        with self._naming:
            path, number = self.folder / name, 1
            while path.exists():
                number += 1
                path = self.folder / f"{number}-{name}"
            return partial.rename(path)


def _base_name(name: str) -> str:
    base = _UNUSUAL.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(" .")
    # The end of the name tells the format.
    base = base.encode()[-_MAX_NAME_BYTES:].decode("utf-8", "ignore").lstrip(" .")
    if not base:
        raise BadRequest("The file has no name.", "name", "Rename the file.")
    return base


def _copy(stream: BinaryIO, file: BinaryIO, size_bytes: int, name: str) -> None:
    left = size_bytes
    while left:
        try:
            chunk = stream.read(min(left, _CHUNK_BYTES))
        except OSError as error:  # the connection was reset, or sent nothing for too long
            raise _interrupted(name) from error
        if not chunk:
            raise _interrupted(name)
        file.write(chunk)
        left -= len(chunk)


def _interrupted(name: str) -> BadRequest:
    return BadRequest("The upload was interrupted.", name, "Drop the file again.")


def _no_space(name: str, why: str = "the disk is full") -> StorageError:
    return StorageError(
        f"The file cannot be stored: {why}.", name, "Set TMPDIR to a folder with space, or use torch-trace view FILE."
    )
