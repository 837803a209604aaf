"""Host calls of collectives: nested calls and launched kernels."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.communication import calls_collective
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.lib.groupby import places_of, side_by_side, stable_order
from tb_plugin.model.trace.links import first_in_process
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.distributed.rank.collective_metadata import CollectiveMetadata, Facts

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Chains(msgspec.Struct, frozen=True, eq=False):
    """Chains of host calls, sorted by row of the top-level call.

    A chain is a top-level collective call together with all collective calls nested in this call.
    """

    host: Int64
    """Rows of the calls of all chains, in time order."""
    of: Int64
    """Chain of each row in ``host``."""
    head: Int64
    """Row of the top-level call of each chain."""
    metadata: CollectiveMetadata
    states: Bool
    """Whether the metadata of each chain is recorded."""

    def __len__(self) -> int:
        return len(self.head)


def closes_batch(trace: TraceTable) -> Bool:
    """Marks the host ranges that end a batch of coalesced calls. Such a range may end long after the batch."""
    return name_matches(trace, trace.recorder.parallel.exchanging)


def chains_of(trace: TraceTable, facts: Facts) -> Chains:
    """Finds the chains of nested collective calls in a trace."""
    host = np.flatnonzero(calls_collective(trace))
    order = stable_order(trace.track[host])
    row = host[order]
    track = trace.track[row]
    start, end = side_by_side((track, trace.start_ns[row]), (track, trace.ends(row)))
    # Ranges that close a batch contain no other calls, however late they end.
    reach = np.maximum.accumulate(np.where(closes_batch(trace)[row], start, end))
    is_head = end > np.append(MISSING, reach)[: len(end)]
    heads = np.flatnonzero(is_head)
    by_row = np.argsort(row[heads])
    number = np.empty(len(heads), np.int64)
    number[by_row] = np.arange(len(heads))
    of = np.empty(len(host), np.int64)
    of[order] = number[np.cumsum(is_head) - 1]
    return Chains(host, of, row[heads[by_row]], *facts.of_chains(host, of, len(heads)))


def callers_of(trace: TraceTable, kernels: Int64, chains: Chains) -> tuple[Int64, Int64]:
    """Returns the host call and the chain that launched each kernel; -1 = none."""
    place = places_of(chains.host, len(trace))
    operator = np.append(trace.operator, MISSING)
    caller = operator[kernels].astype(np.int64)
    while (out := np.flatnonzero((caller != MISSING) & (place[caller] == MISSING))).size:
        caller[out] = operator[caller[out]]
    left = np.flatnonzero(caller == MISSING)
    wanted = trace.external_id[kernels[left]]
    if (process := trace.process) is not None:
        caller[left] = first_in_process(trace.external_id[chains.host], chains.host, wanted, process, kernels[left])
    else:
        known = chains.host[trace.external_id[chains.host] > 0]
        known = known[np.argsort(trace.external_id[known], kind="stable")]
        at = np.append(known, MISSING)[np.searchsorted(trace.external_id[known], wanted, side="right") - 1]
        caller[left] = np.where((at != MISSING) & (np.append(trace.external_id, MISSING)[at] == wanted), at, MISSING)
    return caller, np.append(chains.of, MISSING)[place[caller]]
