"""Links between rows: launches, operators, and forward operators of backward operators."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.schema import MISSING


def first_with_key(keys: Int64, rows: Int64, wanted: Int64) -> Int32:
    """Returns, for each wanted key, the first row that has this key; -1 = none. Keys below 1 never match."""
    found = np.full(len(wanted), MISSING, np.int32)
    proper = keys > 0
    keys, rows = keys[proper], rows[proper]
    if not len(keys):
        return found
    order = np.argsort(keys, kind="stable")
    keys, rows = keys[order], rows[order]
    index = np.minimum(np.searchsorted(keys, wanted, side="left"), len(keys) - 1)
    hit = (wanted > 0) & (keys[index] == wanted)
    found[hit] = rows[index[hit]]
    return found


def first_in_process(keys: Int64, rows: Int64, wanted: Int64, of: Int32 | None, targets: Int64) -> Int32:
    """Does ``first_with_key`` within each process. If a target's process is unknown, only keys of a single process match."""
    if of is None:
        return first_with_key(keys, rows, wanted)
    numbers, place = np.unique(np.concatenate((keys, wanted)), return_inverse=True)
    width = int(of.max(initial=0)) + 1
    process = of[np.concatenate((rows, targets))].astype(np.int64)
    valid = (process != MISSING) & (numbers[place] > 0)
    own = np.where(valid, place * width + process + 1, 0)
    found = first_with_key(own[: len(rows)], rows, own[len(rows) :])
    least, most = np.full(len(numbers), width), np.full(len(numbers), -2)
    np.minimum.at(least, place[: len(rows)], process[: len(rows)])
    np.maximum.at(most, place[: len(rows)], process[: len(rows)])
    single = least == most
    only = first_with_key(np.where(single[place[: len(rows)]], keys, 0), rows, wanted)
    unknown = (found == MISSING) & (only != MISSING) & ((of[targets] == MISSING) | (of[only] == MISSING))
    return np.where(unknown, only, found).astype(np.int32)


class Autograd(msgspec.Struct, frozen=True, eq=False):
    """Sequence numbers and forward threads of operator rows; -1 = absent."""

    row: Int64
    sequence: Int64
    forward_thread: Int64


def forward_by_sequence(autograd: Autograd, track: Int32) -> tuple[Int64, Int64]:
    """Returns backward rows and their forward rows, matched by autograd sequence number.

    A backward operator has a forward thread number above 0. If several forward operators have the same sequence
    number, the last of them created the autograd node. A sequence number that occurs on two forward threads is
    ambiguous and is skipped.
    """
    known = autograd.sequence >= 0
    backward = known & (autograd.forward_thread > 0)
    forward = known & ~backward
    if not backward.any() or not forward.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    number, row = autograd.sequence[forward], autograd.row[forward]
    order = np.lexsort((row, number))
    number, row = number[order], row[order]
    last = np.flatnonzero(np.concatenate((number[1:] != number[:-1], [True])))
    first = np.concatenate(([0], last[:-1] + 1))
    threads = track[row]
    spread = np.maximum.reduceat(threads, first) != np.minimum.reduceat(threads, first)
    unique_number, unique_row = number[last][~spread], row[last][~spread]
    if not len(unique_number):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    wanted, rows = autograd.sequence[backward], autograd.row[backward]
    index = np.minimum(np.searchsorted(unique_number, wanted), len(unique_number) - 1)
    hit = unique_number[index] == wanted
    return rows[hit], unique_row[index[hit]]


def rows_starting_at(track: Int32, start: Int64, rows: Int64, at_track: Int32, at: Int64) -> Int32:
    """Returns, for each track and time, the last row in ``rows`` that starts exactly then; -1 = none."""
    found = np.full(len(at), MISSING, np.int32)
    if not len(rows) or not len(at):
        return found
    # Combine track and time into one sortable number: the rank of the time plus an offset per track.
    times, rank = np.unique(np.concatenate((start[rows], at)), return_inverse=True)
    key = track[rows].astype(np.int64) * len(times) + rank[: len(rows)]
    wanted = at_track.astype(np.int64) * len(times) + rank[len(rows) :]
    order = np.argsort(key, kind="stable")
    index = np.searchsorted(key[order], wanted, side="right") - 1
    hit = (index >= 0) & (key[order][np.maximum(index, 0)] == wanted) & (at_track != MISSING)
    found[hit] = rows[order[index[hit]]]
    return found
