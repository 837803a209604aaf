"""Every recorded fact of an event that has no column of its own is kept under the name that the file gives it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto import decoding
from tb_plugin.formats.kineto.decoding import INTERNAL
from tb_plugin.formats.kineto.events import Args
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tb_plugin.payloads import Figures
from tb_plugin.views.find import view as find
from tests.builders import Bytes, named, part
from tests.conftest import SAMPLES, needs_shared, sample

from .sources import DATA, issues, op, read, read_events, trace_text


def others(trace: RawTrace | TraceTable) -> dict[str, dict[int, Any]]:
    """Name -> row -> value, texts as texts."""
    return {
        column.key: {
            int(row): trace.strings[int(value)] if column.is_text else value.item()
            for row, value in zip(column.row, column.value, strict=True)
        }
        for column in trace.others
    }


def kernel(ts: int, **args: Any) -> dict[str, Any]:
    return op("k", ts, 1, cat="kernel", pid=0, tid=7, device=0, stream=7, correlation=ts, **args)


def test_names_types_and_rows() -> None:
    trace = read_events(
        op("a", 1, kernel_backend="triton", num_warps=8),
        kernel(2, queued=0, context=1, **{"warps per SM": 75.5}),
        op("b", 3, kernel_backend="inductor"),
        kernel(4, queued=0, context=1, **{"warps per SM": 3}),
    )
    assert others(trace) == {
        "kernel_backend": {0: "triton", 2: "inductor"},
        "num_warps": {0: 8},
        "queued": {1: 0, 3: 0},
        "context": {1: 1, 3: 1},
        "warps per SM": {1: 75.5, 3: 3.0},
    }
    assert trace.report.issues == ()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(127, "int8"), (128, "int16"), (-128, "int8"), (-129, "int16"), (2**31 - 1, "int32"), (2**31, "int64")],
)
def test_whole_numbers_are_kept_as_narrow_as_they_fit(value: int, dtype: str) -> None:
    (column,) = [column for column in read_events(op("a", 1, x=value)).others if column.key == "x"]
    assert (column.value.dtype.name, column.value.tolist()) == (dtype, [value])


def test_waits_name_what_they_wait_for() -> None:
    sync = op("Stream Wait Event", 1, 1, cat="cuda_sync", pid=0, tid=7, stream=32, cuda_sync_kind="Stream Wait Event",
              wait_on_stream=-1, wait_on_cuda_event_record_corr_id=31)  # fmt: skip
    assert others(read_events(sync)) == {
        "cuda_sync_kind": {0: "Stream Wait Event"},
        "wait_on_stream": {0: -1},
        "wait_on_cuda_event_record_corr_id": {0: 31},
    }


def test_calls_of_hip_keep_what_only_device_work_has_columns_for() -> None:
    call = op(
        "hipLaunchKernel",
        1,
        1,
        cat="cuda_runtime",
        cid=1,
        kernel="k()",
        stream=3,
        grid=[4, 1, 1],
        bytes="128",
        kind="3",
    )
    assert others(read_events(call)) == {
        "kernel": {0: "k()"}, "kind": {0: "3"}, "stream": {0: 3}, "grid": {0: "[4, 1, 1]"}, "bytes": {0: "128"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], [1, 2]),
        ([1, 2.5], [1.0, 2.5]),
        ([1, "x"], ["1", "x"]),
        ([1.5, "x", 2], ["1.5", "x", "2"]),
        ([True, False], ["true", "false"]),
        ([2**64, 1], [str(2**64), "1"]),
        ([[1, {"a": 2}], {"b": []}], ['[1, {"a": 2}]', '{"b": []}']),
        ([5, [6]], ["5", "[6]"]),
        ([[6], 1.0, None, "x", True], ["[6]", "1", "x", "true"]),
        ([None, 7], [7]),
        (["ä", ""], ["ä", ""]),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [64, 1 << 20])
def test_values_are_kept_as_they_stand(values: list[Any], expected: list[Any], chunk_bytes: int) -> None:
    trace = read(trace_text(*(op("a", i, x=value) for i, value in enumerate(values))), chunk_bytes)
    assert list(others(trace)["x"].values()) == expected


def test_numbers_take_no_more_room_than_they_need() -> None:
    trace = read_events(*(op("a", i, small=i % 3, large=i * 10**6, huge=10**12 + i) for i in range(100)))
    assert {c.key: c.value.dtype for c in trace.others} == {"small": np.int8, "large": np.int32, "huge": np.int64}


def test_what_has_a_column_is_not_stored_twice_and_numbering_not_at_all() -> None:
    text = trace_text(
        op(
            "a",
            1,
            **{"External id": 3, "Ev Idx": 7, "Record function id": 9, "Input Dims": [[2]], "Sequence number": 1},
        ),
        op("cudaLaunchKernel", 1, 1, cat="cuda_runtime", cbid=211, correlation=5),
        kernel(2, grid=[1, 1, 1], bytes=4),
    )
    assert others(read(text)) == {"Record function id": {0: 9}}
    assert others(read(text.replace('"Record function id": 9', '"Record function id": 0'))) == {}
    typed = set(Args.__struct_fields__)
    assert "grid" in typed and not typed & INTERNAL


def test_a_name_that_comes_up_late_is_kept_wherever_it_stands() -> None:
    """It was learned from an operator; kernels state it for the first time chunks later."""
    events = [op("a", i, x=i) if i < 3 else op("a", i) for i in range(200)] + [kernel(300 + i, x=i) for i in range(3)]
    for chunk_bytes in (200, 1 << 20):
        assert others(read(trace_text(*events), chunk_bytes)) == {"x": {0: 0, 1: 1, 2: 2, 200: 0, 201: 1, 202: 2}}


def test_marks_bring_theirs_together() -> None:
    trace = read_events(
        {"ph": "B", "name": "a", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 1, "args": {"x": 1}},
        *(op("b", i) for i in range(5)),
        {"ph": "E", "pid": 1, "tid": 1, "ts": 9, "args": {"y": "two"}},
    )
    assert others(trace) == {"x": {5: 1}, "y": {5: "two"}}


def test_more_names_than_columns_are_told() -> None:
    trace = read_events(*(op("a", i, **{f"x{i}": i}) for i in range(200)))
    assert len(trace.others) == decoding.MOST_NAMES
    assert "other_arguments" in issues(trace)
    assert len(trace.start_ns) == 200


def test_odd_names_cost_nothing_else() -> None:
    trace = read_events(op("a", 1, **{'quo"te': 1, "x": 2}), op("b", 2, x=3))
    assert others(trace)["x"] == {0: 2, 1: 3}
    assert "other_arguments" in issues(trace)


def test_damage_beside_them() -> None:
    trace = read(
        trace_text(
            op("a", 1, x=1),
            '{"ph": "X", "name": 5, "cat": "cpu_op", "ts": 2, "dur": 1, "args": {"x": N/A}}',
            op("c", 3, x=3),
        )
    )
    assert others(trace)["x"] == {0: 1, 2: 3}


def test_they_are_shown_and_found() -> None:
    table = assemble(read_events(op("a", 5, kernel_hash="c3f", num_warps=4), op("b", 9, num_warps=44)))
    event = part(table, "events", extra=(("event", str(named(table, "a"))),)).payloads["event"]
    assert isinstance(event, Figures)
    told = {figure.metric.title: figure.value for figure in event.figures}
    assert (told["kernel_hash"], told["num_warps"]) == ("c3f", "4")

    def found(search: str) -> list[str]:
        frame = part(table, "find", search=search, extra=(("in", "args"),)).frames["hits"]
        return list(frame.data["name"].to_pylist())

    assert find.PLACES
    assert (found("C3F"), found("4"), found("44"), found("5")) == (["a"], ["a"], ["b"], [])


def test_the_files_own_settings_are_shown() -> None:
    table = assemble(read(trace_text(op("a", 1), metadata={"host": "n7", "limits": [1, 2]}, run="nightly")))
    shown = part(table, "overview").payloads["configuration"]
    assert isinstance(shown, Figures)
    told = {figure.metric.title: figure.value for figure in shown.figures}
    assert (told["metadata.host"], told["metadata.limits"], told["run"]) == ("n7", "[1, 2]", "nightly")


def test_arguments_of_viztracers_calls() -> None:
    found = others(sample("viztracer_cpu/result.json.gz"))
    assert '{"size": "40"}' in found["func_args"].values()


def test_a_window_keeps_those_of_its_rows() -> None:
    content = next((SAMPLES / "synthetic_gpu").glob("*.gz")).read_bytes()
    raw = KinetoReader().read(Bytes(content), ReadOptions(), no_progress)
    kernels = {column.key: len(column.row) for column in raw.others}
    assert kernels["context"] >= kernels["queued"] == kernels["warps per SM"] > 0


@needs_shared
def test_a_compiled_training_on_rocm() -> None:
    path = DATA / "tracelens" / "torch_compile_triton" / "trace.json.gz"
    found = others(read(path))
    assert set(found["kernel_backend"].values()) == {"triton"}
    assert {"kernel_hash", "kernel_kwargs", "num_stages", "num_warps"} <= set(found)
