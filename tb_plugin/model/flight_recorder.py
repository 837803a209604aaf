"""Flight recorder data of one rank: collectives and process groups."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.report import ReadReport

TEXT = pa.dictionary(pa.int32(), pa.large_string())
# Times are nanoseconds since 1970; null = unknown. stated_ns is the duration that the recorder reports.
SCHEMA = pa.schema(
    {
        "record": pa.int64(),
        "group_number": pa.int64(),
        "group": TEXT,
        "group_description": TEXT,
        "sequence": pa.int64(),
        "p2p_sequence": pa.int64(),
        "name": TEXT,
        "input_sizes": TEXT,
        "output_sizes": TEXT,
        "input_types": TEXT,
        "output_types": TEXT,
        "state": TEXT,
        "retired": pa.bool_(),
        "is_p2p": pa.bool_(),
        "created_ns": pa.int64(),
        "started_ns": pa.int64(),
        "completed_ns": pa.int64(),
        "stated_ns": pa.int64(),
        "timeout_ms": pa.int64(),
        "thread": TEXT,
        "stack": TEXT,
    }
)


class Group(msgspec.Struct, frozen=True):
    """A process group as recorded by one rank. ``ranks`` is empty if the ranks are unknown."""

    name: str
    description: str
    ranks: tuple[int, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """Sequence numbers of the last collectives that the rank enqueued, started and completed in one group; -1 = none."""

    group_number: int
    enqueued: int
    started: int
    completed: int


class RawFlight(msgspec.Struct, frozen=True, eq=False):
    """Flight recorder data in file order, as returned by a reader."""

    records: pa.Table
    """One row per call, with the columns of ``SCHEMA``."""
    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    version: str
    library: str
    report: ReadReport


class Flight(RawFlight, frozen=True, eq=False, dict=True, weakref=True):
    """Calls sorted by record number. ``records`` has the computed columns ``finished`` and ``duration_ns`` too."""

    def __len__(self) -> int:
        return int(self.records.num_rows)

    @property
    def origin_ns(self) -> int:
        """Returns the creation time of the first record, in nanoseconds since 1970; 0 if unknown."""
        return int(pc.min(self.records["created_ns"]).as_py() or 0)

    @property
    def overwritten(self) -> int:
        """Returns the number of records that were overwritten in the ring buffer."""
        return max(0, int(pc.min(self.records["record"]).as_py() or 0))


def assembled(raw: RawFlight) -> Flight:
    """Returns the calls sorted by record number, with the columns ``finished`` and ``duration_ns``.

    A call has finished if its state is "completed" or the recorder has retired it. A collective has also finished
    if the rank reports that a later collective of the same group is completed, because some backends never update
    the state after "scheduled". Progress is ignored if it refers to calls after the newest record.
    """
    records = sorted_by(raw.records, [("record", "ascending")])
    past = {status.group_number: status.completed for status in raw.status}
    number, sequence = (_numbers(records[key], -1) for key in ("group_number", "sequence"))
    known, place = np.unique(number, return_inverse=True)
    done = np.array([past.get(int(each), -1) for each in known], np.int64)[place] if len(known) else number
    collective = ~_flags(records["is_p2p"])
    latest = np.full(len(known), -1, np.int64)
    np.maximum.at(latest, place[collective], sequence[collective])
    done = np.where(done <= latest[place], done, -1)
    finished = (
        _flags(pc.equal(records["state"].cast(pa.large_string()), "completed"))
        | _flags(records["retired"])
        | (collective & (sequence >= 0) & (sequence <= done))
    )
    began = pc.coalesce(records["started_ns"], records["created_ns"])
    measured = pc.subtract(records["completed_ns"], began)
    measured = pc.if_else(pc.greater_equal(measured, 0), measured, None)
    records = records.append_column("finished", pa.array(finished)).append_column(
        "duration_ns", pc.coalesce(records["stated_ns"], measured)
    )
    return Flight(records.combine_chunks(), raw.groups, raw.status, raw.version, raw.library, raw.report)


def _numbers(column: pa.ChunkedArray, missing: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = pc.fill_null(column, missing).to_numpy().astype(np.int64)
    return found


def _flags(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.fill_null(column, False).to_numpy().astype(np.bool_)
    return found
