"""Isolation of failures between the parts of one response."""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections.abc import Callable
from pathlib import PurePath
from typing import TypeVar

from tb_plugin.errors import PartFailed, TorchTraceError

Value = TypeVar("Value")

log = logging.getLogger("torch_trace")


def isolated(part: str, make: Callable[[], Value], fallback: Callable[[PartFailed], Value] | None = None) -> Value:
    """Runs ``make``. A bug is logged and gives ``fallback``, or raises PartFailed. Expected errors are raised unchanged."""
    try:
        return make()
    except PartFailed as error:  # a nested part failed
        failure = PartFailed(error.part, error.error_id)
    except (TorchTraceError, MemoryError, BrokenPipeError):
        raise
    except Exception as error:
        failure = PartFailed(part, _id_of(error))
        log.error("%s failed (error %s).", part, failure.error_id, exc_info=error)
    if fallback is None:
        raise failure
    return fallback(failure)


class Isolation:
    """Isolates the parts of one response and collects their failures."""

    def __init__(self) -> None:
        self.failures: list[PartFailed] = []

    def run(self, part: str, make: Callable[[], Value], default: Value) -> Value:
        """Returns the result of ``make``, or ``default`` after a bug. Raises the same errors as ``isolated``."""

        def note(failure: PartFailed) -> Value:
            self.failures.append(failure)
            return default

        return isolated(part, make, note)


def _id_of(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__} {PurePath(where.filename).name} {where.name} {where.lineno}"
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=3).hexdigest()
