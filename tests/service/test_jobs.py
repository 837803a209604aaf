"""Ranks of one distributed job are one run, wherever they lie; two jobs, or a job and its restart, never are."""

from __future__ import annotations

import gzip
import json
import shutil

import pytest

from tb_plugin import registry
from tb_plugin.cli import main
from tb_plugin.formats.kineto.identity import identify
from tb_plugin.service.discovery import scan
from tb_plugin.service.discovery.scan import Scanner
from tb_plugin.service.profile_files import Root
from tb_plugin.storage.files import Folder
from tests.conftest import SAMPLES

START_S = 1_795_200_000
SECOND = 10**9


def put(path, rank, world=2, at_s=0.0, step=None, pid=None, host="a", desc="default_pg", backend="nccl"):
    """A trace that one rank recorded, ``at_s`` seconds after START_S for half a second; its name holds the end."""
    begin_us = round(at_s * 1e6)
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid or 100 + rank, "tid": 1, "ts": begin_us, "dur": 5},
    ]
    if step is not None:
        mark = {"cat": "user_annotation", "name": f"ProfilerStep#{step}"}
        events.append({**events[0], **mark})
    group = {"pg_name": "0", "pg_desc": desc, "backend_config": "cuda:nccl", "pg_size": world, "ranks": [*range(world)]}
    stated = {"backend": backend, "rank": rank, "world_size": world, "pg_count": 1, "pg_config": [group]}
    root = {
        "distributedInfo": stated,
        "host_name": host,
        "baseTimeNanoseconds": START_S * SECOND,
        "traceEvents": events,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    end = START_S * SECOND + begin_us * 1000 + SECOND // 2
    path = path.with_name(path.name.replace("END", str(end)))
    path.write_text(json.dumps(root))
    return path


def places(*roots):
    found = Scanner([Root(Folder(str(root))) for root in roots], registry.readers()).scan().profiles
    return sorted((one.run, one.worker, one.span) for one in found)


def test_a_folder_for_each_rank(tmp_path):
    for rank in range(3):
        put(tmp_path / "logs" / f"rank{rank}" / "w.END.pt.trace.json", rank, 3, at_s=rank / 10)
    (why,) = {
        one.grouped_by for one in Scanner([Root(Folder(str(tmp_path / "logs")))], registry.readers()).scan().profiles
    }
    assert places(tmp_path / "logs") == [("logs", f"rank{rank}", "1") for rank in range(3)]
    assert why.startswith("3 of 3 ranks of one nccl job") and "TORCH_TRACE_GROUP=folders" in why


def test_one_folder_whose_names_do_not_tell_ranks_apart(tmp_path):
    for rank in range(2):
        put(tmp_path / "job" / f"trace.{rank}.pt.trace.json", rank, at_s=rank / 10)
    assert places(tmp_path) == [("job", "rank0", "1"), ("job", "rank1", "1")]


def test_nodes_with_several_ranks_each(tmp_path):
    for rank in range(4):
        put(tmp_path / f"node{rank // 2}" / f"r{rank}.END.pt.trace.json", rank, 4, host=f"h{rank // 2}")
    assert places(tmp_path) == [(tmp_path.name, f"rank{rank}", "1") for rank in range(4)]


def test_two_whole_jobs_whose_processes_look_alike_stay_apart(tmp_path):
    """Containers count processes from the same number: neither that nor the time makes one job of two whole ones."""
    for job in ("a", "b"):
        for rank in range(2):
            put(tmp_path / job / f"rank{rank}.END.pt.trace.json", rank, pid=7 + rank)
    assert places(tmp_path) == [(job, f"rank{rank}", "1") for job in ("a", "b") for rank in range(2)]


@pytest.mark.parametrize("at_s", [0, 3, 60])
def test_two_jobs_that_each_lack_a_rank_keep_their_folders(tmp_path, at_s):
    """Containers give both jobs the same hosts and processes: a rank that is there twice is no second recording of it."""
    for job in ("a", "b"):
        for rank in range(3):
            put(tmp_path / job / f"rank{rank}.END.pt.trace.json", rank, 4, at_s=at_s * (job == "b"), pid=7 + rank)
    assert places(tmp_path) == [(job, f"rank{rank}", "1") for job in ("a", "b") for rank in range(3)]


def test_a_copy_of_a_job_that_lacks_a_rank_is_not_mixed_with_it(tmp_path):
    for job in ("job", "job/backup"):
        for rank in range(2):
            put(tmp_path / job / f"rank{rank}.END.pt.trace.json", rank, 3, pid=7 + rank)
    assert places(tmp_path) == [(job, f"rank{rank}", "1") for job in ("job", "job/backup") for rank in range(2)]


def test_folders_of_ranks_of_two_jobs_whose_processes_look_alike(tmp_path):
    for job in ("x", "y"):
        for rank in range(2):
            put(tmp_path / job / f"rank{rank}" / "w.END.pt.trace.json", rank, 3, at_s=0.1 * (job == "y"), pid=7 + rank)
    assert places(tmp_path) == [(job, f"rank{rank}", "1") for job in ("x", "y") for rank in range(2)]


def test_recordings_of_a_rank_in_folders_of_their_own_are_one_worker(tmp_path):
    for rank in range(2):
        for cycle in range(2):
            put(tmp_path / f"rank{rank}" / f"cycle{cycle}" / "w.END.pt.trace.json", rank, 3, at_s=60 * cycle)
    assert places(tmp_path) == [(tmp_path.name, f"rank{rank}", span) for rank in range(2) for span in ("1", "2")]


def test_it_can_be_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_GROUP", "folders")
    for rank in range(2):
        put(tmp_path / f"rank{rank}" / "w.END.pt.trace.json", rank)
    assert places(tmp_path) == [("rank0", "w", "1"), ("rank1", "w", "1")]


@pytest.mark.parametrize(
    "other",
    [
        {"rank": 0},  # a rank that is there twice
        {"rank": 1, "world": 4},
        {"rank": 1, "backend": "gloo"},
        {"rank": 1, "desc": "another"},
        {"rank": 1, "at_s": 60},
    ],
    ids=["rank", "world", "backend", "group", "time"],
)
def test_what_does_not_fit_is_not_joined(tmp_path, other):
    put(tmp_path / "a" / "w.END.pt.trace.json", 0)
    put(tmp_path / "b" / "w.END.pt.trace.json", **other, pid=999)
    assert places(tmp_path) == [("a", "rank0", "1"), ("b", f"rank{other.get('rank', 0)}", "1")]


def test_two_jobs_at_a_time_are_joined_where_their_folders_are_clear(tmp_path):
    for job in ("x", "y"):
        for rank in range(2):
            put(tmp_path / job / f"rank{rank}" / "w.END.pt.trace.json", rank, pid=100 + 10 * "xy".index(job) + rank)
    assert places(tmp_path) == [(job, f"rank{rank}", "1") for job in ("x", "y") for rank in range(2)]


def test_two_jobs_at_a_time_that_nothing_tells_apart_stay_as_they_are(tmp_path):
    for i, rank in enumerate((0, 1, 0, 1)):
        put(tmp_path / f"f{i}" / "w.END.pt.trace.json", rank, pid=100 + i)
    assert {run for run, _, _ in places(tmp_path)} == {"f0", "f1", "f2", "f3"}


def test_a_job_and_its_restart_are_two(tmp_path):
    for life in range(2):
        for rank in range(2):
            put(tmp_path / f"rank{rank}" / "w.END.pt.trace.json", rank, at_s=120 * life, pid=100 + 10 * life + rank)
    name = tmp_path.name
    assert places(tmp_path) == [(run, f"rank{r}", "1") for run in (name, f"{name} (job 2)") for r in range(2)]


def test_the_name_of_a_run_that_is_there_already_is_not_taken(tmp_path):
    (tmp_path / "plain.1.pt.trace.json").write_text('{"traceEvents": []}')
    for rank in range(2):
        put(tmp_path / f"rank{rank}" / "w.END.pt.trace.json", rank)
    assert {run for run, _, _ in places(tmp_path)} == {tmp_path.name, f"{tmp_path.name} (job 2)"}


def test_spans_are_matched_by_time_where_one_rank_missed_a_recording(tmp_path):
    """Rank 1 has the second and the third of three recordings: its first is no span 1."""
    for cycle in range(3):
        put(tmp_path / "rank0" / "w.END.pt.trace.json", 0, at_s=100 * cycle)
    for cycle in (1, 2):
        put(tmp_path / "rank1" / "w.END.pt.trace.json", 1, at_s=100 * cycle + 3)
    spans = [(worker, span) for _, worker, span in places(tmp_path)]
    assert spans == [("rank0", "1"), ("rank0", "2"), ("rank0", "3"), ("rank1", "2"), ("rank1", "3")]


def test_spans_are_matched_by_step_before_time(tmp_path):
    """Recordings 6 s apart on a host whose clock is 5 s late: by time alone its step 10 would go with step 20."""
    for cycle, step in enumerate((10, 20, 30)):
        put(tmp_path / "rank0" / "w.END.pt.trace.json", 0, at_s=6 * cycle, step=step)
    for cycle, step in enumerate((10, 20)):
        put(tmp_path / "rank1" / "w.END.pt.trace.json", 1, at_s=6 * cycle + 5, step=step)
    spans = [(worker, span) for _, worker, span in places(tmp_path)]
    assert spans == [("rank0", "1"), ("rank0", "2"), ("rank0", "3"), ("rank1", "1"), ("rank1", "2")]


def test_several_log_directories_prefix_the_run(tmp_path):
    for root in ("one", "two"):
        for rank in range(2):
            put(tmp_path / root / f"rank{rank}" / "w.END.pt.trace.json", rank)
    assert {run for run, _, _ in places(tmp_path / "one", tmp_path / "two")} == {"one", "two"}


def test_heads_are_read_once_and_not_where_a_run_is_whole(tmp_path, monkeypatch):
    asked, real = [], scan.read_head
    monkeypatch.setattr(scan, "_SMALL", 0)  # real traces are not so small that they may be something else
    monkeypatch.setattr(scan, "read_head", lambda folder, file: asked.append(file.path) or real(folder, file))
    for rank in range(4):
        put(tmp_path / "whole" / f"rank{rank}.END.pt.trace.json", rank, 4)
    for rank in range(2):
        put(tmp_path / f"rank{rank}" / "w.END.pt.trace.json", rank)
    scanner = Scanner([Root(Folder(str(tmp_path)))], registry.readers())
    scanner.scan()
    first = len(asked)
    assert len([path for path in asked if path.startswith("whole/")]) == 2 and first == 4
    scanner.scan()
    assert len(asked) == first


def test_a_real_job_copied_into_folders(tmp_path):
    for file in (SAMPLES / "ddp_gloo").glob("rank*"):
        (tmp_path / file.name[:5]).mkdir()
        shutil.copy(file, tmp_path / file.name[:5] / file.name.replace(file.name[:5], "w"))
    assert places(tmp_path) == [(tmp_path.name, "rank0", "1"), (tmp_path.name, "rank1", "1")]
    assert places(SAMPLES / "ddp_gloo") == [("ddp_gloo", "rank0", "1"), ("ddp_gloo", "rank1", "1")]


def test_what_a_file_states():
    (file,) = (SAMPLES / "ddp_gloo").glob("rank1*")
    job = identify(gzip.decompress(file.read_bytes())[:65536])
    assert (job.rank, job.world_size, job.backend, job.group) == (1, 2, "gloo", "default_pg cpu:gloo,cuda:gloo")
    assert (job.process, job.clock, job.start_ns // SECOND) == ("vm:4801", "unix", 1_795_200_796)


@pytest.mark.parametrize(
    "stated",
    [
        '{"rank": 0, "world_size": 1}',
        '{"rank": 2, "world_size": 2}',
        '{"rank": -1, "world_size": 2}',
        '{"world_size": 2}',
        '{"rank": "x", "world_size": 2}',
        "[]",
        "{",
    ],
)
def test_what_states_no_rank_of_a_job(stated):
    assert identify(f'{{"distributedInfo": {stated}, "traceEvents": []}}'.encode()) is None


def collective(place, ranks, description="default_pg", pid=5, ts=7):
    args = {"Group size": len(ranks), "Process Group Description": description, "Rank": place, "Src Rank": 9}
    args["Process Group Ranks"] = str(ranks)
    return {"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "pid": pid, "ts": ts, "args": args}


@pytest.mark.parametrize(
    ("events", "rank_and_size"),
    [
        ([collective(2, [0, 1, 2, 3])], (2, 4)),
        ([collective(1, [1, 3], "dp")], (3, 0)),
        ([collective(1, [1, 3], "dp"), collective(3, [0, 1, 2, 3])], (3, 4)),
        ([collective(0, [1, 3], "dp"), collective(1, [1, 3], "dp")], None),
        ([collective(4, [0, 1, 2, 3])], None),
        ([collective(0, [])], None),
        ([], None),
    ],
)
def test_the_rank_that_collectives_state(events, rank_and_size):
    """On-demand recordings have no distributedInfo; "Rank" is a place in the group."""
    job = identify(json.dumps({"traceEvents": events}).encode())
    assert (job and (job.rank, job.world_size)) == rank_and_size


@pytest.mark.parametrize("pids", [(5, 6), ("[TP00] 5", "[TP01] 5"), ("[TP00] 5",)])
def test_a_file_that_was_merged_is_of_no_rank(pids):
    stated = {"rank": 0, "world_size": 2}
    events = [collective(0, [0, 1], pid=pid) for pid in pids]
    assert identify(json.dumps({"distributedInfo": stated, "traceEvents": events}).encode()) is None


def test_a_list_of_ranks_beyond_what_is_read():
    text = (
        '{"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 9000, "pg_config": [{"ranks": ['
        + "1, " * 90000
    )
    job = identify(text.encode()[:65536])
    assert (job.rank, job.world_size, job.group, job.start_ns) == (3, 9000, "", None)


def test_a_clock_without_a_base_is_compared_with_its_like():
    event = '{"ph": "X", "cat": "cpu_op", "pid": 5, "ts": 7.25}'
    text = '{"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [' + event + "]}"
    job = identify(text.encode())
    assert (job.start_ns, job.clock) == (7250, "unstated")


@pytest.mark.usefixtures("commands_share_workers")
def test_distributed_and_doctor_speak_of_the_joined_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    for file in (SAMPLES / "ddp_gloo").glob("rank*"):
        (tmp_path / "logs" / file.name[:5]).mkdir(parents=True)
        shutil.copy(file, tmp_path / "logs" / file.name[:5] / "w.pt.trace.json.gz")
    assert main(["report", str(tmp_path / "logs"), "--view", "distributed", "--format", "json"]) == 0
    apart = json.loads(capsys.readouterr().out)
    assert main(["report", str(SAMPLES / "ddp_gloo"), "--view", "distributed", "--format", "json"]) == 0
    together = json.loads(capsys.readouterr().out)
    assert [job["tables"] for job in apart["groups"]] == [job["tables"] for job in together["groups"]] != []
    assert main(["doctor", str(tmp_path / "logs")]) == 0
    assert "2 of 2 ranks of one gloo job" in capsys.readouterr().out
