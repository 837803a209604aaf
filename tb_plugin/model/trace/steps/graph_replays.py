"""Steps between graph replays.

The same kernel launches follow most replays. Some of these launches end a step (sampling), and others begin the
next step (preparing inputs). The border between two steps is at the longest CPU pause among these launches. If the
same launches occur elsewhere in the trace, a step ends at them too, even if the step contains no replay.
"""

from __future__ import annotations

import numpy as np

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.launches import Launches
from tb_plugin.model.trace.periodicity import STANDS_OUT, Words, standing_out

# The same launches must occur between at least this many pairs of replays, and between half of all pairs.
FEWEST = 3
# A stretch without a replay is a step if it has at least this share of the kernels of a replay.
SHARE = 0.5


def between_replays(launches: Launches, replays: Int64) -> tuple[Int64, Int64] | None:
    """Returns the start and end of each step on the CPU; None if they cannot be derived from the launches."""
    at = np.searchsorted(launches.row, replays)
    if at[-1] >= len(launches.row) or (launches.row[at] != replays).any():
        return None
    # All graphs are treated as equal.
    tokens = launches.token.copy()
    tokens[at] = tokens.max() + 1
    words = Words(tokens)
    begin, length = at[:-1] + 1, np.diff(at) - 1
    _, which, often = np.unique(words.of(begin, at[1:]), return_inverse=True, return_counts=True)
    usual = which == often.argmax()
    count, size = int(often.max()), int(length[usual][0])
    if not size or count < FEWEST or 2 * count < len(which):
        return None
    border, second = standing_out(np.median(launches.pause[begin[usual][:, None] + np.arange(size + 1)], axis=0))
    if border < 0:
        return None
    return _Borders(launches, tokens, words, at, int(begin[usual][0]), size, border, STANDS_OUT * second).steps()


class _Borders:
    def __init__(
        self,
        launches: Launches,
        tokens: Int64,
        words: Words,
        at: Int64,
        usual: int,
        size: int,
        border: int,
        least_pause: float,
    ) -> None:
        self._launches, self._words, self._at = launches, words, at
        self._usual, self._size, self._border = usual, size, border
        self._is_border = np.zeros(len(tokens) + 1, np.bool_)
        self._paused = np.append(launches.pause >= least_pause, True)
        self._paused[0] = True

    def _same(self, at: Int64, begin: int, end: int) -> Bool:
        count = len(self._is_border) - 1
        inside = (at >= 0) & (at + end - begin <= count)
        place = np.where(inside, at, 0)
        stop = np.where(inside, at + end - begin, 0)
        own = self._words.of(np.array([self._usual + begin]), np.array([self._usual + end]))[0]
        same: Bool = inside & (self._words.of(place, stop) == own)
        return same

    def steps(self) -> tuple[Int64, Int64]:
        at, count = self._at, len(self._is_border) - 1
        # Borders directly after a replay and directly before one.
        tail = at + 1 + self._border
        ended = self._same(at + 1, 0, self._border)
        ended[ended] &= self._paused[tail[ended]]
        head = at - (self._size - self._border)
        begun = self._same(head, self._border, self._size)
        begun[begun] &= self._paused[head[begun]]
        # Borders at all other occurrences.
        every = self._words.places(self._usual, self._size) + self._border
        self._is_border[every[self._paused[every]]] = True
        self._is_border[tail[ended]] = True
        first = np.where(begun, head, at)
        self._is_border[first] = True
        # Between two replays, a border counts only if both of its sides were recognized.
        sure = np.append(ended[:-1] & begun[1:], ended[-1])
        after = np.append(first[1:], count)
        for i in np.flatnonzero(~sure).tolist():
            self._is_border[at[i] + 1 : after[i]] = False
        if not begun[0]:
            self._is_border[: first[0]] = False
        return self._step_bounds(first, bool(ended[-1]))

    def _step_bounds(self, first: Int64, ended: bool) -> tuple[Int64, Int64]:
        at, count = self._at, len(self._is_border) - 1
        kernels = np.concatenate(([0], np.cumsum(self._launches.count)))
        least = SHARE * float(np.median(self._launches.count[at]))
        begin = np.flatnonzero(self._is_border[:count])
        stop = np.append(begin[1:], count)
        is_step = np.isin(begin, first) | (kernels[stop] - kernels[begin] >= least)
        if begin[-1] == first[-1]:
            complete = ended
        else:
            tail = np.array([count - self._border])
            complete = is_step[-1] and self._border > 0 and bool(self._same(tail, 0, self._border)[0])
        # An incomplete last step is dropped; its start ends the previous step.
        is_step[-1] = True
        borders = np.append(begin[is_step], count) if complete else begin[is_step]
        times = np.append(self._launches.start, self._launches.last_end)[borders]
        return times[:-1], times[1:]
