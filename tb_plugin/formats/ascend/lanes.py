"""Meaning of the processes and threads in a trace view."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Int32, UInt8


class Lane(IntEnum):
    """Type of the events on a thread."""

    HOST = 0  # the program: operators, its task queue, Python
    GC = 1  # Python's garbage collection
    CANN = 2  # runtime calls on host threads
    STREAM = 3  # tasks of a device stream
    GROUP = 4  # communication operations of a process group
    PLANE = 5  # tasks of communication operations
    ANALYSIS = 6  # bars computed by the vendor's tool
    OTHER = 7  # counters and unknown events


_PROCESSES = {
    "Python": Lane.HOST, "Python GC": Lane.GC, "CANN": Lane.CANN, "Ascend Hardware": Lane.STREAM, "NPU": Lane.STREAM,
    "HCCL": Lane.PLANE, "Communication": Lane.PLANE, "Overlap Analysis": Lane.ANALYSIS,
}  # fmt: skip
_GROUP = re.compile(r".*Communication\Z")
# label that ``process_names`` appends: the device, if there are several
_LABEL = re.compile(r" ?\((?:[^()]*, )*NPU(?: (\d+))?(?:, [^()]*)*\)\Z")
_MAX_THREADS = 1 << 20  # maximum index of threads of one kind
_DEVICE_MASK = 0b11111  # mask for the device in a process id; bits from 10 on are the host's process id


class Lanes:
    def __init__(
        self, texts: Sequence[str], processes: Mapping[str, str], threads: Mapping[tuple[str, str], str]
    ) -> None:
        self._texts = texts
        self._processes = processes
        self._threads = threads
        # process id on the host, "" if the trace has none
        self.host_pid = next((pid for pid, name in processes.items() if _bare(name) == "Python"), "")

    def of(self, pid: Int32, tid: Int32) -> tuple[UInt8, Int32]:
        """Returns the Lane and the device of each row; device -1 = host."""
        pairs, place = self._pairs(pid, tid)
        what = [self.what(*pair) for pair in pairs]
        lane, device = (np.array([each[i] for each in what], np.int32) for i in (0, 1))
        return lane.astype(np.uint8)[place], device[place]

    def drawn(self, pid: Int32, tid: Int32, text: Callable[[str], int]) -> tuple[Int32, Int32]:
        """Returns process and thread that display each row. CANN calls are on their host thread, tasks on their stream."""
        pairs, place = self._pairs(pid, tid)
        made = [self._drawn(*pair) for pair in pairs]
        process, thread = (np.array([text(each[i]) for each in made], np.int32) for i in (0, 1))
        return process[place], thread[place]

    def order(self, stated: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """Returns the sort order of threads. Device threads are sorted by Lane, then by ``stated`` or number."""
        found = dict(stated)
        for pid, tid in self._threads:
            lane, device = self.what(pid, tid)
            if device != -1 and lane not in (Lane.STREAM, Lane.OTHER):
                place = stated.get((pid, tid), int(tid[:6]) if tid.isdecimal() else 0)
                found[self._drawn(pid, tid)] = lane * _MAX_THREADS + min(max(place, 0), _MAX_THREADS - 1)
        return found

    def _pairs(self, pid: Int32, tid: Int32) -> tuple[list[tuple[str, str]], npt.NDArray[np.intp]]:
        width = len(self._texts) + 1
        keys, place = np.unique(pid.astype(np.int64) * width + tid, return_inverse=True)
        return [(self._texts[key // width], self._texts[key % width]) for key in keys.tolist()], place

    def _drawn(self, pid: str, tid: str) -> tuple[str, str]:
        lane, device = self.what(pid, tid)
        if lane == Lane.CANN:
            return self.host_pid or pid, tid
        if device == -1 or lane == Lane.OTHER:
            return pid, tid
        return str(device), tid if lane == Lane.STREAM else self._threads.get((pid, tid), f"Thread {tid}")

    def what(self, pid: str, tid: str) -> tuple[Lane, int]:
        """Returns the Lane and the device of a thread; device -1 = host."""
        name = self._processes.get(pid, "")
        lane = _PROCESSES.get(_bare(name), Lane.OTHER if name else Lane.HOST)
        if lane is Lane.PLANE and _GROUP.match(self._threads.get((pid, tid), "")):
            lane = Lane.GROUP
        if lane in (Lane.HOST, Lane.GC, Lane.CANN):
            return lane, -1
        return lane, self._device(pid, name)

    def _device(self, pid: str, name: str) -> int:
        label = _LABEL.search(name)
        if label and label[1]:
            return int(label[1])
        if pid.isdecimal() and self.host_pid.isdecimal() and int(pid) >> 10 == int(self.host_pid):
            return int(pid) & _DEVICE_MASK
        return 0


def device_lane_names(device: Int32, pid: Int32, tid: Int32, texts: Sequence[str]) -> dict[tuple[str, str], str]:
    """Returns the names of device tracks that are not streams: groups, planes and analyses."""
    row = np.flatnonzero(device != -1)
    pairs = np.unique(np.stack((pid[row], tid[row])), axis=1).T.tolist()
    return {(texts[pid], texts[tid]): texts[tid] for pid, tid in pairs if not texts[tid].isdecimal()}


def _bare(name: str) -> str:
    return name.partition(" (")[0]
