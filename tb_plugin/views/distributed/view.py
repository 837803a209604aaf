"""Distributed view: steps, waits and transfers of all workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part, answer_view, coverage_of, page
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Figures, Line, Notice, Notices, Payload, Series, Table, View
from tb_plugin.views.distributed import VIEW
from tb_plugin.views.distributed.bandwidth.payloads import bandwidth_frames, bandwidth_series, slow_nodes
from tb_plugin.views.distributed.collective_peers import MEETINGS, PARTNERS, meetings_frame, partners_frame
from tb_plugin.views.distributed.facts import (
    FACTS,
    exposed_share,
    in_steps,
    job_facts,
    largest_collective,
    total_of,
    wait_share,
)
from tb_plugin.views.distributed.findings import causes_first, findings
from tb_plugin.views.distributed.job_data import JobData, Row, job_data
from tb_plugin.views.distributed.job_path import JOB_PATH, PATH, job_path_frame
from tb_plugin.views.distributed.merge import CALLS, COMMON, MEMBERS, RANKS, is_merged, join, join_again
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.missing_ranks import DUMPS, nothing_called, recorder_notices
from tb_plugin.views.distributed.operation_kinds import operation_kinds
from tb_plugin.views.distributed.pictures.heat_map import heat_map_and_quantiles
from tb_plugin.views.distributed.pictures.pipeline import pipeline
from tb_plugin.views.distributed.pictures.topology import rank_nodes
from tb_plugin.views.distributed.pictures.worst_ranks import keep_worst, worst_frame
from tb_plugin.views.distributed.rank.path import path_frames
from tb_plugin.views.distributed.rank.profile import frame, profile_part
from tb_plugin.views.distributed.rank_sentence import OF, rank_notices
from tb_plugin.views.distributed.reported_communication import job_findings, job_frames, job_notices, job_series
from tb_plugin.views.distributed.simulation import SCALE, simulation, simulation_frames
from tb_plugin.views.distributed.stragglers.report import cause_columns, straggler_report
from tb_plugin.views.distributed.tables import frames, kind_frames, worker_rows
from tb_plugin.views.distributed.traffic import traffic_frame, traffic_map

_STEP_PARTS = (
    ("compute_alone_ns", "compute"),
    ("overlap_ns", "overlap"),
    ("exposed_communication_ns", "communication"),
    ("step_other_ns", "other"),
)
_BOUND_TITLES = {"wait_ns": "Wait (min)", "transfer_ns": "Transfer (max)"}


class Distributed(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (*((PATH,) if params.get(PATH) == "1" else ()), *params.values(SCALE))

    def part(self, trace: TraceTable, params: Params) -> Part:
        found = profile_part(trace, params)
        path = path_frames(trace) if params.get(PATH) == "1" else {}
        return replace(found, frames={**found.frames, **path, **simulation_frames(trace, params)})

    def join(self, parts: Iterable[Part], beside: Sequence[Part] = ()) -> Part:
        return join(parts, beside)

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page, or a page of one table, from all parts or from the result of ``join``.

        With the parameter ``scale``, returns only simulated step times. With the parameter ``measure``, returns only
        the heat map and quantiles of this measure. With the parameter ``of``, returns only the sentence about this
        worker.
        """
        joined = parts[0] if is_merged(parts) else join_again(parts)
        if params.table == PARTNERS:
            return page(partners_frame(joined, params), params)
        if params.values(SCALE):
            return self._simulated(joined, params)
        params = replace(params, steps=_steps(joined, params))
        if params.table == JOB_PATH:
            return page(job_path_frame(joined, params.steps), params)
        data, coverage = job_data(joined, params.steps), coverage_of([joined], params)
        if params.table is None and (measure := params.get("measure")):
            heat, spread = heat_map_and_quantiles(data, measure)
            return View(self.id, self.title, coverage, {"heat": heat, "spread": spread})
        if params.table is None and (worker := params.get(OF)):
            sentence = rank_notices(data, worker)
            return View(self.id, self.title, coverage, {sentence.name: sentence})
        if params.table == MEETINGS:
            return page(meetings_frame(data, params), params)
        rows, staged, base_tables = worker_rows(data), pipeline(data), frames(data)
        tables = {**operation_kinds(data, base_tables["operations"].data), **base_tables}
        tables |= {**bandwidth_frames(data), **kind_frames(data)}
        ranks = joined.frames[RANKS].data["rank"].to_pylist()
        if (sent := traffic_frame(data.calls.data, joined.frames[MEMBERS].data, ranks)) is not None:
            tables[sent.name] = sent
        if (worst := worst_frame(data, rows)) is not None:
            tables["worst"] = worst
        if staged is not None:
            tables["stage_bubbles"] = staged[1]
        if data.is_single:
            tables.pop("stragglers")
        tables |= job_frames(data.reported)
        notices = [*findings(data, rows, params), *slow_nodes(data)]
        if DUMPS in joined.frames:
            dumps = joined.frames[DUMPS].data
            notices += recorder_notices(dumps)
            tables[DUMPS] = frame(DUMPS, "Flight recorders", dumps, ("worker", "group"), "worker")
        if data.reported:
            notices += [*job_findings(data.reported), *job_notices(data.reported)]
        else:
            notices += nothing_called(joined.frames[CALLS].data)
        notices = causes_first(notices)
        payloads = _payloads(data, rows, notices, tables["operations"])
        if sent is not None:
            payloads["map_traffic"] = traffic_map(sent, rank_nodes(data))
        if staged is not None:
            payloads["stages"] = staged[0]
        layout = tuple(dict.fromkeys((*payloads, *tables)))
        whole = Part(coverage=coverage, frames=tables, payloads=payloads, layout=layout)
        return answer_view(self, whole, params)

    def _simulated(self, joined: Part, params: Params) -> View | Table:
        """Returns simulated step times. Raises BadRequest if steps are selected."""
        if params.steps is not None:
            raise BadRequest(
                "The simulation of a job covers all steps.",
                "steps",
                "Leave out the steps, or select one rank with --worker.",
            )
        _steps(joined, params)  # raises BadRequest for windows without a common step
        simulated = simulation(joined, job_data(joined, None), params)
        return answer_view(self, replace(simulated, coverage=coverage_of([joined], params)), params)


def _steps(joined: Part, params: Params) -> tuple[str, ...] | None:
    """Returns the selected steps. If traces are restricted to a time window, only steps of all workers are
    returned.

    Raises BadRequest if no step is common to all workers.
    """
    if params.steps is not None or joined.coverage.window is None:
        return params.steps
    common = tuple(joined.frames[COMMON].data["step"].to_pylist())
    if not common and joined.steps:
        raise BadRequest(
            "The windows of the workers have no step in common.", "window", "Choose a step that all windows contain."
        )
    return common or None


def _payloads(data: JobData, rows: list[Row], notices: list[Notice], operations: Frame) -> dict[str, Payload]:
    payloads: dict[str, Payload] = {
        "headline": _headline(data, rows, operations),
        FACTS: job_facts(data, rows, operations),
        "findings": Notices("findings", "Findings", "training", notices),
        "overlap": _bars(data, rows, "overlap", "Computation and communication", _STEP_PARTS),
    }
    if not data.is_single:
        parts = (("transfer_ns", "transfer"), ("wait_ns", "wait"))
        titles = _BOUND_TITLES if total_of(rows, "bounded") else {}
        payloads["waiting"] = _bars(data, in_steps(data, rows), "waiting", "Wait and transfer", parts, titles)
    payloads |= {series.name: series for series in bandwidth_series(data)}
    payloads |= {series.name: series for series in job_series(data.reported, measured=not data.is_single)}
    for name, payload in payloads.items():
        if isinstance(payload, Series) and payload.style == "stacked_bars":
            payloads[name] = keep_worst(payload, data, rows)
    return payloads


def _headline(data: JobData, rows: list[Row], operations: Frame) -> Figures:
    figures_of_slow = [] if data.is_single else _slowest_rank(data)
    first = figures_of_slow or _exposed(data, rows)
    figures = [*first, METRICS.figure("workers", len(data.names)), _world_size(data)]
    if not data.is_single:
        figures += [
            METRICS.figure("wait_share", wait_share(data), "Wait share (min)" if total_of(rows, "bounded") else ""),
            # Less important than a straggler: the mean is over all groups, which may use different links.
            *([] if figures_of_slow else _bus_bandwidth(operations)),
        ]
        if lost := total_of(rows, "unmatched"):
            figures.append(METRICS.figure("unmatched", lost))
    else:
        figures.append(_latency(data, rows))
    return Figures("headline", "Headline", "", figures, "headline")


def _exposed(data: JobData, rows: list[Row]) -> list[Figure]:
    """Returns the share of exposed communication, over the workers without missing kernels."""
    share = exposed_share([row for row in rows if row["worker"] not in data.reported.cut])
    return (
        []
        if share is None
        else [METRICS.figure("communication_exposed", share, note="" if data.is_single else "mean of ranks")]
    )


def _latency(data: JobData, rows: list[Row]) -> Figure:
    """Returns the communication time of a single worker, per step if the recording has steps."""
    count = int(data.step_counts[0])
    whole = total_of(in_steps(data, rows), "latency_ns")
    if not count:
        return METRICS.figure("latency_ns", whole, "Communication, including wait")
    title, window = "Communication per step, including wait", "mean of the selected steps"
    return METRICS.figure("latency_ns", round(whole / count), title, window=window)


def _slowest_rank(data: JobData) -> list[Figure]:
    """Returns the costliest straggler, its cost and its cause. Without a straggler, the result is empty."""
    report = straggler_report(data)
    if not report.costly:
        return []
    worst = report.costly[0]
    lost = report.lost(worst)
    most = lost >= max(report.lost(worker) for worker in report.costly)
    title = "Late once" if report.is_once(worst) else "Slowest rank" if most else "Repeatedly late"
    costs = [
        METRICS.figure("lost_ns", lost, "Cost per step"),
        METRICS.figure("lost_share", lost / report.mean_ns),
    ]
    return [
        METRICS.figure("worker", data.names[worst], title),
        *(costs if report.has_costs else []),
        METRICS.figure(
            "step_total_ns", round(report.mean_ns), "Step, mean over ranks", window="mean over ranks and steps"
        ),
        METRICS.figure("late_cause", str(cause_columns(report, worst).get("late_cause") or "not known")),
    ]


def _bus_bandwidth(operations: Frame) -> list[Figure]:
    """Returns the bus bandwidth of the collective with the most bytes."""
    collective, bandwidth = largest_collective(operations)
    title = f"Bus bandwidth of {collective}, mean"
    return [] if bandwidth is None else [METRICS.figure("bus_bandwidth", bandwidth, title)]


def _world_size(data: JobData) -> Figure:
    at_least = data.world_size is None and data.size is not None
    return METRICS.figure("world_size", data.size, "World size (min)" if at_least else "")


def _bars(
    data: JobData,
    rows: list[Row],
    name: str,
    title: str,
    parts: tuple[tuple[str, str], ...],
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Series:
    steps = np.maximum(data.step_counts, 1).tolist()
    lines = []
    for key, category in parts:
        values = [value / n if isinstance(value := row[key], int) else None for row, n in zip(rows, steps, strict=True)]
        metric = METRICS.metric(key, titles.get(key, ""), window="mean of the selected steps")
        lines.append(Line(metric, category, [*values]))
    note = "mean step; communication includes wait" if name == "overlap" and data.is_single else "mean step"
    return Series(name, title, note, METRICS.metric("worker"), list(data.names), lines, "stacked_bars")
