"""Parts of a graph that repeat, as the layers of a model do: found from the names of what it runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

SHORTEST = 4
"""Fewer nodes than that repeat by chance."""
LEAST_COVERED = 0.5
"""A part that covers less of the graph is none."""
_LENGTHS_TRIED = 32
"""Lengths that are tried: the distances at which most nodes come back."""


@dataclass(frozen=True)
class Repeated:
    """A part of a sequence: ``count`` times ``length`` places from ``begin`` on."""

    begin: int
    length: int
    count: int

    @property
    def end(self) -> int:
        """Returns the place behind the last one."""
        return self.begin + self.length * self.count


def repeated_part(token: npt.NDArray[np.integer], weight: Int64) -> Repeated | None:
    """Returns the repetition that covers most of a sequence, of several the one with the shortest part; None = none.

    Where it may begin at several places, it begins where it has most weight, of equal ones at the first.
    """
    best: Repeated | None = None
    for length in _lengths(token):
        begin, run = _longest_run(token[length:] == token[:-length])
        found = Repeated(begin, length, run // length + 1)
        if found.count > 1 and (best is None or found.end - found.begin > best.end - best.begin):
            best = found
    enough = best is not None and best.end - best.begin >= LEAST_COVERED * len(token)
    return _heaviest(token, best, weight) if best is not None and enough else None


def _heaviest(token: npt.NDArray[np.integer], part: Repeated, weight: Int64) -> Repeated:
    _, run = _longest_run(token[part.length :] == token[: -part.length])
    until = np.append(0, np.cumsum(weight))
    begins = part.begin + np.arange(run % part.length + 1)
    shares = until[begins + part.length * part.count] - until[begins]
    return Repeated(int(begins[np.argmax(shares)]), part.length, part.count)


def _lengths(token: npt.NDArray[np.integer]) -> list[int]:
    """Distances between places that hold the same, ascending."""
    order = np.argsort(token, kind="stable")
    apart = np.diff(order)[token[order][1:] == token[order][:-1]]
    apart = apart[apart >= SHORTEST]
    count = np.bincount(apart)
    known = np.flatnonzero(count)
    common = known[np.argsort(-count[known], kind="stable")[:_LENGTHS_TRIED]]
    return sorted(common.tolist())


def _longest_run(flags: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Where the longest run of true flags begins, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(edges[2 * longest]), int(lengths[longest])
