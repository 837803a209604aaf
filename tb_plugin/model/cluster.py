"""Tables about all ranks of a job."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa

from tb_plugin.model.trace.job_tables import job_table
from tb_plugin.model.trace.report import ReadReport


class Cluster(msgspec.Struct, frozen=True, eq=False):
    """Tables that a profiler reports about the ranks of a job. ``tables`` lacks those that it does not report."""

    tables: Mapping[str, pa.Table]
    """Tables by name, with the columns of ``trace.job_tables.SCHEMAS``."""
    profile_info: Mapping[str, str]
    report: ReadReport

    def table(self, name: str) -> pa.Table:
        """Returns a table by name. If the profiler does not report this table, returns an empty table."""
        found = self.tables.get(name)
        return job_table(name, {}) if found is None else found

    def __len__(self) -> int:
        return sum(table.num_rows for table in self.tables.values())
