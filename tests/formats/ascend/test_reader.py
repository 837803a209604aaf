"""A folder of which any file may be missing, cut off or no file at all: the rest opens, and the report names it."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass
from typing import Any, BinaryIO

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.errors import StorageError, UnreadableTrace
from tb_plugin.formats.ascend.profile_info import metadata_of
from tb_plugin.formats.ascend.reader import AscendReader
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.views.operators.view import Operators
from tests.conftest import SAMPLES
from tests.depth import sampled
from tests.formats.ascend.folders import ALEXNET, OUTPUT, Files, codes, files, folder, needs_recorded, raw_of, table_of
from tests.formats.ascend.test_kernels import HEAD, line
from tests.formats.ascend.test_memory import LINES, NEW
from tests.formats.ascend.test_timeline import HOST, at, names, task, x
from tests.formats.test_kineto_window import identities


def small() -> Files:
    """A profile with a row or two of everything that is read."""
    return files(
        trace_view=[*names(), x("ProfilerStep#12", HOST, HOST, at(0), 90, "cpu_op"), task("mm", 20.5, 10)],
        kernel_details=f"{HEAD}\r\n{line('mm', 20.5, '10.25')}\r\n{line('add', 40, '2')}\r\n",
        operator_memory="\r\n".join([NEW, *LINES]) + "\r\n",
        memory_record=f"Component,Timestamp(us),Total Allocated(MB),Device Type\r\nPTA,{at(3)}\t,1,NPU:4\r\n",
        step_trace_time="Device_id,Step,Computing,Free\r\n4,12,12.25,8873.756000000001\r\n",
        op_statistic="Device_id,OP Type,Total Time(us)\r\n4,MatMulV2,10.25\r\n",
        operator_details='Name,Call Stack,Host Self Duration(us),Mood\r\naten::mm,"a;\r\nb;\r\n",4.5,good\r\n',
        profiler_info_3={
            "rank_id": "3",
            "config": {"common_config": {"with_stack": True}},
            "torch_npu_version": "2.7.1",
        },
        profiler_metadata={"distributed_args": {"world_size": 8}, "note": "mine"},
    )


@dataclass(frozen=True)
class Failing:
    """A Source of which some files cannot be opened."""

    of: Files
    bad: str

    def names(self) -> Any:
        return self.of.names()

    def size(self, name: str) -> int:
        return self.of.size(name)

    def open(self, name: str) -> BinaryIO:
        if name.endswith(self.bad):
            raise StorageError("The file was deleted.", do="Look for it.")
        return io.BytesIO(self.of.content[name])


def without(name: str) -> Files:
    return Files({key: value for key, value in small().content.items() if not key.endswith(name)})


def with_bytes(name: str, content: bytes) -> Files:
    return Files({key: content if key.endswith(name) else value for key, value in small().content.items()})


EVERY = [name.removeprefix(OUTPUT) for name in small().names()]
PARTS = {
    "trace_view.json": lambda raw: "ProfilerStep#12" in raw.strings.take(raw.name).to_pylist(),
    "kernel_details.csv": lambda raw: "add" in raw.strings.take(raw.name).to_pylist(),
    "operator_memory.csv": lambda raw: len(raw.blocks.start_ns) == 4 and len(raw.memory.time_ns) == 6,
    "memory_record.csv": lambda raw: len(raw.totals.time_ns) == 1,
    "step_trace_time.csv": lambda raw: "step_times" in [table.name for table in raw.reported_tables],
    "op_statistic.csv": lambda raw: "op_statistic" in [table.name for table in raw.reported_tables],
    "profiler_info_3.json": lambda raw: raw.metadata.get("with_stack") is True,
    "profiler_metadata.json": lambda raw: raw.metadata.get("note") == "mine",
}
"""By file: whether what it gives is there."""


def assert_all_but(name: str, raw: Any) -> None:
    assert {part for part, is_there in PARTS.items() if not is_there(raw)} == {name} & PARTS.keys()


def test_everything_is_there() -> None:
    raw = raw_of(small())
    assert_all_but("", raw)
    assert raw.report.complete and raw.report.issues == () and raw.report.events_dropped == 0
    assert raw.metadata["distributedInfo"] == {"backend": "hccl", "rank": 3, "world_size": 8}
    assert raw.metadata["torch_npu_version"] == "2.7.1"
    table = assemble(raw)
    assert table.steps.label == ("12",) and [device.id for device in table.devices] == ["4"]


@pytest.mark.parametrize("name", EVERY)
def test_any_file_may_be_missing(name: str) -> None:
    raw = raw_of(without(name))
    assert_all_but(name, raw)
    assert raw.report.complete and codes(raw) == set()
    assemble(raw)


@pytest.mark.parametrize("name", EVERY)
def test_any_file_may_be_unreadable(name: str) -> None:
    raw = raw_of(Failing(small(), name))
    assert_all_but(name, raw)
    if name != "operator_details.csv":  # nothing of it is needed beside a trace view
        assert codes(raw, name) == {"file_lost"} and not raw.report.complete
        (issue,) = raw.report.issues
        assert "The file was deleted." in issue.text and issue.file == name


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\x1f\x8bgarbage", b"\xff\xfe\0\0", b'{"a": [', b"<html>", b"null", b"7"], ids=str
)
def test_any_file_may_be_something_else(name: str, content: bytes) -> None:
    raw = raw_of(with_bytes(name, content))
    assert {part for part, is_there in PARTS.items() if not is_there(raw)} <= {name}
    if name in ("kernel_details.csv", "operator_memory.csv", "memory_record.csv") or name.endswith(".json"):
        assert codes(raw, name), "a table of another kind is told where columns are needed"
    assert all(issue.file == name for issue in raw.report.issues)
    assemble(raw)


@pytest.mark.parametrize("name", EVERY)
def test_any_file_may_be_cut_off_anywhere(name: str) -> None:
    (content,) = (value for key, value in small().content.items() if key.endswith(name))
    for length in range(0, len(content), max(1, len(content) // 10)):
        raw = raw_of(with_bytes(name, content[:length]))
        assert {part for part, is_there in PARTS.items() if not is_there(raw)} <= {name}
        assert {issue.file for issue in raw.report.issues} <= {name}


def test_a_folder_of_which_nothing_can_be_read() -> None:
    for source in (files(kernel_details=""), Failing(files(trace_view=[task("mm", 1, 2)]), "trace_view.json")):
        with pytest.raises(UnreadableTrace) as error:
            raw_of(source)
        assert error.value.what and error.value.do


def test_calls_of_operators_are_shown_where_no_trace_view_has_them() -> None:
    raw = raw_of(without("trace_view.json"))
    (table,) = (each for each in raw.reported_tables if each.name == "operator_calls")
    values = {column.key: column.values.to_pylist() for column in table.columns}
    assert values["name"] == ["aten::mm"] and values["call_stack"] == ["a;b"] and values["mood"] == ["good"]
    assert values["host_self_ns"] == [4500] and values["device_self_ns"] == [None], "nobody states it"
    assert "operator_calls" not in [each.name for each in raw_of(small()).reported_tables]
    part = Operators().part(assemble(raw), Params())
    (row,) = part.frames["operators"].data.to_pylist()
    assert row["calls"] == part.facts["operators.calls"] == 1 and row["host_self_ns"] == 4500 and row["has_stack"]
    assert part.frames["operators_outermost"].data.num_rows == 0, "which call lies in which is not known"


def test_stated_numbers_are_as_the_file_has_them() -> None:
    (table,) = (each for each in raw_of(small()).reported_tables if each.name == "step_times")
    assert [(c.key, c.values.to_pylist()) for c in table.columns] == [
        ("rank", [3]), ("device", [4]), ("step", ["12"]), ("computing_ns", [12250]), ("free_ns", [8873756]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("info", "rank"),
    [
        ({"rank_id": 2}, 2), ({"rank_id": "2"}, 2), ({"rank_id": -1}, 3), ({"rank_id": "x"}, 3), ({"rank_id": True}, 3),
        ({"rank_id": [2]}, 3), ({"config": 7}, 3), ({"config": {"common_config": []}}, 3), ({}, 3),
    ],
)  # fmt: skip
def test_the_rank_is_stated_or_that_of_the_name(info: Any, rank: int) -> None:
    source = with_bytes("profiler_info_3.json", json.dumps(info).encode())
    assert raw_of(source).metadata["distributedInfo"]["rank"] == rank


def test_settings_that_nest_without_end_are_told() -> None:
    raw = raw_of(with_bytes("profiler_metadata.json", b"[" * 200_000))
    assert codes(raw, "profiler_metadata.json") == {"bad_settings"}


def test_texts_are_data() -> None:
    """Markup, formulas and patterns in names stay what they are."""
    name = "<img src=x onerror=alert(1)>=cmd|'/c calc'!A1(a+)+$"
    raw = raw_of(files(kernel_details=f"{HEAD}\r\n{line(f'{name}', 1, '2')}\r\n"))
    assert raw.strings.take(raw.name).to_pylist() == [name]


def test_a_trace_view_without_kernels_and_one_without_anything() -> None:
    assert len(raw_of(files(trace_view=names(), step_trace_time="Step\r\n1\r\n")).start_ns) == 0
    table = table_of(files(step_trace_time="Step,Computing\r\n,1.5\r\n"))
    assert len(table) == 0 and len(table.reported_tables) == 1


CUT = ("trace_view.json", "kernel_details.csv", "communication.json")


@needs_recorded
def test_a_recorded_profile_cut_off_in_each_file() -> None:
    names_of = [str(p.relative_to(ALEXNET)) for p in sorted(ALEXNET.rglob("*")) if p.is_file()]
    content = {name: (ALEXNET / name).read_bytes() for name in names_of}
    whole = raw_of(folder(ALEXNET))
    for name in sampled(names_of, [name for name in names_of if name.endswith(CUT)]):
        raw = raw_of(Files({**content, name: content[name][: len(content[name]) * 2 // 3]}))
        told = {issue.file for issue in raw.report.issues if issue.code != "links_in_group"}
        assert told <= {name.rpartition("/")[2]}
        assert len(raw.start_ns) <= len(whole.start_ns) and assemble(raw) is not None


def test_what_is_wrong_with_own_rules_of_kernels_is_told_of_no_file() -> None:
    options = ReadOptions(class_rules=RuleFile("gemm mm"))
    raw = AscendReader().read(files(kernel_details=f"{HEAD}\r\n{line('mm', 1, '2')}\r\n"), options, no_progress)
    (issue,) = raw.report.issues
    assert (issue.code, issue.file) == ("class_rules", "")


def test_packed_files_say_what_plain_ones_do() -> None:
    (rank,) = (SAMPLES / "synthetic_ascend").glob("rank_0_*")
    plain = {name: folder(rank).open(name).read() for name in folder(rank).names()}
    packed = {
        f"{name}.gz" if name.endswith(("view.json", ".csv")) else name: gzip.compress(content, 1)
        if name.endswith(("view.json", ".csv"))
        else content
        for name, content in plain.items()
    }
    one, other = table_of(Files(plain)), table_of(Files(packed))
    assert not other.report.issues
    assert identities(one) == identities(other) and len(one) == len(other)
    assert [table.name for table in one.reported_tables] == [table.name for table in other.reported_tables]
    both = raw_of(Files({**packed, **plain}))
    assert codes(both) == {"second_file"} and both.report.events_loaded == one.report.events_loaded


def test_settings_that_are_empty_say_nothing() -> None:
    info = {"config": {"common_config": {"with_flops": False, "limit": 0, "gc_detect_threshold": None, "l2": "-"}}}
    about = {"ENV_VARIABLES": {"A": "", "B": "1"}, "UNSET": {"C": ""}, "host": [], "cann": "8.0"}
    assert metadata_of(info, about, None) == {
        "with_flops": False,
        "limit": 0,
        "ENV_VARIABLES": {"B": "1"},
        "cann": "8.0",
    }
