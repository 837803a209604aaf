"""Severity of findings, shared by all views."""

from __future__ import annotations

from tb_plugin.payloads import Severity

# From this share of the step a finding is high: fixing it changes the step visibly.
SEVERE_SHARE = 0.2


def severity_of(share: float) -> Severity:
    """Returns the severity of a finding, from the share of step time that its problem takes."""
    return "high" if share >= SEVERE_SHARE else "medium"
