"""What the numbers of the workers say: who is late, what the others lose to it, and what cannot be known."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.communication import COMMUNICATION_SHARE, SEND_LESS
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.skipped_workers import LeftOut, failed_ranks, left_out
from tb_plugin.lib.groupby import distinct_rows, group_sorted
from tb_plugin.payloads import Notice
from tb_plugin.views.distributed.clock_notices import clock_notices
from tb_plugin.views.distributed.comparable_profiles import not_compared
from tb_plugin.views.distributed.facts import exposed_share, in_steps, total_of
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.matching.keys import numbers_of, texts_of
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.missing_ranks import missing_rank_count, missing_ranks
from tb_plugin.views.distributed.stragglers.findings import straggler_findings, uneven_compute
from tb_plugin.views.distributed.stragglers.report import blame
from tb_plugin.views.distributed.waiting import BOUND, TIMINGS

_NAMED = 3
"""So many workers that lack calls, or were not loaded, are named."""
UNREAD = "What is not loaded is all that is missing: with it nothing would be left open."


def findings(data: JobData, rows: list[Row], held: list[Notice], params: Params) -> list[Notice]:
    """Returns what the numbers of the workers (``rows``, one each) say, with ``held``, what is said of their memory.

    ``params`` name workers that could not be read, and those whose part did not come from elsewhere.
    """
    notices = left_out(params, METRICS, " Waiting and transfer are those of the workers that are here.")
    if refused := params.get("refused"):
        text = f"Computed from the trace here: {refused}."
        notices.append(
            Notice("summary_refused", "info", text, "Nothing is missing; the next time may take as long.", [])
        )
    notices += not_compared(data.left_out)
    bounded, missing = total_of(rows, "bounded"), data.size is not None and data.size > len(data.names)
    here = [METRICS.figure("workers", len(data.names)), METRICS.figure("world_size", data.size)] if missing else []
    present = "{workers} of {world_size} ranks are here."
    if data.world_size is None:
        present = "{workers} of at least {world_size} ranks are here."
    failed = [worker for worker, _ in LeftOut.of(params).failed]
    unread = failed_ranks(failed)
    if data.world_size is not None and missing:
        lacking = "" if unread is None else missing_ranks(data.ranks, data.world_size, unread)
        present = "; ".join(
            [
                "{workers} of {world_size} ranks are here",
                *([f"not loaded: {', '.join(failed[:_NAMED])}{_more(len(failed))}"] if failed else []),
                *([f"without a trace: {lacking}"] if lacking else []),
            ]
        )
        present += "."
    only_unread = unread and missing and missing_rank_count(data.ranks, data.world_size, unread) == 0
    if data.alone:
        known = "urations of collectives include waiting; no bandwidth is claimed."
        text = f"{present.replace(' are ', ' is ', 1)} D{known}" if missing else f"Only one worker is here: d{known}"
        advice = "Put the traces of all ranks into one run folder."
        notices += _unsplit(rows[0], bool(data.stated))
        notices.append(Notice("one_worker", "medium" if missing else "info", text, advice, here))
    if bounded:
        figures = [*here, METRICS.figure("bounded", bounded), METRICS.figure("matched", total_of(rows, "matched"))]
        text = f"{present} " if missing else ""
        unsaid = _bounded_without_group(data)
        lacking = "may lack" if unsaid == bounded else "lack, or may lack," if unsaid else "lack"
        why = ", for not all of them state their group" if unsaid else ""
        text += (
            f"{{bounded}} of {{matched}} matched calls {lacking} a rank of their group{why}: if that one arrived last, the "
            "others waited for it unseen. Waiting is at least, transfer at most and bandwidth at least what is shown."
        )
        todo = UNREAD if only_unread else "Record all ranks to know who arrives last."
        few = _lacking(data)
        if missing:
            text += f" Calls are missing of {few}, too." if few else ""
        else:
            text += f" All ranks are here; calls are missing of {few}." if few else ""
            todo = "Record the same steps on every rank, and see whether these lost events (length of their buffers)."
        notices.append(Notice("bounds", "medium", text, todo, figures))
    elif missing and not data.alone:
        todo = UNREAD if only_unread else "Record all ranks to be sure."
        notices.append(Notice("workers_missing", "low", present, todo, here))
    if inferred := data.seen.data["inferred_group"].drop_null().value_counts().to_pylist():
        text = (
            "{inferred_calls} calls that state no group count as those of {inferred_group}: all ranks are here, and just the "
            "ranks of that group have such calls."
        )
        figures = [
            METRICS.figure("inferred_calls", sum(each["counts"] for each in inferred)),
            METRICS.figure("inferred_group", ", ".join(sorted({each["values"] for each in inferred}))),
        ]
        advice = "Nothing is wrong: see the column Inferred group of the table Single collectives."
        notices.append(Notice("groups_inferred", "info", text, advice, figures))
    if estimated := total_of(rows, "estimated"):
        text = (
            "{estimated} calls lack a worker that probably arrived last: their transfer is estimated from the same "
            "collective where nobody lacks it."
        )
        figures = [METRICS.figure("estimated", estimated)]
        notices.append(Notice("estimated", "low", text, "Record the same steps on every rank.", figures))
    unmatched = total_of(rows, "unmatched")
    if unmatched and not data.alone:
        text = "{unmatched} calls are on one worker only; they are in no waiting, transfer or bandwidth."
        figures = [METRICS.figure("unmatched", unmatched)]
        notices.append(Notice("unmatched", "low", text, "Record the same steps on every rank.", figures))
    if data.alone:
        return notices
    notices += clock_notices(data)
    # Of kernels that are not recorded nobody knows which communication they hide.
    whole = [row for row in rows if row["worker"] not in data.stated.cut]
    told = blame(data)
    late = straggler_findings(told, rows)
    late_ones = {data.names[worker] for worker in told.found.told.tolist()}
    if not late and (uneven := uneven_compute(told, data, rows)) is not None:
        late = [uneven]
    steps = dict(zip(data.names, data.step_counts.tolist(), strict=True))
    means = {str(row["worker"]): _mean_step(row, steps[str(row["worker"])]) for row in in_steps(data, rows)}
    moved = [row for row in whole if not _moved_less(data, row) and row["worker"] not in late_ones]
    return [
        *(late or _waiting([means[str(row["worker"])] for row in whole])),
        *_transferring([means[str(row["worker"])] for row in moved], data.stated.moving_ns),
        *held,
        *notices,
    ]


def _more(count: int) -> str:
    return f" and {count - _NAMED} more" if count > _NAMED else ""


def _bounded_without_group(data: JobData) -> int:
    """How many of the bounded calls are of a group whose size no rank states: nobody knows whether one is missing."""
    seen = data.seen
    bound = seen.waiting.timing == TIMINGS.index(BOUND)
    return int((bound & (numbers_of(seen.data, "ranks_of_group") < 1)).sum())


def _lacking(data: JobData) -> str:
    """Names the workers that lack calls which others of their group have, those that lack most first; empty: nobody knows."""
    seen, one_each = data.seen, data.first_rows
    bound = one_each[seen.waiting.timing[one_each] == TIMINGS.index(BOUND)]
    # Texts by their codes: written out for every call, lists of a thousand ranks are gigabytes.
    ranks, listed = texts_of(seen.data, "group_ranks")
    # Where nobody recorded who is in a group, those that lack its calls may be in none.
    stated = np.array([text != "" for text in listed], np.bool_)[ranks]
    rows = np.flatnonzero(np.isin(seen.match, seen.match[bound]) & stated)
    group = group_sorted(numbers_of(seen.data, "group_code")).of
    called, _ = distinct_rows(group[rows], seen.match[rows])
    calls = np.bincount(called, minlength=int(group.max(initial=-1)) + 1)
    members = group_sorted(group, seen.worker)
    member, have = members.first, np.bincount(members.of[rows], minlength=len(members))
    lacks = np.zeros(len(data.names), np.int64)
    np.add.at(lacks, seen.worker[member], np.maximum(calls[group[member]] - have, 0))
    order = np.argsort(-lacks, kind="stable")[: np.count_nonzero(lacks)].tolist()
    named = ", ".join(data.names[worker] for worker in order[:_NAMED])
    return named + _more(len(order))


def _mean_step(row: Row, count: int) -> Row:
    """The row of a worker with waiting and transfer of its mean step."""
    return {**row, **{key: round(total_of([row], key) / max(count, 1)) for key in ("wait_ns", "transfer_ns")}}


def _waiting(rows: list[Row]) -> list[Notice]:
    """The worker that loses most to waiting, where no single straggler is to blame. Times are those of the mean step."""
    losing = [row for row in rows if _exposed(row) > COMMUNICATION_SHARE and _waits(row)]
    if not losing:
        return []
    worst = max(losing, key=_exposed)
    least, most = _limits(worst)
    text = (
        "In {worker} communication that nothing hides takes {communication_exposed} of the steps, and most of its "
        f"communication is waiting for others ({least}{{wait_ns}} a step, beside {most}{{transfer_ns}} of transfer)."
    )
    todo = (
        "See who arrives last (Caused wait and Arrived last in the table Workers) and why: sending less would not help."
    )
    return [_about("communication_waiting", worst, len(losing), text, todo)]


def _transferring(rows: list[Row], stated: Collection[str]) -> list[Notice]:
    """The median worker where it loses to moving data: of a single one that does nobody knows whether sending less helps.

    Where most calls lack a rank nobody knows it either, but of workers (``stated``) that state for how long data moved.
    """
    # Where no call was matched both are 0, and nothing is known.
    losing = [row for row in rows if _exposed(row) > COMMUNICATION_SHARE and not _waits(row) and _moves(row)]
    if 2 * len(losing) < max(len(rows), 1):
        return []
    middle = sorted(losing, key=_exposed)[len(losing) // 2]
    least, most = _limits(middle)
    text, whose = (
        "In {worker} communication that nothing hides takes {communication_exposed} of the steps.",
        "its communication",
    )
    if len(losing) > 1:
        text, whose = (
            "On {workers} workers communication that nothing hides takes more than a tenth of the steps "
            f"({{communication_exposed}} on the {'one with more of it' if len(losing) == 2 else 'median one of them'}, "
            "{worker}).",
            "the communication of {worker}",
        )
    unknown = str(middle["worker"]) not in stated
    if unknown and 2 * total_of([middle], "bounded") > total_of([middle], "matched"):
        text += (
            f" Of {whose} at least {{wait_ns}} a step is waiting and at most {{transfer_ns}} transfer: most of "
            "these calls lack a rank, so nobody knows how it divides."
        )
        todo = "Record all ranks: only then is it known whether less has to be sent or somebody is late."
        notice = _about("communication_unsplit", middle, len(losing), text, todo)
        return [replace(notice, severity="medium")]
    text += f" Most of {whose} is transfer: {most}{{transfer_ns}} a step, beside {least}{{wait_ns}} of waiting."
    return [_about("communication_transfer", middle, len(losing), text, SEND_LESS[0].upper() + SEND_LESS[1:])]


def _unsplit(row: Row, is_stated: bool) -> list[Notice]:
    """Of one worker alone: that it communicates much, and that nobody knows how much of that is waiting."""
    if _exposed(row) <= COMMUNICATION_SHARE:
        return []
    text = (
        f"In {{worker}} communication that nothing hides takes {{communication_exposed}} of the steps"
        f"{', as the profile states' if is_stated else ''}. How much of it is waiting for other ranks is unknown: they are "
        "not here."
    )
    figures = [
        METRICS.figure("worker", str(row["worker"])),
        METRICS.figure("communication_exposed", _exposed(row)),
    ]
    return [
        Notice(
            "communication_unsplit",
            "medium",
            text,
            "Record all ranks: only then is it known whether less has to be sent or somebody is late.",
            figures,
            "communication_exposed",
            COMMUNICATION_SHARE,
        )
    ]


def _limits(row: Row) -> tuple[str, str]:
    """What stands before waiting and before transfer: limits where calls lack a rank."""
    return ("at least ", "at most ") if total_of([row], "bounded") else ("", "")


def _moved_less(data: JobData, row: Row) -> bool:
    """Whether the worker states that its data moved for less than half of what is, at most, transfer: a rank is missing."""
    moved = data.stated.moving_ns.get(str(row["worker"]))
    return moved is not None and bool(total_of([row], "bounded")) and 2 * moved < total_of([row], "transfer_ns")


def _about(rule: str, row: Row, workers: int, text: str, todo: str) -> Notice:
    share, window = _exposed(row), "mean of the selected steps"
    figures = [
        METRICS.figure("worker", str(row["worker"])),
        METRICS.figure("communication_exposed", share),
        METRICS.figure("wait_ns", total_of([row], "wait_ns"), "Wait per step", window=window),
        METRICS.figure("transfer_ns", total_of([row], "transfer_ns"), "Transfer per step", window=window),
        METRICS.figure("workers", workers, "Workers of which this is true"),
    ]
    return Notice(rule, severity_of(share), text, todo, figures, "communication_exposed", COMMUNICATION_SHARE)


def _exposed(row: Row) -> float:
    """Share of a worker's steps."""
    return exposed_share([row]) or 0.0


def _waits(row: Row) -> bool:
    return total_of([row], "wait_ns") > total_of([row], "transfer_ns")


def _moves(row: Row) -> bool:
    return total_of([row], "transfer_ns") > 0
