"""The model of an allocator snapshot: what memory holds at a moment, and the history that led there."""

from __future__ import annotations

from tb_plugin.model.snapshot import arrow
from tb_plugin.model.snapshot.assemble import assemble
from tb_plugin.model.snapshot.table import RawSnapshot, Snapshot
from tb_plugin.model_kinds.base import Feature, Outline
from tb_plugin.payloads import ClockInfo


class SnapshotModel:
    """A SnapshotModel knows how a snapshot of an allocator is made, kept and told."""

    id = "snapshot"
    noun = "a memory snapshot"
    version = arrow.SCHEMA_VERSION
    default_view = "allocations"
    features: tuple[Feature, ...] = ()
    raw = RawSnapshot
    type = Snapshot

    def assemble(self, raw: RawSnapshot) -> Snapshot:
        """Returns the snapshot with the lives of its blocks and segments."""
        return assemble(raw)

    def write(self, made: Snapshot, path: str) -> None:
        """Writes the column file. Raises OSError."""
        arrow.write(made, path)

    def read(self, path: str) -> Snapshot:
        """Returns the snapshot, its columns mapped. Raises KeptLost."""
        return arrow.read(path)

    def outline(self, made: Snapshot) -> Outline:
        """Returns its report, and when its history was recorded."""
        clock = None
        if made.has_times:
            clock = ClockInfo(str(made.origin_ns), int(made.events.time_ns.max()))
        return Outline(made.report, clock=clock)

    def open_beside(self, made: Snapshot, path: str) -> None:
        """Keeps nothing beside the column file."""
