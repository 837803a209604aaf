"""Tables of a whole job, with the columns of ``trace.job_tables``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tb_plugin.model.trace.job_tables import job_table
from tb_plugin.model.trace.report import ReadReport


@dataclass(frozen=True, eq=False)
class Cluster:
    """Reported tables about the ranks of a job; unreported tables are missing."""

    tables: Mapping[str, pa.Table]
    """Columns of ``trace.job_tables.SCHEMAS`` by name."""
    profile_info: Mapping[str, str]
    """Metadata of the job: sizes of parallel groups, versions."""
    report: ReadReport

    def table(self, name: str) -> pa.Table:
        """Returns a table by its name, empty if it was not reported."""
        found = self.tables.get(name)
        return job_table(name, {}) if found is None else found

    def __len__(self) -> int:
        return sum(table.num_rows for table in self.tables.values())
