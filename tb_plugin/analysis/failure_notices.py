"""Notices about profiles that could not be analyzed."""

from __future__ import annotations

from collections.abc import Iterable

from tb_plugin.analysis.metrics import Metrics, define
from tb_plugin.errors import REPORT_IT, PartFailed
from tb_plugin.payloads import Notice, Notices, Payload

# Rule of the notices.
FAILED = "part_failed"
# Name of their payload.
FAILED_PAYLOAD = "failed"
METRICS = Metrics(
    define(
        "",
        "text",
        {
            "failed_parts": ("Failed", "Views, cards and rules that failed with the same error."),
            "error_id": ("Error", "Error number in the log."),
        },
    )
)


def failed_payloads(failures: Iterable[PartFailed]) -> dict[str, Payload]:
    """Returns the payload ``failed`` with one notice per error. Empty if there are no errors."""
    parts: dict[str, list[str]] = {}
    for failure in failures:
        parts.setdefault(failure.error_id, []).append(failure.part)
    notices = [_notice(error_id, list(dict.fromkeys(titles))) for error_id, titles in parts.items()]
    return {FAILED_PAYLOAD: Notices(FAILED_PAYLOAD, "Failed parts", "data", notices)} if notices else {}


def _notice(error_id: str, titles: list[str]) -> Notice:
    which = "this part" if len(titles) == 1 else "these parts"
    figures = [METRICS.figure("failed_parts", ", ".join(titles)), METRICS.figure("error_id", error_id)]
    return Notice(FAILED, "high", f"{{failed_parts}}: {which} failed (error {{error_id}}).", REPORT_IT, figures)
