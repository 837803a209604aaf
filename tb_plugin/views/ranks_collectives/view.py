"""View of all flight recorders: missing, differing and unfinished collectives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part, answer_view
from tb_plugin.analysis.flight_recorder.calls import (
    calls_of,
    columns_of,
    group_text,
    members_of,
    ranks_text,
    redundant_group_column,
)
from tb_plugin.analysis.flight_recorder.headline import answer_notices
from tb_plugin.analysis.flight_recorder.metrics import METRICS
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.skipped_workers import left_out
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.flight_recorder import Flight
from tb_plugin.payloads import CoverageInfo, Figures, Notice, Notices, Payload, Table, View
from tb_plugin.views.ranks_collectives import VIEW
from tb_plugin.views.ranks_collectives.matching import (
    DIFFERS,
    FINISHED,
    NOT_CALLED,
    UNFINISHED,
    VERDICTS,
    Matched,
    differences,
    listed_workers,
    match_ranks,
)

_PART = ("record_number", "group", "group_description", "sequence", "collective", "call_input_sizes", "call_output_sizes",
         "call_types", "call_finished", "called_at_ns", "call_line")  # fmt: skip
_CALLS = "rank_calls"
_MEMBERS = "group_members"
_OVERWRITTEN = "flight.overwritten_calls"
# maximum number of differing collectives with details
_MAX_DETAILED = 1000
# replaces "finished" if group members have no dump
FINISHED_LOCALLY = "finished here"
# name and description of a process group
_Group = tuple[str | None, str | None]
_RANK = re.compile(r"rank(\d{1,6})\Z")


class RanksCollectives(DeclaredView, entry=VIEW):
    """Compares all flight recorders of a run."""

    def part_key(self, params: Params) -> tuple[object, ...]:
        return ()

    def part(self, flight: Flight, params: Params) -> Part:
        """Returns the collectives of one rank, by the clock of this rank, and the members of the rank's groups."""
        data = calls_of(flight)
        data = data.append_column("called_at_ns", pc.add(data["call_created_ns"], flight.origin_ns)).select(_PART)
        data = data.filter(pc.is_valid(data["sequence"]))
        members = [(*key, rank) for key, ranks in members_of(flight).items() for rank in ranks]
        columns = list(zip(*members, strict=True)) or [(), (), ()]
        kinds = {"group": pa.large_string(), "group_description": pa.large_string(), "source_rank": pa.int64()}
        known = pa.table({key: pa.array(column, kinds[key]) for key, column in zip(kinds, columns, strict=True)})
        frames = {
            _CALLS: Frame(_CALLS, "Collectives", METRICS.columns(*_PART), data, ("record_number",), "collective"),
            _MEMBERS: Frame(_MEMBERS, "Members", METRICS.columns(*kinds), known, tuple(kinds), "group"),
        }
        facts = {_OVERWRITTEN: flight.overwritten}
        return Part(CoverageInfo(complete=flight.report.complete), facts, frames, {}, (_CALLS,))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        workers = [part.worker for part in parts]
        place = {int(match[1]): i for i, worker in enumerate(workers) if (match := _RANK.search(worker))}
        members, without = _members(parts, place)
        found = match_ranks([part.frames[_CALLS].data for part in parts], members)
        without_dump = _ranks_without_dump(found, without)
        absent = tuple(sorted(set().union(*without.values())))
        frames = {each.name: each for each in (_collectives(found, workers, without_dump), _progress(found, workers))}
        payloads: dict[str, Payload] = {}
        if params.table is None:
            payloads["answer"] = answer_notices([*_answer(found, workers, without_dump)])
            payloads["headline"] = _headline(found, workers, absent)
            if notes := [*left_out(params, METRICS), *_notes(workers, absent)]:
                payloads["data_quality"] = Notices("data_quality", "About these numbers", "data", notes)
        coverage = CoverageInfo(complete=all(each.coverage.complete for each in parts))
        return answer_view(self, Part(coverage, {}, frames, payloads, (*payloads, *frames)), params)


def _members(parts: Sequence[Part], place: dict[int, int]) -> tuple[dict[_Group, Int64], dict[_Group, tuple[int, ...]]]:
    """Returns the workers of each group whose ring buffer contains all calls of the group, and the ranks without a
    dump.
    """
    ranks: dict[_Group, set[int]] = {}
    for part in parts:
        data = part.frames[_MEMBERS].data
        for *key, rank in zip(*(column.to_pylist() for column in data.columns), strict=True):
            ranks.setdefault((key[0], key[1]), set()).add(rank)
    # If the ring buffer wrapped, earlier calls of the rank are overwritten.
    whole = {i for i, part in enumerate(parts) if not part.facts[_OVERWRITTEN]}
    found = {
        key: np.array(sorted(place[rank] for rank in each if rank in place and place[rank] in whole), np.int64)
        for key, each in ranks.items()
    }
    return found, {key: tuple(sorted(each - place.keys())) for key, each in ranks.items() if place}


def _ranks_without_dump(found: Matched, without: Mapping[_Group, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    codes, first = np.unique(found.group, return_index=True)
    calls = found.calls.take(pa.array(found.usual[first]))
    names = zip(*(calls[key].to_pylist() for key in ("group", "group_description")), strict=True)
    return {code: without.get(name, ()) for code, name in zip(codes.tolist(), names, strict=True)}


def _collectives(found: Matched, workers: Sequence[str], without_dump: Mapping[int, tuple[int, ...]]) -> Frame:
    """Returns the table of collectives.

    Collectives with differing or missing calls come first, then unfinished collectives, both in time order.
    Finished collectives come last, latest first.
    """
    rank = {DIFFERS: 0, NOT_CALLED: 0, UNFINISHED: 1, FINISHED: 2}
    severity = np.array([rank[code] for code in range(len(VERDICTS))])[found.verdict]
    at = np.arange(len(found))
    order = np.lexsort((np.where(severity == 2, -at, at), severity))
    usual = found.calls.take(pa.array(found.usual[order]))
    detailed = order[severity[order] == 0][:_MAX_DETAILED].tolist()
    rest: list[str | None] = [None] * (len(order) - len(detailed))
    texts = {
        "differs_in": [differences(found, row) or None for row in detailed],
        "missing_names": [listed_workers(workers, found.missing_ranks(row)) or None for row in detailed],
        "differing_names": [listed_workers(workers, found.differing_ranks(row)) or None for row in detailed],
    }
    absent = [without_dump[code] for code in found.group[order].tolist()]
    verdicts = [
        FINISHED_LOCALLY if code == FINISHED and ranks else VERDICTS[code]
        for code, ranks in zip(found.verdict[order].tolist(), absent, strict=True)
    ]
    begin = int(found.first_ns[found.first_ns > 0].min(initial=np.iinfo(np.int64).max))
    known = found.first_ns[order] > 0
    columns = {
        "group": usual["group"],
        "group_description": usual["group_description"],
        "sequence": usual["sequence"],
        "call_part": pa.array(found.part[order]),
        "collective": usual["collective"],
        "call_verdict": pa.array(verdicts, pa.large_string()),
        **{key: pa.array([*each, *rest], pa.large_string()) for key, each in texts.items()},
        "absent_names": pa.array([ranks_text(ranks) or None for ranks in absent], pa.large_string()),
        "ranks_called": pa.array(found.called[order]),
        "ranks_finished": pa.array(found.finished[order]),
        "ranks_missing": pa.array(found.missing[order]),
        "ranks_differing": pa.array(found.differing[order]),
        "first_called_ns": pa.array(found.first_ns[order] - begin, mask=~known),
        "arrival_spread_ns": pa.array(found.last_ns[order] - found.first_ns[order], mask=~known),
        "call_line": usual["call_line"],
        "call_input_sizes": usual["call_input_sizes"],
        "call_output_sizes": usual["call_output_sizes"],
        "call_types": usual["call_types"],
    }
    redundant = redundant_group_column(found.calls)
    hidden = (*redundant, "call_part", "call_output_sizes", "ranks_missing", "ranks_differing")
    data, keys = pa.table(columns), ("group", "group_description", "sequence", "call_part")
    return Frame("matched_collectives", "Collectives", columns_of(data, hidden), data, keys, "collective")


def _progress(found: Matched, workers: Sequence[str]) -> Frame:
    """Returns the progress of each rank in each group. The rank that is furthest behind comes first."""
    lag = found.progress
    groups = int(lag.group.max(initial=-1)) + 1
    top, bottom = np.full(groups, -1, np.int64), np.full(groups, np.iinfo(np.int64).max)
    np.maximum.at(top, lag.group, lag.last)
    called = lag.first >= 0
    np.minimum.at(bottom, lag.group[called], lag.first[called])
    # A rank without calls misses all recorded numbers.
    behind = top[lag.group] - np.where(lag.last < 0, bottom[lag.group] - 1, lag.last)
    order = np.lexsort((lag.rank, lag.group, -behind))
    usual = found.calls.take(pa.array(lag.call[order]))
    last, finished, first = lag.last[order], lag.finished[order], lag.first[order]
    columns = {
        "worker": pa.array([workers[rank] for rank in lag.rank[order].tolist()], pa.large_string()),
        "group": usual["group"],
        "group_description": usual["group_description"],
        "behind_sequences": pa.array(behind[order]),
        "last_sequence": pa.array(last, mask=last < 0),
        "finished_sequence": pa.array(finished, mask=finished < 0),
        "unfinished_calls": pa.array(lag.unfinished[order]),
        "first_sequence": pa.array(first, mask=first < 0),
    }
    data, keys = pa.table(columns), ("worker", "group", "group_description")
    return Frame("rank_progress", "Ranks", columns_of(data, redundant_group_column(found.calls)), data, keys, "worker")


def _headline(found: Matched, workers: Sequence[str], absent: tuple[int, ...]) -> Figures:
    wrong = int(np.isin(found.verdict, (NOT_CALLED, DIFFERS)).sum())
    figures = [
        METRICS.figure("workers", len(workers), "Ranks"),
        METRICS.figure("matched_count", len(found)),
        METRICS.figure("wrong_collectives", wrong),
        METRICS.figure("unfinished_collectives", int((found.finished < found.called).sum())),
    ]
    if absent:
        figures.append(METRICS.figure("ranks_absent", len(absent)))
    return Figures("headline", "All ranks", "", figures, "headline")


def _answer(found: Matched, workers: Sequence[str], without_dump: Mapping[int, tuple[int, ...]]) -> Iterator[Notice]:
    """Yields the finding about the hang.

    The finding describes the first missing or differing collective in which ranks wait. Without such a collective,
    the finding describes the first unfinished collective.
    """
    waiting = found.called - found.finished
    wrong = np.isin(found.verdict, (NOT_CALLED, DIFFERS))
    for rows in (wrong & (waiting > 0), found.verdict == UNFINISHED, wrong):
        if rows.any():
            row = int(np.flatnonzero(rows)[0])
            yield _hang_notice(found, row, workers, without_dump[int(found.group[row])])
            return
    if len(found):
        text = "All {matched_count} collectives match and are finished on the {workers} loaded ranks."
        figures = [METRICS.figure("matched_count", len(found)), METRICS.figure("workers", len(workers))]
        yield Notice("flight_alike", "info", text if len(workers) > 1 else _ONE_RANK_TEXT, "", figures)


_ONE_RANK_TEXT = "All {matched_count} collectives of the only loaded rank are finished."
_GROUP = "{collective} number {sequence} of group {group}"


def _hang_notice(found: Matched, row: int, workers: Sequence[str], without_dump: tuple[int, ...]) -> Notice:
    """Returns the finding about a collective. ``without_dump`` contains the ranks of the group that have no dump."""
    call = found.calls.take(pa.array([found.usual[row]])).to_pylist()[0]
    waiting = int(found.called[row] - found.finished[row])
    figures = [
        METRICS.figure("collective", call["collective"]),
        METRICS.figure("sequence", int(found.sequence[row])),
        METRICS.figure("group", group_text(call)),
        METRICS.figure("ranks_waiting", waiting),
    ]
    waits = f"; {{ranks_waiting}} {plural(waiting, 'rank waits', 'ranks wait')}" if waiting else ""
    line = ""
    if call["call_line"]:
        figures.append(METRICS.figure("call_line", call["call_line"]))
        line = ", which other ranks called in {call_line}"
    unknown = ""
    if without_dump:
        figures.append(METRICS.figure("absent_names", ranks_text(without_dump)))
        unknown = (
            f" There is no dump of {plural(len(without_dump), 'rank', 'ranks')} {{absent_names}}, so it is unknown "
        )
        unknown += f"whether {plural(len(without_dump), 'this rank', 'these ranks')} called the collective."
    verdict = int(found.verdict[row])
    if verdict == NOT_CALLED:
        ranks = found.missing_ranks(row)
        figures += [METRICS.figure("missing_names", listed_workers(workers, ranks))]
        text = f"{{missing_names}} did not call {_GROUP}{line}{waits}.{unknown}"
        if waiting:
            todo = "Open the pages of these ranks to see what they called last."
            return Notice("flight_missing", "high", text, todo, figures)
        text = f"{{missing_names}} had not called {_GROUP} when the dump was written; no rank waits for it."
        return Notice("flight_missing", "info", text, "", figures)
    if verdict == DIFFERS:
        ranks = found.differing_ranks(row)
        other = found.calls.take(pa.array(np.flatnonzero((found.of == row) & found.differs)[:1])).to_pylist()[0]
        figures += [
            METRICS.figure("differing_names", listed_workers(workers, ranks)),
            METRICS.figure("differs_in", differences(found, row)),
            METRICS.figure("other_call", _shape_of(other)),
        ]
        text = f"{{differing_names}} called {{other_call}} where most ranks called {_GROUP}{line}. The calls differ in "
        text += f"{{differs_in}}{waits}.{unknown}"
        todo = "Make all ranks call the same collectives in the same order."
        return Notice("flight_differs", "high", text, todo, figures)
    line = line.replace("other ranks", "they")
    who = "All loaded ranks" if without_dump else "All ranks"
    text = f"{who} called {_GROUP}{line}, but the call is not finished on {{ranks_waiting}} of these ranks."
    if without_dump:
        todo = "Find the missing dump: all other ranks may be waiting for that rank."
        return Notice("flight_unfinished_everywhere", "high", f"{text}{unknown}", todo, figures)
    todo = "No rank is missing. Check the devices and the network of these ranks, and earlier work on their streams."
    return Notice("flight_unfinished_everywhere", "high", text, todo, figures)


def _shape_of(call: dict[str, object]) -> str:
    return " ".join(str(call[key]) for key in ("collective", "call_input_sizes", "call_types") if call[key])


def _notes(workers: Sequence[str], absent: tuple[int, ...]) -> Iterator[Notice]:
    if absent:
        text = f"{{ranks_absent}} {plural(len(absent), 'rank has', 'ranks have')} no dump: {ranks_text(absent)}."
        todo = "Put their dumps into the same folder. A rank without a dump may be the rank that hangs or crashed."
        yield Notice("flight_absent", "high", text, todo, [METRICS.figure("ranks_absent", len(absent))])
    elif len(workers) == 1:
        text = "Only one rank is loaded, so nothing can be compared."
        yield Notice("one_worker", "info", text, "Put the dumps of all ranks into one run folder.")
