"""Hardware streams of device work.

Hardware streams may differ from the timeline's tracks, because the work of a graph may have separate tracks.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Int32
from tb_plugin.lib.groupby import group_sorted
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable


class HardwareStreams(msgspec.Struct, frozen=True, eq=False):
    """Stream names by number: first those of the tracks, then streams without a track."""

    of: Int32
    """Stream number of each row. For a host row, this number is the track number."""
    names: tuple[str, ...]


@cached_by_argument
def hardware_streams(trace: TraceTable) -> HardwareStreams:
    """Returns the recorded hardware stream of each row. If no stream is recorded for a row, its track is used."""
    of = trace.track.copy()
    names = [track.tid.removeprefix("stream").strip() for track in trace.tracks]
    known = {
        (track.pid, name): i for i, (track, name) in enumerate(zip(trace.tracks, names, strict=True)) if track.is_device
    }
    args = trace.device_args
    rows, stated = args.row[args.stream != MISSING], args.stream[args.stream != MISSING]
    pairs = group_sorted(trace.track[rows].astype(np.int64), stated.astype(np.int64))
    number = np.empty(len(pairs), np.int32)
    for i, first in enumerate(pairs.first.tolist()):
        track, text = int(trace.track[rows[first]]), int(stated[first])
        place = (trace.tracks[track].pid, trace.strings[text])
        if not trace.tracks[track].is_device:
            number[i] = track
            continue
        if place not in known:
            known[place] = len(names)
            names.append(place[1])
        number[i] = known[place]
    of[rows] = number[pairs.of]
    return HardwareStreams(of, tuple(names))
