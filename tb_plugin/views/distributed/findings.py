"""Findings of a job: late ranks, their cost, and missing data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import get_args

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.collective_names import POINT_TO_POINT
from tb_plugin.analysis.communication import COMMUNICATION_SHARE, SEND_FEWER, SEND_LESS, SmallMessages, small_messages
from tb_plugin.analysis.phrases import capitalized
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.skipped_workers import left_out
from tb_plugin.lib.groupby import group_sorted, sum_by
from tb_plugin.payloads import Notice, Severity
from tb_plugin.views.distributed.clocks.lateness import BEGAN_LATER
from tb_plugin.views.distributed.clocks.offsets import MIN_ANCHORS
from tb_plugin.views.distributed.comparable_profiles import not_compared
from tb_plugin.views.distributed.facts import exposed_share, in_steps, total_of
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.matching.keys import is_one_of, numbers_of, texts_of
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.missing_ranks import missing_ranks
from tb_plugin.views.distributed.stragglers.findings import straggler_findings, uneven_compute
from tb_plugin.views.distributed.stragglers.report import straggler_report

# maximum number of workers listed by name
_MAX_NAMED = 3
_WITH_WAIT = "Collective durations include wait time, and bandwidth is not shown."
# smaller clock offsets and errors are invisible when timelines are compared side by side
_MIN_OFFSET_NS, _MIN_ERROR_NS = 1_000_000, 50_000
_WAITING = "communication_waiting"
_CAUSES_OF_WAIT = ("slow_rank", "uneven_stages")
_SAME_STEPS = "Record the same steps on every rank."
_RECORD_ALL = "Record all ranks to see whether the transfer or a late rank takes the time."


def findings(data: JobData, rows: list[Row], params: Params) -> list[Notice]:
    """Returns all findings about the workers.

    ``rows`` has one row per worker. ``params`` contains the workers with unreadable files, and the reason why a
    summary was rejected.
    """
    notices = left_out(params, METRICS, " Wait and transfer cover the loaded workers only.")
    if refused := params.get("refused"):
        todo = "No data is missing, but the next request may take as long as this request."
        notices.append(Notice("summary_refused", "info", f"Summary not used: {refused}.", todo, []))
    notices += [*not_compared(data.left_out), *_loaded_ranks(data, rows)]
    if data.is_single:
        return notices
    if unmatched := total_of(rows, "unmatched"):
        text = "{unmatched} calls appear on one worker only and are excluded from wait, transfer and bandwidth."
        notices.append(Notice("unmatched", "low", text, _SAME_STEPS, [METRICS.figure("unmatched", unmatched)]))
    notices += _clock_notices(data)
    # With missing kernels, the overlap of communication is unknown.
    whole = [row for row in rows if row["worker"] not in data.reported.cut]
    report = straggler_report(data)
    straggler_notices = straggler_findings(report, rows)
    late_ones = {data.names[worker] for worker in report.stragglers.significant.tolist()}
    if not straggler_notices and (uneven := uneven_compute(report, data, rows)) is not None:
        straggler_notices = [uneven]
    steps = dict(zip(data.names, data.step_counts.tolist(), strict=True))
    means = {str(row["worker"]): _mean_step(row, steps[str(row["worker"])]) for row in in_steps(data, rows)}
    transit = data.reported.transit_ns_by_worker
    moved = [row for row in whole if not _reports_less_transit(transit, row) and row["worker"] not in late_ones]
    return [
        *(straggler_notices or _waiting([means[str(row["worker"])] for row in whole])),
        *_transferring([means[str(row["worker"])] for row in moved], transit, _small_messages(data)),
        *notices,
    ]


def causes_first(notices: list[Notice]) -> list[Notice]:
    """Returns the notices, most severe first. A cause of waiting is as severe as the wait, and comes before it."""
    order = get_args(Severity).index
    waits = [order(notice.severity) for notice in notices if notice.rule == _WAITING]
    if waits:
        notices = [
            replace(notice, severity=get_args(Severity)[min(order(notice.severity), *waits)])
            if notice.rule in _CAUSES_OF_WAIT
            else notice
            for notice in notices
        ]
    return sorted(notices, key=lambda notice: (order(notice.severity), notice.rule not in _CAUSES_OF_WAIT))


def _loaded_ranks(data: JobData, rows: list[Row]) -> Iterator[Notice]:
    """Yields notices about ranks that are not loaded, and about calls that therefore lack a rank."""
    missing = data.size is not None and data.size > len(data.names)
    figures = [METRICS.figure("workers", len(data.names)), METRICS.figure("world_size", data.size)] if missing else []
    of = "of" if data.world_size is not None else "of at least"
    present = f"{{workers}} {of} {{world_size}} ranks {'is' if data.is_single else 'are'} loaded"
    lacking = missing_ranks(data.ranks, data.world_size)
    present += f"; not loaded: {lacking}." if lacking else "."
    todo = "Record all ranks to see who arrives last."
    if data.is_single:
        yield from _unsplit_notice(rows[0], bool(data.reported))
        text = f"{present if missing else 'Only one rank is loaded.'} {_WITH_WAIT}"
        advice = "Put the traces of all ranks into one run folder."
        yield Notice("one_worker", "medium" if missing else "info", text, advice, figures)
    if bounded := total_of(rows, "bounded"):
        counts = [METRICS.figure("bounded", bounded), METRICS.figure("matched", total_of(rows, "matched"))]
        text = (
            "{bounded} of {matched} matched calls are incomplete: a rank of their group is not loaded, or their group is "
            "unknown. Wait and bandwidth are lower bounds, transfer an upper bound."
        )
        text = f"{present} {text}" if missing else text
        if incomplete := _workers_with_missing_calls(data):
            text += f" Calls of {incomplete} are missing."
            todo = "Record the same steps on every rank, and check whether these ranks lost events (buffer size)."
        yield Notice("bounds", "medium", text, todo, [*figures, *counts])
    elif missing and not data.is_single:
        yield Notice("workers_missing", "low", present, todo, figures)


def _clock_notices(data: JobData) -> Iterator[Notice]:
    """Yields notices about different clocks, clocks that are not comparable, and recordings that start late."""
    clocks = data.clocks
    if not data.calls.matched.any():
        return
    offset = clocks.offset_ns[clocks.comparable & data.is_zero_reported & (clocks.connected == 0)]
    difference, error = int(np.ptp(offset)) if len(offset) else 0, int(clocks.residual_ns.max(initial=0))
    if difference > _MIN_OFFSET_NS or error > _MIN_ERROR_NS:
        text = (
            "The clocks of the workers differ by up to {clock_range_ns}. Corrected times are accurate to "
            "{clock_residual_ns}, so the order of closer arrivals is unknown. Waiting times do not depend on clocks."
        )
        todo = "To compare the traces in other tools, synchronize the host clocks (PTP, NTP)."
        figures = [METRICS.figure("clock_range_ns", difference), METRICS.figure("clock_residual_ns", error)]
        yield Notice("clocks_apart", "info", text, todo, figures)
    unknown = int((clocks.connected != 0).sum())
    if unknown and len(data.first_rows) >= MIN_ANCHORS:
        text = (
            "The clocks of {clocks_unknown} of {workers} workers cannot be compared with other clocks: these workers "
            "share fewer than three synchronizing collectives with other workers."
        )
        figures = [METRICS.figure("clocks_unknown", unknown), METRICS.figure("workers", len(data.names))]
        yield Notice("clocks_unknown", "low", text, "Record more steps, on all ranks.", figures)
    if later := int((data.one_each(data.calls.late.arrival) == BEGAN_LATER).sum()):
        text = (
            "The traces start up to {trace_begins_ns} apart. If a trace starts later than other traces, lateness at its "
            "first collective is ignored ({arrivals_later} times): the profiler may have started late."
        )
        begin = int(clocks.begin_ns[clocks.comparable].max())
        figures = [METRICS.figure("trace_begins_ns", begin), METRICS.figure("arrivals_later", later)]
        yield Notice("recording_later", "info", text, "Start the profilers of all ranks at the same step.", figures)


def _more_suffix(count: int) -> str:
    return f" and {count - _MAX_NAMED} more" if count > _MAX_NAMED else ""


def _workers_with_missing_calls(data: JobData) -> str:
    """Returns the workers that have fewer collectives of a group than other workers, most missing calls first."""
    calls = data.calls
    rows = np.flatnonzero(~is_one_of(*texts_of(calls.data, "collective"), POINT_TO_POINT))
    pairs = group_sorted(numbers_of(calls.data, "group_code")[rows], calls.worker[rows])
    group, worker = (column[rows][pairs.first] for column in (numbers_of(calls.data, "group_code"), calls.worker))
    most = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, group, pairs.count())
    lacks = sum_by(worker, most[group] - pairs.count(), len(data.names))
    order = np.argsort(-lacks, kind="stable")[: np.count_nonzero(lacks)].tolist()
    named = ", ".join(data.names[worker] for worker in order[:_MAX_NAMED])
    return named + _more_suffix(len(order))


def _mean_step(row: Row, count: int) -> Row:
    return {**row, **{key: round(total_of([row], key) / max(count, 1)) for key in ("wait_ns", "transfer_ns")}}


def _waiting(rows: list[Row]) -> list[Notice]:
    """Returns a finding about the worker that waits longest, for jobs without a straggler."""
    losing = [row for row in rows if _exposed_of(row) > COMMUNICATION_SHARE and _waits(row)]
    if not losing:
        return []
    worst = max(losing, key=_exposed_of)
    least, most = _bound_prefixes(worst)
    text = (
        "Exposed communication takes {communication_exposed} of the step on {worker}. Most of the communication of this "
        f"worker is waiting for other ranks: {least}{{wait_ns}} per step, against {most}{{transfer_ns}} of transfer."
    )
    todo = (
        "Find the rank that arrives last: see the columns Caused wait and Arrived last of the table "
        "Workers. Sending less data does not help."
    )
    return [_communication_notice(_WAITING, worst, len(losing), text, todo)]


def _small_messages(data: JobData) -> SmallMessages | None:
    calls = data.calls
    return small_messages(data.one_each(calls.bytes), data.one_each(calls.waiting.transfer_ns))


def _transferring(rows: list[Row], reporting: Collection[str], small: SmallMessages | None) -> list[Notice]:
    """Returns a finding about transfer time, if transfers cost time on at least half of the workers.

    The finding describes the median worker. If most calls lack a rank, the finding says that the split into wait
    and transfer is unknown. For workers in ``reporting``, which report transit times, the split is known.
    """
    # Without matched calls both are 0, which means unknown.
    losing = [row for row in rows if _exposed_of(row) > COMMUNICATION_SHARE and not _waits(row) and _moves(row)]
    if 2 * len(losing) < max(len(rows), 1):
        return []
    middle = sorted(losing, key=_exposed_of)[len(losing) // 2]
    least, most = _bound_prefixes(middle)
    text = "Exposed communication takes {communication_exposed} of the step on {worker}"
    text += (
        f", the {'worst' if len(losing) == 2 else 'median'} of {{workers}} workers above 10 %."
        if len(losing) > 1
        else "."
    )
    unknown = str(middle["worker"]) not in reporting
    if unknown and 2 * total_of([middle], "bounded") > total_of([middle], "matched"):
        text += (
            " At least {wait_ns} per step of its communication is wait and at most {transfer_ns} is transfer. Most of "
            "these calls lack a rank, so the split is unknown."
        )
        notice = _communication_notice("communication_unsplit", middle, len(losing), text, _RECORD_ALL)
        return [replace(notice, severity="medium")]
    text += (
        f" Most of its communication is transfer: {most}{{transfer_ns}} per step, against {least}{{wait_ns}} of wait."
    )
    todo = capitalized(SEND_FEWER if small else SEND_LESS)
    if small:
        text += (
            " Most of the transfer goes to messages of at most {message_bytes} that reach {message_rate}: latency limits "
            "them, not bandwidth."
        )
    notice = _communication_notice("communication_transfer", middle, len(losing), text, todo)
    return [replace(notice, figures=[*notice.figures, *METRICS.figures(small.values if small else {})])]


def _unsplit_notice(row: Row, is_reported: bool) -> Iterator[Notice]:
    share = _exposed_of(row)
    if share > COMMUNICATION_SHARE:
        text = (
            f"Exposed communication takes {{communication_exposed}} of the step on {{worker}}"
            f"{', as reported by the profiler' if is_reported else ''}. The share of time spent waiting for other ranks is "
            "unknown because other ranks are not loaded."
        )
        figures = [METRICS.figure("worker", str(row["worker"])), METRICS.figure("communication_exposed", share)]
        threshold = "communication_exposed", COMMUNICATION_SHARE
        yield Notice("communication_unsplit", "medium", text, _RECORD_ALL, figures, *threshold)


def _bound_prefixes(row: Row) -> tuple[str, str]:
    return ("at least ", "at most ") if total_of([row], "bounded") else ("", "")


def _reports_less_transit(transit: Mapping[str, int], row: Row) -> bool:
    """Returns whether the reported transit time is less than half of the measured transfer time.

    In this case, the measured transfer time contains wait for ranks that are not loaded.
    """
    moved = transit.get(str(row["worker"]))
    return moved is not None and bool(total_of([row], "bounded")) and 2 * moved < total_of([row], "transfer_ns")


def _communication_notice(rule: str, row: Row, workers: int, text: str, todo: str) -> Notice:
    share, window = _exposed_of(row), "mean of the selected steps"
    figures = [
        METRICS.figure("worker", str(row["worker"])),
        METRICS.figure("communication_exposed", share),
        METRICS.figure("wait_ns", total_of([row], "wait_ns"), "Wait per step", window=window),
        METRICS.figure("transfer_ns", total_of([row], "transfer_ns"), "Transfer per step", window=window),
        METRICS.figure("workers", workers, "Affected workers"),
    ]
    return Notice(rule, severity_of(share), text, todo, figures, "communication_exposed", COMMUNICATION_SHARE)


def _exposed_of(row: Row) -> float:
    return exposed_share([row]) or 0.0


def _waits(row: Row) -> bool:
    return total_of([row], "wait_ns") > total_of([row], "transfer_ns")


def _moves(row: Row) -> bool:
    return total_of([row], "transfer_ns") > 0
