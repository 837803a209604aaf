"""Timeline tiles as Arrow columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.communication import is_communication
from tb_plugin.analysis.timeline.pyramid import Items, Pyramid, concatenate_items
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool
from tb_plugin.lib.groupby import number_groups
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable

CATEGORIES = [kind.name.lower() for kind in EventKind] + ["communication"]
COMMUNICATION = len(EventKind)

MAX_TILES = 64
# An answer ends with the tile that reaches this number of items; clients request the remaining tiles again.
ENOUGH_ITEMS = 8_000


class Tile(NamedTuple):
    """A tile of the timeline: the index of a group of lanes and the index of a time range."""

    group: int
    number: int
    """Index of the tile on its level. Tile 0 starts at time 0."""


def parse_tiles(text: str) -> tuple[Tile, ...]:
    """Parses pairs ``group.number``, separated by commas. Raises BadRequest for invalid text."""
    if not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,18}(,[0-9]{1,9}\.[0-9]{1,18}){0,63}", text):
        raise BadRequest(
            "The parameter tiles is not valid.",
            "tiles",
            f"Write group.number, separated by commas, at most {MAX_TILES}.",
        )
    return tuple(Tile(*map(int, one.split("."))) for one in text.split(","))


def encode(pyramid: Pyramid, level: int, tiles: Sequence[Tile]) -> bytes:
    """Returns the first of the ``tiles`` as an Arrow IPC stream. The stream contains at least one tile, and further
    tiles until it has ``ENOUGH_ITEMS`` items.

    The metadata key ``tiles`` is the number of tiles in the stream. Each row is an item; rows are sorted by tile,
    lane, depth and start. docs/http.md describes the columns. Raises BadRequest for an unknown level or group.
    """
    if not 0 <= level < len(pyramid.levels):
        raise BadRequest("There is no such level.", "level", f"Levels are numbered 0 to {len(pyramid.levels) - 1}.")
    groups = len(pyramid.groups) - 1
    if any(tile.group >= groups for tile in tiles):
        raise BadRequest("There is no such group of lanes.", "tiles", f"Groups are numbered 0 to {groups - 1}.")
    found, size = [], 0
    for tile in tiles:
        found.append(pyramid.tile(level, *tile))
        size += len(found[-1][0])
        if size >= ENOUGH_ITEMS:
            break
    batch = _columns(pyramid, found)
    batch = batch.replace_schema_metadata({"tiles": str(len(found))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _columns(pyramid: Pyramid, found: Sequence[tuple[npt.NDArray[np.int64], Items]]) -> pa.RecordBatch:
    trace = pyramid.trace
    line = np.concatenate([lines for lines, _ in found])
    items = concatenate_items([of for _, of in found])
    shown = items.longest
    start = pyramid.start_ns(items)
    dur = pyramid.end_ns(items) - start
    columns = {
        "tile": np.repeat(np.arange(len(found), dtype=np.uint8), [len(lines) for lines, _ in found]),
        "lane": pyramid.lane[line],
        "row": pyramid.depth[line],
        "start": start.astype(np.float64),
        "dur": dur.astype(np.float64),
        "idle": (dur - items.busy_ns).astype(np.float64),
        "count": items.count,
        "event": shown,
        "name": _texts(pyramid, trace.name[shown]),
        "category": category_of(trace, shown),
        "matrix": trace.uses_matrix_unit[shown],
        "module": _texts(pyramid, pyramid.modules(shown)),
    }
    return pa.RecordBatch.from_pydict({key: pa.array(values) for key, values in columns.items()})


def category_of(trace: TraceTable, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Returns the event kind of each row; what the overview counts as communication has a number of its own."""
    return np.where(communicates(trace)[rows], COMMUNICATION, trace.kind[rows]).astype(np.uint8)


@cached_by_argument
def communicates(trace: TraceTable) -> Bool:
    """Returns a mask of the communication events, for many tiles."""
    return is_communication(trace)


def _texts(pyramid: Pyramid, ids: npt.NDArray[np.int32]) -> pa.DictionaryArray:
    number, _ = number_groups(ids)
    distinct = pa.array(ids).unique().to_numpy()
    texts = pyramid.trace.strings.take(distinct).cast(pa.string()).fill_null("")
    return pa.DictionaryArray.from_arrays(pa.array(number.astype(np.int32)), texts)
