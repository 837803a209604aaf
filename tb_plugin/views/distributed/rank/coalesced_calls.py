"""Coalesced collectives: calls that a program makes one after the other, and one kernel carries out together.

While a batch is open its calls launch nothing; what closes it launches the kernel for all of them. So a batch is a call that
closes one and launches, with the calls directly before it on its thread that launched nothing. No real file with any is at
hand: after the sources of PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.collective_names import BATCH_END, NOT_COLLECTIVE
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import stable_order
from tb_plugin.views.distributed.rank.collective_metadata import Words
from tb_plugin.views.distributed.rank.host_calls import Chains, closes_batch

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Batched:
    """Kernels, repeated for each of several collectives that they carry out together, in order."""

    kernel: Int64
    """Position among the kernels."""
    stands_for: Int64
    """The chain of calls that the row is in place of what the kernel says itself; -1 = it speaks for itself."""
    batch: Int64
    """Number of the batch, counted from 0 on in order of kernels; -1 = none."""


def in_batches(trace: TraceTable, chains: Chains, chain: Int64, states: Bool, words: Words) -> Batched:
    """Returns the kernels with what is carried out together.

    ``chain`` is the one that launched each kernel (-1 = none), and ``states`` whether the kernel says itself what it does:
    then nothing stands in its place. Of several kernels of one batch nothing says which does what: the first one stands for
    all calls.
    """
    count, every = len(chains), np.arange(len(chain))
    launches = np.zeros(count + 1, np.bool_)
    launches[chain] = True
    collective = chains.about.collective
    closing = closes_batch(trace)[chains.head] | (collective == words.number(BATCH_END))
    closing &= launches[:-1]
    if not closing.any():
        return Batched(every, np.full(len(chain), MISSING), np.full(len(chain), MISSING))
    launched = np.flatnonzero((chain != MISSING) & closing[chain])
    closed, first = np.unique(chain[launched], return_index=True)
    batch = np.full(count + 1, MISSING, np.int64)
    batch[closed[np.argsort(first)]] = np.arange(len(closed))
    speaker = np.full(count + 1, MISSING, np.int64)
    speaker[closed] = np.where(states[launched[first]], MISSING, launched[first])
    silent = chains.states & ~launches[:-1] & ~closing & ~np.isin(collective, words.numbers(sorted(NOT_COLLECTIVE)))
    kernel = np.where(silent, speaker[_followed_by(trace.track[chains.head], ~silent)], MISSING)
    member = np.flatnonzero(kernel != MISSING)
    member = member[stable_order(kernel[member])]
    times = np.maximum(np.bincount(kernel[member], minlength=len(chain)), 1)
    repeated = np.repeat(every, times)
    stands_for = np.full(len(repeated), MISSING, np.int64)
    stands_for[np.isin(repeated, kernel[member])] = member
    return Batched(repeated, stands_for, batch[chain[repeated]])


def _followed_by(track: npt.NDArray[np.signedinteger], breaks: Bool) -> Int64:
    """The position of the next row of the same track that breaks a run, of rows in order of time; -1 = none."""
    order = stable_order(track)
    marks = np.where(breaks[order], np.arange(len(order)), len(order))
    after = np.append(np.minimum.accumulate(marks[::-1])[::-1], len(order))[1:]
    found = np.append(order, MISSING)[after]
    found = np.where(np.append(track, MISSING)[found] == track[order], found, MISSING)
    result = np.empty(len(order), np.int64)
    result[order] = found
    return result
