"""Which folders are profiles of NPUs, and what their names say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tb_plugin import registry
from tb_plugin.formats.ascend.filenames import by_kind, kind_of, rank_in, time_of
from tb_plugin.formats.base import Candidate
from tests.formats.ascend.folders import RECORDED, found, needs_recorded
from tests.samples import scanned

SPAN = "20251127123438131"
OUT = "ASCEND_PROFILER_OUTPUT"


def only(*paths: str) -> Candidate:
    (candidate,) = found(*paths)
    return candidate


def profile(root: str, *more: str) -> list[str]:
    return [f"{root}/{OUT}/trace_view.json", f"{root}/{OUT}/kernel_details.csv", *(f"{root}/{name}" for name in more)]


def test_a_profile_of_torch_npu() -> None:
    root = f"run/host_41200_{SPAN}_ascend_pt"
    one = only(*profile(root, "profiler_info_3.json", "profiler_metadata.json"))
    assert (one.run, one.worker, one.span, one.root) == ("run", "rank3", SPAN, root)
    assert one.names[0] == f"{root}/{OUT}/trace_view.json" and one.certain
    assert set(one.names) == {*profile(root, "profiler_info_3.json", "profiler_metadata.json")}
    assert one.also == () and one.time_unix_ns == 1764246878131000000


@pytest.mark.parametrize(
    ("folder", "worker", "span"),
    [
        (f"host_41200_{SPAN}_ascend_pt", "host_41200", SPAN),
        (f"rank0_341923_{SPAN}_ascend_pt", "rank0_341923", SPAN),
        (f"dp0_pp0_tp0_dcp0_ep0_rank0_3896415_{SPAN}_ascend_pt", "dp0_pp0_tp0_dcp0_ep0_rank0_3896415", SPAN),
        ("rank_0_20230919172305_ascend_pt", "rank_0", "20230919172305"),
        (f"host_41200_{SPAN}_ascend_ms", "host_41200", SPAN),
        ("rank0_ascend_pt", "rank0", None),
        ("_ascend_pt", "npu", None),
        ("my profile", "my profile", None),
        ("x\ny_ascend_pt", "x\ny", None),
    ],
)
def test_what_the_name_of_the_folder_says(folder: str, worker: str, span: str | None) -> None:
    one = only(*profile(f"runs/a/{folder}"))
    assert (one.run, one.worker, one.span) == ("runs/a", worker, span)


def test_the_folder_of_logs_is_the_profile_or_its_output() -> None:
    inside = only(f"{OUT}/trace_view.json", f"{OUT}/step_trace_time.csv", "profiler_info_5.json")
    assert (inside.run, inside.worker, inside.root) == ("", "rank5", ".")
    assert "profiler_info_5.json" in inside.names
    for names in (("trace_view.json", "kernel_details.csv"), ("trace_view.json", "operator_details.csv")):
        output = only(*names)
        assert (output.run, output.worker, set(output.names)) == ("", "npu", set(names))


def test_the_rank_is_that_of_the_settings_else_of_the_database() -> None:
    root = f"run/host_1_{SPAN}_ascend_pt"
    database = f"{root}/{OUT}/ascend_pytorch_profiler_2.db"
    assert only(*profile(root), database).worker == "rank2"
    assert only(database).worker == "rank2" and only(database).names == (database,)
    assert only(*profile(root, "profiler_info.json")).worker == "host_1"


def test_spans_of_a_rank_are_profiles_of_one_worker() -> None:
    later = f"{int(SPAN) + 60_000}"
    roots = [f"run/host_{pid}_{span}_ascend_pt" for pid, span in ((1, SPAN), (1, later), (2, SPAN))]
    ranks = (0, 0, 1)
    every = found(
        *(p for root, rank in zip(roots, ranks, strict=True) for p in profile(root, f"profiler_info_{rank}.json"))
    )
    assert sorted((one.worker, one.span) for one in every) == [("rank0", SPAN), ("rank0", later), ("rank1", SPAN)]
    assert {one.run for one in every} == {"run"}


def test_raw_data_belong_to_the_profile_and_are_not_read() -> None:
    root = f"run/host_1_{SPAN}_ascend_pt"
    inside = (
        f"{root}/PROF_000001_2025/mindstudio_profiler_output/api_statistic_20251127.csv",
        f"{root}/PROF_000001_2025/host/data/x.json",
        f"{root}/PROF_000001_2025/{OUT}/kernel_details.csv",
        f"{root}/PROF_000001_2025/{OUT}/trace_view.json",
        f"{root}/FRAMEWORK/torch.op_range",
        f"{root}/logs/trace_view.json",
        f"{root}/{OUT}/analyse.done",
    )
    one = only(*profile(root), *inside)
    assert set(one.names) == set(profile(root)) and set(one.also) == set(inside)


def test_arguments_of_operators_are_no_profile() -> None:
    dumped = f"run/host_1_{SPAN}_ascend_pt_op_args"
    assert (
        found(f"{dumped}/kernel_details.csv", f"{dumped}/trace_view.json", f"{dumped}/{OUT}/step_trace_time.csv") == []
    )
    both = only(*profile(f"run/host_1_{SPAN}_ascend_pt"), f"{dumped}/trace_view.json", f"{dumped}/kernel_details.csv")
    assert not any("op_args" in name for name in (*both.names, *both.also))


def test_a_run_may_be_named_as_raw_data_are() -> None:
    assert only(*profile(f"PROF_runs/host_1_{SPAN}_ascend_pt")).run == "PROF_runs"


@pytest.mark.parametrize(
    "paths",
    [
        ("run/trace_view.json",),
        ("run/communication.json",),
        ("run/l2_cache.csv", "run/pcie.csv"),
        (f"run/host_1_{SPAN}_ascend_pt/profiler_info.json",),
        (f"run/host_1_{SPAN}_ascend_pt/PROF_1/trace_view.json",),
        ("run/analysis.db",),
        (),
    ],
)
def test_what_is_no_profile(paths: tuple[str, ...]) -> None:
    assert found(*paths) == []


def test_the_main_file_is_the_best_that_is_there() -> None:
    root = f"run/host_1_{SPAN}_ascend_pt/{OUT}"
    names = ["trace_view.json", "kernel_details.csv", "memory_record.csv", "step_trace_time.csv"]
    while names:
        one = only(*(f"{root}/{name}" for name in sorted(names)))
        assert one.names[0] == f"{root}/{names.pop(0)}"


@pytest.mark.parametrize(
    ("name", "kind", "rank"),
    [
        ("a/profiler_info_12.json", "info", 12), ("profiler_info.json", "info", None), ("profiler_info_x.json", "", None),
        ("ascend_pytorch_profiler_3.db", "db", 3), ("ascend_mindspore_profiler.db", "db", None),
        ("a/trace_view.json", "trace_view.json", None), ("trace_view.json.bak", "", None),
        ("profiler_metadata.json", "profiler_metadata.json", None), ("profiler_info_9999999999.json", "", None),
    ],
)  # fmt: skip
def test_what_a_file_is(name: str, kind: str, rank: int | None) -> None:
    assert (kind_of(name), rank_in(name)) == (kind, rank)


@pytest.mark.parametrize(
    ("token", "ns"),
    [
        ("20251127123438131", 1764246878131000000), ("20251127123438", 1764246878000000000), (None, None), ("341923", None),
        ("20259927123438131", None), ("00000000000000000", None), ("2025112712343813199", 1764246878131000000),
    ],
)  # fmt: skip
def test_when_a_span_began(token: str | None, ns: int | None) -> None:
    assert time_of(token) == ns


@needs_recorded
def test_recorded_profiles_are_found_by_a_scan(tmp_path: Path) -> None:
    scan = scanned(RECORDED, registry.readers())
    ours = {(p.run, p.worker) for p in scan.profiles if p.reader.id == "ascend"}
    assert ours >= {("alexnet_text_level1", "rank0"), ("alexnet_text_level1", "rank1"), ("gpt3_2023_level1", "rank1")}
    assert ours >= {("qwen3_pp2_dp2_level2", f"rank{rank}") for rank in range(4)}
    taken = [name for p in scan.profiles for name in p.names if p.reader.id != "ascend"]
    assert taken == [], "nobody else takes a file of a profile"


def test_files_that_somebody_packed() -> None:
    (one,) = found(
        "run/a_20250109074804023_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json.gz",
        "run/a_20250109074804023_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv.gz",
        "run/a_20250109074804023_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv",
    )
    assert one.names[0].endswith("trace_view.json.gz") and len(one.names) == 3
    assert by_kind(one.names)["kernel_details.csv"].endswith("kernel_details.csv"), "the one that nobody packed"
    assert kind_of("x/trace_view.json.gz") == "trace_view.json"
    for name in ("analysis.db.gz", "trace_view.json.gz.gz", "my_trace_view.json.gz", "ascend_pytorch_profiler.db.gz"):
        assert not kind_of(name), name
    assert not found("run/other.json.gz", "run/table.csv.gz")
