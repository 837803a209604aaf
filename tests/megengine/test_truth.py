"""MegEngine's timelines of GPUs against what the generator counted while it invented them: times, links, waits, findings."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.selection import select_rows
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._ordered_findings import findings_of
from tb_plugin.views.diff.call_tree import call_tree
from tb_plugin.views.operators.view import Operators
from tests.builders import Bytes
from tests.megengine.synthetic import generator
from torch_trace_megengine.timeline.reader import MegEngineReader

Json = dict[str, Any]


class Case(NamedTuple):
    trace: TraceTable
    truth: Json
    shift: int
    """Time of the file at which the trace begins."""


@functools.cache
def played(*faults: str, cupti: bool = True, ranks: int = 1) -> tuple[Case, ...]:
    config = generator.Config(steps=3, ranks=ranks, blocks=2, faults=faults, cupti=cupti)
    cases = []
    for process in generator.play(config):
        source = Bytes(generator.text(process).encode(), f"{process.pid}.chrome_timeline.json")
        trace = assemble(MegEngineReader().read(source, ReadOptions(), no_progress))
        cases.append(Case(trace, generator.truth_of(process), trace.origin_ns))
    return tuple(cases)


BOTH = pytest.mark.parametrize("cupti", [True, False], ids=["CUPTI", "without CUPTI"])


def rows_by_number(trace: TraceTable) -> dict[int, int]:
    """Number of an operator -> its row on the worker."""
    rows = np.flatnonzero((trace.kind == EventKind.OPERATOR) & (trace.external_id != MISSING))
    return dict(zip(trace.external_id[rows].tolist(), rows.tolist(), strict=True))


@BOTH
def test_operators_with_host_and_device_time_side_by_side(cupti: bool) -> None:
    ((trace, truth, _),) = played(cupti=cupti)
    frame = Operators().part(trace, Params()).frames["operators"]
    found = {row["name"]: row for row in frame.data.to_pylist()}
    scopes = Counter(scope["path"][-1] for scope in truth["scopes"] if scope["forward_operator"] is not None)
    for name, expected in truth["operators"].items():
        calls = expected["calls"] + scopes.get(name, 0)
        assert found[name]["calls"] == calls
        assert found[name]["device_self_ns"] == expected["kernel_ns" if cupti else "device_ns"]
        if name not in scopes:
            assert found[name]["host_total_ns"] == expected["host_ns"]
    assert set(found) == {*truth["operators"], *scopes, *({"(no operator)"} & set(found))}


@BOTH
def test_work_on_the_device_belongs_to_its_operator(cupti: bool) -> None:
    ((trace, truth, shift),) = played("wait", cupti=cupti)
    of = rows_by_number(trace)
    found: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for row in np.flatnonzero(trace.kind == EventKind.KERNEL).tolist():
        begin = int(trace.start_ns[row]) + shift
        name = trace.strings[int(trace.name[row])]
        found[int(trace.operator[row])].append((name, begin, begin + int(trace.dur_ns[row])))
    for operation in truth["operations"]:
        if cupti:
            expected = [(k["name"], k["start_ns"], k["end_ns"]) for k in operation["kernels"]]
        else:
            expected = [(operation["name"], operation["device_start_ns"], operation["device_end_ns"])]
        assert found.get(of[operation["id"]], []) == expected
    calls = {trace.strings[int(name)] for name in trace.name[trace.launch[trace.kind == EventKind.KERNEL]]}
    assert calls == ({"cudaLaunchKernel_v7000"} if cupti else {"KernelLaunch"})
    assert not (trace.kind[np.isin(trace.name, trace.name[trace.kind == EventKind.KERNEL])] == EventKind.RUNTIME).any()
    assert (
        of_kind(trace.kind, *DEVICE_WORK).sum()
        == sum(map(len, found.values())) + (trace.kind == EventKind.MEMCPY).sum()
    )


@BOTH
def test_dispatch_and_dependencies_are_arrows(cupti: bool) -> None:
    ((trace, truth, _),) = played(cupti=cupti)
    number = {row: operation for operation, row in rows_by_number(trace).items()}
    names = [trace.strings[int(name)] for name in trace.arrows.name]
    after: dict[int, set[int]] = defaultdict(set)
    dispatched = set()
    for tail, head, name in zip(trace.arrows.tail.tolist(), trace.arrows.head.tolist(), names, strict=True):
        if name == "tensor" and tail in number and head in number:
            after[number[head]].add(number[tail])
        if name == "dispatch":
            dispatched.add((int(trace.external_id[tail]), number[head]))
    assert {o["id"]: set(o["after"]) for o in truth["operations"]} == {
        o["id"]: after[o["id"]] for o in truth["operations"]
    }
    assert dispatched == {(o["id"], o["id"]) for o in truth["operations"]}


def test_scopes_of_the_backward_pass_know_their_forward_operators() -> None:
    ((trace, truth, shift),) = played("reshapes")
    number = {row: operation for operation, row in rows_by_number(trace).items()}
    found = {
        int(trace.start_ns[row]) + shift: number[int(trace.forward[row])]
        for row in np.flatnonzero(trace.forward != MISSING).tolist()
    }
    expected = {
        s["worker_start_ns"]: s["forward_operator"] for s in truth["scopes"] if s["forward_operator"] is not None
    }
    assert found == expected and len(found) > 30


def test_modules_are_the_scopes_of_the_worker() -> None:
    ((trace, truth, shift),) = played()
    parts = {"backward", "step", "clear_grad"}
    expected = sorted(
        (s["path"][-1], s["worker_start_ns"], s["worker_end_ns"])
        for s in truth["scopes"]
        if s["forward_operator"] is None and s["path"][-1] not in parts
    )
    rows = np.flatnonzero(trace.kind == EventKind.MODULE)
    begin = trace.start_ns[rows] + shift
    names = [trace.strings[int(name)] for name in trace.name[rows]]
    assert sorted(zip(names, begin.tolist(), (begin + trace.dur_ns[rows]).tolist(), strict=True)) == expected


def test_waits_with_their_lines() -> None:
    ((trace, truth, shift),) = played("wait")
    rows = np.flatnonzero(trace.name == trace.strings.find("TensorWaitProp"))
    lines = code_lines(trace)
    found = [
        (int(trace.start_ns[row]) + shift, int(trace.dur_ns[row]), lines.texts[int(lines.of[row])].as_py())
        for row in rows
    ]
    assert found == [
        (wait["start_ns"], wait["dur_ns"], wait["line"].replace(" , line ", "(").replace(", in ", "): "))
        for wait in truth["waits"]
    ]


def test_steps_clock_and_usage() -> None:
    for trace, truth, shift in played(ranks=2):
        assert trace.base_time_ns == truth["local_time_ns"]
        assert len(trace.steps.label) == len(truth["steps"])
        # A step ends where the program calls Profiler.step, which the generator lets take 40 us; the last where it ends.
        stated = [step["end_ns"] + 40_000 for step in truth["steps"][:-1]] + [truth["steps"][-1]["end_ns"]]
        assert (trace.steps.end_ns + shift).tolist() == stated
        usage = trace.counters.value[trace.counters.name == trace.strings.find("gpu_usage_ratio")]
        assert usage.tolist() == pytest.approx([truth["gpu_usage_percent"]] * 2)
        assert [track.thread for track in trace.tracks if not track.is_device] == ["worker", "interpreter"]


@pytest.mark.parametrize(
    ("fault", "rules", "ranks"),
    [
        ("wait", {"synchronising_calls"}, 1),
        ("serial_all_reduce", {"serial_collectives"}, 2),
        ("host_bound", {"python_bound", "launch_bound"}, 1),
        ("reshapes", {"redundant_reshapes"}, 1),
    ],
)
def test_planted_faults_are_found_and_cost_what_they_cost(fault: str, rules: set[str], ranks: int) -> None:
    (trace, truth, _), *_others = played(fault, ranks=ranks)
    (clean, *_) = played(ranks=ranks)
    found = {each.rule.id: each.notice for each in findings_of(trace, None).all}
    without = {each.rule.id: each.notice for each in findings_of(clean.trace, None).all}
    assert rules <= set(found)
    if fault == "reshapes":
        (count,) = [figure.value for figure in found["redundant_reshapes"].figures if figure.metric.key == "reshapes"]
        assert count == len(truth["redundant_reshapes"]) / 3 and "redundant_reshapes" not in without
        return
    if fault != "wait":  # reading the loss at the end of each step waits too
        assert not rules & set(without)
    config = generator.Config(steps=3, ranks=ranks, blocks=2, faults=(fault,))
    cost = generator.truth_document(config, "", None)["planted"][fault]["cost_ns_per_step"]
    savings = [found[rule].saving for rule in rules if found[rule].saving is not None]
    before = [notice.saving for rule in rules if (notice := without.get(rule)) and notice.saving]
    low = min(s.low_ns for s in savings) - max((s.high_ns for s in before), default=0.0)
    high = max(s.high_ns for s in savings) - min((s.low_ns for s in before), default=0.0)
    assert low <= cost <= 1.1 * high
    # Nothing in the words is about another tool.
    assert not any("torch" in f"{notice.todo} {notice.references}".lower() for notice in found.values())


def test_backtraces_of_operators_are_stacks() -> None:
    ((trace, *_),) = played("host_bound")
    (found,) = [each.notice for each in findings_of(trace, None).all if each.rule.id == "python_bound"]
    assert found.text.endswith("Python stacks were recorded for operators only.") and "with_backtrace" not in found.todo


def test_a_diff_knows_the_parts_of_a_step() -> None:
    ((trace, *_),) = played()
    nodes = call_tree(trace, select_rows(trace, None)).data.to_pylist()
    roots = {node["tree_node"]: node["name"] for node in nodes if node["parent_node"] == MISSING}
    parts: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        if node["parent_node"] in roots:
            parts[roots[node["parent_node"]]].add(node["name"])
    assert parts["Forward"] >= {"forward"} and not parts["Forward"] & {"MUL", "SUB", "CollectiveComm", "backward"}
    assert (parts["Backward"], parts["Optimizer"]) == ({"backward"}, {"step", "clear_grad"})
