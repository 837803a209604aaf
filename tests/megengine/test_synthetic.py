"""Is the truth beside an invented timeline of MegEngine true? A recount from the written text has to agree to the nanosecond.

Nothing of tb_plugin takes part: other tests measure tb_plugin against this truth. The recount pairs ``B`` and ``E`` lane by
lane in the order of the file, and knows names, numbers of flows and arguments only.
"""

import gzip
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.megengine.synthetic import generator

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
RECORDED = Path("/work/shared/data/megengine/all/23766.chrome_timeline.json")
Json = dict[str, Any]
CASES = {
    "one process": generator.Config(steps=2),
    "two with every fault": generator.Config(steps=2, ranks=2, blocks=1, faults=generator.FAULTS, scopes=True),
    "without CUPTI": generator.Config(steps=1, ranks=2, cupti=False, backtrace=False, seed=3),
}


class Slice(NamedTuple):
    name: str
    lane: str
    start: int
    end: int
    args: Json
    flows: list[tuple[str, str, int]]
    inside: tuple[str, ...]


def ns(event: Json) -> int:
    return round(event["ts"] * 1000)


class Recount:
    """The slices of a timeline, each with the arrows that were written while it was the innermost open one of its lane."""

    def __init__(self, text: str) -> None:
        document = json.loads(text)
        self.events = document["traceEvents"]
        self.local_time_ns = int(document["metadata"]["localTime"])
        names = {e["tid"]: e["args"]["name"] for e in self.events if e["ph"] == "M"}
        self.slices: list[Slice] = []
        stacks: dict[int, list[tuple[Json, list[tuple[str, str, int]]]]] = defaultdict(list)
        for event in self.events:
            stack = stacks[event.get("tid", -1)]
            if event["ph"] == "B":
                stack.append((event, []))
            elif event["ph"] in "stf" and stack:
                stack[-1][1].append((event["cat"], event["ph"], event["id"]))
            elif event["ph"] == "E":
                begin, flows = stack.pop()
                assert begin["name"] == event["name"]
                lane = names.get(event["tid"], "a stream")
                inside = tuple(outer["name"] for outer, _ in stack)
                self.slices.append(
                    Slice(event["name"], lane, ns(begin), ns(event), event.get("args", {}), flows, inside)
                )
        assert not any(stacks.values()), "every B has its E"

    def on(self, lane: str) -> list[Slice]:
        return [one for one in self.slices if one.lane == lane]


class Case(NamedTuple):
    config: Any
    process: Any
    text: str
    found: Recount
    truth: Json


@pytest.fixture(scope="module", params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    config = CASES[request.param]
    process = generator.play(config)[-1]
    text = generator.text(process)
    return Case(config, process, text, Recount(text), generator.truth_of(process))


def test_operators_on_host_and_device_are_what_the_file_says(case: Case) -> None:
    executed = {s.args["__id__"]: s for s in case.found.on("worker") if "__id__" in s.args}
    on_device = {s.args["__id__"]: s for s in case.found.slices if s.lane.startswith("gpux") and "__id__" in s.args}
    dispatched = {s.args["__id__"]: s for s in case.found.on("interpreter") if "__id__" in s.args}
    operations = case.truth["operations"]
    assert len(operations) == len(executed) == len(on_device) == len(dispatched) > 40
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for said in operations:
        host, device, sent = executed[said["id"]], on_device[said["id"]], dispatched[said["id"]]
        assert (host.name, host.start, host.end) == (said["name"], said["host_start_ns"], said["host_end_ns"])
        assert (device.name, device.start, device.end) == (said["name"], said["device_start_ns"], said["device_end_ns"])
        assert device.lane == said["lane"] and sent.start == sent.end == said["dispatch_ns"] <= host.start
        assert sent.flows == [("OpDispatch", "s", said["id"])]
        assert ("KernelLaunch", "s", said["kernel_id"]) in host.flows
        assert device.flows == [("KernelLaunch", "f", said["kernel_id"])]
        assert sent.inside == tuple(said["scopes"])
        counted[said["name"]] += Counter(calls=1, host_ns=host.end - host.start, device_ns=device.end - device.start)
    for name, of in case.truth["operators"].items():
        assert {key: of[key] for key in ("calls", "host_ns", "device_ns")} == counted[name]


def test_kernels_are_tied_to_their_operator_by_the_number_of_their_launch(case: Case) -> None:
    launches = {}
    for one in case.found.on("worker"):
        launches |= {
            (cat, number): one for cat, ph, number in one.flows if ph == "s" and cat in ("KernelLink", "CUPTILink")
        }
    kernels = {(cat, number): one for one in case.found.on("a stream") for cat, _, number in one.flows}
    assert launches.keys() == kernels.keys() and bool(kernels) is case.config.cupti
    if not kernels:
        return
    said = {kernel["correlation"]: (o, kernel) for o in case.truth["operations"] for kernel in o["kernels"]}
    assert {number for cat, number in kernels if cat == "KernelLink"} == said.keys()
    for number, (operation, kernel) in said.items():
        ran, launch = kernels["KernelLink", number], launches["KernelLink", number]
        assert (ran.name, ran.start, ran.end) == (kernel["name"], kernel["start_ns"], kernel["end_ns"])
        assert ran.args["execution_time"] == ran.end - ran.start and launch.end < ran.start
        assert launch.inside[-2:] == (operation["name"], "cudaLaunchKernel_v7000")
    assert {number for cat, number in kernels if cat == "CUPTILink"} == {c["correlation"] for c in case.truth["copies"]}


def test_what_an_operator_needs_is_what_made_its_inputs(case: Case) -> None:
    made: dict[int, int] = {}
    for one in sorted((s for s in case.found.on("worker") if "__id__" in s.args), key=lambda s: s.start):
        said = next(o for o in case.truth["operations"] if o["id"] == one.args["__id__"])
        parts = [s for s in case.found.on("worker") if one.start <= s.start and s.end <= one.end and s is not one]
        used = [s.args["id"] for s in parts if s.name.startswith("Input ")]
        assert tuple(used) == tuple(said["inputs"])
        assert said["after"] == sorted({made[number] for number in used if number in made})
        made |= {s.args["id"]: said["id"] for s in parts if s.name.startswith("Output ")}


def test_waits_scopes_and_steps(case: Case) -> None:
    found = case.found
    waits = [s for s in found.on("interpreter") if s.name == "TensorWaitProp"]
    expected = [(w["start_ns"], w["start_ns"] + w["dur_ns"], w["tensor"]) for w in case.truth["waits"]]
    assert [(s.start, s.end, s.args["id"]) for s in waits] == expected
    assert all(s.flows == [("TensorProp", "f", s.args["id"])] for s in waits)
    for one, said in zip(waits, case.truth["waits"], strict=True):
        last = one.args.get("python_backtrace", "").splitlines()[-1:]
        assert last == ([said["line"]] if said["line"] else [])
    planted = case.config.steps if "wait" in case.config.faults else 0
    assert [w["planted"] for w in case.truth["waits"]].count(True) == planted
    for lane, kind in (("interpreter", ""), ("worker", "worker_")):
        scopes = {(*s.inside, s.name, s.start, s.end) for s in found.on(lane)}
        assert {(*s["path"], s[f"{kind}start_ns"], s[f"{kind}end_ns"]) for s in case.truth["scopes"]} <= scopes
    stops = [ns(e) for e in found.events if e["ph"] == "i" and e["name"] == "StopStep"]
    assert len(stops) == 2 * (case.config.steps - 1) and len(case.truth["steps"]) == case.config.steps
    assert all(step["end_ns"] - step["start_ns"] == step["dur_ns"] > 0 for step in case.truth["steps"])


def test_each_backward_scope_belongs_to_one_forward_operator(case: Case) -> None:
    names = {operation["id"]: operation["name"] for operation in case.truth["operations"]}
    steps: dict[int, list[str]] = defaultdict(list)
    for scope in case.truth["scopes"]:
        if scope["forward_operator"] is not None:
            steps[scope["step"]].append(names[scope["forward_operator"]])
    for step, backwards in steps.items():
        forward = [o["name"] for o in case.truth["operations"] if o["step"] == step and o["scopes"][:1] == ("forward",)]
        assert backwards == forward[::-1]


def test_counters_and_flows_hold_together(case: Case) -> None:
    pending = [e["args"]["value"] for e in case.found.events if e["name"] == "nr_op_pending"]
    alive = [e["args"]["value"] for e in case.found.events if e["name"] == "nr_alive_tensor"]
    assert pending[-1] == 0 and min(pending) == 0 and min(alive) > 0
    chains: dict[int, str] = defaultdict(str)
    for event in case.found.events:
        if event.get("cat") == "TensorLink":
            chains[event["id"]] += event["ph"]
    assert all(chain[0] == "s" and set(chain[1:-1]) <= {"t"} and chain[-1] in "stf" for chain in chains.values())
    ratios = {e["args"]["value"] for e in case.found.events if e["name"] == "gpu_usgae_ratio"}
    assert ratios == {case.truth["gpu_usage_percent"]} and 0 < max(ratios) <= 100
    early = [o["id"] for o in case.truth["operations"] if o["device_start_ns"] < o["host_start_ns"]]
    assert bool(early) is ("host_bound" in case.config.faults)  # where the device waits, its early clock shows


def test_planted_faults_cost_what_the_mended_program_saves() -> None:
    for fault in generator.FAULTS:
        config = generator.Config(steps=1, ranks=2, blocks=1, faults=(fault,))
        document = generator.truth_document(config, "a run")
        planted = document["planted"][fault]
        assert planted["cost_ns_per_step"] == document["mean_step_ns"] - planted["mended_step_ns"] > 0
        worker = document["workers"]["4100"]
        assert len(worker["redundant_reshapes"]) == (3 if fault == "reshapes" else 0)
        lanes = {a["lane"] for a in worker["all_reduces"]}
        assert lanes == {"gpux:0" if fault == "serial_all_reduce" else "gpux:1"}


def test_the_drawing_of_memory_is_that_of_the_same_tensors(case: Case) -> None:
    """Counted byte by byte of pages of 512: no two tensors lie at one place, but views where what they are views of does."""
    root = ElementTree.fromstring(generator.drawing(case.process))
    tag = "{https://megengine.org.cn}"
    drawn = [rect.attrib for rect in root if rect.attrib.get(f"{tag}type") == "tensor"]
    said = case.truth["memory"]
    assert len(drawn) == said["tensors"] and sum(not rect[f"{tag}erased"] for rect in drawn) == said["unreleased"] > 0
    made = {rect[f"{tag}group"] for rect in drawn if f"{tag}group" in rect}
    assert made == {str(operation["id"]) for operation in case.truth["operations"]}

    def number(text: str) -> int:
        units = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9, "B": 1, "KB": 1024, "MB": 1 << 20}
        return sum(int(n) * units[unit] for n, unit in re.findall(r"(\d+)([a-zA-Z]+)", text))

    lives = [
        (
            number(r[f"{tag}produced"]),
            number(r[f"{tag}erased"]) or 10**18,
            int(r[f"{tag}address"], 16),
            number(r[f"{tag}size"]),
        )
        for r in drawn
    ]
    assert max(level for _, level in said["used_after_ns"]) == said["peak_bytes"]
    for at, level in said["used_after_ns"][:: len(said["used_after_ns"]) // 20 or 1]:
        there = {(address, size) for start, end, address, size in lives if start <= at < end}
        assert sum(size for _, size in there) == level
        ordered = sorted(there)
        assert all(address + size <= following for (address, size), (following, _) in pairwise(ordered))


def test_processes_meet_in_their_sums() -> None:
    first, second = (generator.truth_of(p) for p in generator.play(generator.Config(steps=1, ranks=2, blocks=1)))
    ends = [[a["end_ns"] + worker["local_time_ns"] for a in worker["all_reduces"]] for worker in (first, second)]
    assert ends[0] == ends[1] and len(ends[0]) == 5
    assert first["local_time_ns"] != second["local_time_ns"]


@pytest.mark.skipif(not RECORDED.exists(), reason="the recordings of MegEngine are in /work/shared")
def test_the_host_rows_look_like_recorded_ones(case: Case) -> None:
    def shapes(text: str) -> set[tuple[Any, ...]]:
        """Of every event: its phase, category and keys in their order; lanes of CUPTI have no recorded counterpart."""
        events = [e for e in json.loads(text)["traceEvents"] if e.get("cat") not in ("KernelLink", "CUPTILink")]
        devices = {e["tid"] for e in events if e["ph"] == "M"}
        return {(e["ph"], e.get("cat"), tuple(e)) for e in events if e["tid"] in devices}

    text = RECORDED.read_text()
    assert shapes(case.text) <= shapes(text)
    assert case.text.startswith('{"traceEvents":[{"args":{"value":') and "\n" not in case.text
    assert list(json.loads(case.text)) == list(json.loads(text)) == ["traceEvents", "metadata"]


@pytest.mark.parametrize(
    "arguments",
    [
        *({"steps": 0}, {"ranks": 0}, {"blocks": 0}),
        *({"faults": ("none",)}, {"faults": ("wait", "wait")}, {"faults": ("serial_all_reduce",)}),
    ],
)
def test_what_cannot_be_played_is_refused(arguments: Json) -> None:
    with pytest.raises(ValueError, match=r"at least 1|each once|takes 2 ranks"):
        generator.Config(**arguments)


def test_the_command_line_writes_what_the_functions_make(tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    generator.main(
        [str(tmp_path / "run"), "--steps", "1", "--blocks", "1", "--fault", "wait", "--plain", "--truth", str(truth)]
    )
    config = generator.Config(steps=1, blocks=1, faults=("wait",))
    assert (tmp_path / "run/4100.chrome_timeline.json").read_text() == generator.text(generator.play(config)[0])
    assert json.loads(truth.read_text()) == json.loads(json.dumps(generator.truth_document(config, "run")))


def test_the_sample_is_what_the_generator_makes_today() -> None:
    kept = json.loads((SAMPLES / "truth" / "synthetic_megengine.json").read_text())
    config = generator.Config(**kept["config"])
    processes = generator.play(config)
    assert json.loads(json.dumps(generator.truth_document(config, "synthetic_megengine", processes))) == kept
    for process in processes:
        path = SAMPLES / "synthetic_megengine" / f"{process.pid}.chrome_timeline.json.gz"
        assert gzip.decompress(path.read_bytes()).decode() == generator.text(process)
        assert path.with_name(f"{process.pid}.memory_flow.svg").read_text() == generator.drawing(process)
