"""Log directories on any file system.

fsspec is imported inside functions, because TensorBoard imports this module at every start.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from importlib import import_module
from pathlib import Path, PureWindowsPath
from typing import Any, BinaryIO, cast

from tb_plugin.errors import NotFoundError, StorageError, TorchTraceError
from tb_plugin.storage import cloud_urls, local
from tb_plugin.storage.cloud_urls import EXTRAS
from tb_plugin.storage.listing import Listing, StoredFile, nanoseconds
from tb_plugin.storage.local import LINKS_VARIABLE, follows_links
from tb_plugin.storage.safe_open import Located, open_regular
from tb_plugin.storage.secrets import clean_logs, redact
from tb_plugin.storage.urls import SCHEME, expand, scheme_of

log = logging.getLogger("torch_trace")

# Keys under which storages report the version of an object, preferred first.
_VERSIONS = ("generation", "ETag", "etag", "md5Hash", "content_md5")
# Keys of modification times, for storages without versions.
_CHANGES = ("mtime", "LastModified", "last_modified", "updated")
_BLOCK_BYTES = 1024 * 1024
# Seconds after which a listing is reported as unreachable. A late result is still used.
LIST_SECONDS = 20.0
# Attempts to copy a file, in addition to the retries of each library.
COPY_ATTEMPTS = 3
_PAUSE_SECONDS = 0.5
_LONGEST_REASON = 300


class _Broken(Exception):
    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Folder:
    """A log directory or single file. ``url`` is for messages, without credentials. Bytes are returned as stored."""

    def __init__(self, url: str) -> None:
        self._real = expand(url)
        self.is_local = scheme_of(self._real) is None
        self.url = self._real if self.is_local else redact(self._real)
        self._anonymous = False
        self._answered = False
        """Whether a listing has succeeded. If so, the credentials are valid."""
        self._listing: Future[dict[str, dict[str, Any]]] | None = None
        self._is_file = False
        """Whether the remote URL is a single file. Set by each listing."""
        self._told = False

    @property
    def name(self) -> str:
        """Returns the name of the directory. For a single file, returns the name of its parent directory."""
        if self.is_local:
            path = Path(os.path.abspath(self.url))  # noqa: PTH100 (links keep the name the person gave)
            return (path.parent if path.is_file() else path).name or "root"
        path_text = SCHEME.sub("", self.url).rstrip("/")
        if self._is_file:
            path_text = path_text.rpartition("/")[0]
        return path_text.rpartition("/")[2] or self.url.rstrip("/:")

    @property
    def is_file(self) -> bool:
        """Returns whether the path is a single file. For a remote URL, call ``list`` first."""
        return Path(self.url).is_file() if self.is_local else self._is_file

    def list(self) -> Listing:
        if self.is_local:
            return self._list_local()
        return self._list_remote()

    def locate(self, path: str) -> str:
        if self.is_local:
            root = Path(self.url)
            return str(root if root.is_file() else root / path)
        if self._is_file:
            return self.url
        return f"{self.url.rstrip('/')}/{path}"

    @property
    def address(self) -> str:
        """Returns the address for another process. It may contain credentials: never put it into a message."""
        if self.is_local:
            path = Path(os.path.abspath(self.url))  # noqa: PTH100 (links keep the name the person gave)
            return str(path.parent if path.is_file() else path)
        return self._real.rpartition("/")[0] if self._is_file else self._real

    def write(self, path: str, content: bytes) -> None:
        """Writes a file below the directory atomically. Raises StorageError."""
        fs, root = (None, self.url) if self.is_local else _filesystem(self._real)
        try:
            write_below(fs, root, path, content)
        except Exception as error:  # each backend has its own errors
            raise self._refused(error, path) from error

    def located(self, file: StoredFile) -> Located:
        """Returns a listed local file, with the data needed to detect whether the file was replaced."""
        path = self.locate(file.path)
        is_root = path == self.url or follows_links()
        return Located(path, "" if is_root else os.path.realpath(self.url), file.fingerprint)

    def open(self, file: StoredFile) -> BinaryIO:
        """Opens a listed file for reading. Raises StorageError, also if the file was replaced."""
        if self.is_local:
            return open_local(self.located(file))
        if not self._is_still(file):
            raise StorageError(
                "The file changed since it was listed.", self.locate(file.path), "The directory will be listed again."
            )
        fs, place = self._place(file.path)
        try:
            return cast(BinaryIO, fs.open(place, "rb", block_size=_BLOCK_BYTES))
        except Exception as error:  # each backend has its own errors
            raise self._refused(error, file.path) from error

    def head(self, file: StoredFile, size_bytes: int) -> bytes:
        """Returns the first ``size_bytes`` of a non-empty file. Raises StorageError."""
        if self.is_local:
            with self.open(file) as stream:
                return stream.read(size_bytes)
        path = file.path
        fs, place = self._place(path)
        try:
            return cast(bytes, fs.cat_file(place, start=0, end=size_bytes))
        except Exception as error:  # each backend has its own errors
            raise self._refused(error, path) from error

    def copy(self, file: StoredFile, target: Path, watch: Callable[[int], None] = lambda done_bytes: None) -> None:
        """Copies a remote file to the local path ``target``.

        ``watch`` is called with the number of bytes copied so far. It may raise an error to stop the copy. An
        interrupted or incomplete copy is repeated, because some libraries cannot resume a broken stream. Raises
        StorageError, also if the file was replaced.
        """
        for attempt in range(COPY_ATTEMPTS):
            if attempt:
                # Random delay, so that workers do not retry simultaneously.
                time.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
            try:
                whole = self._download(file, target, watch)
            except _Broken as broken:
                failure = self._refused(broken.error, file.path)
                continue
            # Checked after a complete copy too: the file may have changed after it was listed.
            if not self._is_still(file):
                what, do = "The file changed while it was copied.", "The directory will be listed again automatically."
                raise StorageError(what, self.locate(file.path), do)
            if whole:
                return
            what = f"The copy has {target.stat().st_size} bytes, but the listing reported {file.size}."
            failure = StorageError(what, self.locate(file.path), "The file may still be growing; try again.")
        raise failure

    def _download(self, file: StoredFile, target: Path, watch: Callable[[int], None]) -> bool:
        """Copies once. Returns whether the size is as listed. Raises _Broken if the stream breaks, and StorageError."""
        from fsspec.callbacks import Callback

        class Watching(Callback):  # type: ignore[misc]  # fsspec has no types
            most = 0

            def call(self, *args: object, **kwargs: object) -> None:
                # Blocks arrive in parallel, and after a retry some libraries count from zero.
                self.most = min(max(self.most, self.value), file.size)
                watch(self.most)

        watching = Watching()
        fs, place = self._place(file.path)
        try:
            fs.get_file(place, str(target), callback=watching)
        except TorchTraceError:
            raise
        except Exception as error:  # each backend has its own errors
            if watching.value and getattr(error, "errno", None) != errno.ENOSPC:
                raise _Broken(error) from error
            raise self._refused(error, file.path) from error
        return target.stat().st_size == file.size

    def _is_still(self, file: StoredFile) -> bool:
        """Returns whether the file is as listed, or the storage has no versions. Raises StorageError."""
        fs, place = self._place(file.path)
        try:
            fs.invalidate_cache()  # libraries cache listings
            info = fs.info(place)
        except Exception as error:  # each backend has its own errors
            raise self._refused(error, file.path) from error
        # Times are not compared, because some backends format them differently here.
        return (
            not any(info.get(key) for key in _VERSIONS)
            or _remote_file(place, place, info).fingerprint == file.fingerprint
        )

    def _place(self, path: str = "") -> tuple[Any, str]:
        fs, root = _filesystem(self._real, self._anonymous)
        # Not joined as a URL, because a name may contain "?", "#" or "%".
        return fs, f"{root.rstrip('/')}/{path}" if path and self.locate(path) != self.url else root

    def _refused(self, error: Exception, path: str = "") -> StorageError:
        refused = _refused(self.locate(path) if path else self.url, error)
        if self._anonymous:
            refused.do = f"No credentials were found, so the request was anonymous. {refused.do}"
        return refused

    def _list_local(self) -> Listing:
        path = Path(self.url)
        try:
            if path.is_file():
                return Listing((local.stat_file(self.url),))
            if not path.is_dir():
                raise NotFoundError("The path does not exist.", self.url, "Check the log directory.")
        except OSError as error:
            raise StorageError(f"The path cannot be read: {error.strerror}.", self.url) from error
        listing = local.walk(self.url)
        refused = sum(each.reason == local.LEADS_OUT for each in listing.unlisted)
        if refused and not self._told:
            self._told = True
            log.warning(
                "%d symbolic links lead out of %s and are not followed. Set %s=1 to follow them.",
                refused,
                self.url,
                LINKS_VARIABLE,
            )
        if not listing.files and any(u.path == "." for u in listing.unlisted):
            reason = listing.unlisted[0].reason
            raise StorageError(f"The directory cannot be read: {reason}.", self.url, "Check its permissions.")
        return listing

    def _list_remote(self) -> Listing:

        try:
            root, found = self._find()
        except StorageError as error:
            if not self._anonymous and cloud_urls.lacks_credentials(error):
                # A public bucket. Later listings stay anonymous, because searching for credentials takes seconds.
                self._anonymous = True
                return self._list_remote()
            if self._anonymous and self._listing is None:
                # Not a public bucket. Credentials are searched again, because those of a cloud machine may appear later.
                self._anonymous = False
                _filesystem(self._real, True)[0].clear_instance_cache()
            raise
        self._is_file = [path.strip("/") for path in found] == [root.strip("/")]
        files = [_remote_file(root, path, info) for path, info in found.items() if info.get("type") != "directory"]
        return Listing(tuple(sorted(files, key=lambda f: f.path)))

    def _find(self) -> tuple[str, dict[str, dict[str, Any]]]:
        """Lists files recursively in a separate thread, because an unreachable storage may block for minutes."""
        fs, root = self._place()
        if self._listing is None:
            self._listing = Future()
            arguments = (self._listing, fs, root, not self._answered)
            threading.Thread(target=_list_into, args=arguments, daemon=True).start()
        listing = self._listing
        try:
            found = listing.result(LIST_SECONDS)
        except FutureTimeout as error:
            if not listing.done():
                what = f"The storage has not answered for {LIST_SECONDS:.0f} seconds."
                raise StorageError(
                    what, self.url, "The storage will be tried again. Check the network and the endpoint."
                ) from error
            self._listing = None
            raise self._refused(error) from error
        except FileNotFoundError as error:
            self._listing = None
            raise NotFoundError("The path does not exist.", self.url, "Check the log directory.") from error
        except Exception as error:  # each backend has its own errors
            self._listing = None
            raise self._refused(error) from error
        self._listing, self._answered = None, True
        return root, found


class FileSource:
    """The files of one profile, as input for a reader. ``paths`` maps names to local files."""

    def __init__(self, paths: Mapping[str, str | Located]) -> None:
        self._paths = dict(paths)

    def names(self) -> Sequence[str]:
        return tuple(self._paths)

    def open(self, name: str) -> BinaryIO:
        return open_local(self._paths[name])

    def size(self, name: str) -> int:
        return Path(self._paths[name]).stat().st_size


def open_local(path: str | Located) -> BinaryIO:
    """Opens a regular local file that was not replaced, without decompression. Raises StorageError."""
    try:
        return open_regular(path)
    except OSError as error:
        raise _refused(os.fspath(path), error) from error


def _list_into(answer: Future[dict[str, dict[str, Any]]], fs: Any, root: str, is_first: bool) -> None:
    try:
        if is_first:
            cloud_urls.check_credentials(fs)
        fs.invalidate_cache()
        found = fs.find(root, detail=True)
        if not found and not fs.exists(root):
            raise FileNotFoundError(root)
        # adlfs returns a list of names if the root is a file.
        answer.set_result(found if isinstance(found, dict) else {str(path): fs.info(path) for path in found})
    except BaseException as error:  # top level of a thread: the caller raises it
        answer.set_exception(error)


def _filesystem(url: str, anonymous: bool = False) -> tuple[Any, str]:
    import fsspec

    scheme = scheme_of(url) or "file"
    clean_logs()

    try:
        address = cloud_urls.address_of(url, anonymous)
        # Settings for fsspec in the environment (FSSPEC_S3_ANON=1, ...) take precedence.
        configured = fsspec.config.conf.get(scheme, {})
        options = {name: value for name, value in address.options.items() if name not in configured}
        if address.file_system:
            module, _, name = address.file_system.partition(":")
            kind = getattr(import_module(module), name)
            fs, path = kind(**options), kind._strip_protocol(address.url)
        else:
            fs, path = fsspec.core.url_to_fs(address.url, **options)
        cloud_urls.shorten_pauses(fs)
    except ImportError as error:
        extra = cloud_urls.extra_of(url)
        install = f"pip install 'torch-trace-tb[{extra}]'" if extra else redact(str(error))
        what = f"A package for {scheme}:// is not installed."
        raise StorageError(what, redact(url), f"Install the package: {install}") from error
    except ValueError as error:
        if scheme in fsspec.available_protocols() or cloud_urls.extra_of(url):
            raise _refused(url, error) from error
        raise StorageError(f"No file system is known for {scheme}://.", redact(url), redact(str(error))) from error
    except Exception as error:  # a library may search for credentials or a native library now
        if cloud_urls.lacks_hadoop(error):
            what = f"{scheme}:// needs Hadoop's client (libhdfs) and Java."
            do = "Install Java and Hadoop, and set HADOOP_HOME, JAVA_HOME and CLASSPATH=$(hadoop classpath --glob)."
            raise StorageError(what, redact(url), do) from error
        raise _refused(url, error) from error
    return fs, str(path)


def _remote_file(root: str, path: str, info: Mapping[str, Any]) -> StoredFile:
    size = int(info.get("size") or 0)
    base = root.strip("/")
    relative = path.strip("/")
    relative = relative.rpartition("/")[2] if relative == base else relative.removeprefix(base).lstrip("/")
    # The version identifies the content; times are used only without versions, creation time last.
    stated = [str(info[key]) for key in (*_VERSIONS, *_CHANGES, "created") if info.get(key)]
    changed = next((info[key] for key in (*_CHANGES, "created") if info.get(key)), None)
    return StoredFile(relative, size, "-".join([str(size), *stated[:1]]), nanoseconds(changed))


def _refused(url: str, error: Exception) -> StorageError:
    if getattr(error, "errno", None) == errno.ENOSPC:
        do = "Free up disk space, or choose another folder with TORCH_TRACE_CACHE."
        return StorageError("No space is left for the local copy.", redact(url), do)
    reason = redact(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    reason = " ".join(reason.split())[:_LONGEST_REASON].rstrip(".")
    do = "Check that the path exists, that you have read access, and that the storage is reachable."
    return StorageError(f"The storage reported an error: {reason}.", redact(url), do)


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
