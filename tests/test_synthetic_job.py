"""Is the truth of an invented job true? Loops over what the files say, which know nothing of the plan, agree with it.

Nothing of tb_plugin takes part, but for the test that our reader finds nothing irregular.
"""

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.storage.files import FileSource
from tests.synthetic_job import Job, Straggler, calls, main, plan, text_of, truth, write

MIXED = Job(
    ranks=16, steps=2, layers=2, kernels=5, tp=2, ep=2, pp=2, microbatches=3, node=4, seed=5, sharded=True,
    slow_links=((0, 1, 4.0),),
)  # fmt: skip
JOBS = {
    "mixed": MIXED,
    "context": Job(ranks=8, steps=2, layers=3, kernels=4, cp=2, tp=2, seed=6, stragglers=(Straggler(3, "kernel"),)),
    "data": Job(ranks=4, steps=3, layers=3, kernels=4, seed=7, naming="mesh"),
}


class Call(NamedTuple):
    """A kernel of a collective, as a file says it, on the clock of the job."""

    rank: int
    step: int
    stream: int
    start: int
    end: int
    args: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """Of what group and number it is; of messages their ends instead, and who is first."""
        args = self.args
        if args["Collective name"] in ("send", "recv"):
            return "message", args.get("Src Rank", self.rank), args.get("Dst Rank", self.rank), self.stream
        return args["Process Group Name"], args["Seq"]


def exact_ns(digits: str) -> int:
    whole, _, fraction = digits.partition(".")
    assert len(fraction) in (0, 3), digits
    return int(whole) * 1000 + int(fraction or 0)


def read(text: str) -> list[dict[str, Any]]:
    top = json.loads(text, parse_float=lambda digits: digits, parse_constant=pytest.fail)
    for event in top["traceEvents"]:
        for key in {"ts", "dur"} & event.keys():
            event[key] = exact_ns(str(event[key]))
    return top["traceEvents"]


def calls_in(rank: int, events: list[dict[str, Any]], zero: int) -> list[Call]:
    """The collectives of a rank in order of their start; their step is that of the window of their launch."""
    steps = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")]
    launched = {e["args"]["correlation"]: e["ts"] for e in events if e.get("cat") == "cuda_runtime"}
    found = []
    for e in events:
        if e.get("cat") == "kernel" and "Collective name" in e["args"]:
            at = launched[e["args"]["correlation"]]
            (step,) = [int(s["name"].split("#")[1]) for s in steps if s["ts"] <= at < s["ts"] + s["dur"]]
            found.append(Call(rank, step, e["tid"], e["ts"] - zero, e["ts"] + e["dur"] - zero, e["args"]))
    return sorted(found, key=lambda call: (call.start, -call.end))


class Case(NamedTuple):
    job: Any
    made: Any
    events: list[list[dict[str, Any]]]
    calls: list[list[Call]]
    matches: dict[tuple[Any, ...], list[Call]]
    truth: dict[str, Any]


@pytest.fixture(scope="module", params=sorted(JOBS))
def case(request: pytest.FixtureRequest) -> Case:
    job = replace(JOBS[request.param], bases=False)
    made = plan(job)
    events = [read("".join(text_of(made, rank))) for rank in range(job.ranks)]
    # Clocks are right here, so the first step of rank 0 is the zero of all.
    zero = next(e["ts"] for e in events[0] if e["name"] == "ProfilerStep#0") - int(made.begin[0, 0])
    found = [calls_in(rank, events[rank], zero) for rank in range(job.ranks)]
    matches: dict[tuple[Any, ...], list[Call]] = defaultdict(list)
    for mine in found:
        seen: dict[tuple[Any, ...], int] = defaultdict(int)
        for call in mine:
            matches[*call.key, seen[call.key]].append(call)
            seen[call.key] += 1
    return Case(job, made, events, found, matches, truth(job, made))


def test_everybody_of_a_group_is_in_each_collective_and_columns_number_them_alike(case: Case) -> None:
    numbers: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
    of_call = {}
    for key, match in case.matches.items():
        message = key[0] == "message"
        ranks = list(key[1:3]) if message else json.loads(match[0].args["Process Group Ranks"])
        assert sorted(call.rank for call in match) == sorted(ranks)
        for call in match:
            of_call[call.rank, call.start, call.stream] = key
    for rank in range(case.job.ranks):
        columns = calls(case.made, rank)
        assert columns["true_start_ns"].tolist() == [call.start for call in case.calls[rank]]
        assert columns["true_end_ns"].tolist() == [call.end for call in case.calls[rank]]
        assert columns["step"].tolist() == [call.step for call in case.calls[rank]]
        for number, call in zip(columns["match"].tolist(), case.calls[rank], strict=True):
            numbers[number].add(of_call[rank, call.start, call.stream])
    assert all(len(keys) == 1 for keys in numbers.values()) and len(numbers) == len(case.matches)


def test_a_collective_ends_when_the_last_one_came_and_the_data_moved(case: Case) -> None:
    largest = 3 * case.job.jitter_ns
    for match in case.matches.values():
        moved = [call.end - max(other.start for other in match) for call in match]
        assert max(moved) - min(moved) <= 2 * largest and min(moved) > 0


def test_work_of_a_stream_follows_what_is_before_it_and_its_launch(case: Case) -> None:
    for events in case.events:
        launched = {e["args"]["correlation"]: e["ts"] for e in events if e.get("cat") == "cuda_runtime"}
        ends: dict[int, int] = {}
        for e in sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy")), key=lambda e: e["ts"]):
            assert e["ts"] >= ends.get(e["tid"], 0)
            assert e["ts"] > launched[e["args"]["correlation"]]
            ends[e["tid"]] = e["ts"] + e["dur"]


def test_nothing_computes_while_the_stream_waits_for_a_collective(case: Case) -> None:
    for events in case.events:
        asynchronous = {
            e["args"]["External id"] for e in events if e.get("args", {}).get("Is asynchronized op") is True
        }
        compute = [e for e in events if e.get("cat") == "kernel" and e["tid"] == 7]
        for e in events:
            if e.get("cat") != "kernel" or e["tid"] == 7 or e["args"]["External id"] in asynchronous:
                continue
            assert not any(c["ts"] < e["ts"] + e["dur"] and e["ts"] < c["ts"] + c["dur"] for c in compute)


def test_waits_and_lateness_are_sums_over_the_files(case: Case) -> None:
    kinds = {group["description"]: kind for kind, group in case.truth["groups"].items()}
    waited = [dict.fromkeys(case.truth["ranks"]["0"]["waited_ns"], 0) for _ in range(case.job.ranks)]
    last: dict[tuple[str, int, int], int] = defaultdict(int)
    for match in case.matches.values():
        kind = kinds[match[0].args["Process Group Description"]]
        order = sorted(match, key=lambda call: call.start)
        for call in match:
            waited[call.rank][kind] += order[-1].start - call.start
        last[kind, order[-1].rank, order[-1].step] += order[-1].start - order[-2].start
    assert [case.truth["ranks"][str(rank)]["waited_ns"] for rank in range(case.job.ranks)] == waited
    said = {
        (kind, int(rank), step): ns
        for kind, ranks in case.truth["last"].items()
        for rank, steps in ranks.items()
        for step, ns in enumerate(steps)
        if ns
    }
    assert said == {key: ns for key, ns in last.items() if ns}


def test_bytes_between_ranks_are_what_both_ends_state(case: Case) -> None:
    sent: dict[tuple[int, int], int] = defaultdict(int)
    received: dict[tuple[int, int], int] = defaultdict(int)
    for mine in case.calls:
        for call in mine:
            args = call.args
            size = {"BFloat16": 2, "Float": 4}[args["dtype"]]
            if args["Collective name"] == "send":
                sent[call.rank, args["Dst Rank"]] += args["In msg nelems"] * size
            elif args["Collective name"] == "recv":
                received[args["Src Rank"], call.rank] += args["Out msg nelems"] * size
            elif args["Collective name"] == "all_to_allv":
                given, taken = json.loads(args["In split size"]), json.loads(args["Out split size"])
                assert (sum(given), sum(taken)) == (args["In msg nelems"], args["Out msg nelems"])
                ranks = json.loads(args["Process Group Ranks"])
                for other, out, back in zip(ranks, given, taken, strict=True):
                    if other != call.rank:
                        sent[call.rank, other] += out * size
                        received[other, call.rank] += back * size
    assert sent == received == {(a, b): size for a, b, size in case.truth["traffic"]}
    assert bool(sent) is (case.job.ep > 1 or case.job.pp > 1)


def test_a_transfer_takes_latency_and_bytes_over_bandwidth() -> None:
    told = truth(MIXED)
    groups = told["groups"]
    links = {(row["kind"], row["group"], row["collective"], row["bytes"]): row for row in told["bandwidths"]}
    factor = {"allreduce": 2, "_reduce_scatter_base": 1, "_allgather_base": 1}
    checked = set()
    for (kind, group, collective, size), row in links.items():
        if kind == "world":
            continue
        n, each = row["group_size"], row["transfer_ns"] / row["calls"]
        ranks = (
            [int(rank) for rank in group.split("-")]
            if kind == "pp"
            else groups[kind]["ranks"][int(group) - groups[kind]["first_name"]]
        )
        nodes = {rank // MIXED.node for rank in ranks}
        latency, per_ns = (8_000, 200) if len(nodes) == 1 else (20_000, 40 / (4 if {0, 1} <= nodes else 1))
        moved = size * (factor[collective] * (n - 1) / n if kind != "pp" else 1)
        assert abs(each - latency - moved / per_ns) <= 1
        checked.add((kind, len(nodes) > 1, {0, 1} <= nodes))
    assert {("tp", False, False), ("dp", True, True), ("dp", True, False), ("pp", True, False)} <= checked


@pytest.mark.parametrize("cause", ["kernel", "work", "device", "input", "host", "copy", "communication"])
def test_a_straggler_costs_what_it_is_given(cause: str) -> None:
    job = Job(
        ranks=16, node=16, steps=4, layers=4, kernels=10, tp=2, jitter_ns=200, noise=0.0005, seed=1,
        stragglers=(Straggler(5, cause, "periodic", 3_000_000, period=2, step=1),),
    )  # fmt: skip
    told = truth(job)
    (one,) = told["stragglers"]
    assert one["late"] == [None, 5, None, 5]
    for late, gain in zip(one["late"], one["gain_ns"], strict=True):
        assert abs(gain - (3_000_000 if late is not None else 0)) < 60_000
    if cause == "communication":  # both of the tensor-parallel group are late in what the others share
        lead = sum(sum(told["last"]["dp"].get(str(rank), [0])) for rank in (4, 5))
    else:
        lead = sum(told["last"]["tp"]["5"])
    assert lead > 4_000_000


@pytest.mark.parametrize(
    ("pattern", "late"), [("persistent", [1, 1, 1, 1]), ("rotating", [1, 2, 3, 0]), ("single", [None, None, 1, None])]
)
def test_a_straggler_is_late_when_its_pattern_says(pattern: str, late: list[int | None]) -> None:
    job = Job(ranks=4, layers=2, kernels=5, stragglers=(Straggler(1, "kernel", pattern, step=2),))
    (one,) = truth(job)["stragglers"]
    assert one["late"] == late


def test_equal_jobs_give_equal_files_and_a_rank_can_be_written_alone(tmp_path: Path) -> None:
    job = replace(JOBS["data"], absent=(1,))
    every = write(job, tmp_path / "all")
    alone = write(job, tmp_path / "alone", [3, 1])
    assert [path.name.split(".")[0] for path in every] == ["rank0", "rank2", "rank3"]
    assert [path.name for path in alone] == [every[2].name] and alone[0].read_bytes() == every[2].read_bytes()
    other = write(replace(job, seed=8), tmp_path / "other", [3])
    assert other[0].read_bytes() != every[2].read_bytes()


def test_clocks_bases_lost_kernels_and_a_late_begin_are_as_the_truth_says() -> None:
    planted = {"offset_ns": 700_000, "drift_ppb": 20_000, "missing": ((2, 0.2),), "late": ((1, 2),)}
    plain, job = JOBS["data"], replace(JOBS["data"], **planted)
    right, wrong = plan(replace(plain, bases=False)), plan(job)
    told = truth(job, wrong)["ranks"]
    assert len({told[str(rank)]["base_time_ns"] for rank in range(4)}) == 4
    for rank in range(4):
        mine = told[str(rank)]
        expected = read("".join(text_of(right, rank)))
        found = read("".join(text_of(wrong, rank)))
        zero = next(e["ts"] for e in expected if e["name"] == "ProfilerStep#0") - int(right.begin[0, rank])
        shift = 1_790_857_026_000_000_000 - mine["base_time_ns"] + mine["clock_offset_ns"]
        kernels, all_kernels = ([e for e in events if e.get("cat") == "kernel"] for events in (found, expected))
        if mine["first_step"] == 0 and mine["lost_calls"] == 0:
            for ours, theirs in zip(kernels, all_kernels, strict=True):
                drift = (theirs["ts"] - zero) * mine["clock_drift_ppb"] // 1_000_000_000
                assert ours["ts"] == theirs["ts"] + shift + drift
        steps = {e["name"] for e in found if e.get("cat") == "user_annotation" and "ProfilerStep" in e["name"]}
        assert steps == {f"ProfilerStep#{step}" for step in range(mine["first_step"], 3)}
        assert len(calls(wrong, rank)["match"]) == sum("Collective name" in e["args"] for e in kernels)
    assert len(calls(right, 2)["match"]) - len(calls(wrong, 2)["match"]) == told["2"]["lost_calls"] > 0
    assert told["1"]["first_step"] == 2


def test_a_coalesced_batch_is_many_calls_and_one_kernel_that_says_nothing_of_them() -> None:
    job = replace(JOBS["data"], coalesced=True)
    made = plan(job)
    columns, events = calls(made, 1), read("".join(text_of(made, 1)))
    batch = columns["batch"] >= 0
    assert batch.sum() == job.steps * job.layers and len(set(columns["match"].tolist())) == len(columns["match"])
    kernels = {e["args"]["correlation"]: e for e in events if e.get("cat") == "kernel" and e["tid"] == 32}
    assert len(kernels) == job.steps == len(set(columns["batch"][batch].tolist()))
    assert not any("Collective name" in e["args"] for e in kernels.values())
    assert sorted(e["dur"] for e in kernels.values()) == sorted(set(columns["dur_ns"][batch].tolist()))
    closing = {e["args"]["External id"]: e for e in events if e["name"] == "nccl:coalesced"}
    launches = [e for e in events if e["name"] == "cudaLaunchKernelExC" and e["args"]["correlation"] in kernels]
    assert {e["args"]["External id"] for e in launches} == set(closing)
    stated = [
        e["args"]["In msg nelems"] * 4
        for e in events
        if e["name"] == "record_param_comms" and e["args"].get("Process Group Description") == "mesh_dp"
        and e["args"]["Collective name"] == "allreduce"
    ]  # fmt: skip
    assert sorted(stated) == sorted(columns["comm_bytes"][batch].tolist())


def test_without_numbers_kernels_say_everything_else(tmp_path: Path) -> None:
    made = plan(replace(JOBS["data"], sequence=False))
    events = read("".join(text_of(made, 0)))
    stated = [e["args"] for e in events if "Collective name" in e.get("args", {})]
    assert stated and not any("Seq" in args for args in stated)
    assert {args["Process Group Description"] for args in stated} == {"default_pg", "mesh_dp"}


def test_the_sample_is_what_its_command_makes(tmp_path: Path) -> None:
    """The text, not the packed bytes: zlib may pack in another way."""
    folder = Path(__file__).resolve().parent.parent / "samples"
    (row,) = [line for line in (folder / "README.md").read_text().splitlines() if line.startswith("| `synthetic_job/`")]
    arguments = row.rsplit("`", 2)[1].split()[2:]
    arguments[0], arguments[arguments.index("--truth") + 1] = str(tmp_path / "run"), str(tmp_path / "truth.json")
    main(arguments)
    kept = sorted((folder / "synthetic_job").iterdir())
    made = sorted((tmp_path / "run").iterdir())
    assert [path.name for path in made] == [path.name for path in kept]
    for ours, theirs in zip(made, kept, strict=True):
        assert gzip.decompress(ours.read_bytes()) == gzip.decompress(theirs.read_bytes())
    assert (tmp_path / "truth.json").read_text() == (folder / "truth" / "synthetic_job.json").read_text()


def test_our_reader_finds_nothing_irregular(tmp_path: Path) -> None:
    (path,) = write(MIXED, tmp_path, [9])
    report = KinetoReader().read(FileSource({path.name: str(path)}), ReadOptions(), no_progress).report
    assert not report.issues and report.complete
    assert report.events_loaded + report.events_other == report.events_in_file


def test_the_command_writes_files_and_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([
        str(tmp_path / "run"), "--ranks", "4", "--steps", "2", "--layers", "1", "--kernels", "4", "--straggler",
        "2:input:single:500", "--absent", "3", "--plain", "--truth", str(tmp_path / "truth.json"), "--matches",
    ])  # fmt: skip
    assert capsys.readouterr().out.startswith("3 files")
    told = json.loads((tmp_path / "truth.json").read_text())
    assert told["stragglers"][0]["amount_ns"] == 500_000 and told["stragglers"][0]["late"] == [2, None]
    assert sorted(told["matches"]) == ["0", "1", "2"]


@pytest.mark.parametrize(
    "wrong",
    [{"tp": 3}, {"ep": 3}, {"steps": 0}, {"absent": (9,)}, {"stragglers": (Straggler(1, "magic"),)}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_job_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"rank|least|divides|straggler"):
        Job(**wrong)
