"""What the processes and threads of a trace view are: the host's own threads, calls of CANN, streams, planes of groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]


class Lane(IntEnum):
    """What the events of a thread are about."""

    HOST = 0
    """What the program did: operators, its queue of tasks, Python."""
    GC = 1
    """Python's collection of garbage."""
    CANN = 2
    """Calls of the runtime, on the threads of the host."""
    STREAM = 3
    """Tasks of a stream of the device."""
    GROUP = 4
    """Whole operations of a group of ranks."""
    PLANE = 5
    """Tasks that such operations are made of."""
    ANALYSIS = 6
    """Bars that the tool worked out of the others."""
    OTHER = 7
    """Counters, and what nobody knows."""


_PROCESSES = {
    "Python": Lane.HOST, "Python GC": Lane.GC, "CANN": Lane.CANN, "Ascend Hardware": Lane.STREAM, "NPU": Lane.STREAM,
    "HCCL": Lane.PLANE, "Communication": Lane.PLANE, "Overlap Analysis": Lane.ANALYSIS,
}  # fmt: skip
_GROUP = re.compile(r".*Communication\Z")
_LABEL = re.compile(r" ?\((?:[^()]*, )*NPU(?: (\d+))?(?:, [^()]*)*\)\Z")
"""A label of a process, as ``process_names`` appends it: which device it is, where there are several."""
_MOST_THREADS = 1 << 20
"""Places of threads among those that are the same."""
_DEVICE_BITS = 31
"""The lowest bits of a process's number are the device, those above 10 the number of the process on the host."""


class Lanes:
    """By pair of process and thread ids: what it is and of which device."""

    def __init__(
        self, texts: Sequence[str], processes: Mapping[str, str], threads: Mapping[tuple[str, str], str]
    ) -> None:
        self._texts = texts
        self._processes = processes
        self._threads = threads
        self.host_pid = next((pid for pid, name in processes.items() if _bare(name) == "Python"), "")
        """Number of the process on the host, "" where the trace has none."""

    def of(self, pid: Int32, tid: Int32) -> tuple[npt.NDArray[np.uint8], Int32]:
        """Returns what rows of these threads are (Lane), and the number of their device, -1 on the host."""
        pairs, place = self._pairs(pid, tid)
        what = [self.what(*pair) for pair in pairs]
        lane, device = (np.array([each[i] for each in what], np.int32) for i in (0, 1))
        return lane.astype(np.uint8)[place], device[place]

    def drawn(self, pid: Int32, tid: Int32, text: Callable[[str], int]) -> tuple[Int32, Int32]:
        """Returns the ids of the process and thread that rows are drawn on; ``text`` gives the id of a text.

        Calls of CANN stand on the thread of the host that makes them, work of a device on its streams, as in all traces.
        """
        pairs, place = self._pairs(pid, tid)
        made = [self._drawn(*pair) for pair in pairs]
        process, thread = (np.array([text(each[i]) for each in made], np.int32) for i in (0, 1))
        return process[place], thread[place]

    def order(self, stated: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """Returns where the threads stand as they are drawn: by what they are, then by ``stated``, else by their numbers."""
        found = dict(stated)
        for pid, tid in self._threads:
            lane, device = self.what(pid, tid)
            if device != -1 and lane not in (Lane.STREAM, Lane.OTHER):
                place = stated.get((pid, tid), int(tid[:6]) if tid.isdecimal() else 0)
                found[self._drawn(pid, tid)] = lane * _MOST_THREADS + min(max(place, 0), _MOST_THREADS - 1)
        return found

    def _pairs(self, pid: Int32, tid: Int32) -> tuple[list[tuple[str, str]], npt.NDArray[np.intp]]:
        """The distinct threads of some rows, and of each row which it is."""
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
        """Returns what a thread is, and the number of its device, -1 on the host."""
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
            return int(pid) & _DEVICE_BITS
        return 0


def device_lane_names(device: Int32, pid: Int32, tid: Int32, texts: Sequence[str]) -> dict[tuple[str, str], str]:
    """Returns the names of what is drawn on a device beside streams: groups, planes and analyses are called what they are."""
    row = np.flatnonzero(device != -1)
    pairs = np.unique(np.stack((pid[row], tid[row])), axis=1).T.tolist()
    return {(texts[pid], texts[tid]): texts[tid] for pid, tid in pairs if not texts[tid].isdecimal()}


def _bare(name: str) -> str:
    """The name of a process without its labels."""
    return name.partition(" (")[0]
