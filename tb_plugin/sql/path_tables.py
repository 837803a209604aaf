"""SQL tables of critical paths."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.critical_path.steps import CriticalTime, Part, critical_time, slack
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.sql.columns import (
    DUR,
    EVENT,
    NAME,
    START,
    STEP,
    Events,
    SqlColumn,
    SqlTable,
    coded,
    nullable,
    of_trace,
    word_of_kind,
)

C = SqlColumn


class _Pieces(Events, frozen=True, eq=False):
    path: CriticalTime


def _pieces(trace: TraceTable) -> _Pieces:
    path = critical_time(trace)
    return _Pieces(trace, path.row, path)


CRITICAL_PATH: SqlTable[_Pieces] = SqlTable(
    "critical_path",
    "time range of a step: on the critical path, or unexplained",
    of_trace(_pieces),
    (
        C("step", "", "step", lambda at: coded(at.path.step, at.trace.steps.label)),
        C(
            "kind",
            "",
            "compute, communication, copy, between_kernels, launch, data_loading, operator, runtime, python, unrecorded; "
            "not on the path: uncovered",
            lambda at: coded(at.path.part.astype(np.int32), [part.name.lower() for part in Part]),
        ),
        C("start_ns", "ns", "start, since the start of the trace", lambda at: pa.array(at.path.start_ns)),
        C("dur_ns", "ns", "duration; the time ranges of a step add up", lambda at: pa.array(at.path.ns)),
        C("event", "", "number of the event", lambda at: nullable(at.rows)),
        C("name", "", "name of the event", lambda at: at.text(np.append(at.trace.name, MISSING)[at.rows])),
    ),
)


class _Slack(Events, frozen=True, eq=False):
    slack_ns: Int64


def _with_slack(trace: TraceTable) -> _Slack:
    every = slack(trace)
    rows = np.flatnonzero(every != MISSING)
    return _Slack(trace, rows, every[rows])


SLACK: SqlTable[_Slack] = SqlTable(
    "slack",
    "event of a step with a known slack",
    of_trace(_with_slack),
    (
        EVENT,
        NAME,
        C("kind", "", "operator, annotation, python, module, runtime, kernel, memcpy, memset", word_of_kind),
        START,
        DUR,
        C("slack_ns", "ns", "latest start minus start", lambda at: pa.array(at.slack_ns)),
        STEP,
    ),
)
