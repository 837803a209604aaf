"""Copy directions, such as host to device, from arguments or names."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import Whole
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

_HOST, _DEVICE, _PEER = "(?:host|h|m)", "(?:device|dev|d|a)", "(?:peer|p)"  # a: an array, which is on the device
# Argument with the direction, for profilers whose names do not contain it.
_DIRECTION_ARGUMENT = "kind"


class Direction(NamedTuple):
    key: str
    words: str
    whither: str
    """Name for a stream on which all copies have this direction."""
    pattern: str
    """Regex for names such as "Memcpy HtoD", "CopyHostToDevice", "(M2D)" and "host_to_device"."""


def _direction(key: str, words: str, whither: str, source: str, target: str) -> Direction:
    pattern = rf"(?:^|[^a-z]|c(?:o)?py){source}_?(?:to|2)_?{target}(?:[^a-z]|$)"
    return Direction(key, words, whither, pattern)


DIRECTIONS = (
    _direction("htod", "host to device", "to device", _HOST, _DEVICE),
    _direction("dtoh", "device to host", "to host", _DEVICE, _HOST),
    _direction("dtod", "device to device", "within the device", _DEVICE, _DEVICE),
    _direction("ptop", "peer to peer", "to other devices", _PEER, _PEER),
)


def copy_texts(trace: TraceTable, copies: Whole) -> Int32:
    """Returns the string id of the text with each copy's direction: the recorded argument, else the event name."""
    args = trace.device_args
    stated = np.full(len(trace), MISSING, np.int32)
    stated[args.row] = args.direction
    texts: Int32 = np.where(stated[copies] != MISSING, stated[copies], trace.name[copies])
    return texts


def directions_of(trace: TraceTable, copies: Int64) -> Int64:
    """Returns, for each copy, the index of its direction in ``DIRECTIONS`` (-1 = unknown).

    The direction is taken from the recorded argument. If it is missing, the direction is taken from the event name,
    or else from the argument ``kind``.
    """
    found = _direction_in(trace, copy_texts(trace, copies))
    for column in trace.others:
        if column.key == _DIRECTION_ARGUMENT and column.is_text:
            kinds = np.full(len(trace), MISSING, np.int64)
            kinds[column.row] = column.value
            found = np.where(found == MISSING, _direction_in(trace, kinds[copies]), found)
    return found


def copies_in_direction(trace: TraceTable, key: str, copies: Int64 | None = None) -> Int64:
    """Returns the rows of copies in the direction with this key, among ``copies`` (default: all copies of the trace)."""
    if copies is None:
        copies = np.flatnonzero(trace.kind == EventKind.MEMCPY)
    found: Int64 = copies[directions_of(trace, copies) == [each.key for each in DIRECTIONS].index(key)]
    return found


def _direction_in(trace: TraceTable, texts: Whole) -> Int64:
    found = np.full(len(trace.strings) + 1, MISSING, np.int64)
    for text in np.unique(texts[texts != MISSING]).tolist():
        name = trace.strings[text]
        found[text] = next(
            (i for i, each in enumerate(DIRECTIONS) if re.search(each.pattern, name, re.IGNORECASE)), MISSING
        )
    directions: Int64 = found[texts]
    return directions
