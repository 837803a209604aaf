"""Is the truth beside a synthetic trace true? A slow recount from the written file has to agree to the nanosecond.

Nothing of tb_plugin takes part: other tests measure tb_plugin against this truth, so it needs its own witness.
The recount knows the file only; it goes by names, times and correlations, with loops over everything.
"""

import gzip
import json
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import synthetic

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
Json = dict[str, Any]


class Span(NamedTuple):
    name: str
    start: int
    end: int
    tid: int
    args: Json

    @property
    def dur(self) -> int:
        return self.end - self.start

    def holds(self, other: "Span") -> bool:
        return self.tid == other.tid and self.start <= other.start and other.end <= self.end


class Trace(NamedTuple):
    top: Json
    events: list[Json]

    def spans(self, *categories: str) -> list[Span]:
        return [
            Span(e["name"], e["ts"], e["ts"] + e["dur"], e["tid"], e["args"])
            for e in self.events
            if e["ph"] == "X" and e.get("cat") in categories
        ]


def exact_ns(digits: str) -> int:
    """Read the digits themselves: a float of epoch microseconds is no longer exact."""
    whole, _, fraction = digits.partition(".")
    assert len(fraction) in (0, 3), digits
    return int(whole) * 1000 + int(fraction or 0)


def read(text: str) -> Trace:
    """Parse strictly; ts and dur become integer nanoseconds, other fractions stay fractions."""
    top = json.loads(text, parse_float=lambda digits: digits, parse_constant=pytest.fail)
    for event in top["traceEvents"]:
        for key in {"ts", "dur"} & event.keys():
            event[key] = exact_ns(str(event[key]))
    return Trace(top, top["traceEvents"])


CASES = {
    "cuda": synthetic.Config(steps=2),
    "one stream": synthetic.Config(steps=2, streams=1, seed=3),
    "four streams": synthetic.Config(steps=2, streams=4, seed=4),
    "rocm": synthetic.Config(steps=2, streams=3, arch="rocm", seed=5),
    "epoch": synthetic.Config(steps=1, epoch_us=True, seed=6),
    "slow rank": synthetic.Config(steps=1, ranks=2, slow_rank=1, seed=7),
    "groups": synthetic.Config(steps=2, ranks=4, layers=1, tensor_parallel=2, seed=8),
    "lost kernels": synthetic.Config(steps=2, ranks=2, missing_rank=1, missing_share=0.3, seed=9),
    "late": synthetic.Config(steps=3, ranks=2, layers=1, late_rank=1, late_steps=2, seed=10),
}


class Case(NamedTuple):
    config: Any
    trace: Trace
    truth: Json


@pytest.fixture(scope="module", params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    config = CASES[request.param]
    worker = synthetic.generate(config)[-1]
    return Case(config, read("".join(worker.text())), worker.truth)


def device_spans(trace: Trace) -> dict[str, list[Span]]:
    kernels = trace.spans("kernel")
    return {
        "compute": [k for k in kernels if not k.name.startswith("nccl")],
        "communication": [k for k in kernels if k.name.startswith("nccl")],
        "memcpy": trace.spans("gpu_memcpy"),
        "memset": trace.spans("gpu_memset"),
    }


def recount_device(classes: dict[str, list[Span]], start: int, end: int) -> dict[str, int]:
    """Cut the window at every start and end; between two cuts nothing changes, so look at who is there."""
    every = [span for spans in classes.values() for span in spans]
    cuts = sorted({start, end, *(t for span in every for t in (span.start, span.end) if start < t < end)})
    counted = {"idle_ns": 0, "busy_ns": 0}
    for kind in classes:
        counted |= {f"{kind}_ns": 0, f"{kind}_exposed_ns": 0}
    for left, right in pairwise(cuts):
        present = [kind for kind, spans in classes.items() if any(s.start <= left and right <= s.end for s in spans)]
        for kind in present:
            counted[f"{kind}_ns"] += right - left
        if present:
            counted[f"{present[0]}_exposed_ns"] += right - left
        counted["busy_ns" if present else "idle_ns"] += right - left
    return counted


def test_the_time_account_of_the_device_is_what_a_sweep_over_the_file_finds(case: Case) -> None:
    classes = device_spans(case.trace)
    every = [span for spans in classes.values() for span in spans]
    first, last = min(s.start for s in every), max(s.end for s in every)
    (device, truth), *others = case.truth["devices"].items()
    assert not others and {s.args["device"] for s in every} == {int(device)}
    expected = recount_device(classes, first, last)
    assert {key: truth[key] for key in expected} == expected
    assert truth["window_ns"] == last - first == truth["busy_ns"] + truth["idle_ns"]
    assert truth["kernels"] == len(classes["compute"]) + len(classes["communication"])
    assert (truth["memcpys"], truth["memsets"]) == (len(classes["memcpy"]), len(classes["memset"]))


def test_the_account_of_each_step_is_what_a_sweep_over_its_window_finds(case: Case) -> None:
    steps = [s for s in case.trace.spans("user_annotation") if s.name.startswith("ProfilerStep#")]
    base = case.truth["steps"][0]["start_ns"] - steps[0].start  # epoch times count from elsewhere
    assert (base == 0) is not case.config.epoch_us
    assert [(s.name, s.start + base, s.dur) for s in steps] == [
        (t["name"], t["start_ns"], t["dur_ns"]) for t in case.truth["steps"]
    ]
    for step, truth in zip(steps, case.truth["steps"], strict=True):
        assert truth["device_in_window"] == recount_device(device_spans(case.trace), step.start, step.end)


def parents(spans: list[Span]) -> list[int | None]:
    """For each span the shortest other one around it. Quadratic, and meant to be."""
    found: list[int | None] = []
    for i, inner in enumerate(spans):
        around = [j for j, outer in enumerate(spans) if j != i and outer.holds(inner)]
        found.append(min(around, key=lambda j: spans[j].dur, default=None))
    return found


def test_operator_times_are_what_nesting_and_correlation_give(case: Case) -> None:
    ops = case.trace.spans("cpu_op")
    above = parents(ops)
    calls = case.trace.spans("cuda_runtime", "cuda_driver")
    host_self, host_total = Counter[str](), Counter[str]()
    runtime, device_self, device_total = Counter[str](), Counter[str](), Counter[str]()
    for op, parent in zip(ops, above, strict=True):
        host_total[op.name] += op.dur
        host_self[op.name] += op.dur
        if parent is not None:
            host_self[ops[parent].name] -= op.dur
    owner: dict[int, list[str]] = {}
    for call in calls:
        around = sorted((o for o in ops if o.tid == call.tid and o.start <= call.start < o.end), key=lambda o: o.start)
        owner[call.args["correlation"]] = [o.name for o in around]
        if around:
            runtime[around[-1].name] += call.dur
            assert call.args["External id"] == around[-1].args["External id"]
    unlaunched = 0
    for work in case.trace.spans("kernel", "gpu_memcpy", "gpu_memset"):
        unlaunched += work.args["correlation"] not in owner
        names = owner.get(work.args["correlation"], [])
        assert ("External id" in work.args) == bool(names)
        device_self[names[-1] if names else synthetic.NO_OPERATOR] += work.dur
        device_total.update(dict.fromkeys(names, work.dur))
    truth = case.truth["operators"]
    assert truth == {
        name: {
            "calls": calls_of,
            "host_self_ns": host_self[name],
            "host_total_ns": host_total[name],
            "host_runtime_ns": runtime[name],
            "device_self_ns": device_self[name],
            "device_total_ns": device_total[name],
        }
        for name, calls_of in Counter(o.name for o in ops).items()
    }
    assert case.truth["device_self_without_operator_ns"] == device_self[synthetic.NO_OPERATOR]
    assert case.truth["device_self_by_operator_ns"] == dict(device_self)
    unrecorded_launches = 1 if case.config.late_rank is None else 0
    assert unlaunched == unrecorded_launches == next(iter(case.truth["devices"].values()))["unlaunched"]


def test_module_times_are_what_stacks_and_sequence_numbers_give(case: Case) -> None:
    frames = [s for s in case.trace.spans("python_function") if s.name.startswith("nn.Module: ")]
    ops = case.trace.spans("cpu_op")
    launches = {c.args["correlation"]: c for c in case.trace.spans("cuda_runtime", "cuda_driver")}
    sequence_modules: dict[int, set[str]] = defaultdict(set)
    for op in ops:
        if op.args.get("Fwd thread id") == 0:
            sequence_modules[op.args["Sequence number"]] |= {f.name for f in frames if f.holds(op)}
    backward = [o for o in ops if o.name.startswith("autograd::engine::") and "Sequence number" in o.args]
    forward_ns, backward_ns = Counter[str](), Counter[str]()
    for work in case.trace.spans("kernel", "gpu_memcpy", "gpu_memset"):
        call = launches.get(work.args["correlation"])
        if call is None:
            continue
        forward_ns.update({f.name: work.dur for f in frames if f.holds(call)})
        for node in backward:
            if node.holds(call):
                backward_ns.update(dict.fromkeys(sequence_modules[node.args["Sequence number"]], work.dur))
    assert {f"nn.Module: {name}": truth for name, truth in case.truth["modules"].items()} == {
        name: {
            "calls": sum(f.name == name for f in frames),
            "host_total_ns": sum(f.dur for f in frames if f.name == name),
            "forward_device_ns": forward_ns[name],
            "backward_device_ns": backward_ns[name],
        }
        for name in {f.name for f in frames}
    }
    assert forward_ns["nn.Module: Linear_0"] and backward_ns["nn.Module: Linear_0"]


def test_counts_kernels_and_memory_are_those_of_the_file(case: Case) -> None:
    categories = Counter((e["ph"], e.get("cat")) for e in case.trace.events)
    assert case.truth["counts"] == {
        "cpu_ops": categories["X", "cpu_op"],
        "user_annotations": categories["X", "user_annotation"],
        "python_functions": categories["X", "python_function"],
        "runtime_calls": categories["X", "cuda_runtime"] + categories["X", "cuda_driver"],
        "memory_events": categories["i", "cpu_instant_event"],
        "fwdbwd_links": categories["s", "fwdbwd"],
    }
    assert categories["s", "fwdbwd"] == categories["f", "fwdbwd"]
    totals: dict[str, Json] = defaultdict(lambda: {"calls": 0, "total_ns": 0})
    for kernel in case.trace.spans("kernel"):
        totals[kernel.name]["calls"] += 1
        totals[kernel.name]["total_ns"] += kernel.dur
    assert case.truth["kernels_by_name"] == totals
    peaks = {"gpu": 0, "cpu": 0}
    for event in case.trace.events:
        if event.get("cat") == "cpu_instant_event":
            device = "cpu" if event["args"]["Device Type"] == 0 else "gpu"
            peaks[device] = max(peaks[device], event["args"]["Total Allocated"])
    assert case.truth["memory"]["peak_allocated_bytes"] == peaks


def test_collectives_are_those_of_the_file_and_carry_their_metadata(case: Case) -> None:
    kernels = device_spans(case.trace)["communication"]
    ops = sorted((o for o in case.trace.spans("cpu_op") if o.name == "record_param_comms"), key=lambda o: o.start)
    lost = len(case.truth["collectives"]) - len(kernels)
    assert lost == (0 if case.config.missing_rank is None else 3)
    numbers = {(o.args["Process Group Name"], o.args["Seq"]) for o in ops}
    assert len(numbers) == len(ops) == len(case.truth["collectives"])
    truth = [c for c in case.truth["collectives"] if c["recorded"]]
    found = {(k.args["Process Group Name"], k.args["Seq"]) for k in kernels}
    ops = [o for o in ops if (o.args["Process Group Name"], o.args["Seq"]) in found]
    assert [k.dur for k in kernels] == [c["dur_ns"] for c in truth] == [c["wait_ns"] + c["transfer_ns"] for c in truth]
    assert [k.args["Seq"] for k in kernels] == [o.args["Seq"] for o in ops] == [c["seq"] for c in truth]
    sizes = {"Float": 4, "BFloat16": 2}
    assert [sizes[o.args["dtype"]] * o.args["In msg nelems"] for o in ops] == [c["bytes"] for c in truth]
    assert [o.args["Process Group Name"] for o in ops] == [c["group"] for c in truth]
    shared = {"Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size", "Process Group Ranks"}
    for kernel, op in zip(kernels, ops, strict=True):
        assert {key: kernel.args[key] for key in shared} == {key: op.args[key] for key in shared}


def test_spans_of_one_thread_nest_and_streams_run_one_thing_at_a_time(case: Case) -> None:
    for category in ("cpu_op", "python_function"):
        spans = case.trace.spans(category)
        for tid in {s.tid for s in spans}:
            open_ends: list[int] = []
            for span in sorted((s for s in spans if s.tid == tid), key=lambda s: (s.start, -s.dur)):
                while open_ends and open_ends[-1] <= span.start:
                    open_ends.pop()
                assert not open_ends or span.end <= open_ends[-1]
                open_ends.append(span.end)
    work = case.trace.spans("kernel", "gpu_memcpy", "gpu_memset")
    for stream in {s.tid for s in work}:
        on_stream = sorted((s for s in work if s.tid == stream), key=lambda s: s.start)
        assert all(a.end <= b.start for a, b in pairwise(on_stream))


def test_flows_start_and_end_on_the_slices_they_link(case: Case) -> None:
    starts = {(e["pid"], e["tid"], e["ts"]) for e in case.trace.events if e["ph"] == "X"}
    flows = [e for e in case.trace.events if e["ph"] in "sf"]
    assert flows and all((e["pid"], e["tid"], e["ts"]) in starts for e in flows)
    ends = Counter(e["id"] for e in flows if e["cat"] == "ac2g" and e["ph"] == "f")
    assert max(ends.values()) > 1, "a graph launch has one start and many ends"
    begun = {e["id"] for e in flows if e["cat"] == "ac2g" and e["ph"] == "s"}
    lost = sum(not one["recorded"] for one in case.truth["collectives"])
    assert ends.keys() <= begun and len(begun) == len(ends) + lost


def test_the_graph_launch_leads_to_many_kernels_without_an_operator(case: Case) -> None:
    graphs = [c for c in case.trace.spans("cuda_runtime") if c.name.endswith("GraphLaunch")]
    assert len(graphs) == len(case.truth["steps"])
    for graph in graphs:
        kernels = [k for k in case.trace.spans("kernel") if k.args["correlation"] == graph.args["correlation"]]
        assert len(kernels) > 1 and all("graph node id" in k.args for k in kernels)


def test_times_use_every_digit_and_the_top_level_says_it_is_invented(case: Case) -> None:
    starts = [e["ts"] for e in case.trace.events if e.get("cat") == "cpu_op"]
    assert len({ns % 1000 for ns in starts}) > min(500, len(starts) / 3)
    assert all(e["ts"] > 0 for e in case.trace.events)
    assert "not a recording" in case.trace.top["deviceProperties"][0]["name"]
    assert ("baseTimeNanoseconds" in case.trace.top) is not case.config.epoch_us
    assert (case.trace.top.get("distributedInfo", {}).get("world_size", 1)) == case.config.ranks


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    def written(folder: str, seed: int) -> dict[str, bytes]:
        workers = synthetic.generate(synthetic.Config(steps=1, ranks=2, seed=seed))
        return {path.name: path.read_bytes() for path in synthetic.write(workers, tmp_path / folder)}

    assert written("a", 1) == written("b", 1) != written("c", 2)


def test_the_slow_rank_keeps_the_others_waiting_and_all_leave_a_collective_together() -> None:
    workers = synthetic.generate(synthetic.Config(steps=2, ranks=4, slow_rank=2))
    waits = {w.name: sum(c["wait_ns"] for c in w.truth["collectives"]) for w in workers}
    assert min(waits, key=lambda name: waits[name]) == "rank2"
    assert all(waits[name] > 20 * waits["rank2"] + 1_000_000 for name in waits if name != "rank2")
    for together in zip(*(w.truth["collectives"] for w in workers), strict=True):
        assert len({c["start_ns"] + c["dur_ns"] for c in together}) == 1
        assert min(c["wait_ns"] for c in together) == 0
        assert len({c["transfer_ns"] for c in together}) == 1


def test_scale_makes_the_steps_longer_and_the_trace_larger() -> None:
    small, large = (synthetic.generate(synthetic.Config(steps=1, scale=scale))[0].truth for scale in (1, 3))
    assert 2.4 < large["counts"]["cpu_ops"] / small["counts"]["cpu_ops"] < 3.2
    assert 2.2 < large["steps"][0]["dur_ns"] / small["steps"][0]["dur_ns"] < 3.2


def test_a_step_looks_as_the_documentation_promises() -> None:
    worker = synthetic.generate(synthetic.Config(steps=3))[0]
    trace, truth = read("".join(worker.text())), worker.truth
    loading = [s for s in trace.spans("user_annotation") if s.name.startswith("enumerate(DataLoader)#")]
    for step, load in zip(truth["steps"], loading, strict=True):
        assert 70e6 < step["dur_ns"] < 90e6
        assert 0.17 < load.dur / step["dur_ns"] < 0.23
        assert 0.55 < step["device_in_window"]["busy_ns"] / step["dur_ns"] < 0.66
        assert 0 < step["device_in_window"]["communication_exposed_ns"] < step["device_in_window"]["communication_ns"]
    assert 1000 < len(trace.events) / 3 < 3000


NONSENSE: list[tuple[Json, str]] = [
    ({"arch": "tpu"}, "arch is one of"),
    ({"steps": 0}, "at least 1"),
    ({"ranks": 0}, "at least 1"),
    ({"ranks": 4, "tensor_parallel": 3}, "divides"),
    ({"missing_share": 1.5}, "0 to 1"),
    ({"steps": 2, "late_steps": 2}, "less than steps"),
    ({"ranks": 2, "slow_rank": 2}, "exists"),
    ({"ranks": 2, "absent_ranks": (0, 1)}, "not absent"),
]


@pytest.mark.parametrize(("arguments", "why"), NONSENSE)
def test_nonsense_is_refused(arguments: Json, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        synthetic.Config(**arguments)


def test_groups_meet_by_themselves_and_are_named_in_the_file() -> None:
    """Neighbours share layers, ranks at the same place share gradients; each rank lists its own groups."""
    workers = synthetic.generate(
        synthetic.Config(steps=1, ranks=6, layers=1, tensor_parallel=2, slow_rank=3, absent_ranks=(5,))
    )
    assert [w.name for w in workers] == [f"rank{r}" for r in range(5)]
    listed = read("".join(workers[3].text())).top["distributedInfo"]["pg_config"]
    assert [(g["pg_name"], g["pg_desc"], g["ranks"]) for g in listed] == [
        ("0", "default_pg", [0, 1, 2, 3, 4, 5]),
        ("2", "tp", [2, 3]),
        ("5", "dp", [1, 3, 5]),
    ]
    meetings: dict[tuple[str, int], list[Json]] = defaultdict(list)
    for worker in workers:
        for one in worker.truth["collectives"]:
            meetings[one["group"], one["seq"]].append(one)
    assert {group: len({seq for g, seq in meetings if g == group}) for group, _ in meetings} == {
        "1": 2, "2": 2, "3": 2, "4": 3, "5": 3,
    }  # fmt: skip
    for (group, _), ones in meetings.items():
        assert len({c["start_ns"] + c["dur_ns"] for c in ones}) == len({c["transfer_ns"] for c in ones}) == 1
        assert group in ("3", "5") or min(c["wait_ns"] for c in ones) == 0  # the last of these may be the absent rank
    slow = [c for c in workers[3].truth["collectives"] if c["wait_ns"] > 0]
    assert len(slow) <= 1


def test_lost_kernels_are_evenly_spread_and_nothing_else_changes() -> None:
    whole, lossy = (
        synthetic.generate(synthetic.Config(steps=5, ranks=2, layers=1, missing_rank=rank, missing_share=0.2))[0].truth
        for rank in (None, 0)
    )
    lost = [i for i, one in enumerate(lossy["collectives"]) if not one["recorded"]]
    assert len(lost) == len(lossy["collectives"]) // 5 and {b - a for a, b in pairwise(lost)} == {5}
    assert [c | {"recorded": True} for c in lossy["collectives"]] == whole["collectives"]
    assert lossy["operators"].keys() == whole["operators"].keys()
    kernels = [t["devices"]["0"]["communication_kernels"] for t in (whole, lossy)]
    assert kernels == [len(whole["collectives"]), len(whole["collectives"]) - len(lost)]


def test_a_late_recording_is_the_end_of_the_whole_one() -> None:
    whole, late = (
        synthetic.generate(synthetic.Config(steps=3, ranks=2, layers=1, late_rank=rank, late_steps=2))
        for rank in (None, 0)
    )
    keys = ("name", "start_ns", "dur_ns", "device_work_launched_ns")  # what step 1 left on the device was not recorded
    assert [[s[k] for k in keys] for s in late[0].truth["steps"]] == [
        [s[k] for k in keys] for s in whole[0].truth["steps"][2:]
    ]
    assert late[0].truth["collectives"] == [c for c in whole[0].truth["collectives"] if c["step"] == 2]
    assert late[1].truth == whole[1].truth
    begin = min(span.start for span in read("".join(late[0].text())).spans("cpu_op", "python_function", "kernel"))
    assert begin == late[0].truth["steps"][0]["start_ns"]


def test_the_command_writes_traces_and_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth_file = tmp_path / "truth" / "run.json"
    synthetic.main([str(tmp_path / "run"), "--steps", "1", "--ranks", "2", "--plain", "--truth", str(truth_file)])
    assert "run.json" in capsys.readouterr().out
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert [re.sub(r"\d{19}", "TIME", name) for name in names] == [f"rank{r}.TIME.pt.trace.json" for r in (0, 1)]
    assert json.loads(truth_file.read_text())["workers"].keys() == {"rank0", "rank1"}


@pytest.mark.parametrize("run", ["synthetic_gpu", "synthetic_ddp", "synthetic_groups"])
def test_the_committed_samples_are_what_the_generator_makes_today(run: str) -> None:
    kept = json.loads((SAMPLES / "truth" / f"{run}.json").read_text())
    workers = synthetic.generate(synthetic.Config(**kept["config"]))
    assert json.loads(json.dumps(synthetic.truth_document(workers, run))) == kept
    files = {path.name: path for path in (SAMPLES / run).iterdir()}
    assert files.keys() == {f"{worker.file_name}.gz" for worker in workers}
    for worker in workers:
        assert gzip.decompress(files[f"{worker.file_name}.gz"].read_bytes()).decode() == "".join(worker.text())
