"""Failed memory requests in a snapshot: cause and blocks in the way."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np

from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, ooms_of
from tb_plugin.analysis.snapshot.labels import stack_words, texts_of
from tb_plugin.analysis.snapshot.metrics import METRICS, RAN_OUT
from tb_plugin.analysis.snapshot.moment import Moment, Obstacles, moment_at, obstacles_to
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure

# Larger blocks are in large segments.
SMALL_BLOCK = 1 << 20
# Only the last ones are listed, because a program that retries may have any number.
MOST_OOMS = 20


class RunningOut(msgspec.Struct, frozen=True, eq=False):
    """State of a device's memory at one out-of-memory event."""

    event: int
    requested: int
    device_free: int
    stack: int
    moment: Moment
    serves: Bool
    """Mask of the segments that could serve the request, according to their stream, pool and size class."""
    obstacles: Obstacles

    @property
    def pool_free(self) -> int:
        gaps = self.moment.gaps
        return int(gaps.size[self.serves[gaps.row]].sum())

    @property
    def pool_gap(self) -> int:
        gaps = self.moment.gaps
        return int(gaps.size[self.serves[gaps.row]].max(initial=0))

    @property
    def cache_free(self) -> int:
        return self.moment.reserved - self.moment.allocated - self.moment.pending

    @property
    def fits_if_contiguous(self) -> bool:
        return self.requested <= self.pool_free + self.device_free

    @property
    def cause(self) -> str:
        if self.pool_gap >= self.requested:
            return "gap"
        if self.fits_if_contiguous:
            return "pieces"
        if self.requested <= self.cache_free + self.device_free:
            return "elsewhere"
        return "one" if self.requested > self.moment.allocated + self.moment.pending else "full"


def ran_out(device: DeviceLevels, event: int) -> RunningOut:
    events, at = device.snapshot.events, device.events.start + event
    moment = moment_at(device, event)
    serves = _same(moment.rows.stream, int(events.stream[at])) & _same(moment.rows.pool, int(events.pool[at]))
    asked = int(events.size[at])
    # Small segments serve small requests only, and large segments large ones.
    serves &= moment.rows.is_large == (asked > SMALL_BLOCK)
    return RunningOut(event, asked, max(int(events.address[at]), 0), int(events.stack[at]), moment, serves,
                      obstacles_to(moment, asked, serves))  # fmt: skip


def _same(values: Int64, value: int) -> Bool:
    found: Bool = (values == value) | (values == MISSING) | (value == MISSING)
    return found


def last_ooms(device: DeviceLevels) -> list[RunningOut]:
    return [ran_out(device, event) for event in ooms_of(device)[-MOST_OOMS:].tolist()]


_CAUSES = {
    "gap": "The largest gap was large enough. A limit (max_split_size_mb) or an unrecorded block prevented its use.",
    "pieces": "Enough memory was free in total, but it was fragmented.",
    "elsewhere": "Enough memory was free in total, but in other streams, pools or sizes that cannot serve this request.",
    "full": "Even without fragmentation there was not enough memory.",
    "one": "Even without fragmentation there was not enough memory: this request is larger than all memory in use.",
}


def sentence_of(one: RunningOut) -> tuple[str, list[Figure]]:
    figures = figures_of(one)
    line = stack_words(one.moment.levels.snapshot).line[one.stack].as_py() if one.stack != MISSING else None
    text = "Memory ran out at event {event_number}: "
    text += "{asked_bytes} were requested" if line is None else "{asking_line} requested {asked_bytes}"
    text += ". Free memory in the stream, pool and size class of the request: "
    text += "{pool_free_bytes} (largest gap {pool_gap_bytes}); "
    # The same number is not repeated.
    text += "in the whole cache: {cache_free_bytes}; " if one.cache_free != one.pool_free else ""
    text += f"on the device: {{device_free_bytes}}. {_CAUSES[one.cause]}"
    if len(one.obstacles.row) and one.obstacles.count[0]:
        count = int(one.obstacles.count[0])
        text += (
            f" The request would fit if {{in_way_blocks}} {'adjacent ' if count > 1 else ''}{plural(count, 'block')} "
        )
        text += f"({{in_way_bytes}}) {plural(count, 'is', 'are')} released."
    if line is not None:
        figures.append(METRICS.figure("asking_line", line))
    return text, [METRICS.figure("event_number", one.event), *figures]


def largest_line(device: DeviceLevels, event: int) -> tuple[str | None, int, int]:
    """Returns the line with the most allocated bytes, its bytes, and the bytes without a known line."""
    rows = device.allocated(event)
    groups = group(device.block("stack")[rows])
    lines = texts_of(stack_words(device.snapshot).line, device.block("stack")[rows][groups.first]).to_pylist()
    sums: dict[str | None, int] = defaultdict(int)
    for line, size in zip(lines, groups.sum(device.block("size")[rows]).tolist(), strict=True):
        sums[line] += size
    unknown = sums.pop(None, 0)
    line = max(sums, key=lambda each: sums[each], default=None)
    return line, unknown if line is None else sums[line], unknown


def figures_of(one: RunningOut) -> list[Figure]:
    runs = one.obstacles
    found = len(runs.row) > 0
    values = {
        "asked_bytes": one.requested,
        "device_free_bytes": one.device_free,
        "cache_free_bytes": one.cache_free,
        "pool_free_bytes": one.pool_free,
        "pool_gap_bytes": one.pool_gap,
        "fits_joined": one.fits_if_contiguous,
        "in_way_bytes": int(runs.live_bytes[0]) if found else None,
        "in_way_blocks": int(runs.count[0]) if found else None,
    }
    return METRICS.figures(values, RAN_OUT)


def in_way_of(one: RunningOut | None, moment: Moment) -> Bool:
    found = np.zeros(len(moment.block), np.bool_)
    if one is not None and len(one.obstacles.row):
        first = int(one.obstacles.first[0])
        found[first : first + int(one.obstacles.count[0])] = True
    return found
