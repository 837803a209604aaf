"""Uneven distribution of tokens over ranks."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.parallelism.experts import Dispatched, token_dispatches
from tb_plugin.analysis.parallelism.roles import Role, roles_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, percent

UNEVEN = 1.25
"""Minimum ratio of the largest token count of a rank to the mean. Random variation is smaller."""
METRICS = COMMON.in_steps(
    number={
        "rank_tokens_ratio": ("Max over mean", "Tokens of the busiest rank divided by the mean over ranks."),
        "dispatches_told": ("Dispatches", "Token dispatches with recorded sizes, per step."),
    },
    ns={
        "experts_ns": ("Experts", "Time of expert matmuls after these dispatches, per step."),
        "uneven_ns": ("Imbalance cost", "Expert matmul time multiplied by (max over mean - 1), per step."),
    },
)


def _look(s: Scene) -> Detection | None:
    trace, sent = s.trace, token_dispatches(s.trace)
    mine = s.rows[sent.row]
    experts = sent.experts_ns[mine]
    if not experts.sum():
        return None
    ratio = float(np.average(sent.ratio[mine], weights=experts))
    waits = ((sent.ratio - 1) * sent.experts_ns).astype(np.int64)
    if ratio < UNEVEN or not s.is_significant(int(waits[mine].sum())):
        return None
    row, less = _shorter(trace, sent, waits, mine)
    notice = s.notice(
        RULE,
        text="Tokens are distributed unevenly: the busiest rank gets {rank_tokens_ratio} times the mean number of tokens. "
        "Experts take {experts_ns} per step on the recorded rank, and about {uneven_ns} more on the busiest rank.",
        figures=METRICS.measured(
            rank_tokens_ratio=ratio,
            dispatches_told=s.per_step(int(mine.sum())),
            experts_ns=s.per_step(int(experts.sum())),
            uneven_ns=s.per_step(int(waits[mine].sum())),
        ),
        measure="rank_tokens_ratio",
        threshold=UNEVEN,
        evidence=Link("parallelism", {}, "Show roles"),
        why="All ranks wait until the busiest rank returns its results. Only the amounts that the recorded rank sends are "
        "known; other ranks may send different amounts. Upper bound: the wait caused by the imbalance. Lower bound: zero.",
        confidence="low",
    )
    return Detection(
        notice,
        Bounds(Change(), Change(row=row, less_ns=less)),
        sent.row[mine][np.argsort(-waits[mine], kind="stable")],
    )


def _shorter(trace: TraceTable, sent: Dispatched, waits: np.ndarray, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows of the collectives that return the experts' results, and the most that each of them saves."""
    roles = roles_of(trace)
    back = roles.row[roles.among(Role.COMBINE)]
    back = back[np.argsort(trace.start_ns[back], kind="stable")]
    row, less = [], []
    for device in np.unique(trace.device[sent.row]).tolist():
        here = back[trace.device[back] == device]
        ours = np.flatnonzero(mine & (trace.device[sent.row] == device))
        at = np.searchsorted(trace.start_ns[here], trace.ends(sent.row[ours]))
        next_one = np.append(here, MISSING)[at]
        told, first = np.unique(next_one[next_one != MISSING], return_index=True)
        row.append(told)
        less.append(np.minimum(waits[ours][next_one != MISSING][first], trace.dur_ns[told]))
    return np.concatenate([*row, back[:0]]), np.concatenate([*less, back[:0]])


def _is_told(trace: TraceTable) -> bool:
    return len(token_dispatches(trace)) > 0


RULE = Rule(
    __name__,
    title="Uneven expert load",
    look=_look,
    order=230,
    detects="One rank receives many more tokens than the mean, and the others wait for its experts.",
    threshold=f"The busiest rank receives at least {UNEVEN} times the mean number of tokens. The imbalance costs at least "
    f"{percent(MIN_SHARE)} of the step.",
    saving="Upper bound: the extra expert time on the busiest rank, but at most the time of the exchanges that return "
    "results. Lower bound: 0.",
    needs="Token dispatches with recorded sizes.",
    notes="""
        The mean is weighted by expert time. Only the amounts that the recorded rank sends are known, so the confidence
        is low. Experts within one rank are not compared, because traces do not record the token counts of single
        experts.
    """,
    has_data=_is_told,
    needs_kernels=True,
    limits=(Limit.COMMUNICATION,),
)
