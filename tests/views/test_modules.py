"""Modules: recursion, Lightning, the backward pass by arrows and by numbers, and recomputed activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin import registry
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.modules.layers import class_of
from tests.builders import TraceBuilder, kernel, memcpy, part, paths, row, rows, trace
from tests.conftest import SHARED, UNLIKE, loaded, needs_shared, sample
from tests.depth import examples
from tests.samples import OF_TRACES
from tests.views.backward_recount import backward_by_hand


def tree(table: TraceTable) -> list[tuple[str, int, int]]:
    """Path of each node, its calls, and its device total in microseconds."""
    payload: Any = part(table, "modules").payloads["tree"]
    named = zip(paths(payload.rows, payload.parent, "module"), payload.rows, strict=True)
    return [("/".join(path), node["calls"], node.get("device_total_ns", 0) // 1000) for path, node in named]


def test_a_module_inside_itself() -> None:
    builder = trace().module("Block", 0, 100, id=1).op("a", 5, 5).launches(kernel("k", 3))
    builder.module("Block", 20, 50, id=2, parent=1).op("b", 30, 5).launches(kernel("k", 4))
    table = builder.table()
    found = row(table, "modules", module="Block_0")
    assert (found["calls"], found["host_total_ns"], found["device_total_ns"]) == (2, 100_000, 7_000)
    assert (found["host_self_ns"], found["device_self_ns"]) == (45_000 + 45_000, 7_000)
    assert tree(table) == [("Block_0", 1, 7), ("Block_0/Block_0", 1, 4)]


def test_calls_at_one_place_are_one_node_and_other_places_others() -> None:
    builder = trace()
    for i in range(2):
        at = 200 * i
        builder.module("Net", at, 100, number=0).module("Linear", at + 5, 10, number=1).op("a", at + 6, 2)
        builder.launches(kernel("k", 2 + i)).module("Linear", at + 20, 10, number=1)
    builder.module("Linear", 500, 10, number=1).module("Linear", 520, 10, number=2)
    assert sorted(tree(builder.table())) == [
        ("Linear_1", 1, 0), ("Linear_2", 1, 0), ("Net_0", 2, 5), ("Net_0/Linear_1", 4, 5),
    ]  # fmt: skip


def test_a_module_s_own_device_time_is_what_it_launched_outside_submodules() -> None:
    builder = trace().module("Net", 0, 100).op("a", 5, 5).launches(kernel("k", 3)).module("Linear", 20, 30, number=1)
    builder.op("b", 25, 5).launches(kernel("k", 4)).launches(kernel("bare", 5), at=40)
    found = {r["module"]: (r["device_self_ns"], r["device_total_ns"]) for r in rows(builder.table(), "modules")}
    assert found == {"Net_0": (3_000, 12_000), "Linear_1": (9_000, 9_000)}


@pytest.mark.parametrize("category", ["user_annotation", "cpu_op", "Operator"])
def test_lightning(category: str) -> None:
    builder = trace().event(category, "[pl][module]torch.nn.modules.linear.Linear: model.head", 0, 50, 1, 1)
    builder.event(category, "[pl][profile]run_training_epoch", 0, 90, 1, 1).op("a", 5, 10).launches(kernel("k", 3))
    table = builder.table()
    found = row(table, "modules", module="torch.nn.modules.linear.Linear: model.head")
    assert (found["calls"], found["host_total_ns"], found["device_total_ns"]) == (1, 50_000, 3_000)
    modules = next(a for a in registry.analyses() if a.id == "modules")
    assert modules.missing(table) is None


def test_a_trace_without_modules_says_how_to_get_them() -> None:
    modules = next(a for a in registry.analyses() if a.id == "modules")
    missing = modules.missing(trace().op("a", 0, 1).table())
    assert missing is not None and "with_stack" in missing.enable


def forward() -> TraceBuilder:
    builder = trace().module("Net", 0, 100).module("Linear", 10, 50, number=1)
    return builder.op("aten::addmm", 20, 10, sequence=5).launches(kernel("fw", 3, 30))


def backward(builder: TraceBuilder, **ids: Any) -> TraceBuilder:
    """The engine's node, the autograd function in it and the operator that launches."""
    builder.op("autograd::engine::evaluate_function: AddmmBackward0", 200, 40, tid=2, **ids)
    builder.op("AddmmBackward0", 205, 30, tid=2, **ids).op("aten::mm", 210, 20, tid=2)
    return builder.launches(kernel("bw", 7, 250))


def times(table: TraceTable, module: str) -> tuple[int, int, int, int]:
    found = row(table, "modules", module=module)
    keys = ("device_total_ns", "backward_device_self_ns", "backward_device_total_ns", "backward_host_total_ns")
    return tuple(found.get(key, 0) // 1000 for key in keys)  # type: ignore[return-value]


@pytest.mark.parametrize("how", ["arrow", "number", "both"])
def test_backward_work_belongs_to_the_module_of_its_forward_operator(how: str) -> None:
    builder = forward()
    backward(builder, **({} if how == "arrow" else {"sequence": 5, "forward_thread": 1}))
    if how != "number":
        builder.arrow(20, 205)
    assert times(builder.table(), "Linear_1") == (3, 7, 7, 40)
    assert times(builder.table(), "Net_0") == (3, 0, 7, 40)


def apart(table: TraceTable) -> tuple[int, int, int]:
    """What of the backward pass counts for no module: operators, of them those not tied, microseconds on the host."""
    facts = part(table, "modules").facts
    keys = ("backward_apart", "backward_apart_untied", "backward_apart_ns")
    found, untied, host_ns = (int(facts[f"modules.{key}"] or 0) for key in keys)
    return found, untied, host_ns // 1000


def test_backward_work_without_a_tie_belongs_to_no_module_and_is_counted() -> None:
    table = backward(forward()).table()
    assert times(table, "Net_0") == (3, 0, 0, 0) and apart(table) == (1, 1, 40)
    (notice,) = part(table, "modules").payloads["data_quality"].notices  # type: ignore[union-attr]
    assert notice.text == (
        "Backward operators without a module: {backward_apart} ({backward_apart_ns} on the CPU). "
        "The forward operator is unknown."
    )
    builder = backward(forward(), sequence=5, forward_thread=1).op("aten::loss", 150, 10, sequence=6)
    builder.op("LossBackward0", 180, 10, tid=2, sequence=6, forward_thread=1)
    assert apart(builder.table()) == (1, 0, 10), "that of the loss"


def test_a_gradient_that_is_added_belongs_to_the_module_behind_it() -> None:
    """But not what hooks of data parallel training do there, after the function itself."""
    builder = backward(forward(), sequence=5, forward_thread=1)
    builder.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 240, 20, tid=2)
    builder.op("torch::autograd::AccumulateGrad", 242, 15, tid=2).op("aten::add_", 244, 5, tid=2)
    builder.launches(kernel("add", 2, 270)).op("aten::copy_", 258, 1, tid=2).launches(memcpy(5, 275))
    builder.launches(kernel("ncclDevKernel_AllReduce", 11, 280, stream=8))
    assert times(builder.table(), "Linear_1") == (3, 9, 9, 55) and apart(builder.table()) == (0, 0, 0)


def test_a_backward_pass_inside_another_counts_once() -> None:
    builder = forward().op("CheckpointFunctionBackward", 200, 90, tid=2, sequence=5, forward_thread=1)
    builder.op("SinBackward0", 220, 30, tid=2)
    assert times(builder.table(), "Net_0")[3] == 90 and apart(builder.table()) == (0, 0, 0)


def test_two_backward_operators_of_one_forward_operator_count_each_once() -> None:
    builder = backward(forward(), sequence=5, forward_thread=1)
    builder.op("torch::autograd::CopySlices", 300, 10, tid=2, sequence=5, forward_thread=1).launches(
        kernel("bw", 2, 320)
    )
    assert times(builder.table(), "Linear_1") == (3, 9, 9, 50)


def test_recomputed_activations_count_as_forward() -> None:
    builder = forward().op("CheckpointFunctionBackward", 200, 90, tid=2, sequence=5, forward_thread=1)
    builder.module("Linear", 210, 30, number=1, tid=2).op("aten::addmm", 215, 10, tid=2).launches(
        kernel("again", 4, 260)
    )
    builder.op("aten::mm", 250, 10, tid=2).launches(kernel("bw", 7, 270))
    assert times(builder.table(), "Linear_1") == (7, 7, 7, 90)


def checkpointed() -> TraceBuilder:
    """Net calls Block, which calls Linear; the backward pass calls Block again on a thread of its own."""
    builder = trace().module("Net", 0, 100).module("Block", 10, 80, number=1).module("Linear", 20, 50, number=2)
    builder.op("aten::addmm", 30, 10).launches(kernel("fw", 3, 40))
    builder.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 200, 90, tid=2)
    builder.op("CheckpointFunctionBackward", 205, 80, tid=2).module("Block", 210, 30, number=1, tid=2)
    builder.module("Linear", 215, 20, number=2, tid=2).op("aten::addmm", 220, 10, tid=2)
    return builder.launches(kernel("again", 4, 240))


def test_recomputed_modules_stand_under_their_module_and_are_labelled() -> None:
    table = checkpointed().table()
    assert tree(table) == [
        ("Net_0", 1, 7), ("Net_0/Block_1", 1, 7), ("Net_0/Block_1/Linear_2", 1, 3),
        ("Net_0/Block_1/Block_1 (recomputed)", 1, 4), ("Net_0/Block_1/Block_1 (recomputed)/Linear_2", 1, 4),
    ]  # fmt: skip
    payload: Any = part(table, "modules").payloads["tree"]
    assert [node["host_total_ns"] // 1000 for node in payload.rows] == [130, 110, 50, 30, 20]
    found = {r["module"]: (r["calls"], r["host_total_ns"], r["device_total_ns"]) for r in rows(table, "modules")}
    assert found == {"Net_0": (1, 100_000, 3_000), "Block_1": (2, 110_000, 7_000), "Linear_2": (2, 70_000, 7_000)}


def test_a_module_that_only_the_backward_pass_calls_is_no_repetition() -> None:
    builder = checkpointed().op("FooBackward", 400, 50, tid=2).module("Other", 410, 20, number=9, tid=2)
    builder.module("Block", 500, 20, number=1)  # after the backward pass: another forward call
    assert [(path, calls) for path, calls, _ in tree(builder.table()) if "/" not in path] == [
        ("Net_0", 1), ("Other_9", 1), ("Block_1", 1)
    ]  # fmt: skip


def test_a_repetition_inside_another_call_stays_there() -> None:
    """A module that runs the backward pass itself."""
    builder = trace().module("Task", 0, 500).module("Net", 10, 50, number=1).op("NetBackward0", 100, 90)
    builder.module("Net", 110, 40, number=1)
    assert [path for path, _, _ in tree(builder.table())] == ["Task_0", "Task_0/Net_1", "Task_0/Net_1 (recomputed)"]


def test_a_selection_of_steps() -> None:
    builder = trace()
    for i in range(2):
        at = 300 * i
        builder.step(i, at, 280).module("Net", at + 5, 100).op("aten::mm", at + 10, 10, sequence=i)
        builder.launches(kernel("fw", 3, at + 30))
        builder.op("MmBackward0", at + 150, 20, tid=2, sequence=i, forward_thread=1).launches(kernel("bw", 7, at + 180))
    table = builder.table()
    for steps, calls in ((("0",), 1), (("1",), 1), (None, 2)):
        found = row(table, "modules", steps=steps, module="Net_0")
        assert (found["calls"], found["device_total_ns"]) == (calls, 3_000 * calls)
        assert found["backward_device_total_ns"] == 7_000 * calls


def same_backward(table: TraceTable) -> None:
    """The backward time of each module, one event after the other, from the definitions in docs/concepts."""
    modules = [int(i) for i in np.flatnonzero(table.kind == EventKind.MODULE)]
    on: dict[int, list[int]] = {}
    for call in modules:
        on.setdefault(int(table.track[call]), []).append(call)
    start, end = table.start_ns.tolist(), table.end_ns.tolist()
    by_hand = backward_by_hand(table)
    label, of, tied, function = by_hand.label, by_hand.of, by_hand.tied, by_hand.function

    def module(event: int) -> str:
        """The innermost module open where an event begins; nothing for none."""
        if event < 0:
            return ""
        calls = reversed(on.get(int(table.track[event]), []))
        call = next((call for call in calls if start[call] <= start[event] < end[call]), -1)
        return module_label(table.strings[int(table.name[call])]) if call >= 0 else ""

    own = {event: end[event] - start[event] for event in label}
    for event in label:
        if (outer := of.get(int(table.operator[event]), -1)) >= 0:
            own[outer] -= end[event] - start[event]
    placed = {event: module(tied.get(event, -1)) for event in label}
    apart = [event for event in label if not placed[event] and not module(event)]
    facts = part(table, "modules").facts
    told = [facts[f"modules.backward_{key}"] for key in ("apart", "apart_untied", "apart_ns")]
    assert told == [len(apart), sum(event not in tied for event in apart), sum(own[event] for event in apart)]
    device: dict[str, int] = {}
    for event in range(len(table)):
        inside = of.get(int(table.operator[event]), -1)
        if table.kind[event] not in DEVICE_WORK or inside < 0:
            continue
        source = int(table.launch[event]) if table.launch[event] >= 0 else int(table.operator[event])
        call = function.get(inside, inside)
        is_own = start[call] <= start[source] < end[call] and not table.is_collective[event]
        if (is_own or label[inside] != "AccumulateGrad") and not module(source):
            device[placed[inside]] = device.get(placed[inside], 0) + int(table.dur_ns[event])
    for event, call in function.items():
        if label[event] == "AccumulateGrad":
            own[event] = end[call] - start[call]
    host = sum(own[event] for event in label if placed[event] and not module(event))
    found = rows(table, "modules")
    assert {each["module"]: each.get("backward_device_self_ns", 0) for each in found} == {
        each["module"]: device.get(each["module"], 0) for each in found
    }
    tops: Any = part(table, "modules").payloads["tree"]
    outer = zip(tops.rows, tops.parent, strict=True)
    assert sum(each.get("backward_host_total_ns", 0) for each, above in outer if above < 0) == host


@pytest.mark.parametrize("name", UNLIKE)
def test_the_backward_pass_of_modules_recounted(name: str) -> None:
    table = sample(name)
    if (table.kind == EventKind.MODULE).any():
        same_backward(table)


FUNCTION = "torch::autograd::AccumulateGrad"
GRAD = f"autograd::engine::evaluate_function: {FUNCTION}"
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["module", "aten::a", "ABackward0", "BBackward0", GRAD, FUNCTION]),
        st.integers(0, 40), st.integers(1, 25), st.integers(1, 2),
        st.sampled_from([None, 1, 2]), st.sampled_from([None, 1]), st.sampled_from(["", "k", "nccl"]),
    ),
    max_size=14,
)  # fmt: skip


@given(CALLS)
@examples(25, 500)
def test_the_backward_pass_of_any_modules_recounted(calls: Any) -> None:
    builder = trace().module("Net", 0, 10, number=99)
    for i, (name, at, dur, tid, sequence, thread, does) in enumerate(calls):
        if name == "module":
            builder.module("Block", at, dur, number=i, tid=tid)
            continue
        builder.op(name, at, dur, tid=tid, sequence=sequence, forward_thread=thread)
        if does:
            builder.launches(kernel("ncclDevKernel_AllReduce" if does == "nccl" else "k", 3, at + 1))
    same_backward(builder.table())


@needs_shared
def test_a_recording_with_activation_checkpoints() -> None:
    """All device time that modules claim exists once; the rest is the optimizer's, the loss's and the reducer's."""
    table = loaded(f"{SHARED.name}/data/tracelens/mi300/resnet_act_checkpoint.json.gz")
    for analysis in OF_TRACES:
        if analysis.missing(table) is None:
            part(table, analysis.id)
    if part(table, "modules").facts["modules.calls"]:
        assert {path.split("/")[0] for path, _, _ in tree(table)} == {"DistributedDataParallel_0"}
        found = rows(table, "modules")
        own = sum(r.get("device_self_ns", 0) + r.get("backward_device_self_ns", 0) for r in found)
        assert 0 < own <= sum(r["device_self_ns"] for r in rows(table, "operators"))


def test_layers_of_one_class_are_one_node_with_exact_sums() -> None:
    builder = trace().module("Net", 0, 1000)
    for i, time in enumerate((30, 10, 20)):
        builder.module("Block", 100 * i, 50, number=i).op("a", 100 * i + 1, 5).launches(kernel("k", time))
        builder.module("Norm", 100 * i + 10, 10, number=i)
    builder.module("Head", 400, 50).op("b", 401, 5).launches(kernel("k", 40))
    table = builder.table()
    assert tree(table) == [
        ("Net_0", 1, 100), ("Net_0/Block × 3", 3, 60),
        *((f"Net_0/Block × 3/{name}", 1, time) for i, time in enumerate((30, 10, 20)) for name, time in
          ((f"Block_{i}", time), (f"Block_{i}/Norm_{i}", 0))),
        ("Net_0/Head_0", 1, 40),
    ]  # fmt: skip
    payloads: Any = part(table, "modules").payloads
    (layers,) = [node for node in payloads["tree"].rows if node["layers"]]
    assert (layers["layer_mean_ns"], layers["layer_spread"], layers["module_share"]) == (20_000, 1.0, 0.6)
    (answer,) = payloads["answer"].notices
    found = {figure.metric.key: figure.value for figure in answer.figures}
    assert (found["leading_name"], found["leading_ratio"], found["module"]) == ("Block × 3", 0.6, "Block")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Linear_3", "Linear"),
        ("Block_1 (recomputed)", "Block (recomputed)"),
        ("layers.3.mlp (Qwen2MLP)", "Qwen2MLP"),
        ("torch.nn.modules.linear.Linear: model.head", "Linear"),
        ("compiled region 0/0", None),
    ],
)
def test_class_of_a_label(label: str, name: str | None) -> None:
    assert class_of(label) == name
