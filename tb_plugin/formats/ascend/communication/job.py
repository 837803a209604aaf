"""Job data in the profile of one rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.communication.calls import calls_in, calls_stored, profile_entries
from tb_plugin.formats.ascend.communication.collectives import collectives_of, operation_kernels, timed_calls
from tb_plugin.formats.ascend.communication.groups import Group, group_table, reported_groups, with_own_places
from tb_plugin.formats.ascend.communication.links import Links, link_table, links_in, links_stored
from tb_plugin.formats.ascend.communication.steps import step_times, steps_of
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.kernel_details import Kernels
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.extra_columns import ReportedSteps, ReportedTable
from tb_plugin.model.trace.job_tables import GROUPS, LINKS, OPERATIONS, SCHEMAS, STEP_TIMES, as_reported_table
from tb_plugin.model.trace.table import CollectiveArgs


class Job(msgspec.Struct, frozen=True):
    """Job data of one rank, as tables and groups."""

    tables: Mapping[str, pa.Table] = msgspec.field(default_factory=dict)
    groups: Mapping[str, Group] = msgspec.field(default_factory=dict)

    def reported(self) -> list[ReportedTable]:
        """Returns the non-empty tables, in the form of a trace."""
        return [as_reported_table(name, self.tables[name]) for name in SCHEMAS if name in self.tables]

    def kernels(self, interner: Interner) -> Kernels | None:
        """Returns the calls as kernels of a device, or None without calls. Used for a profile that has no other rows."""
        operations = self.tables.get(OPERATIONS)
        if operations is None:
            return None
        found = operation_kernels(operations, self._device(), interner)
        return found if len(found) else None

    def steps(self) -> ReportedSteps | None:
        """Returns steps from the step labels of calls. Used for a profile that has no other steps."""
        operations = self.tables.get(OPERATIONS)
        if operations is None:
            return None
        some = timed_calls(operations)
        start = np.asarray(some["start_ns"]).astype(np.int64)
        return steps_of(some["step"].to_pylist(), start, start + np.asarray(some["elapse_ns"]).astype(np.int64))

    def collectives(self, columns: Mapping[str, Any], interner: Interner) -> CollectiveArgs:
        return collectives_of(columns, self.tables.get(OPERATIONS), self.groups, interner)

    def _device(self) -> int:
        """Returns the device of the step times, or 0 if there is not exactly one."""
        steps = self.tables.get(STEP_TIMES)
        devices = pc.unique(steps["device"]).drop_null().to_pylist() if steps is not None else []
        return devices[0] if len(devices) == 1 and 0 <= devices[0] < 2**15 else 0


def job_of(
    rank: int | None,
    parallel_groups: Any,
    documents: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    tables: Mapping[str, CsvTable],
    logs: tuple[IssueLog, IssueLog, IssueLog],
) -> Job:
    """Returns the job data of one rank.

    ``documents`` are the communication file and its matrix. ``tables`` are the step times, and tables of a database
    that replace missing documents. ``logs`` are the logs of the documents and of the step times.
    """
    calls_log, links_log, steps_log = logs
    made: dict[str, pa.Table] = {}
    if (table := tables.get(STEP_TIMES)) is not None and (times := step_times(table, rank, steps_log)) is not None:
        made[STEP_TIMES] = times
    if documents[0] is not None:
        made |= calls_in(profile_entries(documents[0], rank, calls_log), calls_log)
    else:
        made |= calls_stored(tables, rank, calls_log)
    links: Links | None = None
    if documents[1] is not None:
        links = links_in(profile_entries(documents[1], rank, links_log), links_log)
    elif (table := tables.get(LINKS)) is not None:
        links = links_stored(table, rank, links_log)
    used = [key[4] for key in links.keys if key[4]] if links else []
    if OPERATIONS in made:
        used += pc.unique(made[OPERATIONS]["group"]).drop_null().to_pylist()
    groups = with_own_places(reported_groups(parallel_groups), used, links.own_places() if links else {})
    if links is not None:
        made[LINKS] = link_table(links, groups, links_log)
    if groups:
        made[GROUPS] = group_table(groups, _kinds(made.get(OPERATIONS)))
    return Job({name: table for name, table in made.items() if table.num_rows}, groups)


def _kinds(operations: pa.Table | None) -> dict[str, str]:
    if operations is None:
        return {}
    pairs = operations.group_by(["group", "kind"], use_threads=False).aggregate([])
    groups, kinds = pairs["group"].to_pylist(), pairs["kind"].to_pylist()
    count = Counter(groups)
    return {group: kind for group, kind in zip(groups, kinds, strict=True) if count[group] == 1}
