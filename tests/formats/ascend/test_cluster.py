"""Analyses of a job are read as their files say: what was played through comes back, whoever wrote it, whatever was cut."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.job_tables.stages import TIMES, stage_rows, stages_of
from tb_plugin.errors import CacheFileLost, UnreadableTrace
from tb_plugin.formats.ascend.cluster.reader import AscendClusterReader
from tb_plugin.formats.ascend.reader import AscendReader
from tb_plugin.formats.base import ListedFile, ReadOptions, no_progress
from tb_plugin.model.cluster import Cluster
from tb_plugin.model.trace.job_tables import (
    BANDS,
    GROUPS,
    OPERATIONS,
    PACKETS,
    SCHEMAS,
    STEP_TIMES,
    reported_table,
)
from tb_plugin.model_kinds.rows import CLUSTER
from tb_plugin.views.cluster.payloads import job_payloads
from tb_plugin.views.cluster.view import ClusterAnalysis
from tests.conftest import SAMPLES
from tests.formats.ascend.clusters import (
    RECORDED,
    TRUTH,
    cluster,
    content,
    generator,
    needs_recorded,
    recorded,
    together,
)
from tests.formats.ascend.folders import Files

EXPORTS = ("text", "text_2023", "db")
OUTPUT = "cluster_analysis_output"


@pytest.fixture(scope="module", params=EXPORTS)
def made(request: pytest.FixtureRequest) -> Cluster:
    return cluster(content(request.param))


def by_rank(times: Any) -> dict[tuple[int, str], dict[str, int]]:
    rows = [row for row in times.to_pylist() if row["rank"] is not None]
    return {(row["rank"], row["step"]): {key: row[key] for key in TIMES if row[key] is not None} for row in rows}


def codes(found: Cluster) -> set[str]:
    return {issue.code for issue in found.report.issues}


def test_times_of_steps_are_those_that_were_played(made: Cluster) -> None:
    said = {
        (row["rank"], str(row["step"])): {f"{key}_ns": row[key] for key in row if f"{key}_ns" in TIMES}
        for row in TRUTH["steps"]
    }
    found = by_rank(made.table(STEP_TIMES))
    for key, times in said.items():
        assert found[key].items() <= times.items() and len(found[key]) >= 8
    assert found.keys() == said.keys()


def test_stages_and_their_times(made: Cluster) -> None:
    stages = stages_of(made.tables)
    assert [list(stage) for stage in stages] == TRUTH["stages"]
    found = {(row["stage_ranks"], row["step"]): row for row in stage_rows(made.table(STEP_TIMES), stages).to_pylist()}
    for row in TRUTH["stage_steps"]:
        mine = found[", ".join(map(str, row["ranks"])), str(row["step"])]
        assert all(mine[f"{key}_ns"] in (row[key], None) for key in row if f"{key}_ns" in TIMES)


def test_stages_that_are_listed_are_those_that_messages_tell(made: Cluster) -> None:
    bare = {name: table for name, table in made.tables.items() if name not in (STEP_TIMES, GROUPS)}
    groups = made.table(GROUPS).to_pylist()
    unlisted = [row for row in groups if row["kind"] != "stage"]
    bare[GROUPS] = made.table(GROUPS).from_pylist(unlisted, made.table(GROUPS).schema)
    assert [list(stage) for stage in stages_of(bare)] == TRUTH["stages"]


def test_calls_and_links(made: Cluster) -> None:
    calls = made.table(OPERATIONS).to_pylist()
    sums: dict[tuple[str, int], dict[str, int]] = {}
    for row in calls:
        found = sums.setdefault((row["group"], row["rank"]), {"calls": 0, **dict.fromkeys(generator.TIMES, 0)})
        found["calls"] += 1
        for key in generator.TIMES:
            found[key] += row[f"{key}_ns"]
    assert sums == {(row.pop("group"), row.pop("rank")): row for row in map(dict, TRUTH["communication"])}
    assert {row["kind"] for row in calls if "batchSendRecv" in row["operation"]} == {"p2p"}
    named = ("source", "destination", "transport", "bytes", "time")
    assert [dict(zip(named, row, strict=True)) for row in links_of(made.tables)] == TRUTH["links"]


def links_of(tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    keys = ("link_source", "link_destination", "link_kind", "link_bytes", "link_ns")
    found = job_payloads(tables).frames["job_links"].data
    return list(zip(*(found[key].to_pylist() for key in keys), strict=True))


def test_kinds_of_links_count_once(made: Cluster) -> None:
    """What SDMA holds of HCCS is told to be a part of it."""
    bands = made.table(BANDS).to_pylist()
    assert {(row["band"], row["part_of"]) for row in bands} == {("HCCS", "SDMA"), ("SDMA", None), ("RDMA", None)}
    moved = sum(row["bytes"] for row in bands if row["part_of"] is None)
    job = generator.play(0)
    assert moved == sum(call.bytes for call in job.calls)
    packets = made.table(PACKETS).to_pylist()
    assert sum(row["count"] * row["packet_bytes"] for row in packets) == moved


def test_what_groups_are_for() -> None:
    for export in ("text", "db"):
        rows = cluster(content(export)).table(GROUPS).to_pylist()
        said = {(row["name"], row["group"], ", ".join(map(str, row["ranks"]))) for row in TRUTH["groups"]}
        assert {(row["name"], row["group"], row["ranks"]) for row in rows} == said and len(rows) == len(said)
    old = cluster(content("text_2023")).table(GROUPS).to_pylist()
    assert sum(row["kind"] == "stage" for row in old) == 2
    assert sum(row["group"] is not None for row in old) == 6 + 4, (
        "tensor and data parallel groups, named by their calls"
    )


def test_of_two_exports_the_texts_count_and_the_database_fills_in() -> None:
    both = cluster({**content("db"), "cluster_step_trace_time.csv": "Step,Type,Index,Computing\n7,rank,0,1.5\n"})
    assert both.table(STEP_TIMES).to_pylist()[0]["computing_ns"] == 1500 and both.table(STEP_TIMES).num_rows == 1
    assert both.table(OPERATIONS).equals(cluster(content("db")).table(OPERATIONS))
    assert "distributed_args" in both.profile_info


def test_the_sample_is_what_the_generator_makes() -> None:
    job = generator.play(0)
    assert json.loads(json.dumps(generator.truth_document(job, "synthetic_ascend_cluster", 0))) == TRUTH
    for name, data in content("text").items():
        assert (SAMPLES / "synthetic_ascend_cluster" / OUTPUT / name).read_bytes() == data


def test_it_is_kept(made: Cluster, tmp_path: Any) -> None:
    path = str(tmp_path / "cluster.arrow")
    CLUSTER.write(made, path)
    again = CLUSTER.read(path)
    assert again.profile_info == made.profile_info and again.report == made.report
    assert all(again.tables[name].equals(table.combine_chunks()) for name, table in made.tables.items())
    empty = Cluster({}, {}, made.report)
    CLUSTER.write(empty, path)
    assert CLUSTER.read(path).tables == {}
    with pytest.raises(CacheFileLost):
        CLUSTER.read(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("paths", "places"),
    [
        (["job/cluster_analysis_output/cluster_step_trace_time.csv"], [("job", "job/cluster_analysis_output")]),
        (["cluster_analysis_output/cluster_analysis.db"], [("", "cluster_analysis_output")]),
        (["cluster_communication.json", "communication_group.json"], [("", ".")]),
        (["some name/communication_group.json"], [("some name", "some name")]),
        (["a/cluster_analysis.db", "b/cluster_analysis.db"], [("a", "a"), ("b", "b")]),
        (["a/communication.json", "a/analysis.db", "cluster/trace_view.json"], []),
    ],
)
def test_where_analyses_are_found(paths: list[str], places: list[tuple[str, str]]) -> None:
    found = AscendClusterReader().find([ListedFile(path, 1, "") for path in paths])
    assert [(one.run, one.root) for one in found] == places
    assert all(one.worker == "cluster" and one.certain for one in found)


def test_cut_anywhere_the_rest_is_shown() -> None:
    """A cut file ends in whole parts; the others are all there."""
    some, whole = random.Random(1), content("text")
    full = {name: table.num_rows for name, table in cluster(whole).tables.items()}
    for name in whole:
        for length in sorted(some.randrange(1, len(whole[name])) for _ in range(3)):
            found = cluster({**whole, name: whole[name][:length]})
            rows = {key: found.table(key).num_rows for key in full}
            assert all(rows[key] <= full[key] for key in full)
            assert sum(rows.values()) < sum(full.values()) or name == "communication_group.json"
            if name.endswith(".json"):
                assert {"truncated_tail", "file_lost"} & codes(found) and not found.report.complete
            assert {issue.file for issue in found.report.issues} <= {name}
    half = cluster({**whole, "cluster_communication.json": whole["cluster_communication.json"][:70_000]})
    assert 30 < half.table(OPERATIONS).num_rows < 72


def test_odd_values_are_told() -> None:
    call = {
        "Communication Time Info": {"Elapse Time(ms)": "N/A", "Transit Time(ms)": [1], "Wait Time(ms)": "1e400",
                                    "Idle Time(ms)": "0.0000005", "Start Timestamp(us)": 1.5},
        "Communication Bandwidth Info": {"HCCS": 3, "RDMA": {"Transit Size(MB)": 1, "Size Distribution": {"x": [1], "1": 2}}},
    }  # fmt: skip
    document = {
        "(0, 1)": {"step3": {"op@7": {"0": call, "-1": call, "x": call, "2": 5}, "odd": 1}, "step4": []},
        "p2p": 3,
    }
    found = cluster({"cluster_communication.json": document, "cluster_communication_matrix.json": [1]})
    (row,) = found.table(OPERATIONS).to_pylist()
    assert (row["rank"], row["step"], row["group"], row["start_ns"], row["idle_ns"]) == (0, "3", "7", 1500, 0)
    assert row["elapse_ns"] is row["transit_ns"] is row["wait_ns"] is None
    dropped = {issue.code: issue.count for issue in found.report.issues}
    assert [dropped[each] for each in ("bad_row", "bad_band", "bad_packets", "file_lost")] == [6, 1, 2, 1]
    assert dropped["odd_value"] == 1 and dropped["bad_cell"] == 1
    assert found.table(BANDS).to_pylist()[0]["bytes"] == 1_000_000


def test_bare_words_and_archives() -> None:
    text = json.dumps({"(0, 1)": {"step": {"hcom_send@1": {"0": {"Communication Time Info": {"Elapse Time(ms)": 2}}}}}})
    for data in (text.replace("2}", 'N/A, "Wait Time(ms)": 2}').encode(), gzip.compress(text.encode())):
        found = cluster({"cluster_communication.json": data})
        (row,) = found.table(OPERATIONS).to_pylist()
        assert (row["kind"], row["step"], row["elapse_ns"] or row["wait_ns"]) == ("p2p", None, 2_000_000)


@pytest.mark.parametrize(
    "files",
    [
        {"cluster_communication.json": b"["},
        {"cluster_communication.json": b"[" * 100_000},
        {"cluster_communication.json": b'{"a":' * 100_000},
        {"cluster_step_trace_time.csv": b""},
        {"cluster_step_trace_time.csv": b"a,b\n1,2\n"},
        {"cluster_analysis.db": b"SQLite"},
    ],
)  # fmt: skip
def test_nothing_that_can_be_read(files: dict[str, bytes]) -> None:
    with pytest.raises(UnreadableTrace):
        cluster(files)


def test_flipped_bytes_never_fail() -> None:
    some = random.Random(2)
    for export in EXPORTS:
        for _ in range(6):
            files = dict(content(export))
            name = some.choice(sorted(files))
            broken = bytearray(files[name])
            for _ in range(20):
                broken[some.randrange(len(broken))] = some.randrange(256)
            try:
                found = cluster({**files, name: bytes(broken)})
            except UnreadableTrace:
                continue
            part = ClusterAnalysis().part(found, Params())
            assert set(part.frames) == set(ClusterAnalysis.traits.tables)


@needs_recorded
@pytest.mark.parametrize("place", ["extra/cluster_analysis_output_gpt_16ranks",
    "extra/msprof_analyze_ut/test/resource/advisor/cluster_analysis_output"])  # fmt: skip
def test_stages_of_2023_are_the_largest_of_their_ranks(place: str) -> None:
    times = recorded(place).table(STEP_TIMES)
    stated = {row["stage_ranks"]: row for row in times.to_pylist() if row["rank"] is None}
    stages = stages_of({STEP_TIMES: times})
    found = {row["stage_ranks"]: row for row in stage_rows(times, stages).to_pylist()}
    assert found == stated and len(found) == (2 if "gpt" in place else 1)


@needs_recorded
@pytest.mark.parametrize(("place", "job"), [
    ("golden_tools/cluster_alexnet_text_level1", "alexnet_text_level1"),
    ("golden_tools/cluster_qwen3", "qwen3_pp2_dp2_level2"),
])  # fmt: skip
def test_times_are_those_of_the_ranks_own_files(place: str, job: str) -> None:
    found = by_rank(recorded(place).table(STEP_TIMES))
    folders = sorted((RECORDED / "logdir" / job).glob("rank_*"))
    assert len(found) == len(folders) > 1
    for folder in folders:
        with (folder / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").open(encoding="utf-8-sig", newline="") as text:
            rows = list(csv.DictReader(text))
        for row in rows:
            mine = found[int(folder.name.split("_")[1]), row["Step"]]
            assert mine["computing_ns"] == round(float(row["Computing"]) * 1000)
            assert mine["exposed_ns"] == round(float(row["Communication(Not Overlapped)"]) * 1000)
            assert mine["free_ns"] == round(float(row["Free"]) * 1000)
            # Differences of floats that count microseconds since 1970, in the text: a quarter of one is what they resolve.
            assert abs(mine["preparing_ns"] - float(row["Preparing"]) * 1000) <= 250


@needs_recorded
def test_calls_are_those_of_the_ranks_own_files() -> None:
    """Time information of each call of both ranks, digit by digit to a nanosecond."""
    rows = recorded("golden_tools/cluster_alexnet_text_level1").table(OPERATIONS).to_pylist()
    mine = {(row["rank"], f"{row['operation']}@{row['group']}"): row for row in rows}
    seen = 0
    for folder in (RECORDED / "logdir" / "alexnet_text_level1").glob("rank_*"):
        document = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "communication.json").read_bytes())
        for name, info in document["step50"]["collective"].items():
            if name.startswith("Total"):
                continue
            times, row = info["Communication Time Info"], mine[int(folder.name.split("_")[1]), name]
            for key in ("Elapse", "Transit", "Wait", "Synchronization", "Idle"):
                assert row[f"{key.lower()}_ns"] == pytest.approx(times[f"{key} Time(ms)"] * 1e6, abs=0.6)
            assert row["start_ns"] == Decimal(repr(times["Start Timestamp(us)"])) * 1000
            seen += 1
    assert seen == len(mine) == 8


@needs_recorded
def test_of_qwen3_stages_are_known_twice() -> None:
    """The place in the pipeline is stated; messages tell the same."""
    found = recorded("golden_tools/cluster_qwen3")
    assert stages_of(found.tables) == ((0, 1), (2, 3))
    assert stages_of({name: table for name, table in found.tables.items() if name != STEP_TIMES}) == ((0, 1), (2, 3))
    assert set(found.tables) == set(SCHEMAS)


@needs_recorded
def test_groups_alone() -> None:
    found = recorded("extra/communication_group")
    names = {row["name"] for row in found.table(GROUPS).to_pylist()}
    assert {"tp", "pp", "dp_cp", "default_group"} <= names and list(found.tables) == [GROUPS]


@needs_recorded
@pytest.mark.parametrize(("place", "job"), [
    ("golden_tools/cluster_alexnet_text_level1", "alexnet_text_level1"),
    ("golden_tools/cluster_qwen3", "qwen3_pp2_dp2_level2"),
])  # fmt: skip
def test_what_ranks_state_makes_the_analysis(place: str, job: str) -> None:
    """Calls, links and stages of the ranks' own files, laid together, are those of the vendor's analysis."""
    parts = []
    for folder in sorted((RECORDED / "logdir" / job).glob("rank_*")):
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        raw = AscendReader().read(Files(files), ReadOptions(), no_progress)
        parts.append(
            {name: table for name in SCHEMAS if (table := reported_table(raw.reported_tables, name)) is not None}
        )
    if not all(parts):
        pytest.skip("profiles of ranks state no tables of a job")
    mine, stated = together(parts), recorded(place).tables
    assert links_of(mine) == links_of(stated)
    calls = [
        {(row["rank"], row["operation"], row["group"]): row for row in each[OPERATIONS].to_pylist()}
        for each in (mine, stated)
    ]
    assert calls[0] == calls[1]
    # The places in parallelism stand in no file of a rank that is here: messages tell the stages.
    assert stages_of(mine) == stages_of(stated)
