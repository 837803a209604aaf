"""Collectives of one worker, as columns."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.bus_bandwidth import has_larger_side
from tb_plugin.analysis.collective_names import BATCH_END, NOT_COLLECTIVE
from tb_plugin.analysis.communication import BACKEND, calls_collective, is_communication
from tb_plugin.analysis.dtypes import element_bytes
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group, places_of, side_by_side, stable_order
from tb_plugin.model.trace.links import first_in_process
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.distributed.rank.collective_metadata import MOST_ELEMENTS, CollectiveMetadata, Facts, Words


class Calls(msgspec.Struct, frozen=True, eq=False):
    """Collectives of a worker: one row per collective, sorted by start, then longest first.

    Unknown values are -1.
    """

    row: Int64
    """Row of the trace: a kernel or a host call. Coalesced collectives have the same row."""
    step: Int64
    """Index into the steps of the trace."""
    metadata: CollectiveMetadata
    elements: Int64
    bytes: Int64
    issued_ns: Int64
    batch: Int64
    words: Words

    def __len__(self) -> int:
        return len(self.row)


def calls_of(trace: TraceTable) -> Calls:
    """Returns all collectives in a trace.

    Each communication kernel is a collective. A coalesced kernel becomes one row per collective. Collectives without
    kernels are host calls: on the process group's thread (``gloo:all_reduce``), otherwise operators
    (``c10d::allreduce_``).
    """
    words = Words()
    facts = Facts(trace, words)
    chains = chains_of(trace, facts)
    found = _on_device(trace, facts, chains, words).concatenate(_on_host(trace, chains))
    moves = np.flatnonzero(~np.isin(found.about.collective, words.numbers(sorted(NOT_COLLECTIVE))))
    row = found.row[moves]
    found = found.take(moves[np.lexsort((-trace.dur_ns[row], trace.start_ns[row]))])
    row, elements = found.row, _elements(found.about, words)
    begun = np.where(trace.launch[row] != MISSING, trace.launch[row], found.caller)
    times = np.append(trace.start_ns, MISSING)
    issued = times[np.where((begun == MISSING) & (found.head != row), found.head, begun)]
    return Calls(
        row=row,
        step=np.where(begun != MISSING, trace.steps.at(times[begun], on_host=True), trace.steps.at(times[row])),
        metadata=found.about,
        elements=elements,
        bytes=_bytes(found, elements, words),
        issued_ns=issued,
        batch=found.batch,
        words=words,
    )


class _Found(msgspec.Struct, frozen=True, eq=False):
    row: Int64
    about: CollectiveMetadata
    caller: Int64
    head: Int64
    """Row of the top-level host call: of the collective itself, or of the call that launched its kernel."""
    is_first: Bool
    """Marks the first kernel of each call. The bytes of the call are assigned to it."""
    batch: Int64

    def take(self, places: Int64) -> _Found:
        return _Found(
            self.row[places], self.about.take(places), self.caller[places], self.head[places], self.is_first[places],
            self.batch[places],
        )  # fmt: skip

    def concatenate(self, other: _Found) -> _Found:
        mine, theirs = ((each.row, each.caller, each.head, each.is_first, each.batch) for each in (self, other))
        row, caller, head, is_first, batch = (np.concatenate(pair) for pair in zip(mine, theirs, strict=True))
        return _Found(row, self.about.concatenate(other.about), caller, head, is_first, batch)


def _on_device(trace: TraceTable, facts: Facts, chains: Chains, words: Words) -> _Found:
    row = np.flatnonzero(trace.is_collective & (trace.kind == EventKind.KERNEL))
    caller, chain = callers_of(trace, row, chains)
    about, states = facts.from_arguments(row)
    launched, called = chains.metadata.take(chain), chain != MISSING
    about = about.filled(launched).where(states & called, about).where(states, launched)
    about = about.where(states | called, facts.from_names(row))
    batches = _in_batches(trace, chains, chain, states, words)
    at, other = batches.kernel, batches.stands_for
    about, row, caller, chain = about.take(at), row[at], caller[at], chain[at]
    about = chains.metadata.take(other).where(other != MISSING, about)
    # Kernels without a caller, and each of several coalesced calls, have their own bytes.
    own_bytes = (chain == MISSING) | (other != MISSING)
    columns = about.columns
    key = [columns[name] for name in columns if name not in ("sent", "received")]
    is_first = np.zeros(len(row), np.bool_)
    is_first[group(np.where(own_bytes, len(chains) + np.arange(len(row)), chain), *key).first] = True
    return _Found(row, about, caller, np.append(chains.head, MISSING)[chain], is_first, batches.batch)


def _on_host(trace: TraceTable, chains: Chains) -> _Found:
    """Returns collectives with host time: the innermost call on a process group's thread, or else the top-level
    operator.
    """
    mine = np.flatnonzero(is_communication(trace)[chains.host])
    row, of = chains.host[mine], chains.of[mine]
    first, last = np.full(len(chains), MISSING, np.int64), np.full(len(chains), MISSING, np.int64)
    first[of[::-1]], last[of] = row[::-1], row
    chain = np.flatnonzero(first != MISSING)
    first, last = first[chain], last[chain]
    unique, which = np.unique(trace.name[last], return_inverse=True)
    backend = np.array([BACKEND.match(trace.strings[name]) is not None for name in unique.tolist()], np.bool_)
    row = np.where(backend[which.ravel()], last, first)
    no_caller = np.full(len(row), MISSING, np.int64)
    return _Found(
        row, chains.metadata.take(chain), no_caller, chains.head[chain], np.ones(len(row), np.bool_), no_caller
    )


def _elements(about: CollectiveMetadata, words: Words) -> Int64:
    """Returns the number of elements, defined like the size S in nccl-tests."""
    larger = np.array([*map(has_larger_side, words), False], np.bool_)[about.collective]
    found = np.where(
        larger, np.maximum(about.inside, about.outside), np.where(about.inside >= 0, about.inside, about.outside)
    )
    return np.where((found >= 0) & (found <= MOST_ELEMENTS), found, MISSING)


def _bytes(found: _Found, elements: Int64, words: Words) -> Int64:
    """Returns the number of elements times bytes per element.

    The value is 0 for all kernels of a call except the first.
    """
    size = np.array([*(element_bytes(text) or 0 for text in words), 0], np.int64)[found.about.dtype]
    moved = np.where((size > 0) & (elements >= 0), elements * size, MISSING)
    moved[found.about.collective == words.number("barrier")] = 0
    return np.where(found.is_first | (moved == MISSING), moved, 0)


class Batched(msgspec.Struct, frozen=True, eq=False):
    """Kernels in time order. A kernel that runs several collectives occurs once for each collective."""

    kernel: Int64
    """Index of the kernel."""
    stands_for: Int64
    """Chain of host calls that describes the collective. -1 = the kernel's metadata describes it."""
    batch: Int64
    """Index of the batch, from 0 in order of kernels; -1 = none."""


def _in_batches(trace: TraceTable, chains: Chains, chain: Int64, states: Bool, words: Words) -> Batched:
    """Repeats each kernel once per coalesced collective.

    ``chain`` is the chain of host calls that launched each kernel (-1 = none). ``states`` marks kernels with
    recorded metadata, which does not change. If a batch has several kernels, all collectives of the batch are
    assigned to the first kernel.
    """
    count, every = len(chains), np.arange(len(chain))
    launches = np.zeros(count + 1, np.bool_)
    launches[chain] = True
    collective = chains.metadata.collective
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
    kernel = np.where(silent, speaker[_next_break(trace.track[chains.head], ~silent)], MISSING)
    member = np.flatnonzero(kernel != MISSING)
    member = member[stable_order(kernel[member])]
    times = np.maximum(np.bincount(kernel[member], minlength=len(chain)), 1)
    repeated = np.repeat(every, times)
    stands_for = np.full(len(repeated), MISSING, np.int64)
    stands_for[np.isin(repeated, kernel[member])] = member
    return Batched(repeated, stands_for, batch[chain[repeated]])


def _next_break(track: npt.NDArray[np.signedinteger], breaks: Bool) -> Int64:
    """Returns the index of the next marked row on the same track (-1 = none). Rows must be in time order."""
    order = stable_order(track)
    marks = np.where(breaks[order], np.arange(len(order)), len(order))
    after = np.append(np.minimum.accumulate(marks[::-1])[::-1], len(order))[1:]
    found = np.append(order, MISSING)[after]
    found = np.where(np.append(track, MISSING)[found] == track[order], found, MISSING)
    result = np.empty(len(order), np.int64)
    result[order] = found
    return result


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
