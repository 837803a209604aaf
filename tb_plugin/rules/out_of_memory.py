"""A request for memory failed."""

from __future__ import annotations

from tb_plugin.analysis.out_of_memory import chosen_failures, notice_of
from tb_plugin.rules._base import Rule, Scene, Seen
from tb_plugin.rules._limits import Limit


def _look(s: Scene) -> Seen | None:
    failures = chosen_failures(s.trace, s.chosen)
    return Seen(notice_of(s.trace, failures), events=failures.row) if len(failures.row) else None


RULE = Rule("out_of_memory", "Out of memory", _look, saves=False, limits=(Limit.MEMORY,))
