"""Steps from repetition: graph replays, or a repeated sequence of launches.

This source is used only if the trace launches graphs, or comes from an inference server or an image pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.recorder import Recorder
from tb_plugin.model.trace.rows import Rows
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, CallRole, EventKind
from tb_plugin.model.trace.served_work import Served
from tb_plugin.model.trace.steps.windows import INFERRED, DeviceWork, find_steps
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import CallNames, Steps

if TYPE_CHECKING:
    from tb_plugin.model.trace.launches import Launches


# Minimum number of repetitions.
REPEATS = 4
# Maximum number of graphs in one iteration.
LONGEST = 256
# Minimum device work per graph (mean), or launches per sequence. Smaller ones are not iterations.
LEAST_WORK = 8
# The repetitions must contain more than this share of all launches.
MOST = 0.5
# An iteration must repeat a part of itself (its layers) this many times in a row. Otherwise it may be a layer itself.
LAYERS = 3

# Why no step was inferred: no repetition, a possible layer, or an unknown step border.
RARE, LAYER, BEGIN = "rare", "layer", "begin"


def inferred_steps(
    rows: Rows, calls: CallNames, launch: Int32, work: DeviceWork, strings: StringTable, recorder: Recorder
) -> Steps:
    """Returns inferred steps, or, if they are uncertain, no steps and the reason in ``Steps.unanswered``."""
    if len(work.start_ns) < REPEATS * LEAST_WORK:
        return Steps()
    replays = _replays(rows, calls)
    by_graphs = _by_graphs(rows, replays, launch, work, strings)
    if by_graphs is not None:
        return by_graphs
    from tb_plugin.model.trace.launches import launches_of, matching

    if not len(replays) and not matching(strings.array, recorder.iterating).any():
        return Steps()
    told = np.unique(rows.name[rows.of(EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.KERNEL)])
    if matching(strings.take(told), recorder.operators.learning).any():
        return Steps()
    launches = launches_of(rows, launch, strings)
    found = RARE if launches is None else _by_launches(launches)
    return Steps(unanswered=found) if isinstance(found, str) else _steps(*found, work, whole=True)


def _steps(begin: Int64, end: Int64, work: DeviceWork, *, whole: bool) -> Steps:
    labels = [str(number + 1) for number in range(len(begin))]
    unknown = Served.unknown(len(labels))
    return find_steps(labels, begin, end, work, found=INFERRED, served=unknown, whole=whole)


def _replays(rows: Rows, calls: CallNames) -> Int64:
    names = calls.name[calls.role == CallRole.GRAPH]
    runtime = rows.of(EventKind.RUNTIME) if len(names) else np.empty(0, np.int64)
    return runtime[np.isin(rows.name[runtime], names)]


def _by_graphs(rows: Rows, replays: Int64, launch: Int32, work: DeviceWork, strings: StringTable) -> Steps | None:
    if len(replays) < REPEATS:
        return None
    replays = replays[rows.track[replays] == np.bincount(rows.track[replays]).argmax()]
    by = launch[rows.of(*DEVICE_WORK)]
    count = np.bincount(by[by != MISSING], minlength=len(rows.start))[replays]
    replays, count = replays[count > 0], count[count > 0]
    period = _period(count)
    if not period or count.mean() < LEAST_WORK:
        return None
    if period == 1:
        from tb_plugin.model.trace.launches import launches_of
        from tb_plugin.model.trace.steps.graph_replays import between_replays

        launches = launches_of(rows, launch, strings, int(rows.track[replays[0]]))
        found = None if launches is None else between_replays(launches, replays)
        if found is not None:
            return _steps(*found, work, whole=True)
    begin = rows.start[replays[::period]]
    # The last iteration is dropped: its end is unknown.
    return _steps(begin[:-1], begin[1:], work, whole=False)


def _period(count: Int64) -> int:
    for period in range(1, min(LONGEST, len(count) // REPEATS) + 1):
        if (count[period:] == count[:-period]).all():
            return period
    return 0


def _by_launches(launches: Launches) -> tuple[Int64, Int64] | str:
    from tb_plugin.model.trace.periodicity import SEARCHED, Words, likely_periods, periodic_runs, root, standing_out

    tokens = launches.token
    offset = max(0, len(tokens) - SEARCHED)
    steady, words, why = tokens[offset:], Words(tokens), RARE
    for period in likely_periods(steady, REPEATS):
        begin, length = periodic_runs(steady, period)
        if not len(begin) or (length.max() // period + 1) < REPEATS:
            continue
        at, length_of = int(begin[length.argmax()]) + offset, int(length.max())
        period = root(tokens[at : at + period])
        if period < LEAST_WORK:
            continue
        if len(_disjoint(words.places(at, period), period)) * period <= MOST * len(tokens):
            continue
        times = length_of // period + 1
        pauses = np.median(launches.pause[at : at + times * period].reshape(times, period), axis=0)
        cut = at + int(pauses.argmax())
        if not _has_layers(tokens[cut : cut + period]):
            why = LAYER if why == RARE else why
            continue
        if standing_out(pauses)[0] < 0:
            why = BEGIN
            continue
        # Sequences now start at the longest pause.
        return _bounds(launches, _disjoint(words.places(cut, period), period), period)
    return why


def _has_layers(word: Int64) -> bool:
    from tb_plugin.model.trace.periodicity import likely_periods, periodic_runs

    for period in likely_periods(word, LAYERS):
        begin, length = periodic_runs(word, period)
        many = length >= (LAYERS - 1) * period
        apart = [at for at in begin[many].tolist() if (word[at : at + period] != word[at]).any()]
        covered = int((length + period)[many & np.isin(begin, apart)].sum())
        if 2 * covered >= len(word):
            return True
    return False


def _disjoint(places: Int64, length: int) -> Int64:
    kept, free = [], 0
    for place in places.tolist():  # each iteration depends on the previous one
        if place >= free:
            kept.append(place)
            free = place + length
    return np.array(kept, np.int64)


def _bounds(launches: Launches, places: Int64, period: int) -> tuple[Int64, Int64]:
    begin = np.append(launches.start, launches.last_end)
    follows, ends = np.append(places[1:], len(launches.start)), places + period
    eager = (2 * (follows - ends) >= period)[:-1]
    # Short rests between sequences are added to the previous step. The rest after the last sequence is dropped.
    end = np.where(np.append(eager, True), begin[ends], begin[follows])
    starts = np.concatenate((begin[places], begin[ends[:-1][eager]]))
    stops = np.concatenate((end, begin[follows[:-1][eager]]))
    order = np.argsort(starts, kind="stable")
    return starts[order], stops[order]
