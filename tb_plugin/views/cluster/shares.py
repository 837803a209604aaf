"""Mean step time of ranks, with shares of exposed communication and bubble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tb_plugin.analysis.communication import SEND_LESS
from tb_plugin.analysis.job_tables.metrics import METRICS
from tb_plugin.analysis.job_tables.slow_ranks import by_stage
from tb_plugin.analysis.job_tables.stages import Stage
from tb_plugin.analysis.job_tables.steps import RankTimes, label
from tb_plugin.payloads import Figure, Notice

# of the step; exposed communication above it is a finding
MAX_EXPOSED_SHARE = 1 / 3
_STEP_PARTS = ("computing_ns", "exposed_ns", "free_ns")


def step_figures(ranks: Sequence[RankTimes]) -> list[Figure]:
    """Returns the step time and the shares of exposed communication and bubble; empty without step times."""
    length, exposed, bubble = _sums(ranks)
    if not length:
        return []
    count = len(_with_whole_steps(ranks))
    figures = [METRICS.figure("job_step_ns", length // count), METRICS.figure("exposed_share", exposed / length)]
    return [*figures, *([METRICS.figure("bubble_share", bubble / length)] if bubble else [])]


def exposed_findings(ranks: Sequence[RankTimes], stages: Sequence[Stage]) -> Iterator[Notice]:
    """Yields the stage (or the job) with the largest share of exposed communication, if it is above the threshold."""
    found = [(_sums(mine), mine) for mine in by_stage(ranks, stages)]
    known = [each for each in found if each[0][0]]
    if not known:
        return
    (length, exposed, bubble), worst = max(known, key=lambda each: each[0][1] / each[0][0])
    if exposed <= MAX_EXPOSED_SHARE * length:
        return
    count = len(_with_whole_steps(worst))
    figures = [
        METRICS.figure("exposed_share", exposed / length),
        METRICS.figure("exposed_ns", exposed // count),
        METRICS.figure("job_step_ns", length // count),
    ]
    whose = f"On ranks {label(tuple(each.ranks[0] for each in worst))}" if len(found) > 1 else "On the average rank"
    text = f"{whose}, exposed communication takes {{exposed_share}} of the step ({{exposed_ns}} of {{job_step_ns}})"
    if bubble:
        figures.append(METRICS.figure("bubble_ns", bubble // count))
        text += "; {bubble_ns} of this is the pipeline bubble: a stage receives from another one"
    todo = SEND_LESS[0].upper() + SEND_LESS[1:]
    if 2 * bubble > exposed:
        todo = "Use more micro-batches, or move layers so that no stage waits for another one."
    yield Notice("job_exposed", "high", f"{text}.", todo, figures, "exposed_share", MAX_EXPOSED_SHARE)


def _with_whole_steps(ranks: Sequence[RankTimes]) -> list[RankTimes]:
    return [each for each in ranks if all(key in each.times for key in _STEP_PARTS)]


def _sums(ranks: Sequence[RankTimes]) -> tuple[int, int, int]:
    """Step time, exposed communication and bubble, summed over the ranks that report a whole step."""
    times = [each.times for each in _with_whole_steps(ranks)]
    length = sum(each[key] for each in times for key in _STEP_PARTS) + sum(
        each.get("preparing_ns", 0) for each in times
    )
    return length, sum(each["exposed_ns"] for each in times), sum(each.get("bubble_ns", 0) for each in times)
