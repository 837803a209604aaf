"""The page of compiled code: by hand, on the recorded break and recompilation, and on real traces."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from tb_plugin.analysis.simulate import Change
from tb_plugin.findings import finding
from tb_plugin.lib.intervals import measure
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.profilers.generated_kernels import COMPILED
from tb_plugin.rules import compilation, graph_breaks, recompilation, slow_first_step, step_outliers
from tb_plugin.rules._base import Detection, Limit, Rule, Scene
from tb_plugin.rules._ordered_findings import findings_of
from tb_plugin.views.compiled.generated_kernels import read_name, split_operators
from tests.builders import TraceBuilder, kernel, part, rows, trace
from tests.conftest import SAMPLES, loaded, needs_shared, sample

FOLDER = SAMPLES / "compiled_breaks_cpu"
LOOKUP = "TorchDynamo Cache Lookup"
RESUMED = "model.py(9): torch_dynamo_resume_in_forward_at_7"


def recorded(name: str) -> TraceTable:
    (path,) = FOLDER.glob(f"{name}.*")
    return sample(f"{FOLDER.name}/{path.name}")


def facts(table: TraceTable) -> dict[str, Any]:
    return {key.removeprefix("compiled."): value for key, value in part(table, "compiled").facts.items()}


def region(builder: TraceBuilder, name: str, at: float, dur: float, key: str = "") -> TraceBuilder:
    """A call of compiled code; of its time the graph, from 5 on, leaves 15 us, or nothing where it calls none."""
    builder.op(f"Torch-Compiled Region: {name}", at, dur)
    if key:
        builder.op("CompiledFunction", at + 2, dur - 3)
        builder.event("user_annotation", f"## Call CompiledFxGraph {key} ##", at + 5, dur - 15, 1, 1)
    return builder


def compiling(
    builder: TraceBuilder, name: str, at: float, dur: float, word: str = "entire_frame_compile"
) -> TraceBuilder:
    """A compilation as PyTorch 2.13 writes it: 2 us before and after it belong to no range that counts."""
    builder.op("dynamo", at - 2, dur + 4).event("user_annotation", f"dynamo_data: compile_id={name}", at - 1, 1, 1, 1)
    builder.op(word, at, dur)
    return builder.event("user_annotation", f"{word}_data: fn_name=x, compile_id={name}", at + 1, 1, 1, 1)


def broken(steps: int = 2) -> TraceBuilder:
    """A function of 0 that breaks off and goes on as 1, at line 7; the second step finds no code that fits the former."""
    builder = trace()
    for step in range(steps):
        at = 1000 * step
        builder.step(step, at, 900).op(LOOKUP, at + 10, 10)
        number = f"0/{step}"
        if step:
            compiling(builder, number, at + 30, 60)
        region(builder, number, at + 100, 400, "aaa")
        # The graph of the inner call would cover that of the outer one: the break stands behind it.
        builder.events[-1]["dur"] = 95
        builder.op(LOOKUP, at + 210, 10)
        region(builder, "1/0", at + 220, 200, "bbb").python(RESUMED, at + 221, 190)
    return builder


def seen(rule: Rule, table: TraceTable) -> Detection | None:
    return rule.look(Scene(table))


def figures(found: Detection | None) -> dict[str, Any]:
    assert found is not None
    return {figure.metric.key: figure.value for figure in found.notice.figures}


def host_us(change: Change | None) -> float:
    assert change is not None
    return measure(change.host) / 1000


def test_a_break_and_a_recompilation_by_hand() -> None:
    table = broken().table()
    assert facts(table) == {
        "regions": 3, "calls": 4, "compile_ns": 60_000, "compilations": 1, "recompilations": 1,
        "graph_breaks": 1, "guard_failures": 1, "guard_ns": 40_000,
    }  # fmt: skip
    (found,) = rows(table, "compiled", "graph_breaks")
    assert found == {
        "break_at": "model.py(7): forward", "break_from": "0/0, 0/1", "break_to": "1/0", "break_calls": 2,
        "break_ns": 2 * (10 + 15) * 1000,
    }  # fmt: skip
    table_rows = {row["region"]: row for row in rows(table, "compiled", "regions")}
    first, again, behind = (table_rows[name] for name in ("0/0", "0/1", "1/0"))
    # 400 less the graph of 95, the check of 10 and the call behind the break of 200.
    assert [(row["calls"], row["wrapper_ns"], row["guard_ns"]) for row in (first, again, behind)] == [
        (1, 95_000, 10_000), (1, 95_000, 10_000), (2, 30_000, 20_000),
    ]  # fmt: skip
    assert [(row["region_compile_ns"], row["cold_calls"]) for row in (first, again, behind)] == [
        (0, 0), (60_000, 1), (0, 0),
    ]  # fmt: skip
    assert [(row["cold_mean_ns"], row["warm_mean_ns"]) for row in (first, again, behind)] == [
        (None, 400_000), (400_000, None), (None, 200_000),
    ]  # fmt: skip
    assert (behind["compiled_code"], behind["graph"]) == (RESUMED, "bbb")


def test_a_check_that_failed_is_a_cost_of_the_break_that_it_was_made_for() -> None:
    """The function behind the break is compiled inside of the outer call: the check before that found nothing."""
    builder = region(trace().step(0, 0, 900), "0/0", 10, 800, "aaa")
    builder.events[-1]["dur"] = 95
    builder.op(LOOKUP, 200, 7)
    compiling(builder, "1/1", 220, 300)
    builder.op(LOOKUP, 530, 4)
    region(builder, "1/1", 540, 100, "bbb")
    (found,) = rows(builder.table(), "compiled", "graph_breaks")
    behind = next(row for row in rows(builder.table(), "compiled", "regions") if row["region"] == "1/1")
    assert (behind["guard_ns"], behind["wrapper_ns"], found["break_ns"]) == (11_000, 15_000, 26_000)
    assert figures(seen(graph_breaks.RULE, builder.table()))["breaking_ns"] == 26_000


def test_means_are_not_rounded() -> None:
    builder = region(region(trace(), "0/0", 0, 100), "0/0", 200, 100.001)
    (row,) = rows(builder.table(), "compiled", "regions")
    assert row["warm_mean_ns"] == 100_000.5


def test_compilation_step_by_step() -> None:
    """One that lasts until the next step counts for both, as far as it lies in them."""
    builder = compiling(broken(), "0/2", 890, 120)
    table = builder.step(2, 2000, 500).table()
    keys = ("step", "compiling_in_step_ns", "compilations", "calls", "guard_ns", "wrapper_ns")
    assert [tuple(row[key] for key in keys) for row in rows(table, "compiled", "compiled_steps")] == [
        ("0", 10_000, 1, 2, 20_000, 110_000),
        ("1", (10 + 60) * 1000, 1, 2, 20_000, 110_000),
        ("2", 0, 0, 0, 0, 0),
    ]
    assert [row["compiling_ratio"] for row in rows(table, "compiled", "compiled_steps", steps=("1",))] == [70 / 900]
    assert rows(region(trace(), "0/0", 0, 100).table(), "compiled", "compiled_steps") == []


def test_compilation_is_told_as_a_share_of_the_steps() -> None:
    def note(builder: TraceBuilder) -> str:
        summary: Any = part(builder.table(), "compiled").payloads["summary"]
        return "".join(figure.note for figure in summary.figures if figure.metric.key == "compile_ns")

    assert note(broken()) == "3.3 % of the steps"  # 60 of 2 * 900 us
    assert note(compiling(region(trace(), "0/0", 100, 100), "0/0", 10, 50)) == note(broken(1)) == ""


def test_chosen_steps_count_alone() -> None:
    table = broken().table()
    (first,) = rows(table, "compiled", "graph_breaks", steps=("0",))
    assert (first["break_from"], first["break_calls"]) == ("0/0", 1)
    assert part(table, "compiled", ("0",)).facts["compiled.recompilations"] == 0


def test_a_backward_pass_compiled_at_its_first_run_is_no_recompilation() -> None:
    builder = region(trace().step(0, 0, 900), "0/1", 10, 100, "aaa")
    backward = "autograd::engine::evaluate_function: CompiledFunctionBackward"
    table = compiling(builder.op(backward, 200, 600), "0/1", 210, 500).table()
    assert seen(recompilation.RULE, table) is None
    assert facts(table)["recompilations"] == 0
    findings = findings_of(table, None)
    assert findings.verdict is not None and findings.verdict.limit is Limit.COMPILATION
    assert findings.verdict.part_ns == 500_000
    assert [each.rule.id for each in findings.all] == ["compilation"]
    assert findings.all[0].notice.todo.startswith("Run one complete step")


def test_planted_breaks_and_recompilations_are_told() -> None:
    table = broken().table()
    found = seen(graph_breaks.RULE, table)
    assert figures(found) == {
        "breaks": 1, "breaking_calls": 2, "breaking_ns": 50_000, "break_line": "model.py(7): forward",
    }  # fmt: skip
    assert found is not None and host_us(found.saving.least) == 50
    again = seen(recompilation.RULE, table)
    assert figures(again) == {
        "recompiled": 1, "recompiling_ns": 60_000, "failed_guards": 1, "recompiled_regions": "0/1",
    }  # fmt: skip
    assert again is not None and host_us(again.saving.least) == 60
    text = str(finding(again.notice).text)
    assert "1 function was recompiled, which took 60" in text and "1 guard check failed" in text
    told = {each.rule.id for each in findings_of(table, None).all}
    assert {"graph_breaks", "recompilation", "compilation"} <= told
    assert "graph_breaks" in {each.rule.id for each in findings_of(table, ("0",)).all}
    assert "recompilation" not in {each.rule.id for each in findings_of(table, ("0",)).all}


@pytest.mark.parametrize(
    "builder",
    [
        trace().step(0, 0, 900).op("aten::mm", 10, 5),
        region(trace().step(0, 0, 900).op(LOOKUP, 5, 5), "0/0", 10, 100, "aaa"),
        # A compilation of a function for the first time is none of either.
        region(compiling(trace().step(0, 0, 900), "0/0", 10, 50), "0/0", 100, 100, "aaa"),
        # Side by side, and on two threads at once, is not inside of each other.
        region(region(trace().step(0, 0, 900), "0/0", 10, 100), "1/0", 110, 100),
        region(trace().step(0, 0, 900), "0/0", 10, 100).op("Torch-Compiled Region: 1/0", 20, 50, tid=2),
    ],
)
def test_silent_where_nothing_breaks_or_is_compiled_again(builder: TraceBuilder) -> None:
    table = builder.table()
    assert seen(graph_breaks.RULE, table) is None and seen(recompilation.RULE, table) is None


def test_a_backward_pass_that_is_compiled_late_makes_no_call_cold() -> None:
    builder = region(trace(), "0/0", 0, 100, "aaa")
    builder.op("autograd::engine::evaluate_function: CompiledFunctionBackward", 200, 300)
    compiling(builder, "0/0", 210, 200, "entire_backward_compile")
    region(builder, "0/0", 600, 100, "aaa")
    (row,) = rows(builder.table(), "compiled", "regions")
    assert (row["calls"], row["cold_calls"], row["region_compile_ns"]) == (2, 0, 200_000)


def test_a_check_that_leads_to_nothing_belongs_to_no_region() -> None:
    builder = trace().op(LOOKUP, 0, 10).op("aten::mm", 20, 10)
    region(builder, "0/0", 50, 100, "aaa")
    compiling(builder, "0/1", 300, 50)
    (row, only_made) = rows(builder.table(), "compiled", "regions")
    assert (row["guard_ns"], facts(builder.table())["guard_failures"]) == (0, 0)
    assert (only_made["region"], only_made["calls"], only_made["region_compile_ns"]) == ("0/1", 0, 50_000)
    assert facts(builder.table())["guard_ns"] == 10_000


def test_an_attempt_begun_anew_is_of_the_same_region() -> None:
    builder = (
        trace().op("entire_frame_compile", 10, 50).event("user_annotation", "x_data: compile_id=3/1_2", 12, 1, 1, 1)
    )
    region(builder, "3/1", 100, 100)
    (row,) = rows(builder.table(), "compiled", "regions")
    assert (row["region"], row["region_compile_ns"], row["cold_calls"]) == ("3/1", 50_000, 1)


# -- the tree of modules ---------------------------------------------------------------------------------


def tree_of(table: TraceTable) -> list[tuple[int, dict[str, Any]]]:
    tree: Any = part(table, "modules").payloads["tree"]
    return list(zip(tree.parent, tree.rows, strict=True))


def test_compiled_code_is_a_node_that_leaves_modules_as_they_are() -> None:
    """A region of 300 that calls a module of 100, which runs a region of its own, and a region behind a break of 50."""
    builder = trace().module("Net", 0, 500)
    region(builder, "0/0", 100, 300).op("aten::mm", 110, 10).launches(kernel("mm", 7))
    region(builder.module("Inner", 150, 100), "2/0", 160, 80).op("aten::add", 170, 10).launches(kernel("add", 5))
    region(builder, "1/0", 300, 50).op("aten::mul", 310, 10).launches(kernel("mul", 3))
    found = tree_of(builder.table())
    keys = ("module", "calls", "host_total_ns", "device_total_ns", "device_self_ns", "region")
    assert [(above, *(row[key] for key in keys)) for above, row in found] == [
        (-1, "Net_0", 1, 500_000, 15_000, 10_000, None),
        (0, "compiled region 0/0", 1, 200_000, 10_000, 7_000, "0/0"),
        (1, "compiled region 1/0", 1, 50_000, 3_000, 3_000, "1/0"),
        (0, "Inner_0", 1, 100_000, 5_000, 5_000, None),
        (3, "compiled region 2/0", 1, 80_000, 5_000, 5_000, "2/0"),
    ]
    flat = {row["module"]: row for row in rows(builder.table(), "modules")}
    for _, row in found:
        assert row["region"] or all(row[key] == value for key, value in flat[row["module"]].items())


def test_the_tree_of_the_recorded_modules() -> None:
    nodes = [(above, row["module"], row["calls"]) for above, row in tree_of(recorded("warm"))]
    assert nodes == [
        (-1, "LanguageModel_0", 1), (0, "Embedding_0", 1),
        (0, "OptimizedModule_0", 1), (2, "Block_0", 1), (3, "compiled region 0/1", 1), (4, "compiled region 1/1", 1),
        (0, "OptimizedModule_1", 1), (6, "Block_1", 1), (7, "compiled region 0/1", 1), (8, "compiled region 1/1", 1),
        (0, "Linear_0", 1),
    ]  # fmt: skip
    for above, row in tree_of(recorded("warm")):
        outer = tree_of(recorded("warm"))[above][1] if above >= 0 else row
        assert row["host_total_ns"] <= outer["host_total_ns"], "a node is no longer than the one around it"


# -- generated kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "operators"),
    [
        ("triton_poi_fused__unsafe_view_mul_silu_2", "pointwise", "_unsafe_view mul silu"),
        ("triton_per_fused_native_layer_norm_0", "persistent reduction", "native_layer_norm"),
        ("triton_xyz_fused_add_0", "xyz", "add"),
        ("triton_poi_fused_add", "pointwise", "add"),
        (
            "graph_3_cpp_fused_add_gelu_gelu_backward_native_layer_norm_native_layer_norm_backward_sum_view_1",
            None,
            "add gelu gelu_backward native_layer_norm native_layer_norm_backward sum view",
        ),
        ("cpp_fused__softmax__to_copy_3", None, "_softmax _to_copy"),
    ],
)
def test_what_names_of_generated_kernels_say(name: str, kind: str | None, operators: str) -> None:
    found = read_name(COMPILED, name)
    assert found is not None and (found.kind, " ".join(found.operators)) == (kind, operators)


@pytest.mark.parametrize("name", ["aten::mm", "triton_poi_add_0", "my_triton_poi_fused_add_0", "cpp_fused_"])
def test_names_of_other_kernels_say_nothing(name: str) -> None:
    assert read_name(COMPILED, name) is None


@pytest.mark.parametrize("text", ["", "_", "__", "a__b", "_a_", "___softmax"])
def test_any_name_is_split(text: str) -> None:
    found = split_operators(text, COMPILED.operators)
    assert all(each.strip("_") for each in found)


def test_kernels_stand_with_their_region_module_and_file() -> None:
    name = "triton_red_fused_add_mean_0"
    builder = trace().module("Net", 0, 500)
    region(builder, "0/0", 10, 200, "aaa")
    builder.op(name, 30, 10, kernel_file="/cache/x/a.py").launches(kernel(name, 40, 100))
    builder.op(name, 60, 10, kernel_file="/cache/x/a.py").launches(kernel(name, 30, 150))
    (row,) = rows(builder.table(), "compiled", "generated_kernels")
    assert row == {
        "generated_kernel": name, "kernel_kind": "reduction", "fused_operators": "add, mean", "kernel_launches": 2,
        "kernel_device_ns": 70_000, "kernel_host_ns": 20_000, "region_numbers": "0/0", "kernel_modules": "Net_0",
        "kernel_file": "/cache/x/a.py",
    }  # fmt: skip


# -- recordings ------------------------------------------------------------------------------------------


def test_the_recorded_break_and_recompilation() -> None:
    """Read off the file by eye, and off the program: what ran, in which order, and what the compiler logged meanwhile."""
    table = recorded("cold")
    found = facts(table)
    counts = {key: found[key] for key in found if not key.endswith("_ns")}
    assert counts == {
        "regions": 4, "calls": 20, "compilations": 6, "recompilations": 2, "graph_breaks": 1, "guard_failures": 2,
    }  # fmt: skip
    regions = {row["region"]: row for row in rows(table, "compiled", "regions")}
    # Two blocks; steps 0 and 1 with eight sequences, 2 to 4 with fewer or any number of them.
    assert {name: (row["calls"], row["cold_calls"]) for name, row in regions.items()} == {
        "0/0": (4, 1), "1/0": (4, 1), "0/1": (6, 1), "1/1": (6, 1),
    }  # fmt: skip
    assert all(row["cold_mean_ns"] > row["warm_mean_ns"] for name, row in regions.items() if name != "1/1")
    (gap,) = rows(table, "compiled", "graph_breaks")
    assert (gap["break_from"], gap["break_to"], gap["break_calls"]) == ("0/0, 0/1", "1/0, 1/1", 10)
    per_step = [part(table, "compiled", (step,)).facts["compiled.compilations"] for step in "01234"]
    assert per_step == [4, 0, 2, 0, 0]
    told = {each.rule.id: each.notice for each in findings_of(table, None).all}
    assert {"compilation", "recompilation", "graph_breaks"} <= told.keys()
    assert "19.9 s (regions 0/1, 1/1): 2 guard checks" in str(finding(told["recompilation"]).text)


def test_slow_steps_that_compiled_say_so() -> None:
    """Their time is that of the compilation: of another cause nobody should look for advice."""
    table = recorded("cold")
    first, later = figures(seen(slow_first_step.RULE, table)), figures(seen(step_outliers.RULE, table))
    assert later["unusual_compiling_ns"] > 0.9 * (later["unusual_ns"] - later["usual_step_ns"])
    found, compiled = seen(step_outliers.RULE, table), seen(compilation.RULE, table)
    assert found is not None and compiled is not None
    assert found.notice.todo == compiled.notice.todo
    assert first["unusual_compiling_ns"] + later["unusual_compiling_ns"] == figures(compiled)["compiling_ns"]


def test_the_recorded_stacks_say_what_and_where() -> None:
    table = recorded("warm")
    regions = {row["region"]: row for row in rows(table, "compiled", "regions")}
    script = "record_compiled_breaks_cpu.py"
    assert {name: (row["compiled_code"], row["region_modules"], row["calls"]) for name, row in regions.items()} == {
        "0/1": (f"{script}(55): forward", "Block_0, Block_1", 2),
        "1/1": (f"{script}(57): torch_dynamo_resume_in_forward_at_57", "Block_0, Block_1", 2),
    }
    (gap,) = rows(table, "compiled", "graph_breaks")
    assert (gap["break_at"], gap["break_calls"]) == (f"{script}(57): forward", 2)
    kernels = rows(table, "compiled", "generated_kernels")
    assert len(kernels) == 11 and {row["kernel_launches"] for row in kernels} == {2}
    assert {row["region_numbers"] for row in kernels} == {"0/1", "1/1"}
    assert {frozenset(row["kernel_modules"].split(", ")) for row in kernels} == {frozenset(("Block_0", "Block_1"))}


@pytest.mark.parametrize("name", ["cold", "warm"])
def test_the_recordings_recounted(name: str) -> None:
    """In plain Python, of the events of the file: durations, and what lies in what."""
    (path,) = FOLDER.glob(f"{name}.*")
    events = [e for e in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if e.get("ph") == "X"]

    def starting(text: str) -> list[dict[str, Any]]:
        return [e for e in events if e["name"].startswith(text)]

    def inside(one: dict[str, Any], other: dict[str, Any]) -> bool:
        return bool(other["ts"] < one["ts"] < other["ts"] + other["dur"] and one["tid"] == other["tid"])

    calls = starting("Torch-Compiled Region: ")
    table = recorded(name)
    assert Counter(e["name"].removeprefix("Torch-Compiled Region: ") for e in calls) == {
        row["region"]: row["calls"] for row in rows(table, "compiled", "regions")
    }
    nested = [e for e in calls if any(inside(e, other) for other in calls)]
    assert [len(nested)] == [row["break_calls"] for row in rows(table, "compiled", "graph_breaks")]
    found = facts(table)
    assert found["guard_ns"] == sum(round(e["dur"] * 1000) for e in starting(LOOKUP))
    frames = [e for e in events if e["name"] in ("entire_frame_compile", "entire_backward_compile")]
    assert (found["compilations"], found["compile_ns"]) == (len(frames), sum(round(e["dur"] * 1000) for e in frames))
    kernels = [e for e in events if "_cpp_fused_" in e["name"]]
    assert sum(row["kernel_host_ns"] for row in rows(table, "compiled", "generated_kernels")) == sum(
        round(e["dur"] * 1000) for e in kernels
    )


def test_code_that_is_warm_and_whole_is_no_finding() -> None:
    (path,) = (SAMPLES / "compiled_cpu").glob("*.json.gz")
    told = {each.rule.id for each in findings_of(sample(f"compiled_cpu/{path.name}"), None).all}
    assert not told & {"compilation", "recompilation", "graph_breaks"}


@needs_shared
def test_kernels_of_triton_on_a_device() -> None:
    table = loaded("shared/data/tracelens/torch_compile_triton/trace.json.gz")
    found = {row["generated_kernel"]: row for row in rows(table, "compiled", "generated_kernels")}
    assert {name: (row["kernel_kind"], row["kernel_device_ns"], row["fused_operators"]) for name, row in found.items()} == {
        "triton_poi_fused__unsafe_view_mul_silu_2": ("pointwise", 527_382, "_unsafe_view, mul, silu"),
        "triton_poi_fused__unsafe_view_add_3": ("pointwise", 140_848, "_unsafe_view, add"),
        "triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1": (
            "reduction", 90_653, "_unsafe_view, add, mean, mul, pow, rsqrt",
        ),
        "triton_red_fused_add_mean_mul_pow_rsqrt_0": ("reduction", 77_074, "add, mean, mul, pow, rsqrt"),
    }  # fmt: skip
    assert all(row["kernel_file"].endswith(".py") and row["region_numbers"] == "0/0" for row in found.values())


@needs_shared
def test_a_first_call_with_stacks_is_cold() -> None:
    table = loaded("shared/data/torch213/compile_cold_stack.pt.trace.json.gz")
    (row,) = rows(table, "compiled", "regions")
    assert (row["region"], row["cold_calls"], row["region_compile_ns"]) == ("0/0", 1, 331_594_815)
    assert facts(table)["guard_failures"] == 0
