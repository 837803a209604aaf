"""Diff view: changes from one profile to another.

In one file: all payloads are built from the same two sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Params, Part, answer_view
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.kernel_classes import word_of
from tb_plugin.analysis.phrases import count_with_noun
from tb_plugin.analysis.reported_steps import missing_computation, reported_step_length, reported_steps
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, KernelClass, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import (
    Column,
    CoverageInfo,
    Figures,
    Link,
    Notice,
    Payload,
    Scalar,
    Table,
    Tree,
    View,
)
from tb_plugin.views.diff import VIEW
from tb_plugin.views.diff.alignment import Node, Pair, align
from tb_plugin.views.diff.call_tree import call_tree
from tb_plugin.views.diff.findings import (
    RECORDED_COMPUTE,
    REPORTED_COMPUTE,
    REPORTED_STEP,
    VENDORS,
    findings,
    have_other_vendors,
    kernels_missing,
    leading_notice,
    phases_notice,
    range_notices,
    settings,
)
from tb_plugin.views.diff.metrics import CLASS_SUFFIX, METRICS, SPLIT_CLASSES
from tb_plugin.views.diff.noise import Noise, noise_note, step_noise, step_times
from tb_plugin.views.diff.paired_tables import (
    ALL_MEASURES,
    BOTH,
    BY_CLASS,
    BY_TYPE,
    GONE,
    MEASURES,
    NEW,
    PER_STEP,
    RANGES,
    TABLES,
    TOTAL,
    Scaling,
    are_range_traces,
    comparison_metrics,
    join,
    modes_frame,
    own_ns,
    range_frames,
)
from tb_plugin.views.diff.row_noise import noise_figures, noisy_join, row_samples
from tb_plugin.views.diff.step_parts import finer_steps, is_on_device, step_parts
from tb_plugin.views.diff.waterfall import StepTime, headline, leading_part, step_time, waterfall

# Maps each part of the step to the table and time column that explain its change.
NAME_COLUMNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "kernel_ns": ("kernels", "total_ns"),
        **{word_of(each) + CLASS_SUFFIX: ("kernels", "total_ns") for each in SPLIT_CLASSES},
        "communication_ns": ("kernels", "total_ns"),
        "runtime_ns": ("runtime_calls", "host_total_ns"),
        "idle_launch_ns": ("runtime_calls", "host_total_ns"),
        "idle_synchronisation_ns": ("runtime_calls", "host_total_ns"),
        "cpu_ns": ("operators", "host_self_ns"),
        "idle_dispatch_ns": ("operators", "host_self_ns"),
    }
)
# Parts of the step that the call tree explains.
LOADING = ("dataloader_ns", "idle_input_ns")


class _Sides(msgspec.Struct, frozen=True):
    base: Part
    exp: Part
    finer: tuple[Part, Part]
    """Both parts with finer tables of steps."""
    base_step: StepTime | None
    exp_step: StepTime | None
    scaling: Scaling
    measure: str
    leading: str

    @property
    def are_range_traces(self) -> bool:
        return are_range_traces(self.base, self.exp)

    @property
    def have_other_vendors(self) -> bool:
        return have_other_vendors(self.base, self.exp)

    @property
    def slower(self) -> bool:
        if self.are_range_traces:
            return own_ns(self.exp) >= own_ns(self.base)
        return self.base_step is None or self.exp_step is None or self.exp_step.total_ns >= self.base_step.total_ns


class Diff(DeclaredView, entry=VIEW):
    """Compares two profiles: the first part is the baseline, the second part is the experiment."""

    selects = "steps"

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the data of one profile, such as call tree and devices. Raises BadRequest for unknown steps."""
        selection = select_rows(trace, params.steps)
        names = [
            METRICS.figure("device_name", device.name, f"Device {device.id}") for device in trace.devices if device.name
        ]
        return Part(
            coverage=selection.coverage,
            facts={"diff.has_device": int((trace.device != MISSING).any()), **_reported_times(trace, params)},
            frames={
                "call_tree": call_tree(trace, selection),
                "step_parts": step_parts(trace, params.steps),
                **range_frames(trace),
                **row_samples(trace, selection),
            },
            payloads={"devices": Figures("devices", "Devices", "", names), **_vendors(trace)},
            layout=("call_tree",),
            steps=tuple(trace.steps.label) if trace.steps.recorded else (),
        )

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page or a table. Raises BadRequest for an invalid parameter, NotFoundError for an unknown table."""
        sides = _sides(parts[0], parts[-1], params)
        # A single table needs no others. For an unknown name all are computed, so that the error can list them.
        tables = (
            *TABLES,
            *((BY_CLASS,) if sides.have_other_vendors else ()),
            *(each for each in (*BY_TYPE, RANGES) if any(each.name in part.frames for part in parts)),
        )
        wanted = [table for table in tables if table.name == params.table] or tables
        frames = {
            table.name: noisy_join(sides.base, table, sides.exp, sides.measure, sides.scaling, by=sides.leading)
            for table in wanted
        }
        frames |= modes_frame(sides.base, sides.exp)
        frames["settings"] = settings(sides.base, sides.exp)
        payloads = _payloads(sides) | noise_figures([*frames.values()]) if params.table is None else {}
        whole = Part(_coverage(sides), frames=frames, payloads=payloads, layout=(*payloads, *frames))
        return answer_view(self, whole, params)


def _reported_times(trace: TraceTable, params: Params) -> dict[str, float]:
    length, missing = reported_step_length(reported_steps(trace, params.steps)), missing_computation(trace)
    facts = {} if length is None else {REPORTED_STEP: length}
    return facts | ({} if missing is None else dict(zip((RECORDED_COMPUTE, REPORTED_COMPUTE), missing, strict=True)))


def _vendors(trace: TraceTable) -> dict[str, Payload]:
    ran = np.unique(trace.device[of_kind(trace.kind, *DEVICE_WORK)])
    known = {trace.devices[number].vendor for number in ran.tolist() if number != MISSING} - {""}
    figures = [METRICS.figure("vendor", each) for each in sorted(known)]
    return {VENDORS: Figures(VENDORS, "Vendors", "", figures)} if known else {}


def _sides(base: Part, exp: Part, params: Params) -> _Sides:
    per = params.get("per") or PER_STEP
    if per not in (PER_STEP, TOTAL):
        raise BadRequest(f"per cannot be {per}.", "per", f"Choose {PER_STEP} or {TOTAL}.")
    scaling = Scaling(per, _steps(base), _steps(exp)) if per == PER_STEP else Scaling(per, 1, 1)
    lacking = any(REPORTED_COMPUTE in part.facts for part in (base, exp))
    finer = finer_steps(base, exp)
    one, other = (None, None) if lacking else (step_time(finer[0], scaling.base), step_time(finer[1], scaling.exp))
    leading = _measure(base, exp, one, other)
    measure = params.get("measure") or leading
    if measure not in (*MEASURES, ALL_MEASURES):
        raise BadRequest(f"There is no measure {measure}.", "measure", f"Choose one of {', '.join(MEASURES)}.")
    return _Sides(base, exp, finer, one, other, scaling, measure, leading)


def _measure(base: Part, exp: Part, base_step: StepTime | None, exp_step: StepTime | None) -> str:
    """Returns the default measure. Vendors nest calls differently, so total times are used across vendors."""
    if have_other_vendors(base, exp):
        return "device_total_ns"
    on_device = bool(base.facts.get("diff.has_device") and exp.facts.get("diff.has_device"))
    if base_step is not None and exp_step is not None:
        on_device = on_device and is_on_device(leading_part(base_step, exp_step))
    return "device_self_ns" if on_device else "host_self_ns"


def _steps(part: Part) -> int:
    chosen = part.coverage.steps
    return max(len(part.steps if chosen is None else chosen), 1)


def _coverage(sides: _Sides) -> CoverageInfo:
    one, other = sides.base.coverage, sides.exp.coverage
    return CoverageInfo(
        window_ns=other.window_ns,
        fraction_read=min(one.fraction_read, other.fraction_read),
        complete=one.complete and other.complete,
        steps=other.steps,
        window=other.window or one.window,
    )


def _payloads(sides: _Sides) -> dict[str, Payload]:
    noise = _noise(sides)
    payloads = _times(sides, noise)
    payloads["compared"] = Figures(
        "compared", "Compared", "", [METRICS.figure("measure", sides.measure), METRICS.figure("per", sides.scaling.per)]
    )
    tree = both_trees(sides.base, sides.exp, sides.measure, sides.scaling)
    payloads["findings"] = findings(sides.base, sides.exp, _leading(sides, noise))
    payloads["call_tree"] = tree
    return payloads


def _noise(sides: _Sides) -> Noise | None:
    if sides.base_step is None or sides.exp_step is None:
        return None
    keys = [metric.key for metric in sides.exp_step.metrics]
    return step_noise(*sides.finer, keys, (sides.scaling.base, sides.scaling.exp))


def _times(sides: _Sides, noise: Noise | None) -> dict[str, Payload]:
    base, exp, window = sides.base_step, sides.exp_step, sides.scaling.window
    if sides.are_range_traces:
        one, other = (part.coverage.window_ns or 0 for part in (sides.base, sides.exp))
        return {"headline": headline(one, other, titles=("Baseline recording", "Experiment recording"))}
    if base is None or exp is None:
        reported = [part.facts.get(REPORTED_STEP) for part in (sides.base, sides.exp)]
        if not reported[0] or reported[1] is None or not kernels_missing(sides.base, sides.exp):
            return {}
        titles = ("Baseline, reported", "Experiment, reported")
        return {"headline": headline(reported[0], reported[1], "as reported by the profiler", titles)}
    summed = sides.scaling.per == TOTAL
    titles = ("Baseline, all steps", "Experiment, all steps") if summed else ("", "")
    title = "From baseline to experiment" if summed else "From the baseline's step to the experiment's"
    payloads: dict[str, Payload] = {
        "headline": headline(
            base.total_ns, exp.total_ns, window, titles, (_note(sides.base), _note(sides.exp), noise_note(noise))
        ),
        **step_times(sides.base, sides.exp),
        "waterfall": waterfall(title, window, base, exp, noise, _row_links(sides)),
    }
    return payloads


def _row_links(sides: _Sides) -> dict[str, Link]:
    """Returns, for each part of the step, the state of the page that shows its rows."""
    kernels = BY_CLASS.name if sides.have_other_vendors else "kernels"
    links = {part: Link("diff", {"measure": "host_total_ns", "group": ""}, "Call tree") for part in LOADING}
    for part, (table, measure) in NAME_COLUMNS.items():
        params = {"group": kernels if table == "kernels" else table}
        if part.endswith(CLASS_SUFFIX) or part == "communication_ns":
            params["where"] = f"class:{part.removesuffix(CLASS_SUFFIX).removesuffix('_ns')}"
        elif measure in MEASURES:
            params["measure"] = measure
        links[part] = Link("diff", params, table)
    return links


def _note(part: Part) -> str:
    return count_with_noun(_steps(part), "step") if part.steps else "whole recording, no steps"


def _leading(sides: _Sides, noise: Noise | None) -> Sequence[Notice]:
    if sides.are_range_traces:
        return range_notices(sides.base, sides.exp)
    if missing := kernels_missing(sides.base, sides.exp):
        return missing
    if sides.base_step is None or sides.exp_step is None:
        return []
    part = leading_part(sides.base_step, sides.exp_step)
    steps = (_steps(sides.base), _steps(sides.exp))
    row = _changed_most(sides, part)
    first = leading_notice(sides.base_step, sides.exp_step, steps, noise, row, per=sides.scaling.per)
    phases = phases_notice(sides.base, sides.exp, sides.base_step, sides.exp_step, sides.scaling)
    return [first, *(phases if first.rule in ("slower", "faster") else ())]


def _changed_most(sides: _Sides, part: str) -> tuple[str, float] | None:
    if part not in NAME_COLUMNS or (part.endswith(CLASS_SUFFIX) and sides.have_other_vendors):
        return None
    name, measure = NAME_COLUMNS[part]
    table = next(each for each in TABLES if each.name == name)
    if part == "kernel_ns" and sides.have_other_vendors:
        table = BY_CLASS
    key = table.keys[0]
    data = join(sides.base, table, sides.exp, measure, sides.scaling).data
    if name == "kernels" and "class" in data.column_names:  # one table contains the rows of several parts
        talks = word_of(KernelClass.COMMUNICATION)
        if part == "kernel_ns":
            split = [each.removesuffix(CLASS_SUFFIX) for each in sides.finer[1].frames["steps"].data.column_names]
            data = data.filter(pc.invert(pc.is_in(data["class"], pa.array([*split, talks]))))
        else:
            word = talks if part == "communication_ns" else part.removesuffix(CLASS_SUFFIX)
            data = data.filter(pc.equal(data["class"], word))
    if part == "communication_ns" and pc.any(pc.not_equal(data["presence"], BOTH)).as_py():
        data = _by_collective(data)
    sizes = [(float(row["delta_ns"]), row[key]) for row in data.select([key, "delta_ns"]).to_pylist()]
    change, name = max(sizes, key=lambda each: each[0] if sides.slower else -each[0], default=(0.0, ""))
    return (name, change) if change and (change > 0) == sides.slower else None


def _by_collective(data: pa.Table) -> pa.Table:
    names = [collective_name(name) or name for name in data["name"].to_pylist()]
    sums = pa.table({"name": names, "delta_ns": data["delta_ns"]}).group_by("name").aggregate([("delta_ns", "sum")])
    return sums.rename_columns(["name", "delta_ns"])


# Maximum number of nodes sent, largest times first.
NODES_SENT = 20_000
_TREE_COLUMNS = ("name", "node_kind", "presence", "base_calls", "exp_calls", "base_ns", "exp_ns", "delta_ns")


def both_trees(base: Part, exp: Part, measure: str, scaling: Scaling) -> Tree:
    """Merges two call trees into one tree in pre-order. Nodes without time on either side are omitted."""
    left, right = base.frames["call_tree"].data.to_pydict(), exp.frames["call_tree"].data.to_pydict()
    pairs = align(_nodes(left), left["parent_node"], _nodes(right), right["parent_node"])
    on_device = measure.startswith("device")
    value = "device_ns" if on_device else "host_ns"
    times = _node_times(pairs, left[value], right[value])
    rows: list[dict[str, Scalar]] = []
    for pair, (base_ns, exp_ns) in zip(pairs, times, strict=True):
        one = left if pair.left != MISSING else right
        at = pair.left if pair.left != MISSING else pair.right
        other_name = right["name"][pair.right] if pair.right != MISSING else ""
        rows.append(
            {
                "name": one["name"][at] if other_name in ("", one["name"][at]) else f"{one['name'][at]} → {other_name}",
                "node_kind": one["node_kind"][at],
                "presence": BOTH if pair.left != MISSING != pair.right else GONE if pair.right == MISSING else NEW,
                "base_calls": _number(left, "calls", pair.left, scaling.base),
                "exp_calls": _number(right, "calls", pair.right, scaling.exp),
                "base_ns": (before := _over(base_ns, scaling.base)),
                "exp_ns": (after := _over(exp_ns, scaling.exp)),
                "delta_ns": after - before,
            }
        )
    timed = [i for i, row in enumerate(rows) if row["base_ns"] or row["exp_ns"]]
    kept = _largest(rows, timed)
    position = {pair: i for i, pair in enumerate(kept)}
    measures = comparison_metrics(value, scaling)
    return Tree(
        name="call_tree",
        title="Call tree",
        columns=[Column(measures.get(key) or METRICS.metric(key)) for key in _TREE_COLUMNS],
        parent=[position.get(pairs[i].parent, MISSING) for i in kept],
        rows=[rows[i] for i in kept],
        label_column="name",
        value_columns=["exp_ns", "base_ns"],
        total_nodes=len(timed),
    )


def _nodes(tree: dict[str, list[str]]) -> list[Node]:
    return [Node(kind, name) for kind, name in zip(tree["node_kind"], tree["name"], strict=True)]


def _number(tree: dict[str, list[int]], column: str, node: int, count: int) -> int | float:
    return _over(tree[column][node] if node != MISSING else 0, count)


def _over(value: int, count: int) -> int | float:
    return value if count == 1 else value / count


def _node_times(pairs: Sequence[Pair], left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the times of each pair, ns. The time of a missing node is the sum over the children of the pair."""
    base = [0 if pair.left == MISSING else left[pair.left] for pair in pairs]
    exp = [0 if pair.right == MISSING else right[pair.right] for pair in pairs]
    for i in range(len(pairs) - 1, -1, -1):  # children come after their parents
        above = pairs[i].parent
        if above != MISSING and pairs[above].left == MISSING:
            base[above] += base[i]
        if above != MISSING and pairs[above].right == MISSING:
            exp[above] += exp[i]
    return list(zip(base, exp, strict=True))


def _largest(rows: list[dict[str, Scalar]], timed: list[int]) -> list[int]:
    def weight(i: int) -> float:
        return max(float(rows[i]["base_ns"] or 0), float(rows[i]["exp_ns"] or 0))

    # A parent precedes its children and has at least as much time, so a stable sort ranks it before them.
    return sorted(sorted(timed, key=weight, reverse=True)[:NODES_SENT])
