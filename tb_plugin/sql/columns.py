"""How SQL tables and their columns are declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from tb_plugin.analysis.selection import select_rows, steps_of_rows
from tb_plugin.lib.arrays import Int16, Int32, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

Rows = Int32 | Int64 | Int16
# What the columns of a table are computed from.
Of = TypeVar("Of", contravariant=True)


class SqlColumn(Struct, Generic[Of], frozen=True):
    """A column. ``values`` returns None if profiles of this kind have no such column."""

    name: str
    unit: str
    meaning: str
    values: Callable[[Of], pa.Array | None]


class SqlTable(Struct, Generic[Of], frozen=True):
    """A table: what one row is, and its columns.

    ``of`` returns what the columns are computed from, or None if profiles of this kind have no such table.
    """

    name: str
    row: str
    of: Callable[[object], Of | None]
    columns: Sequence[SqlColumn[Of]]

    def table(self, model: object) -> pa.Table | None:
        """Returns the table of a profile, None if profiles of this kind have no such table."""
        found = self.of(model)
        if found is None:
            return None
        columns = {column.name: column.values(found) for column in self.columns}
        return pa.table({name: values for name, values in columns.items() if values is not None})


class Events(Struct, frozen=True, eq=False):
    """Events of a trace, one per row of a table."""

    trace: TraceTable
    rows: Rows

    def of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns the values of these events. ``values`` has one value per event of the trace."""
        found: npt.NDArray[Any] = values[self.rows]
        return found

    def text(self, ids: Rows) -> pa.Array:
        """Returns the texts of these string ids."""
        return coded(ids, self.trace.strings.array)

    def device_arg(self, column: str, missing: float = MISSING) -> npt.NDArray[Any]:
        """Returns a recorded argument of device work."""
        values = getattr(self.trace.device_args, column)
        spread = np.full(len(self.trace), missing, values.dtype)
        spread[self.trace.device_args.row] = values
        return self.of(spread)


def of_trace(found_in: Callable[[TraceTable], Of]) -> Callable[[object], Of | None]:
    """Returns a function for ``SqlTable.of`` of tables that only traces have."""
    return lambda model: found_in(model) if isinstance(model, TraceTable) else None


def of_kind(*kinds: EventKind) -> Callable[[object], Events | None]:
    """Returns a function for ``SqlTable.of``: events of these kinds."""
    return of_trace(lambda trace: Events(trace, select_rows(trace, None).of(trace, *kinds)))


def nullable(values: npt.NDArray[Any], missing: int = MISSING) -> pa.Array:
    return pa.array(values, mask=values == missing)


def real(values: npt.NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values) | (values < 0))


def coded(ids: Rows, texts: pa.Array | Sequence[str]) -> pa.Array:
    """Returns a column of texts by id (-1 = null), which are stored once."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    return pa.DictionaryArray.from_arrays(pa.array(ids.astype(np.int32), mask=ids == MISSING), array)


def renamed(trace: TraceTable, ids: Rows, rename: Callable[[str], str]) -> pa.Array:
    """Returns a column of renamed texts. Each distinct text is renamed once."""
    groups = group(ids)
    return coded(groups.of, [rename(trace.strings[name]) for name in ids[groups.first].tolist()])


def thread_of(trace: TraceTable, rows: Rows) -> pa.Array:
    return coded(trace.track[rows], [track.thread for track in trace.tracks])


def device_of(at: Events) -> pa.Array:
    return coded(at.of(at.trace.device), [device.id for device in at.trace.devices])


def word_of_kind(at: Events) -> pa.Array:
    return coded(at.of(at.trace.kind).astype(np.int32), [kind.name.lower() for kind in EventKind])


EVENT: SqlColumn[Events] = SqlColumn(
    "event", "", "number of the event; the timeline opens it", lambda at: pa.array(at.rows)
)
NAME: SqlColumn[Events] = SqlColumn("name", "", "name", lambda at: at.text(at.of(at.trace.name)))
START: SqlColumn[Events] = SqlColumn(
    "start_ns", "ns", "start, since the start of the trace", lambda at: pa.array(at.of(at.trace.start_ns))
)
DUR: SqlColumn[Events] = SqlColumn("dur_ns", "ns", "duration", lambda at: pa.array(at.of(at.trace.dur_ns)))
STEP: SqlColumn[Events] = SqlColumn(
    "step",
    "",
    "step to which views attribute the event",
    lambda at: coded(at.of(steps_of_rows(at.trace)), at.trace.steps.label),
)
THREAD: SqlColumn[Events] = SqlColumn("thread", "", "thread", lambda at: thread_of(at.trace, at.rows))
DEVICE: SqlColumn[Events] = SqlColumn("device", "", "device", device_of)
OPERATOR_EVENT: SqlColumn[Events] = SqlColumn(
    "operator_event", "", "event of that operator", lambda at: nullable(at.of(at.trace.operator))
)
LAUNCH_EVENT: SqlColumn[Events] = SqlColumn(
    "launch_event",
    "",
    "event of the runtime call that launched the work",
    lambda at: nullable(at.of(at.trace.launch)),
)
