"""Workers are named after the ranks that files report; what a rank records one after the other are its spans."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from tb_plugin import registry
from tb_plugin.cli import main
from tb_plugin.errors import NotFoundError
from tb_plugin.service.catalog import Place
from tb_plugin.service.discovery import scan
from tb_plugin.service.discovery.scan import Scanner
from tb_plugin.service.profile_files import Root
from tb_plugin.storage.files import Folder
from tests.conftest import SAMPLES
from tests.service.fakes import catalog_of, write_trace
from tests.service.test_jobs import places, put


def own(path):
    """Worker and span of each file, by the name of the file."""
    found = Scanner([Root(Folder(str(path)))], registry.readers()).scan().profiles
    return {one.names[0]: (one.worker, one.span) for one in found}


@pytest.mark.parametrize("name", ["host_{pid}.END.pt.trace.json", "profile_{i}.json", "libkineto_trace_{pid}.json"])
def test_the_rank_that_a_file_reports_names_its_worker(tmp_path, name):
    for i, rank in enumerate((3, 1, 2, 0)):
        put(tmp_path / "job" / name.format(pid=100 + i, i=i), rank, 4)
    assert places(tmp_path) == [("job", f"rank{rank}", "1" if "END" in name else "default") for rank in range(4)]


def test_a_rank_in_the_file_counts_before_one_in_the_name(tmp_path):
    """The second of two nodes: names count the ranks of the node."""
    for rank in range(2):
        put(tmp_path / "job" / f"rank{rank}.END.pt.trace.json", 2 + rank, 4)
    assert places(tmp_path) == [("job", "rank2", "1"), ("job", "rank3", "1")]


def test_stages_of_ranks_are_spans(tmp_path):
    """As the case sglang_by_stage: both files of a rank have one process, the second begins 0.2 s later."""
    for rank in range(2):
        for stage, at_s in (("PREFILL", 0), ("DECODE", 0.2)):
            put(tmp_path / "job" / f"1759255878.904894-TP-{rank}-{stage}.trace.json", rank, at_s=at_s)
    assert places(tmp_path) == [("job", f"rank{rank}", stage) for rank in range(2) for stage in ("DECODE", "PREFILL")]


def test_a_step_in_the_name_is_no_process(tmp_path):
    """As the case names_step_suffix."""
    for rank in range(4):
        put(tmp_path / "job" / f"worker{rank}_step_12.END.pt.trace.json", rank, 4)
    assert places(tmp_path) == [("job", f"rank{rank}", "1") for rank in range(4)]


def test_fit_and_validate_are_spans(tmp_path):
    """Two nodes write into one folder: the numbers in the names are those of the node."""
    for stage, at_s in (("fit", 0), ("validate", 50)):
        for rank in range(4):
            name = f"{stage}-perf-{rank % 2}-[Strategy]DDPStrategy.training_step.END.pt.trace.json"
            put(tmp_path / "job" / name, rank, 4, at_s=at_s + rank / 1000, host=f"h{rank // 2}", pid=5 + rank % 2)
    assert places(tmp_path) == [("job", f"rank{rank}", stage) for rank in range(4) for stage in ("fit", "validate")]


@pytest.mark.usefixtures("commands_share_workers")
def test_each_of_two_launches_is_compared_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "logs").mkdir()
    for file in (SAMPLES / "ddp_gloo").glob("rank*"):
        text = gzip.decompress(file.read_bytes()).decode()
        begin = re.search(r'"baseTimeNanoseconds": (\d+)', text)
        for launch, later_s in ((1, 0), (2, 100)):
            later = f'"baseTimeNanoseconds": {int(begin[1]) + later_s * 10**9}'
            path = tmp_path / "logs" / f"{file.name[:5]} of launch {launch}.json"
            path.write_text(text.replace(begin[0], later))
    assert main(["report", str(tmp_path / "logs"), "--view", "distributed", "--format", "json"]) == 0
    both = json.loads(capsys.readouterr().out)["groups"]
    assert main(["report", str(SAMPLES / "ddp_gloo"), "--view", "distributed", "--format", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["groups"]
    assert [(group["span"], [*group["workers"]]) for group in both] == [(s, ["rank0", "rank1"]) for s in ("1", "2")]
    assert [group["tables"]["operations"] for group in both] == [one["tables"]["operations"]] * 2


def test_one_rank_alone(tmp_path):
    put(tmp_path / "job" / "host_7.END.pt.trace.json", 5, 8)
    assert places(tmp_path) == [("job", "rank5", "1")]


def test_two_launches_into_one_folder_are_spans(tmp_path):
    for launch in range(2):
        for rank in range(2):
            put(
                tmp_path / "job" / f"host_{10 * launch + rank}.END.pt.trace.json",
                rank,
                at_s=100 * launch,
                step=1,
                pid=9,
            )
    assert places(tmp_path) == [("job", f"rank{rank}", span) for rank in range(2) for span in ("1", "2")]
    assert own(tmp_path / "job")["host_11.1795200100500000000.pt.trace.json"] == ("rank1", "2")


def test_launches_that_record_other_ranks_share_no_span(tmp_path):
    for rank in range(4):
        put(tmp_path / "job" / f"host_{rank}.END.pt.trace.json", rank, 4, at_s=100 * (rank // 2), step=1)
    assert places(tmp_path) == [("job", f"rank{rank}", str(1 + rank // 2)) for rank in range(4)]


def test_clocks_of_hosts_far_apart_leave_a_job_whole(tmp_path):
    for rank in range(2):
        put(tmp_path / "job" / f"host_{rank}.END.pt.trace.json", rank, at_s=100 * rank, host=f"h{rank}")
    assert places(tmp_path) == [("job", "rank0", "1"), ("job", "rank1", "1")]


def test_a_launch_that_lacks_a_rank(tmp_path):
    """Rank 1 records in the second launch alone: that is its span 2."""
    for launch, rank in ((0, 0), (1, 0), (1, 1)):
        put(tmp_path / "job" / f"host_{10 * launch + rank}.END.pt.trace.json", rank, at_s=100 * launch)
    assert places(tmp_path) == [("job", "rank0", "1"), ("job", "rank0", "2"), ("job", "rank1", "2")]


def test_recordings_of_a_process_that_no_name_tells_apart(tmp_path):
    """Two files for each process, 0.2 s apart; their names state no end."""
    for rank in range(2):
        put(tmp_path / "job" / f"prefill_{rank}.json", rank, at_s=0)
        put(tmp_path / "job" / f"decode_{rank}.json", rank, at_s=0.2)
    assert own(tmp_path / "job") == {
        f"{name}_{rank}.json": (f"rank{rank}", span)
        for rank in range(2)
        for name, span in (("prefill", "1"), ("decode", "2"))
    }


def test_files_of_one_rank_name_the_spans_that_nothing_else_does(tmp_path):
    for at_s, name in enumerate(("small", "large")):
        put(tmp_path / "job" / f"{name}.json", 3, 8, at_s=at_s)
    assert places(tmp_path) == [("job", "rank3", "large"), ("job", "rank3", "small")]


def test_a_merged_file_leaves_the_ranks_beside_it_alone(tmp_path):
    for rank in range(2):
        put(tmp_path / "job" / f"1795200000.5-TP-{rank}.trace.json", rank)
    ranks = [json.loads(path.read_text()) for path in sorted((tmp_path / "job").iterdir())]
    for rank, root in enumerate(ranks):
        root["traceEvents"][0]["pid"] = f"[TP0{rank}] 100"
    merged = ranks[0] | {"traceEvents": [root["traceEvents"][0] for root in ranks]}
    (tmp_path / "job" / "merged-1795200000.5.trace.json").write_text(json.dumps(merged))
    assert {worker for _, worker, _ in places(tmp_path)} == {"rank0", "rank1", "merged-1795200000.5.trace"}


def test_two_jobs_at_a_time_in_one_folder_keep_their_names(tmp_path):
    for job in "ab":
        for rank in range(2):
            put(tmp_path / "job" / f"{job}_{rank}.END.pt.trace.json", rank, pid=7 + rank, at_s=0.1 * (job == "b"))
    assert {worker for _, worker, _ in places(tmp_path)} == {"a_0", "a_1", "b_0", "b_1"}


def test_a_copy_of_a_rank_keeps_its_name_and_so_does_the_rank(tmp_path):
    put(tmp_path / "job" / "w.json", 0)
    put(tmp_path / "job" / "copy of w.json", 0)
    put(tmp_path / "job" / "x.json", 1)
    assert {worker for _, worker, _ in places(tmp_path)} == {"w", "copy of w", "rank1"}


def test_a_worker_is_found_by_the_name_of_its_file(tmp_path):
    for rank in range(2):
        put(tmp_path / "job" / f"host_{7 - rank}.END.pt.trace.json", rank)
    catalog = catalog_of(tmp_path)
    catalog.scan()
    assert catalog.find(Place("job", "host_7")).files.worker == "rank0"
    assert [entry.files.worker for entry in catalog.matching(Place(worker="host_6", span="1"))] == ["rank1"]
    with pytest.raises(NotFoundError, match="host_8"):
        catalog.find(Place("job", "host_8"))


def test_a_file_of_another_format_stays_beside_the_trace_of_its_process(tmp_path):
    put(tmp_path / "job" / "host_7.END.pt.trace.json", 1)
    (tmp_path / "job" / "host_7.folded").write_text("main;forward 5\nmain;backward 7\n")
    found = Scanner([Root(Folder(str(tmp_path)))], registry.readers()).scan().profiles
    assert {(one.reader.id, one.worker) for one in found} == {("kineto", "rank1"), ("stack_files", "rank1")}


def test_a_trace_without_a_rank_keeps_a_name_that_a_rank_would_get(tmp_path):
    write_trace(tmp_path / "job" / "rank1.7.pt.trace.json")
    for rank in range(2):
        put(tmp_path / "job" / f"host_{rank}.END.pt.trace.json", rank)
    assert [worker for _, worker, _ in places(tmp_path)] == ["host_1", "rank0", "rank1"]


def test_heads_of_a_run_with_the_names_of_ranks_are_not_read(tmp_path, monkeypatch):
    asked, real = [], scan.read_head
    monkeypatch.setattr(scan, "_SMALL", 0)
    monkeypatch.setattr(scan, "read_head", lambda folder, file: asked.append(file.path) or real(folder, file))
    for rank in range(20):
        put(tmp_path / "named" / f"rank{rank}.END.pt.trace.json", rank, 20)
        put(tmp_path / "other" / f"host_{rank}.END.pt.trace.json", rank, 20, desc="other")
        write_trace(tmp_path / "none" / f"host_{rank}.1.pt.trace.json")
    scanner = Scanner([Root(Folder(str(tmp_path)))], registry.readers())
    assert len({one.worker for one in scanner.scan().profiles if one.run == "other"}) == 20
    assert {name: sum(path.startswith(name) for path in asked) for name in ("named", "other", "none")} == {
        "named": 2, "other": 20, "none": 2,
    }  # fmt: skip
    scanner.scan()
    assert len(asked) == 24
