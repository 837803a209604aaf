"""The backward operators of a trace by hand, one event after the other, from the definitions in docs/concepts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tb_plugin.analysis.range_patterns import BACKWARD, backward_label
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable


@dataclass
class ByHand:
    """By row: the name of each backward operator, what it is tied to, and the call of its function inside of it."""

    label: dict[int, str] = field(default_factory=dict)
    tied: dict[int, int] = field(default_factory=dict)
    function: dict[int, int] = field(default_factory=dict)
    of: dict[int, int] = field(default_factory=dict)
    """The innermost backward operator that each operator is or stands in."""


def backward_by_hand(table: TraceTable) -> ByHand:
    """Returns the backward operators of a trace."""
    name = [table.strings[int(i)] for i in table.name]
    operators = [int(i) for i in np.flatnonzero(table.kind == EventKind.OPERATOR)]
    around, forward = table.operator.tolist(), table.forward.tolist()
    found = ByHand()
    label, of, tied = found.label, found.of, found.tied
    under_named: dict[int, bool] = {}
    for event in operators:
        above = around[event]
        under_named[event] = bool(BACKWARD.match(name[event])) or under_named.get(above, False)
        mine = backward_label(name[event])
        is_one = BACKWARD.match(name[event]) or (forward[event] >= 0 and not under_named.get(above, False))
        if is_one and not (above in of and label[of[above]] == mine):
            of[event], label[event] = event, mine
        elif above in of:
            of[event] = of[above]
            if is_one:
                found.function.setdefault(of[above], event)
    for event in operators:
        if forward[event] >= 0 and event in of:
            tied.setdefault(of[event], forward[event])
    last: dict[tuple[int, int], int] = {}
    for event in label:
        key = (int(table.track[event]), of.get(around[event], -1))
        if label[event] != "AccumulateGrad":
            last[key] = event
        elif event not in tied and last.get(key) in tied:
            tied[event] = tied[last[key]]
    for event in label:
        if event not in tied and of.get(around[event]) in tied:
            tied[event] = tied[of[around[event]]]
    return found
