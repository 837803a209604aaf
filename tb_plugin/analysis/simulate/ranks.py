"""Joint replay of several ranks that wait for each other in collectives."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.simulate.change import Assumption, Change
from tb_plugin.analysis.simulate.dependencies import Waits
from tb_plugin.analysis.simulate.streams import (
    ON_TIME,
    CollectiveEdge,
    Leads,
    Scenarios,
    Streams,
    replayed,
    scenarios_of,
    streams_of,
)
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.table import TraceTable

# Columns of each table of a rank. Columns that end with "_" are repeated for each change.
TABLES: Mapping[str, tuple[str, ...]] = {
    "simulated_work": ("row", "stream", "start_ns", "end_ns", "previous_slack_ns", "less_ns_", "limit_ns_"),
    "simulated_joins": ("join", "source", "join_ns"),
    "simulated_waits": (
        "wait_start_ns",
        "wait_end_ns",
        "done_ns",
        "awaited",
        "awaited_slack_ns",
        "at_wait_ns_",
        "is_gone_",
    ),
    "simulated_turns": ("turn",),
    "simulated_ends": ("devices", "is_complete", "first_ns", "last_ns", "host_end_ns", "at_end_ns_", "has_work_"),
}


class Rank(msgspec.Struct, frozen=True, eq=False):
    """One rank, its changes, and the work that it shares with other ranks."""

    scenarios: Scenarios
    host_end_ns: int
    shared_work: Int64
    """Indices of work that other ranks take part in."""
    match: Int64
    """Number of the collective of each ``shared_work``: the same on all of its ranks."""


def rank_tables(trace: TraceTable, changes: Sequence[Change | None]) -> dict[str, pa.Table]:
    """Returns the tables of one rank. Column 0 is the unchanged program. None: the rank has no such work.

    Only the device with most work is replayed; ``devices`` is the number of devices with work.
    """
    steps = trace.steps
    devices = trace.device[covered_work(trace)]
    device = int(np.bincount(devices).argmax()) if len(devices) else 0
    streams = streams_of(trace, device, int(steps.host_start_ns[0]), int(steps.host_end_ns[-1]), Assumption.EXPECTED)
    every = [Change(), *(change or Change() for change in changes)]
    made = scenarios_of(Assumption.EXPECTED, trace, streams, every, steps)
    waits = streams.waits
    columns = {
        "row": streams.row,
        "stream": streams.stream,
        "start_ns": streams.start_ns,
        "end_ns": streams.end_ns,
        "previous_slack_ns": streams.previous_slack_ns,
        "less_ns_": made.less_ns[:, :-1],
        "limit_ns_": made.limit_ns,
        "join": streams.join,
        "source": streams.source,
        "join_ns": streams.join_ns,
        "wait_start_ns": waits.start_ns,
        "wait_end_ns": waits.end_ns,
        "done_ns": waits.done_ns,
        "awaited": streams.awaited[:, 0],
        "awaited_slack_ns": streams.awaited_slack_ns[:, 0],
        "at_wait_ns_": made.at_wait_ns,
        "is_gone_": made.is_gone,
        "turn": streams.turn,
        "devices": [len(np.unique(devices))],
        "is_complete": [trace.report.complete],
        "first_ns": [streams.first_ns],
        "last_ns": [streams.last_ns],
        "host_end_ns": [int(steps.host_end_ns[-1])],
        "at_end_ns_": made.at_end_ns[:, None],
        "has_work_": np.array([[True], *([change is not None] for change in changes)]),
    }
    found = {}
    for name, keys in TABLES.items():
        table: dict[str, pa.Array] = {}
        for key in keys:
            values = np.asarray(columns[key])
            if key.endswith("_"):
                table |= {f"{key}{i}": pa.array(each) for i, each in enumerate(values)}
            else:
                table[key] = pa.array(values)
        found[name] = pa.table(table)
    return found


def rank_of(tables: Mapping[str, pa.Table], match_of_row: Mapping[int, int], change_of: Sequence[int]) -> Rank:
    """Returns a rank from its tables. ``change_of`` selects the change of each scenario (0 = no change)."""

    def one(key: str) -> Int64:
        table = next(tables[name] for name, keys in TABLES.items() if key in keys)
        found: Int64 = table[key].to_numpy()
        return found

    def each(key: str) -> Int64:
        table = next(tables[name] for name, keys in TABLES.items() if key in keys)
        return np.stack([table[f"{key}{i}"].to_numpy() for i in change_of])

    row, none = one("row"), np.empty(0, np.int64)
    waits = Waits(none, one("wait_start_ns"), one("wait_end_ns"), none, one("done_ns"))
    streams = Streams(
        row, one("stream"), one("start_ns"), one("end_ns"), none, none, none, one("previous_slack_ns"),
        none.astype(np.bool_), none, one("turn"), one("join"), one("source"), one("join_ns"), waits,
        one("awaited")[:, None], one("awaited_slack_ns")[:, None], int(one("first_ns")[0]), int(one("last_ns")[0]),
    )  # fmt: skip
    less = np.append(each("less_ns_"), np.zeros((len(change_of), 1), np.int64), axis=1)
    made = Scenarios(
        streams,
        less,
        each("limit_ns_"),
        each("at_wait_ns_"),
        each("is_gone_").astype(np.bool_),
        each("at_end_ns_")[:, 0],
    )
    match = np.array([match_of_row.get(each, -1) for each in row.tolist()], np.int64)
    shared = np.flatnonzero(match >= 0)
    return Rank(made, int(one("host_end_ns")[0]), shared, match[shared])


def joint_savings(ranks: Sequence[Rank]) -> Int64:
    """Returns how much earlier each rank ends with each change than without, in nanoseconds: (ranks, changes).

    The first scenario of each rank is no change.
    """
    leads = _joint_leads(ranks)
    ends = np.stack(
        [
            np.maximum(rank.host_end_ns - lead.host[0], rank.scenarios.work.last_ns - lead.device[0])
            for rank, lead in zip(ranks, leads, strict=True)
        ]
    )
    found: Int64 = ends[:, :1] - ends[:, 1:]
    return found


Replay = Generator[CollectiveEdge, Int64 | None, Leads]


class _Collective:
    """Ranks of a collective that have started it, by the end of the collective on each rank."""

    def __init__(self) -> None:
        self.missing = 0
        # Relative to the end of the collective: the negative duration on each rank.
        self.recorded_arrivals: list[int] = []
        self.arrivals: list[Int64] = []
        self.less: list[Int64] = []

    @property
    def lead(self) -> Int64:
        """Returns the lead of the end: the lead of the last arrival plus the reduction of its transfer."""
        last = int(np.argmax(self.recorded_arrivals))
        latest = np.max(self.arrivals, axis=0)
        found: Int64 = self.recorded_arrivals[last] - latest + self.less[last]
        return found


def _joint_leads(ranks: Sequence[Rank]) -> list[Leads]:
    collectives: dict[int, _Collective] = {}
    for rank in ranks:
        for number in rank.match.tolist():
            collectives.setdefault(number, _Collective()).missing += 1
    numbers = [dict(zip(rank.shared_work.tolist(), rank.match.tolist(), strict=True)) for rank in ranks]
    replays: list[Replay] = [replayed(rank.scenarios, ON_TIME, rank.shared_work.tolist()) for rank in ranks]
    found: dict[int, Leads] = {}
    waiting: dict[int, CollectiveEdge] = {}
    ready: deque[tuple[int, Int64 | None]] = deque((place, None) for place in range(len(ranks)))
    while ready or waiting:
        if not ready:  # a call of another rank is missing
            place = min(waiting)
            ready.append((place, waiting.pop(place).lead_ns))
        place, answer = ready.popleft()
        scenarios = ranks[place].scenarios
        try:
            while True:
                edge = replays[place].send(answer)
                answer = None
                number = numbers[place][edge.work]
                collective = collectives[number]
                if edge.is_end:
                    if collective.missing:
                        waiting[place] = edge
                        break
                    answer = collective.lead
                    continue
                took = int(scenarios.work.end_ns[edge.work] - scenarios.work.start_ns[edge.work])
                collective.missing -= 1
                collective.recorded_arrivals.append(-took)
                collective.arrivals.append(-took - edge.lead_ns)
                collective.less.append(scenarios.less_ns[:, edge.work])
                if not collective.missing:
                    for other in [each for each, at in waiting.items() if numbers[each][at.work] == number]:
                        del waiting[other]
                        ready.append((other, collective.lead))
        except StopIteration as done:
            found[place] = done.value
    return [found[place] for place in range(len(ranks))]
