"""Tables of a job as one Arrow file that any process maps: each column a list, what is no column in the header."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.cluster.table import Cluster
from tb_plugin.model.column_file import kept, one_list, read_columns, write_columns
from tb_plugin.model.trace.arrow import report_of
from tb_plugin.model.trace.job_tables import SCHEMAS

VERSION = 1
"""Part of every cache key: raise it when the meaning or the set of columns changes."""
_AGAIN = "It is made anew from its files: ask again."


def write(cluster: Cluster, path: str) -> None:
    """Writes the file. Raises OSError."""
    header = {
        "version": VERSION,
        "tables": list(cluster.tables),
        "about": dict(cluster.about),
        "report": asdict(cluster.report),
    }
    columns = {
        f"{name}.{key}": one_list(table[key].combine_chunks())
        for name, table in cluster.tables.items()
        for key in table.column_names
    }
    write_columns(columns or {"empty": one_list(pa.array([], pa.int64()))}, header, path)


def read(path: str) -> Cluster:
    """Maps the file. Raises KeptLost when it is gone, damaged or of another version."""
    with kept("The kept columns are", path, _AGAIN):
        table, header = read_columns(path)
        if header["version"] != VERSION:
            raise CacheFileLost("The kept columns are of another version.", path, _AGAIN)
        tables = {
            name: pa.table({key: table[f"{name}.{key}"].chunk(0).values for key in SCHEMAS[name]})
            for name in header["tables"]
        }
        return Cluster(tables, header["about"], report_of(header["report"]))
