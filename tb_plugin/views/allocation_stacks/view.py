"""Flame graph of memory allocations at one time or between two times."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.forest import preorder
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of, levels_of, levels_of_device, moment_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.lib.groupby import Int64, places_of
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import CoverageInfo, Figures, Payload, Scalar, Tree
from tb_plugin.views.allocation_stacks import VIEW
from tb_plugin.views.allocation_stacks.places import Places, places_of_stacks

# Maximum number of places, those with most bytes. ``Tree.total_nodes`` is the number of all places.
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
        of = params.get("of") or ("held" if against is None else "made")
        if of not in OF or (of != "held" and against is None):
            choose = f"Choose {', '.join(OF)}" + ("" if of not in OF else "; with a second event (against)") + "."
            raise BadRequest(f"of cannot be {of[:40]}.", "of", choose)
        first, last = (at, at) if against is None else (min(at, against), max(at, against))
        rows = _rows(device, of, at, first, last)
        usual = "at the peak" if device.count else "at the snapshot"
        when = usual if requested is None and against is None else f"after event {at:,}"
        root = f"{OF[of]} {when}" if of == "held" else f"{OF[of]}, events {first + 1:,} to {last:,}"
        places = places_of_stacks(
            snapshot, root, device.block("stack")[rows], device.block("size")[rows], params.get("by") or "line"
        )
        figures = [
            METRICS.figure("place_bytes", int(places.bytes[0]), root),
            METRICS.figure("event_number", at, "At event"),
        ]
        if against is not None:
            figures.append(METRICS.figure("event_number", against, "Against event"))
        devices = [METRICS.figure("history_events", each.count, each.name) for each in devices_of(snapshot)]
        payloads: dict[str, Payload] = {
            "summary": Figures("summary", device.name, "", figures),
            "stacks": _tree(snapshot, places),
            "devices": Figures("devices", "Devices", "", devices),
        }
        return Part(CoverageInfo(complete=snapshot.report.complete), {}, {}, payloads, tuple(payloads))


def _rows(device: DeviceLevels, of: str, at: int, first: int, last: int) -> Int64:
    if of == "held":
        return device.allocated(at)
    begin = device.block("begin")
    in_between = (begin > first) & (begin <= last)
    return np.flatnonzero(in_between & (device.block("freed") > last) if of == "left" else in_between)


def _tree(snapshot: Snapshot, places: Places) -> Tree:
    kept = np.sort(np.argsort(-places.bytes, kind="stable")[:NODES_SENT])
    parent = places_of(kept, len(places.parent))[places.parent[kept]]
    order = np.array(preorder(parent, places.bytes[kept], -np.arange(len(kept))), np.int64)
    nodes, above = kept[order], places_of(order, len(kept))[parent[order]]
    numbers = {
        "place_bytes": places.bytes[nodes].tolist(),
        "place_own_bytes": places.own_bytes[nodes].tolist(),
        "place_blocks": places.blocks[nodes].tolist(),
    }
    rows: list[dict[str, Scalar]] = []
    for i, node in enumerate(nodes.tolist()):
        name = places.name[node]
        package, framework = places.package[node]
        # The root is no frame, and places without a package are not Python.
        kind = "python" if package else "unknown"
        about: dict[str, Scalar] = {"name": name, "node_kind": kind, "package": package, "framework": framework}
        rows.append(about | {key: values[i] for key, values in numbers.items()})
    columns = METRICS.columns(
        "name", "node_kind", "package", "framework", *numbers, hidden=("node_kind", "package", "framework")
    )
    return Tree("stacks", "Stacks", columns, above.tolist(), rows, "name", ["place_bytes"], len(places.name))
