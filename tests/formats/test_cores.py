"""A read in several processes equals a read in one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome import pieces
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tests.depth import DEEP, examples, sampled

from .sources import Bytes, op, trace_text
from .test_kineto_property import BASE, JUNK, damages

PROCESSES = (2, 3, 7)

pytestmark = pytest.mark.skipif(not pieces.is_supported(), reason="decoder processes are forked on Linux only")


def exact(value: Any) -> Any:
    """Returns arrays as type and bytes, so that NaN equals NaN and string ids are compared too."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, msgspec.Struct):
        return {name: exact(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return [(key, exact(each)) for key, each in value.items()]
    if isinstance(value, tuple | list):
        return [exact(each) for each in value]
    if hasattr(value, "__dict__"):
        return {name: exact(each) for name, each in vars(value).items()}
    return value


def outcome(content: bytes, decoders: int, chunk_bytes: int, piece_bytes: int) -> Any:
    options = ReadOptions(chunk_bytes, decoders=decoders, piece_bytes=piece_bytes)
    try:
        trace = KinetoReader().read(Bytes(content), options, no_progress)
    except UnreadableTrace as error:
        return error.what
    return exact(trace) | {"strings": list(trace.strings)}


def differences(one: Any, other: Any) -> list[str]:
    if isinstance(one, str) or isinstance(other, str):
        return [] if one == other else [f"{one} | {other}"]
    return [name for name in one if one[name] != other[name]]


def check(content: bytes, chunk_bytes: int, piece_bytes: int, processes: int) -> None:
    one, other = (outcome(content, decoders, chunk_bytes, piece_bytes) for decoders in (1, processes))
    assert not differences(one, other)
