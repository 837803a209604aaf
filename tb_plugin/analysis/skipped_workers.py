"""Workers that an answer about all workers is without: those that could not be read, and those whose trace is away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.metrics import Metrics
from tb_plugin.payloads import Notice

FAILED, WHY, AWAY = "failed", "failed_why", "away"
"""Parameters: workers that could not be read and, in the same order, why; workers of which only a summary is here."""
_NAMED = 5


class LeftOut(NamedTuple):
    """The workers by name."""

    failed: tuple[tuple[str, str], ...] = ()
    """(worker, why) of each that could not be read."""
    away: tuple[str, ...] = ()

    @classmethod
    def of(cls, params: Params) -> LeftOut:
        """Returns what a question says of them."""
        return cls(tuple(zip(params.values(FAILED), params.values(WHY), strict=False)), params.values(AWAY))

    def params(self) -> tuple[tuple[str, str], ...]:
        """Returns what ``of`` reads."""
        told = tuple((key, text) for failed in self.failed for key, text in zip((FAILED, WHY), failed, strict=True))
        return (*told, *((AWAY, worker) for worker in self.away))


def left_out(params: Params, metrics: Metrics, more: str = "") -> list[Notice]:
    """Returns what is said of them; ``more`` is what it means for the numbers."""
    out = LeftOut.of(params)
    notices = []
    if out.failed:
        (worker, why), *others = out.failed
        reasons = [f"{{worker}} ({why.removesuffix('.')})"]
        named = _listed([*reasons, *(f"{name} ({reason.removesuffix('.')})" for name, reason in others)])
        text = f"Skipped because unreadable: {named}.{more}"
        todo = "Open {worker} to see where its file is damaged and how to fix it."
        notices.append(Notice("worker_failed", "high", text, todo, [metrics.figure("worker", worker)]))
    if out.away:
        one = len(out.away) == 1
        text = f"Skipped: {_listed(out.away)}. "
        text += "Only its summary is available" if one else "Only their summaries are available"
        text += ", which only Distributed can use."
        todo = f"Open the log directory that has the {'trace' if one else 'traces'}."
        notices.append(Notice("summary_alone", "info", text, todo, []))
    return notices


def failed_ranks(failed: Iterable[str]) -> frozenset[int] | None:
    """Returns the ranks of workers that could not be read, by their names; None where a name does not end with a number."""
    numbers = [worker[len(worker.rstrip("0123456789")) :] for worker in failed]
    return frozenset(map(int, numbers)) if all(0 < len(number) < 10 for number in numbers) else None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
