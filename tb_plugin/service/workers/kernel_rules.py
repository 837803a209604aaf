"""User-defined rules that assign kernels to classes."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path

from tb_plugin.devices.kernel_classes import VARIABLE
from tb_plugin.model.trace.kernel_rules import RuleFile

log = logging.getLogger("torch_trace")

_MOST_BYTES = 256 * 1024


def class_rules() -> RuleFile:
    """Returns the content of the file TORCH_TRACE_CLASSES. The file is read once and cached."""
    path = os.environ.get(VARIABLE, "").strip()
    return _read(path) if path else RuleFile()


@lru_cache(maxsize=8)
def _read(path: str) -> RuleFile:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        return _refused(f"{path} cannot be read: {error.strerror or error}")
    if len(content) > _MOST_BYTES:
        return _refused(f"{path} is larger than {_MOST_BYTES // 1024} KiB")
    return RuleFile(content.decode("utf-8", "replace"))


def _refused(problem: str) -> RuleFile:
    log.warning("%s: %s. Only the built-in rules are used.", VARIABLE, problem)
    return RuleFile(problem=problem)
