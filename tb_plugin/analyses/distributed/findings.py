"""What the numbers of the workers say: who is late, what the others lose to it, and what cannot be known."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from tb_plugin.analyses.base import Params
from tb_plugin.analyses.communication import COMMUNICATION_SHARE, SEND_LESS
from tb_plugin.analyses.distributed.absent import not_here, number_not_here
from tb_plugin.analyses.distributed.clock_notices import clock_notices
from tb_plugin.analyses.distributed.facts import total_of
from tb_plugin.analyses.distributed.matching.compared import numbers_of
from tb_plugin.analyses.distributed.metrics import METRICS
from tb_plugin.analyses.distributed.stragglers.blame import blame
from tb_plugin.analyses.distributed.stragglers.findings import straggler_findings, uneven_compute
from tb_plugin.analyses.distributed.together import Row, Together
from tb_plugin.analyses.distributed.waiting import BOUND, TIMINGS
from tb_plugin.analyses.left_out_workers import LeftOut, failed_ranks, left_out
from tb_plugin.analyses.severity import severity_of
from tb_plugin.payloads import Notice

_NAMED = 3
"""So many workers that lack calls, or were not loaded, are named."""
UNREAD = "What is not loaded is all that is missing: with it nothing would be left open."


def findings(data: Together, rows: list[Row], held: list[Notice], params: Params) -> list[Notice]:
    """Returns what the numbers of the workers (``rows``, one each) say, with ``held``, what is said of their memory.

    ``params`` name workers that could not be read, and those whose part did not come from elsewhere.
    """
    notices = left_out(params, METRICS, " Waiting and transfer are those of the workers that are here.")
    if refused := params.get("refused"):
        text = f"Computed from the trace here: {refused}."
        notices.append(
            Notice("summary_refused", "info", text, "Nothing is missing; the next time may take as long.", [])
        )
    if data.strangers:
        text = f"No rank of the job and left out: {', '.join(data.strangers)}."
        advice = "Put traces that belong to no job into a folder of their own."
        notices.append(Notice("no_rank", "info", text, advice, []))
    if data.alone:
        text = "Only one worker is here: durations of collectives include waiting; no bandwidth is claimed."
        notices.append(Notice("one_worker", "info", text, "Put the traces of all ranks into one run folder.", []))
    bounded, missing = total_of(rows, "bounded"), data.size is not None and data.size > len(data.names)
    here = [METRICS.figure("workers", len(data.names)), METRICS.figure("world_size", data.size)] if missing else []
    present = "{workers} of {world_size} ranks are here."
    if data.world_size is None:
        present = "{workers} of at least {world_size} ranks are here."
    failed = [worker for worker, _ in LeftOut.of(params).failed]
    unread = failed_ranks(failed)
    if data.world_size is not None and missing:
        lacking = "" if unread is None else not_here(data.ranks, data.world_size, unread)
        present = "; ".join(
            [
                "{workers} of {world_size} ranks are here",
                *([f"not loaded: {', '.join(failed[:_NAMED])}{_more(len(failed))}"] if failed else []),
                *([f"without a trace: {lacking}"] if lacking else []),
            ]
        )
        present += "."
    only_unread = unread and missing and number_not_here(data.ranks, data.world_size, unread) == 0
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
        if not missing:
            few = _lacking(data)
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
        notices.append(
            Notice("groups_inferred", "info", text, "Nothing is wrong: see the column Inferred group.", figures)
        )
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
    return [
        *(late or _waiting(whole)),
        *_transferring([row for row in whole if not _moved_less(data, row) and row["worker"] not in late_ones]),
        *held,
        *notices,
    ]


def _more(count: int) -> str:
    return f" and {count - _NAMED} more" if count > _NAMED else ""


def _bounded_without_group(data: Together) -> int:
    """How many of the bounded calls are of a group whose size no rank states: nobody knows whether one is missing."""
    seen = data.seen
    bound = seen.waiting.timing == TIMINGS.index(BOUND)
    return int((bound & (numbers_of(seen.data, "ranks_of_group") < 1)).sum())


def _lacking(data: Together) -> str:
    """Names the workers that lack calls which others of their group have, those that lack most first; empty: nobody knows."""
    seen, one_each = data.seen, data.first_rows
    bound = one_each[seen.waiting.timing[one_each] == TIMINGS.index(BOUND)]
    group = np.asarray(numbers_of(seen.data, "group_code"))
    # Where nobody recorded who is in a group, those that lack its calls may be in none.
    stated = pc.fill_null(seen.data["group_ranks"].cast("string"), "").to_numpy(zero_copy_only=False) != ""
    rows = np.flatnonzero(np.isin(seen.match, seen.match[bound]) & stated)
    lacks: dict[int, int] = {}
    for code in np.unique(group[rows]).tolist():
        mine = rows[group[rows] == code]
        have = np.bincount(seen.worker[mine], minlength=len(data.names))
        calls = len(np.unique(seen.match[mine]))
        for worker in np.unique(seen.worker[group == code]).tolist():
            if have[worker] < calls:
                lacks[worker] = lacks.get(worker, 0) + calls - int(have[worker])
    order = sorted(lacks, key=lambda worker: (-lacks[worker], worker))
    named = ", ".join(data.names[worker] for worker in order[:_NAMED])
    return named + _more(len(order))


def _waiting(rows: list[Row]) -> list[Notice]:
    """The worker that loses most to waiting, where no single straggler is to blame."""
    losing = [row for row in rows if _exposed(row) > COMMUNICATION_SHARE and _waits(row)]
    if not losing:
        return []
    return [
        _about(
            "communication_waiting",
            losing,
            "most of its communication is waiting for others ({wait_ns}, beside {transfer_ns} of transfer).",
            "See who arrives last (columns Arrived last and Others waited) and why: sending less would not help.",
        )
    ]


def _transferring(rows: list[Row]) -> list[Notice]:
    """The median worker where it loses to moving data: of a single one that does nobody knows whether sending less helps."""
    # Where no call was matched both are 0, and nothing is known.
    losing = [row for row in rows if _exposed(row) > COMMUNICATION_SHARE and not _waits(row) and _moves(row)]
    if 2 * len(losing) < max(len(rows), 1):
        return []
    return [
        _about(
            "communication_transfer",
            losing,
            "most of its communication is transfer ({transfer_ns}, beside {wait_ns} of waiting for others).",
            SEND_LESS[0].upper() + SEND_LESS[1:],
        )
    ]


def _moved_less(data: Together, row: Row) -> bool:
    """Whether the worker states that its data moved for less than half of what is, at most, transfer: a rank is missing."""
    moved = data.stated.moving_ns.get(str(row["worker"]))
    return moved is not None and bool(total_of([row], "bounded")) and 2 * moved < total_of([row], "transfer_ns")


def _about(rule: str, losing: list[Row], what: str, todo: str) -> Notice:
    worst = (
        max(losing, key=_exposed) if rule == "communication_waiting" else sorted(losing, key=_exposed)[len(losing) // 2]
    )
    share = _exposed(worst)
    figures = [
        METRICS.figure("worker", str(worst["worker"])),
        METRICS.figure("communication_exposed", share),
        METRICS.figure("wait_ns", total_of([worst], "wait_ns")),
        METRICS.figure("transfer_ns", total_of([worst], "transfer_ns")),
        METRICS.figure("workers", len(losing), "Workers of which this is true"),
    ]
    takes = "communication that nothing hides takes {communication_exposed} of the steps"
    text = f"In {{worker}} {takes}, and {what}"
    if rule == "communication_transfer" and len(losing) > 1:
        text = f"On {{workers}} workers {takes} (median: {{worker}}), and {what}"
    return Notice(rule, severity_of(share), text, todo, figures, "communication_exposed", COMMUNICATION_SHARE)


def _exposed(row: Row) -> float:
    """Share of a worker's steps."""
    time = total_of([row], "step_total_ns")
    return total_of([row], "exposed_communication_ns") / time if time else 0.0


def _waits(row: Row) -> bool:
    return total_of([row], "wait_ns") > total_of([row], "transfer_ns")


def _moves(row: Row) -> bool:
    return total_of([row], "transfer_ns") > 0
