"""SQL: tables and columns."""

from __future__ import annotations

from tb_plugin.sql.tables import TABLES

HEAD = """# SQL

`torch-trace sql`, `p.sql()` and the page *Query* run one SELECT over these tables, in the dialect of
[DuckDB](https://duckdb.org) (`pip install 'torch-trace-tb[sql]'`). `select * from columns` lists the tables. Missing
values are null. Times are nanoseconds since the start of the trace: each rank has its own zero, so do not compare times
of different ranks. With several profiles, each table starts with `run`, `rank` and `span`. A column with one value for
all profiles is omitted.

A query cannot read files, reach the network, load extensions or change anything. It is stopped after 30 seconds, or if
it needs too much memory. An answer has at most
100,000 rows and 64 MiB; `p.sql()` raises an error instead of cutting."""


def page() -> str:
    """Returns the page."""
    parts = [HEAD]
    for table in TABLES.values():
        parts.append(f"\n## {table.name}\n\nOne row per {table.row}.\n\n| column | unit | meaning |\n|---|---|---|")
        parts += [f"| `{each.name}` | {each.unit} | {each.meaning} |" for each in table.columns]
    return "\n".join(parts)
