"""The truth of invented replays, recounted from the files by names, times and numbers; nothing of tb_plugin takes part."""

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import synthetic_graphs as graphs
from tests.synthetic_graphs import Plan

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
Json = dict[str, Any]
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
PLANS = {
    "captured": Plan(batches=(8, 32)),
    "annotated": Plan(capture="none", annotations=True, py_stacks=True, seed=2),
    "two streams": Plan(capture="eager", streams=2, steps="profiler", seed=3),
    "hip": Plan(capture="beside", arch="rocm", warm_up=False, seed=4),
}


class Event(NamedTuple):
    name: str
    start: int
    end: int
    args: Json


def events(text: str, *categories: str) -> list[Event]:
    """What ran, in integer nanoseconds: a float of microseconds is not exact."""
    found = []
    for event in json.loads(text, parse_float=Decimal)["traceEvents"]:
        if event["ph"] == "X" and event["cat"] in categories:
            start, dur = int(event["ts"] * 1000), int(event["dur"] * 1000)
            found.append(Event(event["name"], start, start + dur, event["args"]))
    return found


class Case(NamedTuple):
    plan: Plan
    files: dict[str, str]
    truth: Json

    @property
    def text(self) -> str:
        return next(iter(self.files.values()))


@pytest.fixture(scope="module", params=sorted(PLANS))
def case(request: pytest.FixtureRequest) -> Case:
    files, truth = graphs.generate(PLANS[request.param])
    return Case(PLANS[request.param], {file.path: file.text() for file in files}, truth)


def replays(text: str) -> list[tuple[Event, list[Event]]]:
    """The launches of graphs in order of time, each with its work in order of its begin."""
    by_number = defaultdict(list)
    for work in events(text, *DEVICE):
        by_number[work.args["correlation"]].append(work)
    launches = [call for call in events(text, "cuda_runtime") if call.name.endswith("GraphLaunch")]
    return [
        (call, sorted(by_number[call.args["correlation"]], key=lambda work: work.start))
        for call in sorted(launches, key=lambda call: call.start)
    ]


def free(spans: list[Event], begin: int, end: int) -> int:
    """Nanoseconds between two times in which none of these runs."""
    at = begin
    found = 0
    for work in sorted(spans, key=lambda work: work.start):
        if work.end > begin and work.start < end:
            found += max(0, work.start - at)
            at = max(at, work.end)
    return found + max(0, end - at)


def test_replays_come_to_what_the_truth_says_of_each_graph(case: Case) -> None:
    found = replays(case.text)
    everything = events(case.text, *DEVICE)
    assert sum(work.end - work.start for work in everything) == case.truth["device_ns"]
    # The graphs of a plan differ in their grids, hence in what is launched first.
    by_graph = defaultdict(list)
    for place, (call, work) in enumerate(found):
        by_graph[str(work[0].args.get("grid"))].append((place, call, work))
    assert len(by_graph) == len(case.truth["graphs"])
    for told in case.truth["graphs"]:
        mine = by_graph[f"[{told['batch']}, 1, 1]"]
        assert len(mine) == told["replays"] == case.plan.replays
        assert {len(work) for _, _, work in mine} == {told["nodes"]}
        assert sum(each.end - each.start for _, _, work in mine for each in work) == told["device_ns"]
        assert sum(call.end - call.start for _, call, _ in mine) == told["launch_ns"]
        ends = [(place, work[0].start, max(each.end for each in work), work) for place, _, work in mine]
        assert sum(free(work, begin, end) for _, begin, end, work in ends) == told["node_gaps_ns"]
        between = 0
        for place, begin, _, _ in ends:
            if place:
                between += free(everything, max(each.end for each in found[place - 1][1]), begin)
        assert between == told["replay_gaps_ns"]


def test_a_replay_runs_what_the_step_before_it_ran_and_as_long(case: Case) -> None:
    told = case.truth["replayed"]
    one = [graph["one"] for graph in case.truth["graphs"]]
    for key, numbers in told.items():
        summed: Counter[str] = Counter()
        for graph in one:
            summed.update(graph[key] if isinstance(numbers, dict) else {"": graph[key]})
        times = {name: value * case.plan.replays for name, value in summed.items()}
        assert times == (numbers if isinstance(numbers, dict) else {"": numbers})
    if case.truth["eager"] is None:
        return
    launched = {work.args["correlation"] for _, works in replays(case.text) for work in works}
    operators = {op.args["External id"]: op for op in events(case.text, "cpu_op")}
    total: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for work in events(case.text, *DEVICE):
        if work.args["correlation"] in launched:
            continue
        inner = operators[work.args["External id"]]
        around = {op.name for op in operators.values() if op.start <= inner.start and inner.end <= op.end}
        own[inner.name] += work.end - work.start
        total.update(dict.fromkeys(around, work.end - work.start))
    chooses = {"aten::argmax", "aten::to", "aten::_to_copy"}
    assert {name: ns for name, ns in own.items() if name not in chooses} == case.truth["eager"]["operators_self_ns"]
    assert {name: ns for name, ns in total.items() if name not in chooses} == case.truth["eager"]["operators_total_ns"]


def test_modules_hold_what_was_launched_inside_them() -> None:
    files, truth = graphs.generate(PLANS["captured"])
    text = files[0].text()
    launched = {work.args["correlation"] for _, works in replays(text) for work in works}
    calls = {call.args["correlation"]: call for call in events(text, "cuda_runtime", "cuda_driver")}
    modules = [call for call in events(text, "python_function") if call.name.startswith("nn.Module: ")]
    total: Counter[str] = Counter()
    for work in events(text, *DEVICE):
        call = calls[work.args["correlation"]]
        around = [m for m in modules if m.start <= call.start < m.end]
        if work.args["correlation"] in launched or not around:
            continue  # replays, and the choice of tokens
        path = [m.name.removeprefix("nn.Module: ") for m in sorted(around, key=lambda m: m.start - m.end)]
        for depth in range(1, len(path) + 1):
            total["/".join(path[:depth])] += work.end - work.start
    assert dict(total) == truth["eager"]["modules_total_ns"]


def test_captured_launches_bring_no_work_and_name_their_kernels_only_under_hip(case: Case) -> None:
    text = list(case.files.values())[-1] if case.plan.capture == "beside" else case.text
    calls = sorted(events(text, "cuda_runtime", "cuda_driver"), key=lambda call: call.start)
    begins = [call for call in calls if call.name.endswith("BeginCapture")]
    ends = [call for call in calls if call.name.endswith("EndCapture")]
    assert len(begins) == len(ends) == (len(case.plan.batches) if case.plan.capture in ("same", "beside") else 0)
    numbers = {work.args["correlation"] for work in events(text, *DEVICE)}
    for begin, end, graph in zip(begins, ends, case.truth["graphs"], strict=False):
        words = ("Launch", "Memset", "Memcpy")
        inside = [c for c in calls if begin.start < c.start < end.start and any(word in c.name for word in words)]
        assert len(inside) == graph["nodes"] and not numbers & {call.args["correlation"] for call in inside}
        named = [call.args["kernel"] for call in inside if "kernel" in call.args]
        if case.plan.arch == "cuda":
            assert not named
        else:
            assert named == [w.name for w in replays(case.text)[0][1] if not w.name.startswith("Mem")]


def test_numbers_of_nodes_count_in_order_and_annotations_name_regions(case: Case) -> None:
    regions: Counter[str] = Counter()
    for _, works in replays(case.text):
        if not case.plan.has_ids:
            assert not any({"graph id", "name"} & work.args.keys() for work in works)
            continue
        works.sort(key=lambda work: int(work.args["graph node id"]))
        ids = [int(work.args["graph node id"]) for work in works]
        assert ids == [works[0].args["graph id"] << 32 | node for node in range(1, len(works) + 1)]
        for work in works:
            regions[work.args.get("name", "")] += work.end - work.start
    if case.plan.annotations:
        assert regions == case.truth["replayed"]["regions_ns"] and "layers.1.mlp" in regions
        stacks = json.loads(case.files["worker0.kernel_py_stacks.json"])
        nodes = {str(work.args["graph node id"]): work for _, works in replays(case.text) for work in works}
        assert stacks.keys() == nodes.keys()
        assert all(lines.endswith("serve.py:80:main\nserve.py:91:<module>") for lines in stacks.values())
        assert any(lines.startswith("model.py:71:keep\n") for lines in stacks.values())


@pytest.mark.parametrize("wrong", ["kernel", "layers"])
def test_a_wrong_capture_differs_where_the_truth_says(wrong: str) -> None:
    files, truth = graphs.generate(Plan(capture="beside", arch="rocm", wrong=wrong, seed=5))
    main, capture = (file.text() for file in files)
    (told,) = truth["refused"]
    (_, replayed), *_ = replays(main)
    ran = sorted(
        events(capture, *DEVICE), key=lambda work: work.start
    )  # the step before the capture, which is wrong too
    both = [[(work.name, work.args.get("grid")) for work in works] for works in (replayed, ran)]
    first = next(i for i, (one, other) in enumerate(zip(*both, strict=False)) if one != other)
    assert told == {
        "batch": 8,
        "node": first,
        "replayed": both[0][first][0],
        "captured": both[1][first][0],
    }
    assert (len(ran) == len(replayed)) is (wrong == "kernel")


def test_unknown_plans_are_refused() -> None:
    with pytest.raises(ValueError, match="only a capture beside"):
        Plan(wrong="kernel")
    with pytest.raises(ValueError, match="capture is one of"):
        Plan(capture="somewhere")
    with pytest.raises(ValueError, match="only CUDA"):
        Plan(arch="rocm", annotations=True)
    with pytest.raises(ValueError, match="batches differ"):
        Plan(batches=(8, 8))


@pytest.mark.parametrize("run", ["synthetic_graphs", "synthetic_graphs_beside"])
def test_the_committed_samples_are_what_the_generator_makes_today(run: str) -> None:
    kept = json.loads((SAMPLES / "truth" / f"{run}.json").read_text())
    files, truth = graphs.generate(Plan(**kept["plan"]))
    assert json.loads(json.dumps(truth)) == kept
    folder = SAMPLES / run
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {f"{file.path}.gz" for file in files}
    for file in files:
        assert gzip.decompress((folder / f"{file.path}.gz").read_bytes()).decode() == file.text()


def test_the_command_writes_the_files_and_their_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = tmp_path / "truth.json"
    graphs.generator.main(
        [str(tmp_path / "run"), "--layers", "1", "--capture", "sibling", "--plain", "--truth", str(truth)]
    )
    names = sorted(path.name.split(".")[0] for path in (tmp_path / "run").iterdir())
    assert names == ["worker0", "worker0_capture"] and "truth.json" in capsys.readouterr().out
    assert json.loads(truth.read_text())["way"] == "capture_trace"
