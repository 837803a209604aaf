"""Lanes: host threads, device streams and CUPTI streams."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.schema import MISSING
from torch_trace_megengine.timeline.events import BEGIN, FINISH, START, STEP, Events
from torch_trace_megengine.timeline.slices import Slices, text_ids

KERNEL = "Kernel"
DISPATCH = "OpDispatch"
LAUNCH = "KernelLaunch"
TENSOR = "TensorLink"
PROPERTY = "TensorProp"
CUPTI = ("KernelLink", "CUPTILink")  # categories that the writer uses; all except the first are arrows

# device stream in MegEngine's notation (CompNode): ``gpu0:1``, or logical ``gpux:1``
_NODE = re.compile(r"^([a-z]+(?:\d+|x))(?::\d+)?$")
# display names of device types; others (cpu, cambricon) have none
_WORDS = {"gpu": "GPU", "cuda": "GPU", "rocm": "GPU", "atlas": "NPU"}
_UNNAMED = "unnamed"  # device of unnamed lanes; names come last in the file and may be missing if it is truncated
_NUMBERED = re.compile(r"(?!cpu)[a-z]+(\d{1,4})")
_KIND = re.compile(r"([a-z]+?)(?:\d+|x)(?: of .*)?$")
_PHYSICAL = re.compile(r'^CompNode\("([^"]+)" from "([^"]+)"\)$')


class Lanes(msgspec.Struct, frozen=True, eq=False):
    of: Int32
    pid: Int32  # string id, like ``tid``
    tid: Int32
    node: Bool  # device streams recorded by MegEngine
    cupti: Bool  # device streams reported by CUPTI
    executes: Bool  # threads that execute operators
    titles: Sequence[str]  # names of threads and streams, "" if unknown

    @property
    def on_device(self) -> Bool:
        return self.node | self.cupti


def numbered_lanes(events: Events) -> tuple[Int32, Int64]:
    width = int(events.tid.max(initial=0)) + 1
    lanes = group(events.pid.astype(np.int64) * width + events.tid)
    return lanes.of.astype(np.int32), lanes.first


def lanes_of(events: Events, interner: Interner, names: Mapping[tuple[str, str], str]) -> Lanes:
    """Returns the lanes of a timeline. The type of a lane depends on its events, otherwise on its name."""
    of, first = numbered_lanes(events)
    pid, tid = events.pid[first], events.tid[first]
    texts = interner.texts
    titles = [names.get((texts[p], texts[t]), "").strip() for p, t in zip(pid.tolist(), tid.tolist(), strict=True)]
    category = interner.names

    def lanes_with(chosen: Bool) -> Bool:
        found = np.zeros(len(first), np.bool_)
        found[of[chosen]] = True
        return found

    begins, finishes = events.phase == BEGIN, events.phase == FINISH
    node = lanes_with(begins & (events.category == category[KERNEL]))
    node |= lanes_with(finishes & (events.category == category[LAUNCH]))
    node |= np.array([_NODE.match(title) is not None for title in titles], np.bool_)
    links = np.isin(events.category, [category[name] for name in CUPTI])
    timed = np.zeros(len(events), np.bool_)
    if "execution_time" in events.args:
        timed[events.args["execution_time"].row] = True
    executes = lanes_with((events.phase == STEP) & (events.category == category[DISPATCH]))
    node &= ~executes
    cupti = (lanes_with(finishes & links) | lanes_with(begins & timed)) & ~node & ~executes
    return Lanes(of, pid, tid, node, cupti, executes, titles)


class Places(msgspec.Struct, frozen=True, eq=False):
    """Process, thread (string ids) and device under which each lane is displayed."""

    pid: Int32
    tid: Int32
    titles: Mapping[tuple[str, str], str]
    device: npt.NDArray[np.int16]  # index into ``devices``, -1 for host threads
    devices: list[str]


def places_of_lanes(events: Events, lanes: Lanes, interner: Interner, fed: Int32) -> Places:
    """Returns where lanes are displayed; streams under their device. ``fed``: lane that launched most of a CUPTI stream."""
    texts = interner.texts
    physical = _physical(events, texts)
    names = _names(lanes, texts, physical)
    pid, tid = lanes.pid.copy(), lanes.tid.copy()
    device = np.full(len(pid), MISSING, np.int16)
    several = len(np.unique(pid)) > 1
    devices: dict[str, int] = {}
    named: dict[int, str] = {}
    titles: dict[tuple[str, str], str] = {}
    taken: set[tuple[str, str]] = set()
    for lane in [*np.flatnonzero(lanes.node).tolist(), *np.flatnonzero(lanes.cupti).tolist()]:
        title, process = names[lane], texts[int(lanes.pid[lane])]
        if lanes.node[lane]:
            found = _NODE.match(physical.get((process, title), title))
            named[lane] = found[1] if found else title or _single_device(physical, process)
        else:
            same_process = [other for other in named if lanes.pid[other] == lanes.pid[lane] and lanes.node[other]]
            source = int(fed[lane]) if fed[lane] != MISSING else same_process[0] if same_process else MISSING
            named[lane] = named.get(source, _UNNAMED)
            title = f"CUPTI stream {texts[int(lanes.tid[lane])]}"
        logical = several and named[lane].endswith("x")
        of = f"{named[lane]} of {process}" if logical else named[lane]
        stream = title or texts[int(lanes.tid[lane])]
        if (of, stream) in taken:
            stream = f"{stream} of {process}"
        taken.add((of, stream))
        device[lane] = devices.setdefault(of, len(devices))
        pid[lane], tid[lane] = interner.text(of), interner.text(stream)
        titles[of, stream] = stream
    return Places(pid, tid, titles, device, list(devices))


def _names(lanes: Lanes, texts: Sequence[str], physical: Mapping[tuple[str, str], str]) -> list[str]:
    """Returns the names of lanes. That of a single unnamed stream comes from the arguments of tensors."""
    found = list(lanes.titles)
    for process in np.unique(lanes.pid[lanes.node]).tolist():
        mine = np.flatnonzero(lanes.node & (lanes.pid == process)).tolist()
        stated = [stream for of, stream in physical if of == texts[process]]
        if len(mine) == len(stated) == 1 and not found[mine[0]]:
            found[mine[0]] = stated[0]
    return found


def _single_device(physical: Mapping[tuple[str, str], str], process: str) -> str:
    """Returns the device of a process's tensors, "unnamed" unless there is exactly one."""
    matches = {_NODE.match(stream) for (of, _), stream in physical.items() if of == process}
    devices = {match[1] for match in matches if match}
    return devices.pop() if len(devices) == 1 else _UNNAMED


def describe_devices(devices: Sequence[DeviceInfo]) -> tuple[DeviceInfo, ...]:
    """Adds number and type to devices, derived from their names. CPUs get no number, as in allocator events."""
    found = [_NUMBERED.fullmatch(device.id) for device in devices]
    return tuple(
        replace(device, ordinal=int(match[1]) if match else None, word=_word(device.id))
        for device, match in zip(devices, found, strict=True)
    )


def _word(device: str) -> str:
    kind = _KIND.match(device)
    return _WORDS.get(kind[1], "Device") if kind else "Device"


def _physical(events: Events, texts: Sequence[str]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    column = events.args.get("device")
    if column is None or not column.is_text:
        return found
    pairs = np.unique(np.stack((events.pid[column.row], text_ids(column, len(events))[column.row])), axis=1)
    for process, stated in pairs.T.tolist():
        if match := _PHYSICAL.match(texts[stated]):
            found.setdefault((texts[process], match[2]), match[1])
    return found


def ends_of(events: Events, slices: Slices, lanes: Lanes, chosen: Bool) -> tuple[Int64, Int32]:
    """Returns the indices of the arrow starts and ends in ``chosen``, and the slice that contains each; -1 = none."""
    at = np.flatnonzero(chosen & (events.phase >= START))
    return at, slices.around(lanes.of[at], at)
