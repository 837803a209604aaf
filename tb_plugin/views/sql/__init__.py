"""The ``sql`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "sql",
    "Query",
    order=390,
    model=TRACE,
    traits=Traits("query", "picture", phase_note="A query covers the whole recording."),
    http=ViewText(
        parameters=(
            "`query` (one SELECT over the tables of [SQL](sql.md), by default `select * from columns`), `ranks` (`all`: "
            "a query over all ranks of the run and span; the tables have the column `rank`)."
        ),
        payloads=(
            "`summary` (Figures), `data_quality` (Notices: skipped ranks; absent if there are none), `chart` (Series, "
            "absent if the rows have no names or no amounts), `rows` (Table; the keys of the columns are those of the "
            "query)."
        ),
        tables="`rows` (at most 100,000).",
    ),
)
