"""Slack against programs that truly run again, in which one kernel takes longer."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tb_plugin.analysis.critical_path.steps import slack
from tb_plugin.model.trace.schema import DEVICE_WORK, of_kind
from tests.depth import DEEP
from tests.machines import Instruction, Machine, random_program

SEEDS = 100 if DEEP else 20
KERNELS_PER_PROGRAM = 8
MORE_NS = 300_000
# Latencies and gaps differ between launches.
ACCURACY_NS = 15_000


@dataclass
class Slower(Machine):
    """The machine, with one kernel that takes longer."""

    target: int = -1
    more_ns: int = 0
    count: int = 0

    def _launch(self, each: Instruction) -> None:
        slower = replace(each, ns=each.ns + self.more_ns) if self.count == self.target else each
        self.count += 1
        super()._launch(slower)


# Limits of the share of kernels whose slack is too large, because a dependency between streams is unknown.
@pytest.mark.parametrize(("records_waits", "most"), [(False, 0.01), (True, 0.002)])
def test_slack_of_kernels(records_waits: bool, most: float) -> None:
    """Within its slack, a kernel has no effect. Beyond its slack, the step takes longer by the rest."""
    checked, too_large = 0, []
    for seed in range(SEEDS):
        program, rng = random_program(seed), random.Random(seed)
        recorded = Machine(records_waits=records_waits).run(program)
        table = recorded.builder.table()
        work = np.flatnonzero(of_kind(table.kind, *DEVICE_WORK))
        work = work[np.argsort(table.start_ns[table.launch[work]], kind="stable")]
        late = slack(table)[work]
        last = np.flatnonzero(table.start_ns[work] >= table.steps.start_ns[-1])
        for target in rng.sample(last.tolist(), min(KERNELS_PER_PROGRAM, len(last))):
            within = Slower(target=target, more_ns=max(int(late[target]) - ACCURACY_NS, 0)).run(program)
            beyond = Slower(target=target, more_ns=int(late[target]) + MORE_NS).run(program)
            longer = beyond.end_ns - recorded.end_ns
            checked += 1
            assert longer >= MORE_NS - ACCURACY_NS, (seed, target)
            if within.end_ns - recorded.end_ns > ACCURACY_NS or longer > MORE_NS + ACCURACY_NS:
                assert len(np.unique(table.track[work])) > 1, (seed, target)
                too_large.append((seed, target))
    assert checked >= 5 * SEEDS
    assert len(too_large) <= most * checked, too_large
