"""How loud a finding is: one measure for all views."""

from __future__ import annotations

from tb_plugin.payloads import Severity

SEVERE_SHARE = 0.2
"""From this share of the step on a finding is marked high: fixing it changes the step visibly."""


def severity_of(share: float) -> Severity:
    """Returns how loud a finding about a share of the step's time is."""
    return "high" if share >= SEVERE_SHARE else "medium"
