"""Devices of a snapshot, and their memory after each event."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.allocator import device_name
from tb_plugin.analysis.base import Params, int_param
from tb_plugin.analysis.memory.blocks import Blocks, blocks_of_snapshot
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import HOST, NEVER, Action, Snapshot

HOST_NAME = "pinned host memory"
# Parameters of ``span_of``.
SPAN = ("from", "to", "from_ns", "to_ns")


class DeviceLevels(msgspec.Struct, frozen=True, eq=False):
    """One device of a snapshot, with its rows of each table. Event numbers start from 0."""

    snapshot: Snapshot
    place: int
    name: str
    events: slice
    blocks: slice
    segments: slice

    @property
    def count(self) -> int:
        return int(self.events.stop - self.events.start)

    @property
    def action(self) -> npt.NDArray[np.int8]:
        return self.snapshot.events.action[self.events]

    @property
    def time_ns(self) -> Int64:
        return self.snapshot.events.time_ns[self.events]

    @property
    def table(self) -> Blocks:
        return blocks_of_snapshot(self.snapshot, self.blocks)

    def block(self, column: str) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = getattr(self.snapshot.blocks, column)[self.blocks]
        return found

    def segment(self, column: str) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = getattr(self.snapshot.segments, column)[self.segments]
        return found

    def at_time(self, time_ns: int) -> int:
        return int(np.searchsorted(self.time_ns, time_ns, side="right")) - 1

    def live(self, event: int) -> Int64:
        """Returns the indices of the blocks that exist after an event, including blocks whose release is pending."""
        return np.flatnonzero((self.block("begin") <= event) & (self.block("end") > event))

    def allocated(self, event: int) -> Int64:
        """Returns the indices of the blocks after an event whose release was not requested."""
        return np.flatnonzero((self.block("begin") <= event) & (self.block("freed") > event))


class Levels(msgspec.Struct, frozen=True, eq=False):
    """Memory levels of a device, in bytes. Entry e + 1 is the level after event e."""

    allocated: Int64
    """Total bytes of the blocks whose release was not requested."""
    active: Int64
    """Allocated bytes, plus the bytes of blocks whose release was requested but that a stream still uses."""
    reserved: Int64

    def peak(self) -> int:
        return int(np.argmax(self.allocated)) - 1

    def most_reserved(self) -> int:
        """Returns the first event with the most reserved bytes, and among these with the most active bytes."""
        most = np.flatnonzero(self.reserved == self.reserved.max())
        return int(most[self.active[most].argmax()]) - 1


@cached_by_argument
def devices_of(snapshot: Snapshot) -> tuple[DeviceLevels, ...]:
    """Returns the devices that have blocks, segments or events. The host comes last."""
    found = []
    for place, number in enumerate(snapshot.device_ids):
        name = HOST_NAME if number == HOST else device_name(snapshot.device_type, number)
        events = slice(int(snapshot.first[place]), int(snapshot.first[place + 1]))
        blocks, segments = (_part(table.device, number) for table in (snapshot.blocks, snapshot.segments))
        found.append(DeviceLevels(snapshot, place, name, events, blocks, segments))
    return tuple(found)


def _part(ids: npt.NDArray[np.int16], number: int) -> slice:
    """Returns the slice of a table that contains a device's rows. Tables are sorted by device."""
    rows = np.flatnonzero(ids == number)
    return slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) else slice(0, 0)


def levels_of_device(snapshot: Snapshot, params: Params) -> DeviceLevels:
    """Returns the requested device, by default that with the most events. Raises BadRequest for an unknown device."""
    devices = devices_of(snapshot)
    requested = params.get("device")
    if not requested:
        return (
            max(devices, key=lambda device: device.count)
            if devices
            else DeviceLevels(snapshot, 0, "", *[slice(0, 0)] * 3)
        )
    for device in devices:
        if device.name == requested:
            return device
    known = ", ".join(device.name for device in devices) or "none"
    raise BadRequest(f"The snapshot has no device {requested[:40]}.", "device", f"It has: {known}.")


def levels_of(device: DeviceLevels) -> Levels:
    return _levels(device.snapshot, device.place)


@cached_by_argument
def _levels(snapshot: Snapshot, place: int) -> Levels:
    devices = devices_of(snapshot)
    if not devices:
        nothing = np.zeros(1, np.int64)
        return Levels(nothing, nothing, nothing)
    device = devices[place]
    size, begin = device.block("size"), device.block("begin")
    segments = device.segment("begin"), device.segment("end"), device.segment("size")
    return Levels(
        bytes_after_events(device.count, begin, device.block("freed"), size),
        bytes_after_events(device.count, begin, device.block("end"), size),
        bytes_after_events(device.count, *segments),
    )


def bytes_after_events(count: int, begin: Int64, end: Int64, size: Int64) -> Int64:
    """Returns the bytes after each event. The first of ``count + 1`` entries is for the time before the first event."""
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, begin + 1, size)
    ends = np.flatnonzero((end != NEVER) & (end >= begin))
    np.subtract.at(change, end[ends] + 1, size[ends])
    return np.cumsum(change)


def moment_of(device: DeviceLevels, params: Params, key: str = "at") -> int | None:
    """Returns the requested event number, moved into the history; None if missing. Raises BadRequest for other texts."""
    requested = int_param(params, key)
    return None if requested is None else min(max(requested, -1), device.count - 1)


def span_of(device: DeviceLevels, params: Params) -> tuple[int, int]:
    """Returns the first and last event of the requested part of the history. The default is the entire history.

    ``from`` and ``to`` are event numbers; ``from_ns`` and ``to_ns`` are times. If ``from_ns`` is given, the first
    event is the last event at or before ``from_ns``. Raises BadRequest for an invalid range.
    """
    low, high = moment_of(device, params, "from"), moment_of(device, params, "to")
    low_ns, high_ns = int_param(params, "from_ns"), int_param(params, "to_ns")
    low = device.at_time(low_ns) if low is None and low_ns is not None else low
    high = device.at_time(high_ns) if high is None and high_ns is not None else high
    first, last = -1 if low is None else low, device.count - 1 if high is None else high
    if last < first:
        raise BadRequest("The requested range of events ends before it starts.", "to", f"From event {first} to {last}.")
    return first, last


def ooms_of(device: DeviceLevels) -> Int64:
    return np.flatnonzero(device.action == Action.OOM)
