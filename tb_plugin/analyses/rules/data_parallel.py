"""DataParallel: one process drives several devices."""

from __future__ import annotations

import numpy as np

from tb_plugin.analyses.names import DATA_PARALLEL
from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.metrics import METRICS
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Notice
from tb_plugin.trace.schema import MISSING


def _look(s: Scene) -> Seen | None:
    devices = np.unique(s.trace.device[s.trace.device != MISSING])
    if len(devices) < 2 or s.trace.strings.find(DATA_PARALLEL) == MISSING:
        return None
    return Seen(
        Notice(
            rule="data_parallel",
            severity="medium",
            text="One process drives {affected} devices with copies of the model.",
            todo=s.trace.recorder.todo("data_parallel"),
            figures=[METRICS.figure("affected", len(devices), "Devices")],
            references=references_of(s.trace.recorder, "data_parallel"),
        )
    )


RULE = Rule("data_parallel", "DataParallel", _look, saves=False)
