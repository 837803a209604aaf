"""Rows of the model from timeline events."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.devices import describe_all
from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.classify import call_names, class_names, name_flags, own_communication
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace.extra_columns import RESULT_SHAPES, OpenColumn, ReportedSteps
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, ON_DEVICE, CallRole, EventKind, of_kind
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import ArrowEnds, CallNames, CollectiveArgs, DeviceArgs, Flows, OperatorArgs
from torch_trace_megengine.profiler import COLLECTIVE
from torch_trace_megengine.timeline import lanes as of_lanes
from torch_trace_megengine.timeline.arrows import dependencies, launches, operations_around
from torch_trace_megengine.timeline.backward import SUFFIX, forward_pairs, passes_of
from torch_trace_megengine.timeline.events import BACKTRACE, INSTANT, Events
from torch_trace_megengine.timeline.lanes import describe_devices, lanes_of, places_of_lanes
from torch_trace_megengine.timeline.rows import BASE_BITS, LAUNCHED, WAITS, base_names, copy_names, kinds_of, moments_of
from torch_trace_megengine.timeline.slices import columns_by_row, integer_argument, slices_of, text_ids
from torch_trace_megengine.timeline.steps import STOPPED, Marks, Rows, recorded_steps

_COLUMN_ARGUMENTS = frozenset({BACKTRACE, "__id__", "bytes"})  # arguments with columns of their own


class Timeline:
    def __init__(self, events: Events, interner: Interner, names: Mapping[tuple[str, str], str]) -> None:
        self.events, self.interner = events, interner
        lanes = self.lanes = lanes_of(events, interner, names)
        slices = self.slices = slices_of(events, lanes.of)
        self.bare = base_names(events.name[slices.begin], interner)
        self.kinds = kinds_of(events, slices, lanes, self.bare, interner)
        self.moments = moments_of(events, lanes, interner)
        begins = np.concatenate((slices.begin, self.moments.at))
        order = np.argsort(begins, kind="stable")
        self.count = len(begins)
        self.event = begins[order]  # first event of each row
        self._order = order
        place: Int32 = np.empty(self.count, np.int32)
        place[order] = np.arange(self.count, dtype=np.int32)
        self.row: Int32 = place[: len(slices)]  # row of each slice
        self.row_of = np.full(len(events) + 1, MISSING, np.int32)
        self.row_of[slices.begin] = self.row_of[slices.end] = self.row
        self.row_of[self.moments.at] = place[len(slices) :]
        self.places = places_of_lanes(events, lanes, interner, self._fed())

    def raw(self, log: IssueLog, rules: RuleFile) -> dict[str, Any]:
        if self.slices.unmatched:
            log.add("unmatched_begin", "dropped", count=self.slices.unmatched)
        core = _Core(self)
        operators, collectives = self._operator_args(core), self._collective_args(core)
        classes = class_names(core, self.interner, rules, log)
        texts = self.interner.texts
        also = own_communication(core, classes) | self._collective(core)
        arrows, flows = self._arrows(core, log), self._forward(core)
        return {
            **vars(core),
            **name_flags(core, texts, collectives.row, also),
            "operators": operators,
            "device_args": self._device_args(core),
            "collectives": collectives,
            "flows": flows,
            "arrows": arrows,
            "calls": self._calls(core),
            "classes": classes,
            "others": self._others(),
            "reported_steps": self._steps(core),
            "devices": describe_devices(describe_all(self.places.devices, {}, (), frozenset())),
            "strings": StringTable(texts),
        }

    def _in_row_order(self, slices: npt.NDArray[Any], moments: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate((slices, moments))[self._order]

    def _fed(self) -> Int32:
        """Returns, for each CUPTI lane, the MegEngine lane whose operators launched most of the lane's work."""
        slices, kinds, lanes = self.slices, self.kinds, self.lanes
        fed = np.full(len(lanes.pid), MISSING, np.int32)
        if not lanes.cupti.any():
            return fed
        # operator -> its lane
        operations = np.flatnonzero(lanes.node[slices.lane] & (kinds.operation != MISSING))
        lane_of = dict(zip(kinds.operation[operations].tolist(), slices.lane[operations].tolist(), strict=True))
        calls = np.flatnonzero((kinds.launch != MISSING) & ~lanes.on_device[slices.lane])
        around = slices.parent[calls]
        for _ in range(8):  # a driver call is nested in one or two others
            inside = (around != MISSING) & (kinds.operation[around] == MISSING)
            if not inside.any():
                break
            around = np.where(inside, slices.parent[around], around)
        operation = np.where(around != MISSING, kinds.operation[around], MISSING)
        made = dict(zip(kinds.launch[calls].tolist(), operation.tolist(), strict=True))
        work = np.flatnonzero(lanes.cupti[slices.lane] & (kinds.launch != MISSING))
        pairs = [
            (lane, lane_of.get(made.get(number, MISSING), MISSING))
            for lane, number in zip(slices.lane[work].tolist(), kinds.launch[work].tolist(), strict=True)
        ]
        known = np.array([pair for pair in pairs if pair[1] != MISSING], np.int64).reshape(-1, 2)
        if len(known):
            unique, count = np.unique(known, axis=0, return_counts=True)
            for at in np.argsort(count, kind="stable").tolist():
                fed[unique[at, 0]] = unique[at, 1]
        return fed

    # sections

    def _others(self) -> tuple[OpenColumn, ...]:
        columns = columns_by_row(self.events.args, self.row_of)
        found = [column for key, column in columns.items() if key not in _COLUMN_ARGUMENTS]
        owner, shapes = self._tensors_of("Output", "shape", shape_json)
        if len(owner) and RESULT_SHAPES not in columns:
            found.append(OpenColumn(RESULT_SHAPES, owner, shapes, is_text=True, title="Output shapes"))
        return tuple(found)

    def _operator_args(self, core: _Core) -> OperatorArgs:
        events = self.events
        stack = np.full(self.count, MISSING, np.int32)
        stacks = events.args.get(BACKTRACE)
        if stacks is not None and stacks.is_text:
            stack_rows = self.row_of[stacks.row]
            stack[stack_rows[stack_rows != MISSING]] = stacks.value[stack_rows != MISSING]
        shapes = np.full(self.count, MISSING, np.int32)
        types = shapes.copy()
        owner, shape = self._tensors_of("Input", "shape", shape_json)
        shapes[owner] = shape
        owner, dtype = self._tensors_of("Input", "dtype", dtype_json)
        types[owner] = dtype
        on_host = of_kind(core.kind, EventKind.OPERATOR, EventKind.RUNTIME)
        row = np.flatnonzero(on_host & ((stack != MISSING) | (shapes != MISSING)))
        none = np.full(len(row), MISSING, np.int32)
        return OperatorArgs(
            row=row.astype(np.int32),
            shapes=shapes[row],
            types=types[row],
            strides=none,
            concrete=none,
            stack=stack[row],
            sequence=none.astype(np.int64),
            forward_thread=none.astype(np.int64),
        )

    def _tensors_of(self, which: str, key: str, wrap: Callable[[str], str]) -> tuple[Int32, Int32]:
        """Returns operator rows, and JSON lists (string ids) of an argument of their inputs or outputs."""
        slices = self.slices
        tensors = np.flatnonzero((self.bare == self.interner.names[which]) & (slices.parent != MISSING))
        tensors = tensors[np.argsort(slices.parent[tensors], kind="stable")]
        owner, first = np.unique(slices.parent[tensors], return_index=True)
        ids = text_ids(self.events.args.get(key), len(self.events))[slices.end[tensors]]
        return self.row[owner], self._lists(ids, np.append(first, len(tensors)), wrap)

    def _lists(self, ids: Int32, bounds: Int64, wrap: Callable[[str], str]) -> Int32:
        """Joins texts, converted by ``wrap``, to JSON lists that start at ``bounds``. Returns string ids."""
        known, inverse = np.unique(ids, return_inverse=True)
        texts = pa.array([wrap(self.interner.texts[i] if i != MISSING else "") for i in known.tolist()], pa.string())
        parts = texts.take(pa.array(inverse.ravel()))
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), parts), ", ")
        encoded = joined.dictionary_encode()
        made = [self.interner.text(f"[{text}]") for text in encoded.dictionary.to_pylist()]
        found: Int32 = np.array(made, np.int32)[encoded.indices.to_numpy()]
        return found

    def _device_args(self, core: _Core) -> DeviceArgs:
        row = np.flatnonzero(of_kind(core.kind, *DEVICE_WORK))
        begin = self.event[row]
        end = np.full(len(self.events), MISSING, np.int64)
        end[self.slices.begin] = self.slices.end
        end = end[begin]
        sizes = self.events.args.get("bytes")
        stated = np.full(len(self.events) + 1, MISSING, np.int64)
        if sizes is not None:
            values = sizes.value
            if sizes.is_text:
                values = np.array([integer_in(self.interner.texts[i]) for i in values.tolist()], np.int64)
            stated[sizes.row] = values.astype(np.int64)
        elements = integer_argument(self.events.args.get("nr_elements"), len(self.events))
        dtype = text_ids(self.events.args.get("dtype"), len(self.events))
        width = {i: width_of(self.interner.texts[i]) for i in np.unique(dtype[dtype != MISSING]).tolist()}
        of_elements = elements[end] * np.array([width.get(i, 0) for i in dtype[end].tolist()], np.int64)
        of_elements = np.where((elements[end] >= 0) & (of_elements > 0), of_elements, MISSING)
        copies = of_kind(core.kind[row], EventKind.MEMCPY, EventKind.MEMSET)
        none, real = np.full(len(row), MISSING, np.int64), np.full(len(row), np.nan)
        return DeviceArgs(
            row=row.astype(np.int32),
            stream=core.tid[row],
            grid=none.astype(np.int32),
            block=none.astype(np.int32),
            registers=none,
            shared_memory=none,
            blocks_per_sm=real,
            occupancy=real,
            bytes=np.where(copies, np.where(stated[end] != MISSING, stated[end], of_elements), MISSING),
            direction=none.astype(np.int32),
        )

    def _collective(self, core: _Core) -> Bool:
        texts = self.interner.texts
        hit = np.zeros(len(texts) + 1, np.bool_)
        for name in np.unique(core.name).tolist():
            hit[name] = COLLECTIVE.search(texts[name]) is not None
        found: Bool = hit[core.name] & of_kind(core.kind, EventKind.OPERATOR, EventKind.KERNEL)
        return found

    def _collective_args(self, core: _Core) -> CollectiveArgs:
        slices, events = self.slices, self.events
        mode = text_ids(events.args.get("mode"), len(events))[slices.end]
        chosen = self._collective(core)[self.row] & (mode != MISSING)
        inputs = np.flatnonzero((self.bare == self.interner.names["Input"]) & (slices.parent != MISSING))
        elements = integer_argument(events.args.get("nr_elements"), len(events))[slices.end]
        dtype = text_ids(events.args.get("dtype"), len(events))[slices.end]
        total = np.full(len(slices), MISSING, np.int64)
        np.maximum.at(total, slices.parent[inputs], elements[inputs])
        kind = np.full(len(slices), MISSING, np.int32)
        kind[slices.parent[inputs]] = dtype[inputs]
        # Device work has the number of its operator.
        owners = np.flatnonzero(chosen & (self.kinds.kind == EventKind.OPERATOR))
        by_number = np.argsort(self.kinds.operation[owners], kind="stable")
        keys = self.kinds.operation[owners][by_number]
        at = np.flatnonzero(chosen)
        found = np.searchsorted(keys, self.kinds.operation[at]) if len(keys) else np.zeros(len(at), np.int64)
        hit = (found < len(keys)) & (np.append(keys, MISSING)[np.minimum(found, len(keys))] == self.kinds.operation[at])
        at, source = at[hit], owners[by_number[found[hit]]]
        none, word = np.full(len(at), MISSING, np.int64), np.full(len(at), MISSING, np.int32)
        return CollectiveArgs(
            row=self.row[at],
            name=mode[at],
            dtype=kind[source],
            in_elements=total[source],
            out_elements=none,
            group_size=none,
            group_name=word,
            group_description=word,
            group_ranks=word,
            sequence=none,
            source_rank=none,
            destination_rank=none,
        )

    def _calls(self, core: _Core) -> CallNames:
        known = call_names(core, self.interner.texts)
        waits = np.array([self.interner.names[name] for name in WAITS], np.int32)
        waits = np.intersect1d(waits, core.name[core.kind == EventKind.RUNTIME])
        return CallNames(
            np.append(known.name, waits).astype(np.int32),
            np.append(known.role, np.full(len(waits), CallRole.WAIT)).astype(np.uint8),
        )

    def _arrows(self, core: _Core, log: IssueLog) -> ArrowEnds:
        slices, names = self.slices, self.interner.names
        inner = np.isin(self.bare, [names["Input"], names["Output"]])
        meant = operations_around(slices, inner)
        tail, head, name, unmatched = dependencies(self.events, slices, self.lanes, meant, self.interner)
        annotations = self.kinds.kind == EventKind.DEVICE_ANNOTATION
        more = launches(self.events, slices, self.lanes, self.interner, annotations)
        if unmatched:
            log.note("unpaired_arrow", "arrows were skipped, because one end is missing")
        tail, head = (np.concatenate(each) for each in ((tail, more[0]), (head, more[1])))
        name = np.append(name, np.full(len(more[0]), self.interner.text("launch"), np.int32))
        begin, end = self.row[tail], self.row[head]
        return ArrowEnds(
            name=name.astype(np.int32),
            start_time_ns=core.start_ns[begin],
            start_pid=core.pid[begin],
            start_tid=core.tid[begin],
            end_time_ns=core.start_ns[end],
            end_pid=core.pid[end],
            end_tid=core.tid[end],
            to_next=np.zeros(len(begin), np.bool_),
            start_row=begin,
            end_row=end,
        )

    def _forward(self, core: _Core) -> Flows:
        slices, kinds, texts = self.slices, self.kinds, self.interner.texts
        operators = kinds.kind == EventKind.OPERATOR
        nodes = np.flatnonzero(operators & (kinds.operation == MISSING))
        forward = np.flatnonzero(operators & (kinds.operation != MISSING))
        if not len(nodes) or not len(forward):
            return Flows()
        mode = text_ids(self.events.args.get("mode"), len(self.events))[slices.end]
        # The name of an element-wise operator is its mode; the name of its scope is its type.
        elementwise = self.interner.text("Elemwise")
        kind = np.where(mode == self.bare, elementwise, self.bare)
        kind[nodes] = [self.interner.text(texts[name].removesuffix(SUFFIX)) for name in self.bare[nodes].tolist()]
        tensors = self._tensors(operators)
        passes = passes_of(slices.lane, slices.parent, slices.begin, slices.end, nodes, forward)
        pairs = np.array(forward_pairs(passes, kind.tolist(), tensors), np.int64).reshape(-1, 2)
        source, target = self.row[pairs[:, 1]], self.row[pairs[:, 0]]
        return Flows(
            core.start_ns[source],
            core.pid[source],
            core.tid[source],
            core.start_ns[target],
            core.pid[target],
            core.tid[target],
        )

    def _tensors(self, operators: Bool) -> list[frozenset[int]]:
        """Returns the tensors that operators read or create; of a scope, those read by operators directly inside."""
        slices = self.slices
        number = integer_argument(self.events.args.get("id"), len(self.events))[slices.end]
        names = self.interner.names
        read = self.bare == names["Input"]
        at = np.flatnonzero((read | (self.bare == names["Output"])) & (slices.parent != MISSING))
        owner = slices.parent[at]
        outer = slices.parent[owner]
        inside = (outer != MISSING) & read[at]
        owners = np.concatenate((owner, outer[inside]))
        tensors = np.concatenate((number[at], number[at[inside]]))
        chosen = operators[owners] & (tensors != MISSING)
        owners, tensors = owners[chosen], tensors[chosen]
        order = np.argsort(owners, kind="stable")
        found: list[frozenset[int]] = [frozenset()] * len(slices)
        if not len(order):
            return found
        keys, first = np.unique(owners[order], return_index=True)
        for owner_, some in zip(keys.tolist(), np.split(tensors[order], first[1:]), strict=True):
            found[owner_] = frozenset(some.tolist())
        return found

    def _steps(self, core: _Core) -> ReportedSteps | None:
        events, names = self.events, self.interner.names
        marks = np.flatnonzero((events.phase == INSTANT) & (events.name == names[STOPPED]))
        at = Marks(events.time_ns[marks], self.lanes.of[marks])
        rows = Rows(core.start_ns, core.start_ns + core.dur_ns, core.name, core.kind, self.lanes.of[self.event])
        return recorded_steps(rows, at, self.lanes.executes, names)


class _Core:
    def __init__(self, timeline: Timeline) -> None:
        events, slices, moments, kinds, places = (
            timeline.events,
            timeline.slices,
            timeline.moments,
            timeline.kinds,
            timeline.places,
        )
        names = copy_names(events, slices, kinds, timeline.bare, timeline.interner)
        launched = timeline.interner.names[of_lanes.LAUNCH]
        is_launch = (events.category[moments.at] == launched) & (moments.kind == EventKind.RUNTIME)
        own = np.where(is_launch, timeline.interner.text(LAUNCHED), events.name[moments.at])
        lane = timeline.lanes.of[timeline.event]
        process = np.unique(timeline.lanes.pid, return_inverse=True)[1].astype(np.int64)[timeline.lanes.of[moments.at]]
        launch = np.where(is_launch, events.number[moments.at] + (process << BASE_BITS), MISSING)
        none = np.full(len(moments.at), MISSING, np.int64)
        self.start_ns: Int64 = events.time_ns[timeline.event]
        span = np.maximum(events.time_ns[slices.end] - events.time_ns[slices.begin], 0)
        self.dur_ns: Int64 = timeline._in_row_order(span, np.maximum(events.dur_ns[moments.at], 0))
        self.name: Int32 = timeline._in_row_order(names, own).astype(np.int32)
        self.category: Int32 = events.category[timeline.event]
        self.kind: npt.NDArray[np.uint8] = timeline._in_row_order(kinds.kind, moments.kind)
        on_device = of_kind(self.kind, *ON_DEVICE)
        self.pid: Int32 = np.where(on_device, places.pid[lane], timeline.lanes.pid[lane]).astype(np.int32)
        self.tid: Int32 = np.where(on_device, places.tid[lane], timeline.lanes.tid[lane]).astype(np.int32)
        self.correlation: Int64 = timeline._in_row_order(kinds.launch, launch)
        self.external_id: Int64 = timeline._in_row_order(kinds.operation, none)
        self.device = np.where(on_device, places.device[lane], MISSING).astype(np.int16)


_BITS = re.compile(r"(\d+)\D*$")


def shape_json(shape: str) -> str:
    """Converts a shape such as ``{4,3,16,16}`` to JSON."""
    return f"[{', '.join(part.strip() for part in shape.strip('{}').split(',') if part.strip().isdigit())}]"


def dtype_json(dtype: str) -> str:
    return json.dumps(dtype, ensure_ascii=False)


def integer_in(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else MISSING


def width_of(dtype: str) -> int:
    """Returns the size of one element of a type (``Float32``, ``Int8``, ``Bool`` ...) in bytes, or 0 if unknown."""
    if dtype == "Bool":
        return 1
    found = _BITS.search(dtype[:64])
    return int(found[1]) // 8 if found and len(found[1]) < 4 else 0
