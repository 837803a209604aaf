"""A trace with what another recording tells of its graphs: the texts of the other are added to its strings."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.captured import Captured, Scopes, Sequences
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.strings import StringTable
from tb_plugin.trace.table import TraceTable

Int32 = npt.NDArray[np.int32]
T = TypeVar("T", Scopes, Sequences)

_TEXTS = {Scopes: ("name", "shapes", "types", "stack"), Sequences: ("name", "grid", "block")}
"""Columns of string ids."""


def with_captured(trace: TraceTable, captured: Captured, strings: StringTable) -> TraceTable:
    """Returns the trace with what was captured, whose ids count into ``strings``: those of the other recording.

    Ids of the trace stay what they are, and its columns are shared. Rows of the other recording are none of this one.
    """
    parts: tuple[Scopes | Sequences, ...] = (captured.scopes, captured.sequences)
    ids = [getattr(part, name) for part in parts for name in _TEXTS[type(part)]]
    used = np.unique(np.concatenate(ids))
    used = used[used != MISSING]
    extended, new = trace.strings.extended(strings.take(used))
    # One more, at the end, for what is absent: it stays so.
    of = np.full(len(strings) + 1, MISSING, np.int32)
    of[used] = new
    told = replace(captured, scopes=_own(captured.scopes, of), sequences=_with_texts(captured.sequences, of))
    return replace(trace, captured=told, strings=extended)


def _own(scopes: Scopes, of: Int32) -> Scopes:
    return replace(_with_texts(scopes, of), row=np.full(len(scopes), MISSING, np.int32))


def _with_texts(part: T, of: Int32) -> T:
    """The part with other ids for its texts."""
    return replace(part, **{name: of[getattr(part, name)] for name in _TEXTS[type(part)]})
