"""Difference of two memory snapshots by stack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Number, Params, Part, answer_view
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, levels_of, levels_of_device
from tb_plugin.analysis.snapshot.labels import NO_STACK, changes_of, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import CoverageInfo, Figures, Notice, Notices, Payload, Sort, Table, View
from tb_plugin.views.snapshot_diff import VIEW

# Titles of the compared moments, by table.
MOMENTS = {"peak_stacks": "At the peak", "end_stacks": "At the snapshot"}
FIGURES = (
    "most_allocated_bytes",
    "most_reserved_bytes",
    "never_used_bytes",
    "allocated_at_end_bytes",
    "reserved_at_end_bytes",
)
_EVENTS = "snapshot_diff.history_events"
_HIDDEN = ("base_held_blocks", "exp_held_blocks", "difference_size_bytes", "allocation_stack")


class SnapshotDiff(DeclaredView, entry=VIEW):
    """Compares two memory snapshots: the first part is the baseline, the second part is the experiment."""

    own = ("device",)

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        device = levels_of_device(snapshot, params)
        levels = levels_of(device)
        most, reserved = int(levels.allocated.max()), int(levels.reserved.max())
        values = (most, reserved, reserved - int(levels.active.max()), levels.allocated[-1], levels.reserved[-1])
        facts: dict[str, Number] = {
            f"snapshot_diff.{key}": int(value) for key, value in zip(FIGURES, values, strict=True)
        }
        facts[_EVENTS] = device.count
        moments = dict(zip(MOMENTS, (levels.peak(), device.count - 1), strict=True))
        frames = {name: _allocated_by_stack(device, at, name) for name, at in moments.items()}
        return Part(CoverageInfo(complete=snapshot.report.complete), facts, frames, {}, tuple(frames))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        base, exp = parts[0], parts[-1]
        frames = {"snapshot_figures": _figures(base, exp)}
        frames |= {name: _compared(name, base.frames[name].data, exp.frames[name].data) for name in MOMENTS}
        payloads: dict[str, Payload] = {}
        if params.table is None:
            payloads = {"answer": Notices("answer", "Answer", "answer", [_answer(base, exp, frames["peak_stacks"])]),
                        "headline": _headline(base, exp)}  # fmt: skip
        coverage = CoverageInfo(complete=base.coverage.complete and exp.coverage.complete)
        return answer_view(self, Part(coverage, {}, frames, payloads, (*payloads, *frames)), params)


def _allocated_by_stack(device: DeviceLevels, at: int, name: str) -> Frame:
    rows = device.allocated(at)
    words = stack_words(device.snapshot)
    stack = device.block("stack")[rows].astype(np.int64)
    table = pa.table({"stack": stack, "bytes": device.block("size")[rows]})
    sums = table.group_by("stack", use_threads=False).aggregate([("bytes", "sum"), ("bytes", "count")])
    which = pc.if_else(pc.less(sums["stack"], 0), len(words.text) - 1, sums["stack"])
    data = pa.table(
        {
            "allocation_stack": pc.fill_null(words.text.take(which.combine_chunks()), NO_STACK),
            "allocation_line": pc.fill_null(words.line.take(which.combine_chunks()), NO_STACK),
            "held_bytes": sums["bytes_sum"].cast(pa.int64()),
            "held_blocks": sums["bytes_count"].cast(pa.int64()),
        }
    )
    return Frame(
        name, MOMENTS[name], METRICS.columns(*data.column_names), data, ("allocation_stack",), "allocation_line"
    )


def _compared(name: str, base: pa.Table, exp: pa.Table) -> Frame:
    keys = [f"{side}_held_{key}" for side in ("base", "exp") for key in ("bytes", "blocks")]
    sides = []
    for side, own in (("base", base), ("exp", exp)):
        none = pa.array(np.zeros(own.num_rows, np.int64))
        numbers = {key: own[key.removeprefix(f"{side}_")] if key.startswith(side) else none for key in keys}
        sides.append(
            pa.table(
                {"allocation_stack": own["allocation_stack"], "allocation_line": own["allocation_line"], **numbers}
            )
        )
    grouped = pa.concat_tables(sides).group_by(["allocation_stack", "allocation_line"], use_threads=False)
    first = grouped.aggregate([(key, "sum") for key in keys])
    values = {key: first[f"{key}_sum"].to_numpy().astype(np.int64) for key in keys}
    delta = values["exp_held_bytes"] - values["base_held_bytes"]
    data = pa.table(
        {
            "allocation_line": first["allocation_line"],
            "memory_change": changes_of(values["base_held_bytes"], values["exp_held_bytes"]),
            "delta_held_bytes": delta,
            "delta_held_blocks": values["exp_held_blocks"] - values["base_held_blocks"],
            **values,
            "difference_size_bytes": np.abs(delta),
            "allocation_stack": first["allocation_stack"],
        }
    )
    columns = METRICS.columns(*data.column_names, hidden=_HIDDEN)
    data = sorted_by(data, [("difference_size_bytes", "descending"), ("allocation_stack", "ascending")])
    title, sort = f"{MOMENTS[name]}, by stack", Sort("difference_size_bytes", True)
    return Frame(name, title, columns, data, ("allocation_stack",), "allocation_line", sort)


def _figures(base: Part, exp: Part) -> Frame:
    one, other = ([int(side.facts[f"snapshot_diff.{key}"] or 0) for key in FIGURES] for side in (base, exp))
    data = pa.table(
        {
            "snapshot_figure": pa.array([METRICS[key].title for key in FIGURES], pa.string()),
            "base_held_bytes": pa.array(one),
            "exp_held_bytes": pa.array(other),
            "delta_held_bytes": pa.array([after - before for before, after in zip(one, other, strict=True)]),
        }
    )
    columns = METRICS.columns(*data.column_names)
    return Frame("snapshot_figures", "Both snapshots", columns, data, ("snapshot_figure",), "snapshot_figure")


def _headline(base: Part, exp: Part) -> Figures:
    one, other = (int(side.facts["snapshot_diff.most_allocated_bytes"] or 0) for side in (base, exp))
    figures = [
        METRICS.figure("base_held_bytes", one, "Baseline's peak"),
        METRICS.figure("exp_held_bytes", other, "Experiment's peak"),
        METRICS.figure("delta_held_bytes", other - one),
    ]
    return Figures("headline", "Headline", "", figures, "headline")


def _answer(base: Part, exp: Part, stacks: Frame) -> Notice:
    figures = _headline(base, exp).figures
    text = "The peak changes by {delta_held_bytes}, from {base_held_bytes} to {exp_held_bytes}."
    if stacks.data.num_rows and (change := stacks.data["delta_held_bytes"][0].as_py()):
        line = stacks.data["allocation_line"][0].as_py()
        figures = [*figures, METRICS.figure("allocation_line", line), METRICS.figure("delta_line_bytes", change)]
        text += " Largest change by stack: {allocation_line} ({delta_line_bytes})."
    for side, part in (("baseline", base), ("experiment", exp)):
        if not part.facts[_EVENTS]:
            text += (
                f" The {side} contains no history, so its memory at the time of the dump is used instead of its peak."
            )
    return Notice("snapshot_diff", "info", text, "", list(figures))
