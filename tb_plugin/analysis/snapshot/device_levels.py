"""Devices of a snapshot, and their memory after every event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.allocator import device_name
from tb_plugin.analysis.base import Params, int_param
from tb_plugin.errors import BadRequest
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.snapshot.table import HOST, NEVER, Action, Blocks, Snapshot

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

HOST_NAME = "pinned host memory"


@dataclass(frozen=True, eq=False)
class DeviceLevels:
    """One device: its part of each table. Its events are numbered from 0."""

    snapshot: Snapshot
    place: int
    name: str
    events: slice
    blocks: slice
    segments: slice

    @property
    def count(self) -> int:
        """Returns the number of events."""
        return int(self.events.stop - self.events.start)

    @property
    def action(self) -> npt.NDArray[np.int8]:
        """Returns the action of each event."""
        return self.snapshot.events.action[self.events]

    @property
    def time_ns(self) -> Int64:
        """Returns the time of each event."""
        return self.snapshot.events.time_ns[self.events]

    def block(self, column: str) -> npt.NDArray[np.int64]:
        """Returns a column of its blocks."""
        found: npt.NDArray[np.int64] = getattr(self.snapshot.blocks, column)[self.blocks]
        return found

    def segment(self, column: str) -> npt.NDArray[np.int64]:
        """Returns a column of its segments."""
        found: npt.NDArray[np.int64] = getattr(self.snapshot.segments, column)[self.segments]
        return found

    def at_time(self, time_ns: int) -> int:
        """Returns the last event until a time, -1 = none."""
        return int(np.searchsorted(self.time_ns, time_ns, side="right")) - 1

    def live(self, event: int) -> Int64:
        """Returns the rows of the blocks that are live after an event."""
        return np.flatnonzero((self.block("begin") <= event) & (self.block("end") > event))

    def allocated(self, event: int) -> Int64:
        """Returns the rows of live blocks whose release was not yet requested."""
        return np.flatnonzero((self.block("begin") <= event) & (self.block("freed") > event))


@dataclass(frozen=True, eq=False)
class Levels:
    """Bytes after each event: position e + 1 is after event e, position 0 before the first one."""

    allocated: Int64
    """In blocks whose release was not requested."""
    active: Int64
    """In these blocks and in those that a stream may still use."""
    reserved: Int64

    def peak(self) -> int:
        """Returns the first event with most allocated bytes, -1 = before the first one."""
        return int(np.argmax(self.allocated)) - 1

    def most_reserved(self) -> int:
        """Returns the event of most reserved bytes, -1 = before the first one.

        Of several, it is the first with most active bytes.
        """
        most = np.flatnonzero(self.reserved == self.reserved.max())
        return int(most[self.active[most].argmax()]) - 1


@remembered
def devices_of(snapshot: Snapshot) -> tuple[DeviceLevels, ...]:
    """Returns the devices with blocks, segments or events, the host last."""
    found = []
    for place, number in enumerate(snapshot.device_ids):
        name = HOST_NAME if number == HOST else device_name(snapshot.device_type, number)
        events = slice(int(snapshot.first[place]), int(snapshot.first[place + 1]))
        blocks, segments = (_part(table.device, number) for table in (snapshot.blocks, snapshot.segments))
        found.append(DeviceLevels(snapshot, place, name, events, blocks, segments))
    return tuple(found)


def _part(ids: npt.NDArray[np.int16], number: int) -> slice:
    """Returns the rows of a device; tables list one device after the other."""
    rows = np.flatnonzero(ids == number)
    return slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) else slice(0, 0)


def levels_of_device(snapshot: Snapshot, params: Params) -> DeviceLevels:
    """Returns the requested device, by default the one with most events. Raises BadRequest."""
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
    """Returns the allocated, active and reserved bytes after every event of a device."""
    return _levels(device.snapshot, device.place)


@remembered
def _levels(snapshot: Snapshot, place: int) -> Levels:
    devices = devices_of(snapshot)
    if not devices:
        nothing = np.zeros(1, np.int64)
        return Levels(nothing, nothing, nothing)
    device = devices[place]
    size, begin = device.block("size"), device.block("begin")
    segments = device.segment("begin"), device.segment("end"), device.segment("size")
    return Levels(
        level(device.count, begin, device.block("freed"), size),
        level(device.count, begin, device.block("end"), size),
        level(device.count, *segments),
    )


def level(count: int, begin: Int64, end: Int64, size: Int64) -> Int64:
    """Returns the bytes of blocks or segments after each of ``count`` events, and before the first one."""
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, begin + 1, size)
    ends = np.flatnonzero((end != NEVER) & (end >= begin))
    np.subtract.at(change, end[ends] + 1, size[ends])
    return np.cumsum(change)


def moment_of(device: DeviceLevels, params: Params, key: str = "at") -> int | None:
    """Returns the event that a parameter names, limited to existing events; None without the parameter. Raises BadRequest."""
    requested = int_param(params, key)
    return None if requested is None else min(max(requested, -1), device.count - 1)


def span_of(device: DeviceLevels, params: Params) -> tuple[int, int]:
    """Returns the first and last event of the selected part of the history, by default of all. Raises BadRequest.

    ``from`` and ``to`` name events, ``from_ns`` and ``to_ns`` times. A part by time starts with the state at that time.
    """
    low, high = moment_of(device, params, "from"), moment_of(device, params, "to")
    low_ns, high_ns = int_param(params, "from_ns"), int_param(params, "to_ns")
    low = device.at_time(low_ns) if low is None and low_ns is not None else low
    high = device.at_time(high_ns) if high is None and high_ns is not None else high
    first, last = -1 if low is None else low, device.count - 1 if high is None else high
    if last < first:
        raise BadRequest("The part of the history ends before it starts.", "to", f"From event {first} to {last}.")
    return first, last


def ooms_of(device: DeviceLevels) -> Int64:
    """Returns the events at which memory ran out."""
    return np.flatnonzero(device.action == Action.OOM)


def columns_of(blocks: Blocks, rows: Int64, *names: str) -> tuple[npt.NDArray[np.int64], ...]:
    """Returns some columns of some blocks."""
    return tuple(getattr(blocks, name)[rows] for name in names)
