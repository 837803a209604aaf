"""The headline sentence of flight recorder pages."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.payloads import Notice, Notices


def answer_notices(notices: Sequence[Notice]) -> Notices:
    """Returns the notices of a page's headline, and a finding for a hang, for reports and gates."""
    is_finding = any(notice.severity != "info" for notice in notices)
    return Notices("answer", "Answer", "training" if is_finding else "answer", list(notices))
