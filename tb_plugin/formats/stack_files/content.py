"""Merged stacks that were read from a stack file."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.stack_profile import Counted, Places
from tb_plugin.model.trace.schema import no_rows


class StackContent(msgspec.Struct, frozen=True, eq=False):
    """The fields of a ``StackProfile``, before the report of the reader is known."""

    names: pa.Array
    places: Places
    count: int
    """Number of stacks, samples and events in the file, including skipped ones."""
    counted: Counted
    what: str
    threads: tuple[str, ...] = ("",)
    is_complete: bool = True
    node: Int64 = no_rows(np.int64)
    node_place: Int32 = no_rows(np.int32)
