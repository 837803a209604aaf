"""Where bytes are: a log directory on any file system, its files, and how to open them.

This package is the only one that knows fsspec. fsspec is imported inside functions because TensorBoard imports the
plugin at every start, whether or not anybody opens the tab.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from tb_plugin.errors import NotFound, StorageError, UserError
from tb_plugin.storage import local
from tb_plugin.storage.listing import Listing, StoredFile

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.\-]*)://")
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure"}
_CHANGES = ("ETag", "etag", "md5Hash", "content_md5", "generation", "mtime", "LastModified", "last_modified", "updated")
_COPY_BYTES = 4 * 1024 * 1024


class Folder:
    """A log directory, or a single file that stands for one. ``url`` is as the person wrote it, expanded."""

    def __init__(self, url: str) -> None:
        self.url = expand(url)
        self.is_local = scheme_of(self.url) is None

    @property
    def name(self) -> str:
        """Base name of the directory; of the directory around it when the URL is a single file."""
        if self.is_local:
            path = Path(os.path.abspath(self.url))  # noqa: PTH100 (links keep the name the person gave)
            return (path.parent if path.is_file() else path).name or "root"
        path_text = _SCHEME.sub("", self.url).rstrip("/")
        if self._single(path_text):
            path_text = path_text.rpartition("/")[0]
        return path_text.rpartition("/")[2] or self.url.rstrip("/:")

    def list(self) -> Listing:
        """All files below. Raises NotFound when the path does not exist, StorageError when it cannot be read."""
        if self.is_local:
            return self._list_local()
        return self._list_remote()

    def locate(self, path: str) -> str:
        """The full path or URL of a listed file."""
        if self.is_local:
            root = Path(self.url)
            return str(root if root.is_file() else root / path)
        if self._single(_SCHEME.sub("", self.url)) and self.url.endswith(path):
            return self.url
        return f"{self.url.rstrip('/')}/{path}"

    def open(self, path: str) -> BinaryIO:
        """The stored bytes of a listed file. Raises StorageError."""
        return open_url(self.locate(path))

    def _single(self, path_text: str) -> bool:
        return path_text.lower().endswith((".json", ".json.gz"))

    def _list_local(self) -> Listing:
        path = Path(self.url)
        try:
            if path.is_file():
                return Listing((local.stat_file(self.url),))
            if not path.is_dir():
                raise NotFound("The path does not exist.", self.url, "Check the log directory.")
        except OSError as error:
            raise StorageError(f"The path cannot be read: {error.strerror}.", self.url) from error
        listing = local.walk(self.url)
        if not listing.files and any(u.path == "." for u in listing.unlisted):
            reason = listing.unlisted[0].reason
            raise StorageError(f"The directory cannot be read: {reason}.", self.url, "Check its permissions.")
        return listing

    def _list_remote(self) -> Listing:
        fs, root = _filesystem(self.url)
        try:
            fs.invalidate_cache()
            found = cast("dict[str, dict[str, Any]]", fs.find(root, detail=True))
            if not found and not fs.exists(root):
                raise NotFound("The path does not exist.", self.url, "Check the log directory.")
        except UserError:
            raise
        except Exception as error:  # every backend raises its own
            raise _refused(self.url, error) from error
        files = [_remote_file(root, path, info) for path, info in found.items() if info.get("type") != "directory"]
        return Listing(tuple(sorted(files, key=lambda f: f.path)))


class FileSource:
    """The bytes of one profile whose files have been located: name -> local path (a ``readers.Source``)."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = dict(paths)

    def names(self) -> Sequence[str]:
        """Names of the files, relative to the profile."""
        return tuple(self._paths)

    def open(self, name: str) -> BinaryIO:
        """The stored bytes of one file. Raises StorageError."""
        return open_url(self._paths[name])

    def size(self, name: str) -> int:
        """Stored size in bytes."""
        return Path(self._paths[name]).stat().st_size


def expand(url: str) -> str:
    """A path with ``~`` and ``$VARS`` expanded and no trailing slash; URLs of other schemes as they are."""
    for prefix in ("file://", "local://"):
        url = url.removeprefix(prefix)
    if scheme_of(url) is not None:
        return url.rstrip("/") if not url.endswith("://") else url
    path = os.path.expandvars(os.path.expanduser(url))  # noqa: PTH111 (both expansions on text)
    return path.rstrip("/") or "/" if path else "."


def scheme_of(url: str) -> str | None:
    """``s3`` of ``s3://bucket``; None for a local path."""
    match = _SCHEME.match(url)
    return match.group(1).lower() if match else None


def parse_spec(spec: str) -> list[tuple[str, str]]:
    """``name:path,name:path`` of ``--logdir_spec`` as (name, path); the name is empty where none was given."""
    pairs = []
    for item in filter(None, (part.strip() for part in spec.split(","))):
        # As TensorBoard reads it; a drive letter is only one on Windows.
        named = scheme_of(item) is None and ":" in item and item[0] != "/" and not os.path.splitdrive(item)[0]
        name, _, path = item.partition(":") if named else ("", "", item)
        pairs.append((name, path))
    return pairs


def open_url(url: str) -> BinaryIO:
    """The stored bytes of a path or URL. Raises StorageError."""
    try:
        if scheme_of(url) is None:
            return Path(url).open("rb")
        fs, path = _filesystem(url)
        return cast(BinaryIO, fs.open(path, "rb"))
    except UserError:
        raise
    except Exception as error:  # every backend raises its own
        raise _refused(url, error) from error


def copy_url(url: str, target: Path) -> None:
    """Copies a stored file to a local path. Raises StorageError."""
    try:
        with open_url(url) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, _COPY_BYTES)
    except UserError:
        raise
    except Exception as error:  # every backend raises its own
        raise _refused(url, error) from error


def _filesystem(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL and the path on it."""
    import fsspec

    scheme = scheme_of(url) or "file"
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        install = f"pip install 'torch-trace-tb[{extra}]'" if extra else str(error)
        raise StorageError(f"A package for {scheme}:// is not installed.", url, f"Install it: {install}") from error
    except ValueError as error:
        raise StorageError(f"No file system is known for {scheme}://.", url, str(error)) from error
    return fs, str(path)


def _remote_file(root: str, path: str, info: Mapping[str, Any]) -> StoredFile:
    size = int(info.get("size") or 0)
    base = root.strip("/")
    relative = path.strip("/")
    relative = relative.rpartition("/")[2] if relative == base else relative.removeprefix(base).lstrip("/")
    # What a backend states about a change; the time of creation only where nothing better is stated.
    stated = [str(info[key]) for key in _CHANGES if info.get(key)] or [str(info.get("created", ""))]
    return StoredFile(relative, size, "-".join([str(size), *stated]))


def _refused(url: str, error: Exception) -> StorageError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return StorageError(f"The storage refused: {reason}.", url, "Check that it exists and that you may read it.")
