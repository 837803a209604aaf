"""Workers that a response skips.

These workers have unreadable files, or only their rank summaries are loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.metrics import Metrics
from tb_plugin.payloads import Notice

# names of parameters: unreadable workers, reasons in the same order, workers with only a summary
FAILED, WHY, AWAY = "failed", "failed_why", "away"
_MAX_NAMED = 5


class LeftOut(NamedTuple):
    """Names of skipped workers. ``failed`` contains (worker, reason) pairs."""

    failed: tuple[tuple[str, str], ...] = ()
    without_trace: tuple[str, ...] = ()

    @classmethod
    def of(cls, params: Params) -> LeftOut:
        """Returns the skipped workers that the request parameters contain."""
        return cls(tuple(zip(params.values(FAILED), params.values(WHY), strict=False)), params.values(AWAY))

    def params(self) -> tuple[tuple[str, str], ...]:
        """Returns the skipped workers as request parameters."""
        failures = tuple((key, text) for failed in self.failed for key, text in zip((FAILED, WHY), failed, strict=True))
        return (*failures, *((AWAY, worker) for worker in self.without_trace))


def left_out(params: Params, metrics: Metrics, more: str = "") -> list[Notice]:
    """Returns notices about skipped workers. ``more`` is a sentence about the effect on the numbers."""
    out = LeftOut.of(params)
    notices = []
    if out.failed:
        (worker, why), *others = out.failed
        reasons = [f"{{worker}} ({why.removesuffix('.')})"]
        named = _listed([*reasons, *(f"{name} ({reason.removesuffix('.')})" for name, reason in others)])
        text = f"Skipped because unreadable: {named}.{more}"
        todo = "Open {worker} to see where its file is damaged and how to fix it."
        notices.append(Notice("worker_failed", "high", text, todo, [metrics.figure("worker", worker)]))
    if out.without_trace:
        one = len(out.without_trace) == 1
        text = f"Skipped: {_listed(out.without_trace)}. "
        text += (
            "Only the summary of this worker is available"
            if one
            else "Only the summaries of these workers are available"
        )
        text += ", which only the page Ranks can use."
        todo = f"Open the log directory that contains the {'trace' if one else 'traces'}."
        notices.append(Notice("summary_alone", "info", text, todo, []))
    return notices


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more
