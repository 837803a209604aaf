"""Flame graph of memory allocations at one time or between two times.

The bytes of a stack count for all frames of the stack, and are own bytes of the innermost frame only.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.code_owner import package_of
from tb_plugin.analysis.flame.nodes import heaviest_nodes, in_order
from tb_plugin.analysis.flame.tree import Terms, tree_of
from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of, levels_of, levels_of_device, moment_of
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.out_of_memory import largest_line
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.stack_profile import places_of_stacks
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.payloads import CoverageInfo, Figures, Notice, Notices, Payload, Tree
from tb_plugin.views.allocation_stacks import VIEW

# Merge by line of code, by function, or by file; a file's nested calls of itself are one node.
BY = ("line", "function", "file")
# Maximum number of nodes, those with most bytes. ``Tree.total_nodes`` is the number of all nodes.
NODES_SENT = 10_000
# ``held``: allocated at the moment. With a second moment ``made``: allocated in between; ``left``: of these, not
# released at the later one.
OF = {"held": "Allocated", "made": "Allocated in between", "left": "Allocated in between and unreleased"}


class AllocationStacks(DeclaredView, entry=VIEW):
    own = ("device", "at", "against", "of", "by")

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        device = levels_of_device(snapshot, params)
        requested, against = moment_of(device, params), moment_of(device, params, "against")
        at = levels_of(device).peak() if requested is None else requested
        of, by = params.get("of") or ("held" if against is None else "made"), params.get("by") or "line"
        if of not in OF or (of != "held" and against is None):
            choose = f"Choose {', '.join(OF)}" + ("" if of not in OF else "; with a second event (against)") + "."
            raise BadRequest(f"of cannot be {of[:40]}.", "of", choose)
        if by not in BY:
            raise BadRequest(f"by cannot be {by[:40]}.", "by", f"Choose one of {', '.join(BY)}.")
        first, last = (at, at) if against is None else (min(at, against), max(at, against))
        rows = _rows(device, of, at, first, last)
        usual = "at the peak" if device.count else "at the snapshot"
        when = usual if requested is None and against is None else f"after event {at:,}"
        root = f"{OF[of]} {when}" if of == "held" else f"{OF[of]}, events {first + 1:,} to {last:,}"
        figures = [
            METRICS.figure("place_bytes", int(device.block("size")[rows].sum()), root),
            METRICS.figure("event_number", at, "At event"),
        ]
        if against is not None:
            figures.append(METRICS.figure("event_number", against, "Against event"))
        devices = [METRICS.figure("history_events", each.count, each.name) for each in devices_of(snapshot)]
        payloads: dict[str, Payload] = {
            "summary": Figures("summary", device.name, "", figures),
            "stacks": _tree(snapshot, root, device.block("stack")[rows], device.block("size")[rows], by),
            "devices": Figures("devices", "Devices", "", devices),
        }
        if of == "held" and (notice := _answer(device, at, rows, root)):
            payloads["answer"] = Notices("answer", "Answer", "answer", [notice])
        return Part(CoverageInfo(complete=snapshot.report.complete), {}, {}, payloads, tuple(payloads))


def _answer(device: DeviceLevels, at: int, rows: Int64, root: str) -> Notice | None:
    name, size, _ = largest_line(device, at)
    total = int(device.block("size")[rows].sum())
    if name is None or not total:
        return None
    figures = [
        METRICS.figure("allocation_line", name),
        METRICS.figure("line_bytes", size),
        METRICS.figure("line_ratio", size / total),
        METRICS.figure("place_bytes", total, root),
    ]
    text = f"{root}: {{place_bytes}}. The line that allocated most is {{allocation_line}}: {{line_bytes}} ({{line_ratio}})."
    return Notice("allocation_stacks", "info", text, "", figures)


def _rows(device: DeviceLevels, of: str, at: int, first: int, last: int) -> Int64:
    if of == "held":
        return device.allocated(at)
    begin = device.block("begin")
    in_between = (begin > first) & (begin <= last)
    return np.flatnonzero(in_between & (device.block("freed") > last) if of == "left" else in_between)


class _Labels(msgspec.Struct, frozen=True, eq=False):
    text: list[str]
    package: list[tuple[str, bool]]
    of: Int64


@cached_by_argument
def _labels(snapshot: Snapshot, by: str) -> _Labels:
    words = stack_words(snapshot)
    texts = words.frame_text
    if by != "line":
        files = [text or "" for text in snapshot.strings.take(snapshot.stacks.file).to_pylist()]
        names = [text or "?" for text in snapshot.strings.take(snapshot.stacks.name).to_pylist()]
        native = (~words.is_python).tolist()
        if by == "file":
            texts = ["(no Python file)" if bare else file for file, bare in zip(files, native, strict=True)]
        else:
            texts = [name if bare else f"{file}: {name}" for file, name, bare in zip(files, names, native, strict=True)]
    known: dict[str, int] = {}
    of = np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
    _, first = np.unique(of, return_index=True)
    packages = [package_of(words.frame_text[frame]) for frame in first.tolist()]
    return _Labels([*known, NO_STACK], [*packages, ("", False)], of)


def _tree(snapshot: Snapshot, root: str, stack: Int64, size: Int64, by: str) -> Tree:
    groups = group(stack)
    labels = _labels(snapshot, by)
    label, first = _outermost_first(snapshot, labels, stack[groups.first].astype(np.int64), by)
    thread = np.zeros(len(groups), np.int64)
    nodes, blocks = (places_of_stacks(label, first, thread, each) for each in (groups.sum(size), groups.count()))
    # The root precedes all nodes.
    parent = np.append(np.int32(MISSING), nodes.parent + 1)
    forest = Forest(parent)
    own = np.append(0, nodes.own)
    total = forest.sums(own)
    order = in_order(parent, heaviest_nodes(total, NODES_SENT, np.ones(len(total), np.bool_)), total)
    at = (order[1:] - 1).tolist()
    packages = [("", False), *(labels.package[nodes.label[node]] for node in at)]
    # The root is no frame, and frames without a package are not Python.
    kind = np.array([EventKind.PYTHON if package else EventKind.UNKNOWN for package, _ in packages], np.int64)
    return tree_of(
        Terms(METRICS, has_kinds=False),
        "stacks",
        "Stacks",
        [root, *(labels.text[nodes.label[node]] for node in at)],
        kind,
        places_of(order, len(total))[parent[order]],
        {
            "place_bytes": total[order],
            "place_own_bytes": own[order],
            "place_blocks": forest.sums(np.append(0, blocks.own))[order],
        },
        "place_bytes",
        len(total),
        packages=packages,
    )


def _outermost_first(snapshot: Snapshot, labels: _Labels, stack: Int64, by: str) -> tuple[Int64, Int64]:
    stacks, no_frames = snapshot.stacks, len(labels.text) - 1
    known = stack != MISSING
    begin, end = (np.where(known, np.append(stacks.first, 0)[stack + more], 0) for more in (0, 1))
    length = end - begin
    of = np.repeat(np.arange(len(stack)), length)
    back = np.arange(len(of)) - np.repeat(np.cumsum(length) - length, length)
    label = labels.of[stacks.frame[end[of] - 1 - back]]
    if by == "file" and len(of):
        # Adjacent frames of one file are one node.
        kept = np.concatenate(([True], (label[1:] != label[:-1]) | (of[1:] != of[:-1])))
        of, label = of[kept], label[kept]
        length = np.bincount(of, minlength=len(stack))
    # A stack without frames is one node.
    bare = np.flatnonzero(length == 0)
    order = np.argsort(np.concatenate((of, bare)), kind="stable")
    label = np.concatenate((label, np.full(len(bare), no_frames)))[order]
    return label, np.concatenate(([0], np.cumsum(np.maximum(length, 1))))
