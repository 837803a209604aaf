"""Details of one block or segment."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.snapshot.categories import categories_of_blocks
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, levels_of
from tb_plugin.analysis.snapshot.labels import address_texts, pool_texts, stack_words, stream_texts, texts_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.modules import modules_of_stacks
from tb_plugin.model.snapshot.table import NEVER
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figures, Scalar

Column = npt.NDArray[np.integer]


def block_of(device: DeviceLevels, row: int) -> Figures:
    strings = device.snapshot.strings
    column = {name: device.block(name)[row : row + 1] for name in ("address", "stream", "pool", "stack")}
    context, metadata = (strings.take(device.block(name)[row : row + 1])[0].as_py() for name in ("context", "metadata"))
    size, requested, begin, freed, end = (
        int(device.block(name)[row]) for name in ("size", "requested", "begin", "freed", "end")
    )
    values = {
        "block_size_bytes": size,
        "requested_bytes": None if requested == MISSING else requested,
        **_place(device, column),
        **_lifetime(device, begin, freed),
        "reusable_event": None if end == NEVER else end,
        "active_then_bytes": int(levels_of(device).active[begin + 1]),
        "block_module": texts_of(modules_of_stacks(device.snapshot), column["stack"])[0].as_py(),
        "memory_category": categories_of_blocks(device).texts(np.array([row]))[0].as_py(),
        "compile_context": context,
        "user_metadata": metadata,
        "block_row": row,
    }
    return Figures("block", "Block", device.name, METRICS.figures(values))


def segment_of(device: DeviceLevels, row: int) -> Figures:
    column = {name: device.segment(name)[row : row + 1] for name in ("address", "stream", "pool", "stack")}
    values = {
        "block_size_bytes": int(device.segment("size")[row]),
        **_place(device, column),
        **_lifetime(device, int(device.segment("begin")[row]), int(device.segment("end")[row])),
    }
    return Figures("segment", "Segment", device.name, METRICS.figures(values))


def _place(device: DeviceLevels, column: Mapping[str, Column]) -> dict[str, Scalar]:
    snapshot, words = device.snapshot, stack_words(device.snapshot)
    return {
        "allocation_line": texts_of(words.line, column["stack"])[0].as_py(),
        "stream_name": stream_texts(snapshot, column["stream"])[0].as_py(),
        "pool_name": pool_texts(snapshot, column["pool"])[0].as_py(),
        "address": address_texts(column["address"].astype(np.int64))[0].as_py(),
        "allocation_stack": texts_of(words.text, column["stack"])[0].as_py(),
    }


def _lifetime(device: DeviceLevels, begin: int, end: int) -> dict[str, Scalar]:

    def time_of(event: int) -> int | None:
        return int(device.time_ns[event]) if device.snapshot.has_times and event not in (MISSING, NEVER) else None

    begins, ends = time_of(begin), time_of(end)
    return {
        "begin_event": None if begin == MISSING else begin,
        "end_event": None if end == NEVER else end,
        "begin_ns": begins,
        "end_ns": ends,
        "life_ns": ends - begins if begins is not None and ends is not None else None,
    }
