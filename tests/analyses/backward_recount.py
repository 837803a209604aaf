"""The backward operators of a trace by hand, one event after the other, from the definitions in docs/metrics.md."""

from __future__ import annotations

import numpy as np

from tb_plugin.analyses.names import BACKWARD, backward_label
from tb_plugin.trace.schema import EventKind
from tb_plugin.trace.table import TraceTable


def backward_by_hand(table: TraceTable) -> tuple[dict[int, str], dict[int, int], dict[int, int]]:
    """Returns the name of each backward operator, the innermost one of each operator in one, and what each is tied to."""
    name = [table.strings[int(i)] for i in table.name]
    operators = [int(i) for i in np.flatnonzero(table.kind == EventKind.OPERATOR)]
    around, forward = table.operator.tolist(), table.forward.tolist()
    label: dict[int, str] = {}
    of: dict[int, int] = {}
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
    tied: dict[int, int] = {}
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
    return label, of, tied
