"""All that is known of one block of a device."""

from __future__ import annotations

import numpy as np

from tb_plugin.analyses.snapshot.categories import categories_of_blocks
from tb_plugin.analyses.snapshot.held import Held
from tb_plugin.analyses.snapshot.metrics import METRICS
from tb_plugin.analyses.snapshot.words import address_texts, pool_texts, stack_words, stream_texts, texts_of
from tb_plugin.payloads import Figures, Scalar
from tb_plugin.snapshot.table import NEVER
from tb_plugin.trace.schema import MISSING


def block_of(held: Held, row: int) -> Figures:
    """Returns the figures of a block: of what is not known None."""
    snapshot = held.snapshot
    part = slice(row, row + 1)
    column = {name: held.block(name)[part] for name in ("address", "stream", "pool", "stack", "context", "metadata")}
    size, requested, begin, freed, end = (
        int(held.block(name)[row]) for name in ("size", "requested", "begin", "freed", "end")
    )
    words, strings, time = stack_words(snapshot), snapshot.strings, held.time_ns

    def time_of(event: int) -> int | None:
        return int(time[event]) if snapshot.has_times and event not in (MISSING, NEVER) else None

    begins, frees = time_of(begin), time_of(freed)
    values: dict[str, Scalar] = {
        "block_size_bytes": size,
        "requested_bytes": None if requested == MISSING else requested,
        "allocation_line": texts_of(words.line, column["stack"])[0].as_py(),
        "stream_name": stream_texts(snapshot, column["stream"])[0].as_py(),
        "pool_name": pool_texts(snapshot, column["pool"])[0].as_py(),
        "address": address_texts(column["address"].astype(np.int64))[0].as_py(),
        "begin_event": None if begin == MISSING else begin,
        "end_event": None if freed == NEVER else freed,
        "reusable_event": None if end == NEVER else end,
        "begin_ns": begins,
        "end_ns": frees,
        "life_ns": frees - begins if begins is not None and frees is not None else None,
        "memory_category": categories_of_blocks(held).texts(np.array([row]))[0].as_py(),
        "compile_context": strings.take(column["context"])[0].as_py(),
        "user_metadata": strings.take(column["metadata"])[0].as_py(),
        "allocation_stack": texts_of(words.text, column["stack"])[0].as_py(),
        "block_row": row,
    }
    return Figures("block", "Block", held.name, [METRICS.figure(key, value) for key, value in values.items()])
