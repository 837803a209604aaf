"""Compiled code in Modules: by hand, in plain Python on the recorded sample, and for any nesting of calls."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin import registry
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, part, rows, trace
from tests.conftest import SAMPLES, sample
from tests.depth import examples

REGION = "Torch-Compiled Region: "
CODE = "net.py(8): forward"


def graph(key: str) -> str:
    return f"## Call CompiledFxGraph {key} ##"


def told(table: TraceTable) -> dict[str, tuple[str | None, str | None]]:
    return {row["module"]: (row.get("compiled_code"), row.get("regions")) for row in rows(table, "modules")}


def compiled(builder: TraceBuilder, at: int, category: str = "user_annotation") -> TraceBuilder:
    """A region of 40, with its code, its operator, a graph and what it launched."""
    builder.op(f"{REGION}0/0", at, 40).python(CODE, at + 2, 36)
    builder.op("CompiledFunction", at + 5, 30, sequence=7).launches(kernel("triton_fused", 3, at + 100))
    return builder.event(category, graph("abc"), at + 8, 20, 1, 1)


def wrapped() -> TraceBuilder:
    """As it is recorded today: the wrapper calls the module, whose forward function is the region."""
    builder = trace().module("Net", 0, 100).module("OptimizedModule", 5, 80).module("Block", 10, 60)
    compiled(builder, 20)
    builder.op("CompiledFunctionBackward", 300, 50, tid=2, sequence=7, forward_thread=1)
    builder.event("user_annotation", graph("def"), 310, 30, 1, 2)
    return builder.op("aten::mm", 315, 5, tid=2).launches(kernel("triton_fused_backward", 7, 340))


def test_the_answer_compares_cpu_and_device_time_of_compiled_code() -> None:
    payloads: Any = part(compiled(trace(), 0).table(), "compiled").payloads
    (notice,) = payloads["answer"].notices
    assert [figure.value for figure in notice.figures] == [40_000, 3_000, 1]
    assert notice.text.endswith("so the CPU limits compiled code.")
    assert all(figure.value for figure in payloads["summary"].figures)


def test_a_wrapper_tells_what_it_stands_for_and_a_module_what_was_compiled_of_it() -> None:
    table = wrapped().table()
    assert told(table) == {"Net_0": (None, None), "OptimizedModule_0": ("Block_0", "0/0"), "Block_0": (CODE, "0/0")}
    tree: Any = part(table, "modules").payloads["tree"]
    assert [(node["module"], node["compiled_code"], node["regions"]) for node in tree.rows] == [
        ("Net_0", None, None),
        ("OptimizedModule_0", "Block_0", "0/0"),
        ("Block_0", CODE, "0/0"),
        ("compiled region 0/0", CODE, None),
    ]
    assert list(tree.parent) == [-1, 0, 1, 2]
    (region,) = rows(table, "modules", "compiled")
    assert region == {
        "region": "0/0",
        "compiled_code": CODE,
        "region_modules": "Block_0",
        "calls": 1,
        "device_total_ns": 3_000,
        "backward_device_total_ns": 7_000,
        "host_total_ns": 40_000,
        "backward_host_total_ns": 50_000,
        "graph": "abc",
        "backward_graph": "def",
    }


def test_a_module_called_by_compiled_code_is_not_taken_for_what_was_compiled() -> None:
    builder = trace().module("OptimizedModule", 5, 80)
    compiled(builder, 20).module("Linear", 50, 6)
    assert told(builder.table()) == {"OptimizedModule_0": (CODE, "0/0"), "Linear_0": (None, None)}


def test_what_is_not_recorded_is_not_told() -> None:
    builder = trace().module("OptimizedModule", 5, 80).op(f"{REGION}0/0", 20, 40)
    assert told(builder.table()) == {"OptimizedModule_0": (None, "0/0")}
    alone = trace().module("OptimizedModule", 5, 80).module("Block", 10, 60).table()
    assert told(alone) == {"OptimizedModule_0": ("Block_0", None), "Block_0": (None, None)}
    assert "compiled" not in part(alone, "modules").frames
    assert told(trace().module("Net", 0, 10).table()) == {"Net_0": (None, None)}
    assert "regions" not in rows(trace().module("Net", 0, 10).table(), "modules")[0]


@pytest.mark.parametrize("category", ["user_annotation", "cpu_op"])
def test_without_modules_the_compiled_code_is_there(category: str) -> None:
    table = compiled(trace(), 0, category).table()
    modules = next(a for a in registry.analyses() if a.id == "modules")
    assert modules.missing(table) is None
    found = part(table, "modules")
    assert list(found.payloads) == [] and list(found.layout) == ["compiled"] and found.facts["modules.calls"] == 0
    (region,) = rows(table, "modules", "compiled")
    assert (region["region_modules"], region["graph"], region["backward_graph"]) == (None, "abc", None)


def test_the_sample_recounted() -> None:
    (path,) = (SAMPLES / "compiled_cpu").glob("*.json.gz")
    events = [e for e in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if e.get("ph") == "X"]
    calls: dict[str, list[float]] = defaultdict(list)
    graphs: dict[str, set[str]] = defaultdict(set)
    for region in (e for e in events if e["name"].startswith(REGION)):
        calls[region["name"]].append(round(float(region["dur"]) * 1000))
        for e in events:
            inside = region["ts"] <= e["ts"] < region["ts"] + region["dur"] and e["tid"] == region["tid"]
            if inside and e["name"].startswith("## Call"):
                graphs[region["name"]].add(e["name"])
    later = {e["name"] for e in events if e["name"].startswith("## Call")} - set().union(*graphs.values())
    found = rows(sample(f"compiled_cpu/{path.name}"), "modules", "compiled")
    assert {REGION + row["region"]: (row["calls"], row["host_total_ns"]) for row in found} == {
        name: (len(durations), sum(durations)) for name, durations in calls.items()
    }
    assert {REGION + row["region"]: {graph(row["graph"])} for row in found} == graphs
    assert {graph(row["backward_graph"]) for row in found} == later


@dataclass
class Call:
    kind: str
    name: str
    inside: list[Call] = field(default_factory=list)


KINDS = st.sampled_from(
    [("module", "Net"), ("module", "Block"), ("module", "OptimizedModule"), ("region", "0/0"), ("region", "1/0"),
     ("python", "a.py(1): f"), ("python", "b.py(2): g")]
)  # fmt: skip
CALLS = st.recursive(
    st.builds(lambda kind: Call(*kind), KINDS),
    lambda inner: st.builds(lambda kind, inside: Call(*kind, inside), KINDS, st.lists(inner, max_size=3)),
    max_leaves=12,
)


def lay(builder: TraceBuilder, call: Call, at: int) -> int:
    """Writes a call and what it holds; returns its end."""
    end, place = at + 1, len(builder.events)
    for inner in call.inside:
        end = lay(builder, inner, end)
    if call.kind == "module":
        builder.module(call.name, at, end + 1 - at)
    elif call.kind == "region":
        builder.op(REGION + call.name, at, end + 1 - at)
    else:
        builder.python(call.name, at, end + 1 - at)
    builder.events.insert(place, builder.events.pop())
    return end + 2


def first_python(calls: list[Call]) -> str | None:
    for call in calls:
        if found := call.name if call.kind == "python" else first_python(call.inside):
            return found
    return None


def recount(calls: list[Call], path: tuple[Call, ...], found: dict[str, dict[str, Any]]) -> None:
    for call in calls:
        around = [at for at, outer in enumerate(path) if outer.kind == "module"]
        own = (
            found.setdefault(f"{call.name}_0", {"regions": [], "code": [], "stands": []})
            if call.kind == "module"
            else {}
        )
        outer = path[around[-1]] if around else None
        direct = outer is not None and all(each.kind != "region" for each in path[around[-1] :])
        if own and outer and outer.name == "OptimizedModule" and direct:
            found[f"{outer.name}_0"]["stands"].append(f"{call.name}_0")
        if call.kind == "region" and outer:
            owners = [f"{outer.name}_0"]
            if len(around) > 1 and path[around[-2]].name == "OptimizedModule":
                between = path[around[-2] : around[-1]]
                owners += ["OptimizedModule_0"] if all(each.kind != "region" for each in between) else []
            for owner in owners:
                found[owner]["regions"].append(call.name)
                found[owner]["code"].append(first_python(call.inside))
        recount(call.inside, (*path, call), found)


@given(st.lists(CALLS, min_size=1, max_size=3))
@examples(25, 500)
def test_any_compiled_calls_recounted(calls: list[Call]) -> None:
    builder, at = trace(), 0
    for call in calls:
        at = lay(builder, call, at)
    found: dict[str, dict[str, Any]] = {}
    recount(calls, (), found)
    expected = {}
    for module, own in found.items():
        code = next((each for each in own["code"] if each), None)
        stands = own["stands"][0] if own["stands"] else None
        expected[module] = (stands or code, set(own["regions"]))
    table = builder.table()
    assert {
        module: (code, set(regions.split(", ")) if regions else set())
        for module, (code, regions) in told(table).items()
    } == expected
