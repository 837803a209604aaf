"""Kinds, names, operators and launches of slices and instants."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.model.trace.schema import MISSING, EventKind
from torch_trace_megengine.timeline import lanes as of_lanes
from torch_trace_megengine.timeline.events import COMPLETE, FINISH, INSTANT, START, STEP, Events
from torch_trace_megengine.timeline.lanes import Lanes, ends_of
from torch_trace_megengine.timeline.slices import Slices, integer_argument, text_ids

# names that end in a tensor number, which is also an argument
_TENSOR_NAME = re.compile(r"^(Input|Output|Put|Del|Drop|RecFree|ReGen|GetValue) \d+$")
# calls to MegEngine's runtime
_CALLS = re.compile(
    r"^(?:Input|Output|Put|Del|Drop|RecFree|ReGen|GetValue|OpDispatch|AutoEvict|TensorGetProp|TensorWaitProp)$"
)
_OWN = re.compile(r"^(?:Start|Stop)Profile$")
_DRIVER = re.compile(r"^cu(?:da)?[A-Z]\w*$")  # CUDA runtime and driver calls, named by CUPTI
_BACKWARD = re.compile(r"^\w+Backward$")
# scopes of GradManager and Optimizer, which are parts of a step and not modules
_PARTS = re.compile(r"^(?:backward|step|clear_grad)$")
_COPIED, _COPY, _SET = "HostToDevice", "Memcpy", "Memset"
_HOST_MEMORY = ("Pageable", "Pinned")  # memory kinds without CUPTI's prefix
WAITS = ("TensorWaitProp", "GetValue")  # calls that wait: for a tensor property, and for a value on the device
DISPATCHED = "OpDispatch"
LAUNCHED = "KernelLaunch"  # name of the launch instant of an operator's work, recorded as the start of an arrow
BASE_BITS = 40  # bits for operator and launch numbers, which restart in each process of a file


class Kinds(msgspec.Struct, frozen=True, eq=False):
    kind: UInt8
    operation: Int64  # operator that the slice represents, dispatches or executes; -1 for none
    launch: Int64  # launch number shared by device work and its launch; -1 for none


def base_names(names: Int32, interner: Interner) -> Int32:
    """Removes the tensor number at the end of names."""
    table = np.arange(len(interner.texts), dtype=np.int32)
    for name in np.unique(names).tolist():
        if found := _TENSOR_NAME.match(interner.texts[name]):
            table[name] = interner.text(found[1])
    return table[names]


def kinds_of(events: Events, slices: Slices, lanes: Lanes, names: Int32, interner: Interner) -> Kinds:
    """Returns kind, operator and launch number of each slice. ``names`` come from ``base_names``."""
    texts, category = interner.texts, interner.names
    lane = slices.lane
    process = _processes(lanes)[lane]

    def table(pattern: re.Pattern[str]) -> Bool:
        known = np.zeros(len(texts), np.bool_)
        for name in np.unique(names).tolist():
            known[name] = pattern.match(texts[name]) is not None
        found: Bool = known[names]
        return found

    stated = integer_argument(events.args.get("__id__"), len(events))
    operation = np.maximum(stated[slices.begin], stated[slices.end])
    for phase in (START, STEP):
        at, owner = ends_of(events, slices, lanes, _is(events, phase, category[of_lanes.DISPATCH]))
        operation[owner[owner != MISSING]] = events.number[at[owner != MISSING]]
    launch = np.full(len(slices), MISSING, np.int64)
    _link(events, slices, lanes, launch, operation, category[of_lanes.LAUNCH], process)
    calls = np.zeros(len(slices), np.bool_)
    for name in of_lanes.CUPTI:
        calls |= _link(events, slices, lanes, launch, operation, category[name], process)
    operation = np.where(operation != MISSING, operation + (process << BASE_BITS), MISSING)
    # CUPTI's arrow starts in a slice named like the kernel, inside the launching call. The call is used as the launch.
    linked = calls & (slices.parent != MISSING) & table(_DRIVER)[slices.parent]
    launch[slices.parent[linked]] = launch[linked]
    launch[linked] = MISSING

    on_device, executes = lanes.on_device[lane], lanes.executes[lane]
    is_call = table(_CALLS) | table(_DRIVER) | calls
    scope = np.where(executes, EventKind.MODULE, EventKind.PYTHON)
    scope = np.where(executes & table(_PARTS), EventKind.ANNOTATION, scope)
    scope = np.where(executes & table(_BACKWARD), EventKind.OPERATOR, scope)
    host = np.select(
        [linked, names == category[DISPATCHED], is_call, table(_OWN), operation != MISSING],
        [EventKind.UNKNOWN, EventKind.RUNTIME, EventKind.RUNTIME, EventKind.OVERHEAD, EventKind.OPERATOR],
        scope,
    )
    copies, sets = np.isin(names, [category[_COPIED], category[_COPY]]), names == category[_SET]
    _link_copies(slices, lanes, launch, names, (category[_COPIED], category["Put"]), process)
    work = np.select([copies, sets], [EventKind.MEMCPY, EventKind.MEMSET], EventKind.KERNEL)
    # A slice that is neither work of an operator nor a copy is an annotation. If CUPTI recorded kernels and copies,
    # slices on MegEngine's own lanes contain the same work and are not counted again.
    titles = (events.category[slices.begin] != category[of_lanes.KERNEL]) & ~copies
    covered_by_cupti = np.isin(lanes.pid, lanes.pid[lanes.cupti])[lane]
    work = np.where(lanes.node[lane] & (titles | covered_by_cupti), EventKind.DEVICE_ANNOTATION, work)
    return Kinds(np.where(on_device, work, host).astype(np.uint8), operation, launch)


def _processes(lanes: Lanes) -> Int64:
    return np.unique(lanes.pid, return_inverse=True)[1].astype(np.int64)


def _is(events: Events, phase: int, category: int) -> Bool:
    found: Bool = (events.phase == phase) & (events.category == category)
    return found


def _link(
    events: Events, slices: Slices, lanes: Lanes, launch: Int64, operation: Int64, category: int, process: Int64
) -> Bool:
    """Sets launch numbers by arrows of one category. Returns a mask of host slices outside operators that start one."""
    at, owner = ends_of(events, slices, lanes, _is(events, START, category))
    at, owner = at[owner != MISSING], owner[owner != MISSING]
    to, target = ends_of(events, slices, lanes, _is(events, FINISH, category))
    to, target = to[target != MISSING], target[target != MISSING]
    launch[target] = events.number[to] + (process[target] << BASE_BITS)
    calls = np.zeros(len(launch), np.bool_)
    own = owner[operation[owner] == MISSING]
    calls[own] = True
    launch[own] = events.number[at[operation[owner] == MISSING]] + (process[own] << BASE_BITS)
    return calls


def _link_copies(
    slices: Slices, lanes: Lanes, launch: Int64, names: Int32, copied_put: tuple[int, int], process: Int64
) -> None:
    """Assigns the same launch number to a host-to-device copy and its call. The copy starts during the call."""
    copied, put = copied_put
    copies = np.flatnonzero((names == copied) & lanes.node[slices.lane] & (launch == MISSING))
    for lane in np.flatnonzero(lanes.executes).tolist():
        mine = copies[process[copies] == _processes(lanes)[lane]]
        call = slices.around(np.full(len(mine), lane, np.int32), slices.begin[mine])
        found = (call != MISSING) & (names[call] == put)
        mine, call = mine[found], call[found]
        launch[mine] = launch[call] = (1 << BASE_BITS - 1) + slices.begin[call] + (process[call] << BASE_BITS)


class Moments(msgspec.Struct, frozen=True, eq=False):
    at: Int64
    kind: UInt8


def moments_of(events: Events, lanes: Lanes, interner: Interner) -> Moments:
    """Returns calls without an end, instants, and launches that CUPTI did not record."""
    launches = _is(events, START, interner.names[of_lanes.LAUNCH])
    launches &= ~np.isin(events.pid, lanes.pid[lanes.cupti])
    at = np.flatnonzero((events.phase == COMPLETE) | (events.phase == INSTANT) | launches)
    kind = np.where(events.phase[at] == INSTANT, EventKind.INSTANT, EventKind.RUNTIME)
    on_device = lanes.on_device[lanes.of[at]] & (events.phase[at] == COMPLETE)
    return Moments(at, np.where(on_device, EventKind.DEVICE_ANNOTATION, kind).astype(np.uint8))


def copy_names(events: Events, slices: Slices, kinds: Kinds, names: Int32, interner: Interner) -> Int32:
    """Returns the names of slices. The name of a memcpy includes the direction, as in traces of other profilers."""
    source, target = (text_ids(events.args.get(key), len(events)) for key in ("src_kind", "dst_kind"))
    at = np.flatnonzero((kinds.kind == EventKind.MEMCPY) & (source[slices.end] != MISSING))
    if not len(at):
        return names
    names = names.copy()
    pairs, inverse = np.unique(np.stack((source[slices.end[at]], target[slices.end[at]])), axis=1, return_inverse=True)
    name_ids = [interner.text(_copy_name(*(_text(interner.texts, one) for one in pair))) for pair in pairs.T.tolist()]
    names[at] = np.array(name_ids, np.int32)[inverse.ravel()]
    return names


def _text(texts: Sequence[str], number: int) -> str:
    return texts[number] if number != MISSING else ""


def _copy_name(source: str, target: str) -> str:
    ends = [
        text.removeprefix("CUPTI_ACTIVITY_MEMORY_KIND_").replace("_", " ").capitalize() for text in (source, target)
    ]
    ways = ["H" if end in _HOST_MEMORY else "D" for end in ends]
    return f"Memcpy {ways[0]}to{ways[1]} ({ends[0]} -> {ends[1]})"
