"""The reader and the views against what the generator of the sample counted while it invented it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.timeline.lanes import lanes_of, tracks_of
from tb_plugin.model.trace.job_tables import BANDS, GROUPS, LINKS, OPERATIONS, reported_table
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Table
from tb_plugin.views.counters.view import CountersAnalysis
from tb_plugin.views.distributed.view import Distributed
from tb_plugin.views.kernels.view import Kernels
from tb_plugin.views.memory.view import Memory
from tb_plugin.views.modules.view import Modules
from tb_plugin.views.operators.view import Operators
from tests.formats.ascend.folders import Files, table_of
from tests.samples import OURS, SAMPLES, made

Json = dict[str, Any]
TRUTH = json.loads((SAMPLES / "truth" / "synthetic_ascend.json").read_text())["ranks"]


class Case(NamedTuple):
    trace: TraceTable
    truth: Json

    def name(self, row: int) -> str:
        return self.trace.strings[int(self.trace.name[row])]

    def since(self, ns: int) -> int:
        """A time of the truth as the trace counts it."""
        return ns - self.trace.origin_ns


@pytest.fixture(scope="module", params=sorted(TRUTH))
def case(request: pytest.FixtureRequest) -> Case:
    truth = TRUTH[request.param]
    (name,) = (each.name for each in OURS if each.name.startswith(f"synthetic_ascend/rank_{request.param}_"))
    return Case(made(name), truth)


def rows(frame: Any) -> list[Json]:
    return list(frame.data.to_pylist())


def test_rank_and_device(case: Case) -> None:
    stated = case.trace.metadata["distributedInfo"]
    assert stated == {"backend": "hccl", "rank": case.truth["rank"], "world_size": 2}
    assert [device.id for device in case.trace.devices] == [str(case.truth["device"])]
    assert "SYNTHETIC" in case.trace.metadata and case.trace.report.complete and not case.trace.report.issues


def test_steps(case: Case) -> None:
    steps = case.trace.steps
    assert list(steps.label) == [str(step["number"]) for step in case.truth["steps"]]
    assert steps.host_start_ns.tolist() == [case.since(step["start_ns"]) for step in case.truth["steps"]]
    assert steps.host_end_ns.tolist() == [case.since(step["end_ns"]) for step in case.truth["steps"]]


def test_times_of_steps_are_those_of_the_kernels(case: Case) -> None:
    """Computing, communication, what of it is hidden and what is not, in the device's range of each step."""
    trace = case.trace
    kernels = np.flatnonzero(trace.kind == EventKind.KERNEL)
    for step in case.truth["steps"]:
        low, high = case.since(step["device_start_ns"]), case.since(step["device_end_ns"])
        mine = kernels[(trace.start_ns[kernels] >= low) & (trace.start_ns[kernels] < high)]
        covered = {}
        for what, flags in (("c", ~trace.is_collective[mine]), ("m", trace.is_collective[mine])):
            open_at = np.zeros(high - low + 10**7, np.bool_)
            for row in mine[flags].tolist():
                begin = int(trace.start_ns[row]) - low
                open_at[begin : begin + int(trace.dur_ns[row])] = True
            covered[what] = open_at
        assert int(covered["c"].sum()) == step["computing_ns"]
        assert int(covered["m"].sum()) == step["communication_ns"]
        assert int((covered["m"] & ~covered["c"]).sum()) == step["not_overlapped_ns"]
        assert int((covered["m"] & covered["c"]).sum()) == step["overlapped_ns"]


def test_the_stated_times_of_steps(case: Case) -> None:
    (table,) = (each for each in case.trace.reported_tables if each.name == "step_times")
    columns = {column.key: column.values.to_pylist() for column in table.columns}
    for key in (
        "computing_ns", "communication_ns", "overlapped_ns", "free_ns", "bubble_ns", "stage_ns", "exposed_ns", "preparing_ns",
    ):  # fmt: skip
        said = [step["not_overlapped_ns" if key == "exposed_ns" else key] for step in case.truth["steps"]]
        assert columns[key] == said, key
    assert columns["step"] == ["12", "13"] and set(columns["device"]) == {case.truth["device"]}


def test_communication(case: Case) -> None:
    """Calls, what they moved, and whose the groups are, as they were invented."""
    tables = {name: reported_table(case.trace.reported_tables, name) for name in (OPERATIONS, BANDS, LINKS, GROUPS)}
    calls, bands, links, groups = (found.to_pylist() for found in tables.values() if found is not None)
    said = {one["name"]: one for one in case.truth["collectives"]}
    assert [row["operation"] for row in sorted(calls, key=lambda row: row["start_ns"])] == [*said]
    for row in calls:
        one = said[row["operation"]]
        assert (row["rank"], row["step"]) == (case.truth["rank"], str(one["step"]))
        times = ("elapse_ns", "transit_ns", "wait_ns", "idle_ns")
        assert [row[key] for key in times] == [one[key] for key in times]
        assert abs(row["start_ns"] - one["start_ns"]) < 500, "a float of microseconds since 1970"
    moved = {row["operation"]: row["bytes"] for row in bands if row["part_of"] is None}
    assert moved == {name: one["bytes"] for name, one in said.items()}
    names = {row["group"]: (row["name"], row["ranks"]) for row in groups}
    assert {names[row["group"]] for row in calls} == {("pp", "0, 1"), ("embd", "0, 1")}
    assert not any(row["in_group"] for row in links)
    other, total = 1 - case.truth["rank"], [row for row in links if row["place"] == "total"]
    sent = [row["bytes"] for row in total if row["destination"] == other]
    assert sum(sent) == sum(one["bytes"] for one in said.values() if "receive" not in one["name"])


def test_collectives_know_their_groups(case: Case) -> None:
    args, texts = case.trace.collectives, case.trace.strings
    found = {case.name(row): place for place, row in enumerate(args.row.tolist())}
    for one in case.truth["collectives"]:
        place = found[one["name"]]
        assert texts[int(args.group_description[place])] == one["group"]
        assert texts[int(args.group_ranks[place])] == "[0, 1]" and args.group_size[place] == 2
        assert texts[int(args.dtype[place])] == "float32"


def test_who_waits_for_whom() -> None:
    """The slow rank is waited for as long as it was invented, of matched calls without a sequence number."""
    parts = []
    for rank, truth in TRUTH.items():
        (name,) = (each.name for each in OURS if each.name.startswith(f"synthetic_ascend/rank_{rank}_"))
        parts.append((replace(Distributed().part(made(name), Params()), worker=f"rank{rank}"), truth))
    answer = Distributed().answer([part for part, _ in parts], Params(table="workers"))
    assert isinstance(answer, Table)
    for row, (_, truth) in zip(answer.rows, parts, strict=True):
        assert (row["matched"], row["unmatched"], row["bounded"]) == (len(truth["collectives"]), 0, 0)
        assert abs(row["wait_ns"] - sum(truth["waited_for_ns"].values())) <= 20 * len(truth["collectives"])


def test_a_rank_of_which_the_calls_alone_were_kept_is_matched_with_the_other() -> None:
    """Begins are floats of microseconds there, so that nothing is exact to the nanosecond but durations."""
    path = next(each for each in sorted((SAMPLES / "synthetic_ascend").iterdir()) if each.name.startswith("rank_1_"))
    kept = ("communication.json", "communication_matrix.json", "step_trace_time.csv", "profiler_metadata.json")
    left = {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.name in kept}
    lean = table_of(Files({**left, "profiler_info_1.json": b"{}"}))
    assert lean.steps.label == ("12", "13") and len(lean) == len(TRUTH["1"]["collectives"])
    (name,) = (each.name for each in OURS if each.name.startswith("synthetic_ascend/rank_0_"))
    parts = [
        replace(Distributed().part(each, Params()), worker=worker) for worker, each in (("a", made(name)), ("b", lean))
    ]
    answer = Distributed().answer(parts, Params(table="workers"))
    assert isinstance(answer, Table)
    for row, truth in zip(answer.rows, TRUTH.values(), strict=True):
        assert (row["matched"], row["unmatched"], row["bounded"]) == (len(truth["collectives"]), 0, 0)
        assert abs(row["wait_ns"] - sum(truth["waited_for_ns"].values())) <= 20 * len(truth["collectives"])
        assert row["compute_ns"] == sum(step["computing_ns"] for step in truth["steps"]) or row["worker"] == "a"


def test_kernels_by_name(case: Case) -> None:
    found = {row["name"]: row for row in rows(Kernels().part(case.trace, Params()).frames["kernels"])}
    expected = {name: (said["calls"], said["total_ns"]) for name, said in case.truth["kernels"].items()}
    for one in case.truth["collectives"]:
        expected[one["name"]] = (1, one["elapse_ns"])
    assert {name: (row["calls"], row["total_ns"]) for name, row in found.items()} == expected
    cube = {"MatMulV2", "MatMulV3"}
    said = {name: str(any(each in name for each in cube)).lower() for name in found}
    assert {name: row["uses_matrix_unit"] for name, row in found.items()} == said


def test_facts_of_kernels(case: Case) -> None:
    trace = case.trace
    for key, said in (("Type", "kernels_by_type"), ("Accelerator Core", "kernels_by_core")):
        (column,) = (each for each in trace.others if each.key == key)
        total: Counter[str] = Counter()
        calls: Counter[str] = Counter()
        for row, text in zip(column.row.tolist(), trace.strings.take(column.value).to_pylist(), strict=True):
            calls[text] += 1
            total[text] += int(trace.dur_ns[row])
        ours = {name: {"calls": calls[name], "total_ns": total[name]} for name in calls if not is_communication(name)}
        assert ours == case.truth[said]
    (bound,) = (each for each in trace.others if each.key == "aiv_mte2_ratio")
    heavy = {case.name(row) for row, ratio in zip(bound.row.tolist(), bound.value.tolist(), strict=True) if ratio > 0.8}
    assert sorted(heavy) == case.truth["kernels_bound_by_reading"]


def is_communication(text: str) -> bool:
    return text.startswith("hcom_") or text == "COMMUNICATION"


def test_operators_by_name(case: Case) -> None:
    """Calls, host and device time: with AscendCL's calls and the queue's apart, which are no operators."""
    found = {row["name"]: row for row in rows(Operators().part(case.trace, Params()).frames["operators"])}
    annotations = {name for name in case.truth["operators"] if name not in found}
    assert all(name.startswith(("enumerate(DataLoader)", "Optimizer.")) for name in annotations)
    assert set(found) <= case.truth["operators"].keys()
    for name, row in found.items():
        said = case.truth["operators"][name]
        assert (row["calls"], row["device_self_ns"], row["device_total_ns"]) == (
            said["calls"], said["device_self_ns"], said["device_total_ns"],
        ), name  # fmt: skip
        assert row["host_total_ns"] == said["host_total_ns"], name
        assert row["host_self_ns"] + row["runtime_self_ns"] == said["host_self_ns"], name


def test_every_task_belongs_to_the_operator_that_launched_it(case: Case) -> None:
    trace = case.trace
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    found = {}
    for row in work.tolist():
        operator = int(trace.operator[row])
        assert operator != MISSING and trace.launch[row] != MISSING
        found[case.name(row), int(trace.start_ns[row]), int(trace.dur_ns[row])] = (
            case.name(operator),
            int(trace.start_ns[operator]),
        )
    assert found == {
        (one["name"], case.since(one["start_ns"]), one["dur_ns"]): (
            one["operator"],
            case.since(one["operator_start_ns"]),
        )
        for one in case.truth["launches"]
    }


def test_modules_have_the_time_of_what_was_queued_in_them(case: Case) -> None:
    found = {
        row["module"]: row["device_total_ns"] for row in rows(Modules().part(case.trace, Params()).frames["modules"])
    }
    total = {name: said["device_total_ns"] for name, said in case.truth["operators"].items()}
    embedding = {"Embedding_0": total["aten::embedding"]} if "aten::embedding" in total else {}
    assert found == {"Linear_0": total["aten::linear"], **embedding}


def test_collectives_wait_and_move(case: Case) -> None:
    """The whole operations, and the tasks of their planes."""
    trace = case.trace
    tasks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in np.flatnonzero(trace.kind == EventKind.DEVICE_ANNOTATION).tolist():
        begin = int(trace.start_ns[row])
        tasks[case.name(row)].append((begin, begin + int(trace.dur_ns[row])))
    for one in case.truth["collectives"]:
        begin, end = case.since(one["start_ns"]), case.since(one["start_ns"]) + one["elapse_ns"]
        waits = [b - a for a, b in tasks["Notify_Wait"] if begin <= a < end]
        moves = [b - a for a, b in tasks["Memcpy"] if begin <= a < end]
        assert (sum(waits), sum(moves)) == (one["wait_ns"], one["transit_ns"]), one["name"]
        assert len(moves) == one["bytes"] // one["packet_bytes"]


def test_memory(case: Case) -> None:
    trace, said = case.trace, case.truth["memory"]
    totals = trace.totals
    component = np.array(trace.strings.take(totals.allocator).to_pylist())
    for what in ("allocated", "reserved"):
        for name, peak in said[f"peak_{what}_bytes"].items():
            assert getattr(totals, what)[component == name].max() == peak, (name, what)
    assert Counter(component.tolist()) == said["records"]
    blocks = trace.blocks
    assert len(blocks.start_ns) == said["blocks"]
    assert (blocks.start_ns == MISSING).sum() == said["older_than_the_window"]
    assert (blocks.end_ns == MISSING).sum() == said["held_at_the_end"]
    allocators = trace.strings.take(blocks.allocator).to_pylist()
    assert allocators.count("GE") == said["of_the_graph_engine"]
    assert trace.memory.total_allocated.max() == said["peak_allocated_bytes"]["PTA"]
    ends = (blocks.end_ns != MISSING) & (blocks.start_ns != MISSING)
    assert (blocks.end_ns[ends] > blocks.start_ns[ends]).all()


def test_the_memory_view_has_the_peaks_of_allocators_and_components(case: Case) -> None:
    said, frames = case.truth["memory"], Memory().part(case.trace, Params(extra=(("zeros", "1"),))).frames
    found = {row["allocator"]: row for row in rows(frames["memory_allocators"])}
    assert {name: row["stated_samples"] for name, row in found.items()} == said["records"]
    for what in ("allocated", "reserved"):
        peaks = {name: row[f"stated_peak_{what}_bytes"] for name, row in found.items()}
        assert {name: peaks[name] for name in said[f"peak_{what}_bytes"]} == said[f"peak_{what}_bytes"]
    components = {row["component"]: row["stated_peak_reserved_bytes"] for row in rows(frames["memory_components"])}
    assert components == said["peak_of_components_bytes"] and components["TDT"] is None


def test_the_memory_view_has_every_block_once(case: Case) -> None:
    said = case.truth["memory"]
    blocks = rows(Memory().part(case.trace, Params()).frames["memory_events"])
    states = Counter(row["block_state"] for row in blocks)
    assert len(blocks) == said["blocks"] and states["allocated before"] == said["older_than_the_window"]
    assert states["never released"] == said["held_at_the_end"]
    assert sum(row["device"].endswith(" GE") for row in blocks) == said["of_the_graph_engine"]
    assert not [row for row in blocks if row["name"] == "(no operator)"]
    assert sum((row["signed_bytes"] or 0) < 0 for row in blocks) == said["older_than_the_window"]


def test_each_allocator_has_its_own_chart(case: Case) -> None:
    trace, part = case.trace, CountersAnalysis().part(case.trace, Params())
    charts = {each.key: each for each in part.payloads["counters"].counters}  # type: ignore[union-attr]
    memory, device = trace.memory, f"npu:{case.truth['device']}"
    graph = trace.reported_memory.allocator != MISSING
    assert graph.any() and not graph.all()
    for name, own in ((device, ~graph), (f"{device} GE", graph)):
        chart, total = charts[f"allocated:{name}"], memory.total_allocated[own]
        before = int(total[0] - memory.bytes[own][0])
        assert (chart.subtitle, chart.min, chart.max) == (name, min(before, total.min()), max(before, total.max()))


def test_lanes_that_work_stand_above_those_that_wait() -> None:
    (name,) = (each.name for each in OURS if each.name.startswith("synthetic_ascend_db/rank_0"))
    trace = made(name)
    lanes = lanes_of(trace)
    titles = [lane.title for lane in tracks_of(trace, lanes, lanes.number) if lane.is_device]
    works = ["·" in title for title in titles]
    assert works == sorted(works, reverse=True) and "Stream 6" in titles[works.index(False) :]
    assert any("Communication" in title for title, own in zip(titles, works, strict=True) if own)


def test_frequency_and_collection_of_garbage(case: Case) -> None:
    trace = case.trace
    counters = trace.counters
    names = np.array(trace.strings.take(counters.name).to_pylist())
    mine = np.flatnonzero(names == "AI Core Freq")
    found = [[int(counters.time_ns[row]) + trace.origin_ns, int(counters.value[row])] for row in mine]
    assert found == case.truth["frequency_mhz"]
    garbage = [row for row in range(len(trace)) if case.name(row) == "GC"]
    assert [[int(trace.start_ns[row]), int(trace.dur_ns[row])] for row in garbage] == [
        [case.since(begin), end - begin] for begin, end in case.truth["collections_of_garbage"]
    ]


def test_idle_time_names_the_collection() -> None:
    golden = SAMPLES.parent / "tests/golden/synthetic_ascend.rank_0_20251124120000000_ascend_pt.json"
    facts = json.loads(golden.read_text())["overview"]
    ((begin, end),) = TRUTH["0"]["collections_of_garbage"]
    assert facts["facts"]["device.0.idle.garbage_collection_ns"] == end - begin
