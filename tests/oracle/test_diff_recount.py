"""Diff on real traces: against the step table of torch-tb-profiler, and against a recount in plain Python."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Tree, View
from tb_plugin.views.diff.view import Diff
from tests.builders import paths, whole_part
from tests.conftest import SHARED, loaded, needs_shared
from tests.depth import sampled
from tests.oracle.test_torch_tb_profiler import COSTS, NW0, NW4, STEPS

pytestmark = needs_shared

BERT = "gaunernst_bert-small-uncased__1016001.json.gz"
PAIRS = {
    "loader": (f"kineto/{NW0}.pt.trace.json.gz", f"kineto/{NW4}.pt.trace.json.gz"),
    "devices": (f"tracelens/h100/{BERT}", f"tracelens/mi300/{BERT}"),
    "device_and_host": (f"kineto/{NW0}.pt.trace.json.gz", f"tracelens/h100/{BERT}"),
}


def table(name: str) -> TraceTable:
    return loaded(f"{SHARED.name}/data/{name}")


def compare(pair: str, *, swapped: bool = False, **extra: str) -> View:
    names = PAIRS[pair][::-1] if swapped else PAIRS[pair]
    view = Diff().answer(
        [whole_part(table(name), "diff") for name in names], Params(limit=None, extra=tuple(extra.items()))
    )
    assert isinstance(view, View)
    return view


def test_the_loader_leads_and_the_parts_sum_to_the_nanosecond() -> None:
    waterfall = compare("loader").payloads["waterfall"]
    assert isinstance(waterfall, Breakdown)
    parts = {part.category: part.value for part in waterfall.parts}
    assert sum(parts.values()) == waterfall.total == -36_524_167
    means = [
        {cost: Fraction(1000 * sum(step[i] for step in STEPS[name].values()), 6) for i, cost in enumerate(COSTS)}
        for name in (NW0, NW4)
    ]
    assert waterfall.start == round(means[0]["total"])
    # The causes of idle time replace the parts of the host.
    for cost in ("kernel", "memcpy", "memset"):
        assert abs(parts.get(cost, 0) - (means[1][cost] - means[0][cost])) <= 2, cost
    assert min(parts, key=lambda part: parts[part]) == "idle_input"
    findings: Any = compare("loader").payloads["findings"]
    assert findings.notices[0].figures[0].value == "Data loading"


def test_on_other_devices_operators_are_aligned_and_kernels_stand_on_their_side() -> None:
    view = compare("devices", measure="device_total_ns")
    tree = view.payloads["call_tree"]
    assert isinstance(tree, Tree)
    host = [row for row in tree.rows if row["node_kind"] in ("phase", "module", "operator")]
    assert len(host) > 100 and sum(row["presence"] == "both" for row in host) > 0.95 * len(host)
    kernels = {str(row["name"]): row["presence"] for row in view.payloads["kernels"].rows}  # type: ignore[union-attr]
    assert {presence for name, presence in kernels.items() if name.startswith("Cijk_")} == {"new"}
    assert any(presence == "gone" for presence in kernels.values())
    settings: Any = view.payloads["settings"]
    device = next(row for row in settings.rows if row["setting"] == "Device")
    assert "H100" in device["base_setting"] and "MI300X" in device["exp_setting"]


def recount(trace: TraceTable) -> dict[tuple[str, ...], list[int]]:
    """Path -> calls, host and device nanoseconds, one event at a time; one long function: a walk with a state."""
    steps = list(zip(trace.steps.host_start_ns.tolist(), trace.steps.host_end_ns.tolist(), strict=True))
    windows = list(zip(trace.steps.start_ns.tolist(), trace.steps.end_ns.tolist(), strict=True))
    recorded = trace.steps.recorded

    def within(ranges: list[tuple[int, int]], time: int) -> bool:
        return not recorded or any(start <= time < end for start, end in ranges)

    start, end, kind = trace.start_ns.tolist(), trace.end_ns.tolist(), trace.kind.tolist()
    names = [trace.strings[i] for i in trace.name.tolist()]
    forward, launch, operator = trace.forward.tolist(), trace.launch.tolist(), trace.operator.tolist()
    phase_of: dict[int, str] = {}
    path_of: dict[int, tuple[str, ...]] = {}
    found: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    open_rows: dict[int, list[int]] = defaultdict(list)
    children: dict[int, list[int]] = defaultdict(list)
    at: dict[int, list[int]] = defaultdict(list)
    for row, name in enumerate(names):
        loading = name.startswith("enumerate(DataLoader)#")
        optimizer = name.startswith(("Optimizer.step#", "Optimizer.zero_grad#"))
        is_call = kind[row] in (EventKind.OPERATOR, EventKind.MODULE)
        if not (is_call or (kind[row] == EventKind.ANNOTATION and (loading or optimizer))):
            continue
        if not within(steps, start[row]):
            continue
        stack = open_rows[int(trace.track[row])]
        while stack and not (start[stack[-1]] <= start[row] and end[row] <= end[stack[-1]]):
            stack.pop()
        above = stack[-1] if stack else None
        own = None
        backward = "evaluate_function" in name or "torch::autograd" in name or re.match(r"\w+Backward\d*$", name)
        if loading:
            own = "Data loading"
        elif optimizer:
            own = "Optimizer"
        elif backward or forward[row] >= 0:
            own = "Backward"
        phase_of[row] = own or (phase_of[above] if above is not None else "Forward")
        prefix: tuple[str, ...] = (phase_of[row],)
        if above is not None and phase_of[above] == phase_of[row]:
            prefix = path_of[above]
        path_of[row] = (*prefix, name.removeprefix("nn.Module: "))
        if above is not None:
            children[above].append(row)
        stack.append(row)
        at[int(trace.track[row])].append(row)
    for row, path in path_of.items():
        own_ns = end[row] - start[row] - sum(end[child] - start[child] for child in children[row])
        found[path][0] += 1
        for depth in range(1, len(path) + 1):
            found[path[:depth]][1] += own_ns
    for row, name in enumerate(names):
        if kind[row] not in DEVICE_WORK:
            continue
        source = launch[row] if launch[row] >= 0 else operator[row]
        chosen = within(steps, start[launch[row]]) if launch[row] >= 0 else within(windows, start[row])
        if not chosen:
            continue
        path = ("Without a recorded call",)
        if source >= 0:
            begun = at[int(trace.track[source])]  # in the order of their begins; of two the outer one stands first
            begun = begun[: bisect_right(begun, start[source], key=start.__getitem__)]
            around = next((r for r in reversed(begun) if start[source] < end[r]), None)
            if around is not None:
                path = path_of[around]
        path = (*path, name)
        found[path][0] += 1
        for depth in range(1, len(path) + 1):
            found[path[:depth]][2] += end[row] - start[row]
    return dict(found)


EVERY = sorted({name for pair in PAIRS.values() for name in pair})
LIKE_ANOTHER = "kineto/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz"


@pytest.mark.parametrize("name", sampled(EVERY, [name for name in EVERY if name != LIKE_ANOTHER]))
def test_the_call_tree_is_a_recount(name: str) -> None:
    nodes = whole_part(table(name), "diff").frames["call_tree"].data.to_pylist()
    found = {}
    for path, node in zip(paths(nodes, [node["parent_node"] for node in nodes], "name"), nodes, strict=True):
        calls = 0 if node["node_kind"] == "phase" else node["calls"]
        found[path] = [calls, node["host_ns"], node["device_ns"]]
    assert found == recount(table(name))
