"""A database table in the form of the corresponding CSV file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.ascend.csv_table import CsvTable, trimmed_cells
from tb_plugin.formats.ascend.database.cells import Form
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.model.trace.schema import MISSING

Schema = Mapping[str, tuple[str, Form]]  # title in text files -> names in databases, separated by spaces, and type


class TypedTable(CsvTable):
    """A CsvTable of typed columns. Times are integer nanoseconds, although column titles say microseconds."""

    def __init__(self, columns: Mapping[str, pa.Array], times: Mapping[str, pa.Array], log: IssueLog) -> None:
        texts = {
            title: trimmed_cells(column) if column.type == pa.string() else column for title, column in columns.items()
        }
        super().__init__([*texts, *times], [*texts.values(), *times.values()], log)
        self._times = frozenset(times)

    def texts(self, title: str) -> pa.Array:
        column = super().texts(title)
        if title in self._times:
            # Microseconds with three decimals; times are not negative.
            whole = pc.divide(column, 1000)
            rest = pc.subtract(column, pc.multiply(whole, 1000)).cast(pa.string())
            return pc.binary_join_element_wise(whole.cast(pa.string()), pc.utf8_lpad(rest, 3, "0"), ".")
        return column.cast(pa.string())

    def nanoseconds(self, title: str) -> tuple[Int64, Bool]:
        if title not in self._times:
            return super().nanoseconds(title)
        column = super().texts(title)
        return np.asarray(pc.fill_null(column, 0)), np.asarray(pc.is_valid(column))

    def numbers(self, title: str) -> Float64:
        column = super().texts(title)
        if column.type == pa.string():
            return super().numbers(title)
        values = np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan))
        return values / 1000 if title in self._times else values

    def integers(self, title: str) -> Int64:
        column = super().texts(title)
        if column.type != pa.int64():
            return super().integers(title)
        return np.asarray(pc.fill_null(column, MISSING))


def stored_table(database: Database, tables: Sequence[str], schema: Schema) -> TypedTable:
    """Reads the first of ``tables`` that exists. If none exists, the result has no rows."""
    table = next((each for each in tables if database.has(each)), "")
    existing = {column.casefold() for column in database.columns(table)}
    names = {
        title: next((name for name in spellings.split() if name.casefold() in existing), "")
        for title, (spellings, _) in schema.items()
    }
    forms = {names[title]: form for title, (_, form) in schema.items() if names[title]}
    read = database.read_as(table, forms)
    return TypedTable({title: read.array(name, forms[name]) for title, name in names.items() if name}, {}, database.log)
