"""Findings on a snapshot: what grows, what fragments, what ran out, and what makes the peak."""

from __future__ import annotations

from tb_plugin.analyses.snapshot.findings.fragmentation import fragmentation
from tb_plugin.analyses.snapshot.findings.leaks import leaks
from tb_plugin.analyses.snapshot.findings.ran_out import ran_out
from tb_plugin.analyses.snapshot.findings.reserved import reserved_swings
from tb_plugin.analyses.snapshot.findings.single_peak import single_peak
from tb_plugin.analyses.snapshot.held import Held
from tb_plugin.payloads import Notices

_RULES = (ran_out, leaks, fragmentation, reserved_swings, single_peak)
_LOUDEST = ("high", "medium", "low", "info")


def advice_of(held: Held) -> Notices:
    """Returns the findings on a device, the loudest first, and of these in the order of the rules."""
    found = [notice for rule in _RULES for notice in rule(held)] if held.count else []
    found.sort(key=lambda notice: _LOUDEST.index(notice.severity))
    return Notices("advice", "Findings", "training", found)
