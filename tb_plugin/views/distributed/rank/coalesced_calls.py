"""Coalesced collectives: consecutive calls with one common kernel.

While a batch is open its calls launch nothing; the call that closes it launches the kernel for all. So a batch is a closing
call that launches, with the directly preceding calls on its thread that launched nothing. This follows the sources of
PyTorch; no real trace with coalesced calls was available.
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
    """Kernels, repeated for each collective that they execute, in order."""

    kernel: Int64
    """Position among the kernels."""
    stands_for: Int64
    """Chain of calls that replaces the kernel's own metadata; -1 = none."""
    batch: Int64
    """Number of the batch, 0, 1, ... in order of kernels; -1 = none."""


def in_batches(trace: TraceTable, chains: Chains, chain: Int64, states: Bool, words: Words) -> Batched:
    """Returns the kernels with their coalesced collectives.

    ``chain`` is the chain that launched each kernel (-1 = none), ``states`` marks kernels with metadata of their own, which
    keep it. With several kernels in a batch their roles are unknown: the first one stands for all calls.
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
    """Position of the next row of the same track with a break, for rows in order of time; -1 = none."""
    order = stable_order(track)
    marks = np.where(breaks[order], np.arange(len(order)), len(order))
    after = np.append(np.minimum.accumulate(marks[::-1])[::-1], len(order))[1:]
    found = np.append(order, MISSING)[after]
    found = np.where(np.append(track, MISSING)[found] == track[order], found, MISSING)
    result = np.empty(len(order), np.int64)
    result[order] = found
    return result
