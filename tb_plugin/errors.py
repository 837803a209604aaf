"""The error tree.

::

    TorchTraceError
    ├── UserError                shown to the user: what happened, where, what to do
    │   ├── BadRequest           a parameter is missing or invalid                    (HTTP 400, exit 2)
    │   ├── NotFoundError        run, worker, span, view or file does not exist       (HTTP 404, exit 3)
    │   ├── UnreadableTrace      a file contains no readable trace                    (HTTP 422, exit 3)
    │   │   ├── CacheFileLost    a file of the cache is missing or damaged; it is created again
    │   │   └── WindowUnsupported    a profile that cannot be opened as a window
    │   ├── StorageError         the file system failed: missing package, permissions (HTTP 502, exit 3)
    │   │   └── CacheRefused     the cache folder cannot be written
    │   ├── TookTooLong          an answer, or the wait for it, took too long         (HTTP 504, exit 3)
    │   ├── WorkerDied           a parse was killed twice, usually for memory         (HTTP 500, exit 3)
    │   ├── MissingPackage       the request needs an extra of this package           (Python API)
    │   └── PartFailed           a bug in one view or another part; see the log       (HTTP 500, exit 3)
    └── Cancelled                the result is no longer needed

Any other error is a bug and is logged with its traceback.
"""

from __future__ import annotations


class TorchTraceError(Exception):
    """Base class of all errors that this package raises on purpose."""


class UserError(TorchTraceError):
    """An error shown to the user: what happened, where, and what to do."""

    status = 500

    def __init__(self, what: str, where: str = "", do: str = "") -> None:
        super().__init__(what, where, do)
        self.what = what
        self.where = where
        self.do = do

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} {self.do}" if self.do else text


class BadRequest(UserError):
    status = 400


class NotFoundError(UserError):
    """The requested run, worker, span, view or file does not exist."""

    status = 404


class UnreadableTrace(UserError):
    status = 422


class WindowUnsupported(UnreadableTrace):
    """The profile cannot be opened as a window, although its format supports windows. ``what`` contains the reason."""


class CacheFileLost(UnreadableTrace):
    """The cache file ``where`` is missing or damaged. It is created again from the trace."""


class StorageError(UserError):
    status = 502


class CacheRefused(StorageError):
    """The cache folder cannot be written, because it is full, read-only or missing."""


class WorkerDied(UserError):
    """The worker process of a job died twice."""

    status = 500


class TookTooLong(UserError):
    """Either computing an answer or waiting for a free worker exceeded the time limit."""

    status = 504


class MissingPackage(UserError):
    """The request needs an optional dependency of this package."""


REPORT_IT = "Please report the error with the details from the log."


class PartFailed(UserError):
    """A bug in one view, card, rule or other part. The log contains the traceback and the same ``error_id``."""

    status = 500

    def __init__(self, part: str, error_id: str) -> None:
        super().__init__(
            f"{part}: this part failed (error {error_id}).",
            do=REPORT_IT,
        )
        self.part = part
        self.error_id = error_id

    def __reduce__(self) -> tuple[type[PartFailed], tuple[str, str]]:
        return PartFailed, (self.part, self.error_id)


class Cancelled(TorchTraceError):
    """The work was stopped because its result is no longer needed."""
