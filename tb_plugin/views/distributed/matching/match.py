"""Matching of calls on different workers."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import codes, occurrence

# number: by recorded sequence number
# order: by index among equal calls of the group and step
# ends: a message, matched by sender and receiver
BY = ("number", "order", "ends")
_NUMBER, _ORDER, ENDS = range(len(BY))


class Calls(msgspec.Struct, frozen=True, eq=False):
    """Columns that matching uses: one row per call, in time order within each worker.

    Codes are integers >= 0. Equal codes mean equal values.
    """

    worker: Int64
    step: Int64
    group: Int64
    """Code of the process group. For point-to-point calls, it also identifies the sender and the receiver."""
    name: Int64
    kind: Int64
    """Code of (collective, dtype, elements)."""
    sequence: Int64
    """Recorded sequence number; -1 = none."""
    lost: Bool
    """Marks point-to-point calls with an unknown peer. They are never matched."""
    no_step: int = -1
    """Step code of calls outside the steps."""


class Matched(msgspec.Struct, frozen=True, eq=False):
    """Result of matching: one row per call."""

    label: Int64
    """Index of the collective, from 0; -1 = unmatched."""
    by: Int64
    """Index into ``BY`` of the method that matched the call; -1 = unmatched."""


def no_matches(count: int) -> Matched:
    """Returns ``count`` rows of unmatched calls."""
    return Matched(np.full(count, -1, np.int64), np.full(count, -1, np.int64))


def match_calls(calls: Calls) -> Matched:
    """Matches the calls that belong to one collective.

    Calls match if process group, name and sequence number are equal. In groups with calls that lack a number, calls
    match if (collective, dtype, elements), step, and the index among such calls are equal. If a worker has fewer such
    calls in a step than another worker, its calls are unmatched, because it is unknown which calls are missing.
    """
    unnumbered = np.zeros(int(calls.group.max(initial=0)) + 1, np.bool_)
    unnumbered[calls.group[(calls.sequence < 0) & ~calls.lost]] = True
    label = np.full(len(calls.worker), -1, np.int64)
    numbered = np.flatnonzero(~calls.lost & ~unnumbered[calls.group])
    label[numbered] = _by_number(calls, numbered)
    rest = np.flatnonzero(~calls.lost & unnumbered[calls.group])
    ordered = _by_order(calls, rest)
    label[rest] = np.where(ordered >= 0, ordered + int(label.max(initial=-1)) + 1, -1)
    return _collectives(label, np.where(unnumbered[calls.group], _ORDER, _NUMBER))


def _by_number(calls: Calls, rows: Int64) -> Int64:
    """Returns match codes, which are equal for matching calls.

    Calls of one worker with the same number are a coalesced batch. Such calls match by kind and order.
    """
    label = codes(calls.group[rows], calls.name[rows], calls.sequence[rows])
    worker = calls.worker[rows]
    again = np.bincount(codes(label, worker))[codes(label, worker)] > 1
    if not again.any():
        return label
    is_batch = np.zeros(int(label.max()) + 1, np.bool_)
    is_batch[label[again]] = True
    batch = np.flatnonzero(is_batch[label])
    part = codes(label[batch], calls.kind[rows[batch]])
    label[batch] = len(is_batch) + codes(part, occurrence(codes(worker[batch], part)))
    return label


def _by_order(calls: Calls, rows: Int64) -> Int64:
    """Returns match codes of calls by their order; -1 for workers that have fewer calls than others."""
    worker, block = calls.worker[rows], codes(_blocks(calls, rows), calls.kind[rows])
    pair = codes(block, worker)
    count = np.bincount(pair, minlength=1)[pair]
    most = np.zeros(int(block.max(initial=0)) + 1, np.int64)
    np.maximum.at(most, block, count)
    return np.where(count == most[block], codes(block, occurrence(pair)), -1)


def _blocks(calls: Calls, rows: Int64) -> Int64:
    """Returns the block of each call: its group within its step.

    If only some workers of a group have steps, all calls of the group are one block.
    """
    group, step = calls.group[rows], calls.step[rows]
    pair = codes(group, calls.worker[rows])
    has = np.zeros(int(pair.max(initial=0)) + 1, np.bool_)
    has[pair[step != calls.no_step]] = True
    without, some = (np.zeros(int(calls.group.max(initial=0)) + 1, np.bool_) for _ in range(2))
    without[group[~has[pair]]] = True
    some[group[has[pair]]] = True
    return codes(group, np.where((without & some)[group], 0, step))


def _collectives(label: Int64, by: Int64) -> Matched:
    """Returns collectives that are matched on at least two workers, numbered from 0."""
    found, inverse, count = np.unique(label, return_inverse=True, return_counts=True)
    several = (found >= 0) & (count > 1)
    numbers = np.where(several, np.cumsum(several) - 1, -1)[inverse]
    return Matched(numbers, np.where(numbers >= 0, by, -1))


def fill_from_collective(label: Int64, values: Int64) -> Int64:
    """Replaces unknown values (-1) by the largest value within the same collective."""
    lacking = (values < 0) & (label >= 0)
    if not lacking.any():
        return values
    known = np.flatnonzero((label >= 0) & (values >= 0))
    largest = np.full(int(label.max(initial=-1)) + 2, -1, np.int64)
    np.maximum.at(largest, label[known], values[known])
    return np.where(lacking, largest[label], values)
