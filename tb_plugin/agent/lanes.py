"""A time range of the timeline, as text and as a picture."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.timeline.tiles import MAX_TILES, Tile
from tb_plugin.brief import cut_text
from tb_plugin.errors import BadRequest, Cancelled
from tb_plugin.payloads import Profile, Timeline, TimelineTrack
from tb_plugin.service.catalog import Place
from tb_plugin.service.workspace import Workspace

# Character and color of each category of events; OTHER for all others.
_STYLES: dict[str, tuple[str, tuple[int, int, int]]] = {
    "kernel": ("#", (47, 111, 187)),
    "communication": ("C", (214, 122, 33)),
    "memcpy": ("m", (121, 85, 165)),
    "memset": ("s", (170, 140, 200)),
    "operator": ("o", (74, 153, 105)),
    "runtime": ("r", (190, 60, 70)),
    "python": ("p", (150, 130, 90)),
    "module": ("M", (95, 160, 170)),
    "annotation": ("a", (140, 140, 140)),
    "sync": ("w", (225, 190, 80)),
}
_OTHER = ("x", (100, 100, 100))
_IDLE = "."
_PAPER = (255, 255, 255)
# A picture takes at most this share of the 8 kB of an answer: it is sent as base64, with a text.
_MAX_PNG_BYTES = 4_000
_WIDTHS = (960, 640, 480, 320, 160)
_ROW_PIXELS, _GAP_PIXELS = 7, 4
_MAX_ROWS_OF_LANE = 4
_MAX_PICTURE_LANES = 16


class Lane(msgspec.Struct, frozen=True):
    """A lane with its events. ``category[row, column]`` is -1 if nothing runs; ``busy_ns`` is the time of row 0."""

    track: TimelineTrack
    category: npt.NDArray[np.int8]
    busy_ns: int


class Lanes(msgspec.Struct, frozen=True):
    categories: Sequence[str]
    length_ns: int
    all: Sequence[Lane]

    @property
    def used(self) -> list[str]:
        """Returns the categories that occur, in the order of ``categories``."""
        found = np.unique(np.concatenate([np.unique(lane.category) for lane in self.all] or [np.empty(0, np.int8)]))
        return [self.categories[each] for each in found.tolist() if each >= 0]


def lanes_in(workspace: Workspace, place: Place, head: Timeline, start_ns: int, end_ns: int, columns: int) -> Lanes:
    """Returns the lanes with events in a time range, most busy time first. Raises UserError."""
    column_ns = max(1, (end_ns - start_ns) / columns)
    level = max((n for n, each in enumerate(head.levels) if each.cell_ns <= column_ns), default=0)
    tile = head.levels[level].tile_ns
    numbers = range(start_ns // tile, (end_ns - 1) // tile + 1)
    tiles = [Tile(group, number) for group in range(len(head.groups) - 1) for number in numbers]
    found: list[Lane] = []
    for batch in _batches(workspace, place, level, tiles):
        found += _lanes(head, batch, start_ns, end_ns, columns)
    merged: dict[str, Lane] = {}
    for lane in found:
        merged[lane.track.id] = _joined(merged[lane.track.id], lane) if lane.track.id in merged else lane
    listed = sorted(merged.values(), key=lambda lane: (not lane.track.is_device, -lane.busy_ns))
    return Lanes(head.categories, end_ns - start_ns, listed)


def lines_of(lanes: Lanes) -> dict[str, Any]:
    """Returns the lanes as text, with a legend."""
    marks = [_style(each)[0] for each in lanes.categories]
    return {
        "marks": {_IDLE: "nothing", **{_style(each)[0]: each if each in _STYLES else "other" for each in lanes.used}},
        "lanes": [
            {
                "lane": _title(lane.track),
                "busy_share": round(min(1.0, lane.busy_ns / lanes.length_ns), 4),
                "events": "".join(_IDLE if each < 0 else marks[each] for each in _innermost(lane).tolist()),
            }
            for lane in lanes.all
        ],
    }


def picture_of(
    workspace: Workspace, place: Place, head: Timeline, start_ns: int, end_ns: int
) -> tuple[dict[str, Any], bytes]:
    """Returns a text about a picture, and the picture as PNG, as wide as the limit of answers allows."""
    for width in _WIDTHS:
        lanes = lanes_in(workspace, place, head, start_ns, end_ns, width)
        drawn = lanes.all[:_MAX_PICTURE_LANES]
        png = _png(_pixels(drawn, width), [_PAPER, *(_style(each)[1] for each in lanes.categories)])
        if len(png) <= _MAX_PNG_BYTES:
            break
    else:
        raise BadRequest("The picture has too many details.", "start_ns, end_ns", "Choose a shorter range.")
    text = {
        "lanes_from_top_to_bottom": [cut_text(_title(lane.track), 80) for lane in drawn],
        "remaining_lanes": len(lanes.all) - len(drawn),
        "colors": {each: "#%02x%02x%02x" % _style(each)[1] for each in lanes.used},  # noqa: UP031 (clearer)
        "column_ns": (end_ns - start_ns) // width,
    }
    return text, png


def _batches(workspace: Workspace, place: Place, level: int, tiles: Sequence[Tile]) -> list[dict[str, Any]]:
    found = []
    while tiles:
        answer = workspace.tiles(place, level, tiles[:MAX_TILES])
        if isinstance(answer, Profile):
            raise Cancelled("The file changed while it was read.")
        batch = pa.ipc.open_stream(gzip.decompress(answer)).read_all()
        found.append({name: batch[name].to_numpy() for name in ("lane", "row", "start", "dur", "idle", "category")})
        tiles = tiles[int(batch.schema.metadata[b"tiles"]) :]
    return found


def _lanes(head: Timeline, items: dict[str, Any], start_ns: int, end_ns: int, columns: int) -> list[Lane]:
    column_ns = (end_ns - start_ns) / columns
    first = np.maximum(items["start"], start_ns)
    last = np.minimum(items["start"] + items["dur"], end_ns)
    inside = (first <= last) & (items["start"] < end_ns) & (items["start"] + items["dur"] >= start_ns)
    made = []
    for number in np.unique(items["lane"][inside]).tolist():
        of = np.flatnonzero(inside & (items["lane"] == number))
        rows = items["row"][of]
        category = np.full((int(rows.max()) + 1, columns), -1, np.int8)
        begins = np.minimum(((first[of] - start_ns) / column_ns).astype(int), columns - 1)
        ends = np.maximum(np.ceil((last[of] - start_ns) / column_ns).astype(int), begins + 1)
        for row, begin, end, which in zip(rows, begins, ends, items["category"][of], strict=True):
            category[row, begin:end] = which
        outer = of[rows == 0]
        busy = np.maximum(last[outer] - first[outer] - items["idle"][outer], 0).sum()
        made.append(Lane(head.tracks[number], category, int(busy)))
    return made


def _joined(one: Lane, other: Lane) -> Lane:
    rows = max(len(one.category), len(other.category))
    deep = [
        np.pad(each.category, ((0, rows - len(each.category)), (0, 0)), constant_values=-1) for each in (one, other)
    ]
    # An event that reaches into both tiles is listed in both.
    return Lane(one.track, np.maximum(*deep), one.busy_ns + other.busy_ns)


def _innermost(lane: Lane) -> npt.NDArray[np.int8]:
    made = np.full(lane.category.shape[1], -1, np.int8)
    for row in lane.category:
        made = np.where(row >= 0, row, made)
    return made


def _title(track: TimelineTrack) -> str:
    return cut_text(f"{track.title} {track.subtitle}".strip(), 120)


def _style(category: str) -> tuple[str, tuple[int, int, int]]:
    return _STYLES.get(category, _OTHER)


def _pixels(lanes: Sequence[Lane], width: int) -> npt.NDArray[np.uint8]:
    """Returns palette indexes: 0 is the paper, then the categories."""
    gap = np.zeros((_GAP_PIXELS, width), np.uint8)
    parts = [gap]
    for lane in lanes:
        rows = (lane.category[:_MAX_ROWS_OF_LANE] + 1).astype(np.uint8)
        parts += [np.repeat(rows, _ROW_PIXELS, axis=0), gap]
    return np.concatenate(parts)


def _png(pixels: npt.NDArray[np.uint8], palette: Sequence[tuple[int, int, int]]) -> bytes:
    height, width = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colors = bytes(each for color in palette for each in color)
    chunks = ((b"IHDR", header), (b"PLTE", colors), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
