"""Links: launches by correlation, operators by launch or id, backward to forward."""

from __future__ import annotations

import numpy as np
import pytest

from tb_plugin.model.trace.links import first_with_key, rows_starting_at
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, memcpy, name_of, named, trace


def links(table: TraceTable, name: str) -> tuple[str | None, str | None]:
    """Names of the launch and of the operator of the only event of a name."""
    event = named(table, name)
    return name_of(table, int(table.launch[event])), name_of(table, int(table.operator[event]))


def test_a_launch_belongs_to_the_innermost_operator_open_when_it_begins() -> None:
    builder = trace().op("outer", 0, 100).op("inner", 10, 20).call(15, 50, corr=1)
    table = builder.on_device(kernel("k", 5, 70), corr=1).table()
    assert links(table, "k") == ("cudaLaunchKernel", "inner")


def test_a_launch_on_another_thread_has_no_operator() -> None:
    table = trace().op("a", 0, 100, tid=1).call(10, 5, corr=1, tid=2).on_device(kernel("k", 5, 70), corr=1).table()
    assert links(table, "k") == ("cudaLaunchKernel", None)


def test_a_graph_launch_owns_all_its_kernels() -> None:
    """C8: thousands of kernels, one correlation."""
    builder = trace().op("replay", 0, 100).call(10, 5, corr=1, name="cudaGraphLaunch")
    for i in range(300):
        builder.on_device(kernel(f"k{i}", 1, 20 + i), corr=1)
    table = builder.table()
    assert {links(table, f"k{i}") for i in range(300)} == {("cudaGraphLaunch", "replay")}


def test_of_two_calls_with_one_correlation_the_earlier_launched() -> None:
    builder = trace().op("a", 0, 10).call(2, 5, corr=1, name="hipModuleLaunchKernel").op("b", 20, 10)
    table = builder.call(22, 5, corr=1, name="later").on_device(kernel("k", 5, 70), corr=1).table()
    assert links(table, "k") == ("hipModuleLaunchKernel", "a")


@pytest.mark.parametrize("correlation", [-1, 0, None])
def test_a_correlation_that_names_nothing(correlation: int | None) -> None:
    """C11: ROCm writes -1 on copies."""
    builder = trace().op("a", 0, 10, ext=3).call(2, 5, corr=correlation)
    table = builder.on_device(memcpy(5, 70, "CopyHostToDevice"), corr=correlation).table()
    assert links(table, "CopyHostToDevice") == (None, None)


def test_a_large_correlation() -> None:
    big = 2**62 + 12345
    table = trace().op("a", 0, 10).call(2, 5, corr=big).on_device(kernel("k", 5, 70), corr=big).table()
    assert links(table, "k") == ("cudaLaunchKernel", "a")


def test_a_device_event_before_its_launch_is_linked_all_the_same() -> None:
    """Clocks of host and device differ by microseconds."""
    table = trace().op("a", 10, 10).call(12, 5, corr=1).on_device(kernel("k", 5, 8), corr=1).table()
    assert links(table, "k") == ("cudaLaunchKernel", "a")


def test_a_launch_without_operator_does_not_fall_back_to_the_external_id() -> None:
    builder = trace().op("a", 0, 10, ext=3).call(50, 5, ext=3, corr=1).on_device(kernel("k", 5, 70), ext=3, corr=1)
    assert links(builder.table(), "k") == ("cudaLaunchKernel", None)


def test_external_ids_that_agree_are_no_disagreement() -> None:
    builder = trace().op("a", 0, 10, ext=3).call(5, 2, corr=1).on_device(kernel("k", 5, 70), ext=3, corr=1)
    assert builder.table().external_disagreements == 0
    wrong = trace().op("a", 0, 10, ext=3).op("b", 20, 10, ext=4).call(5, 2, corr=1)
    assert wrong.on_device(kernel("k", 5, 70), ext=4, corr=1).table().external_disagreements == 1


def test_first_with_key() -> None:
    keys, rows = np.array([5, -1, 0, 5, 9]), np.array([10, 11, 12, 13, 14])
    assert first_with_key(keys, rows, np.array([5, 9, 7, 0, -1, 99])).tolist() == [10, 14, -1, -1, -1, -1]
    nothing = np.empty(0, np.int64)
    assert first_with_key(nothing, nothing, np.array([5])).tolist() == [-1]
    assert first_with_key(keys, rows, nothing).tolist() == []


def test_rows_starting_at() -> None:
    track, start = np.array([0, 0, 1], np.int32), np.array([5, 5, 5])
    at_track = np.array([0, 1, 0, -1, 7], np.int32)
    found = rows_starting_at(track, start, np.array([0, 1, 2]), at_track, np.array([5, 5, 6, 5, 5]))
    assert found.tolist() == [1, 2, -1, -1, -1]


# forward and backward


def forward_of(builder: TraceBuilder, name: str) -> str | None:
    table = builder.table()
    return name_of(table, int(table.forward[named(table, name)]))


def test_an_arrow_ties_the_operators_that_start_at_its_ends() -> None:
    builder = trace().op("aten::mm", 0, 10).op("MmBackward0", 100, 10, tid=2).arrow(0, 100)
    assert forward_of(builder, "MmBackward0") == "aten::mm"


def test_an_arrow_starts_at_the_innermost_of_operators_with_one_start() -> None:
    builder = trace().op("aten::linear", 0, 10).op("aten::addmm", 0, 8).op("Bw", 100, 10, tid=2).arrow(0, 100)
    assert forward_of(builder, "Bw") == "aten::addmm"


def test_an_arrow_into_the_void_ties_nothing() -> None:
    builder = (
        trace().op("aten::mm", 0, 10).op("Bw", 100, 10, tid=2).arrow(0, 101).arrow(5, 100).arrow(0, 100, backward_tid=9)
    )
    assert forward_of(builder, "Bw") is None


def test_a_sequence_number_ties_to_the_forward_operator_that_started_last() -> None:
    builder = trace().op("aten::linear", 0, 10, sequence=7).op("aten::addmm", 2, 5, sequence=7)
    assert forward_of(builder.op("Bw", 100, 10, tid=2, sequence=7, forward_thread=1), "Bw") == "aten::addmm"


def test_sequence_number_zero_counts() -> None:
    builder = trace().op("aten::mm", 0, 10, sequence=0).op("Bw", 100, 10, tid=2, sequence=0, forward_thread=1)
    assert forward_of(builder, "Bw") == "aten::mm"


def test_a_sequence_number_of_two_threads_names_nobody() -> None:
    builder = trace().op("aten::mm", 0, 10, sequence=7, tid=1).op("aten::t", 0, 10, sequence=7, tid=3)
    assert forward_of(builder.op("Bw", 100, 10, tid=2, sequence=7, forward_thread=1), "Bw") is None


def test_an_arrow_decides_against_the_sequence_number() -> None:
    builder = trace().op("aten::mm", 0, 10, sequence=7).op("aten::t", 20, 10, sequence=8)
    builder.op("Bw", 100, 10, tid=2, sequence=7, forward_thread=1).arrow(20, 100)
    assert forward_of(builder, "Bw") == "aten::t"


def test_arrows_and_epoch_times() -> None:
    epoch = 1_700_000_000_000_000
    builder = trace().op("aten::mm", epoch + 1, 10).op("Bw", epoch + 100, 10, tid=2).arrow(epoch + 1, epoch + 100)
    assert forward_of(builder, "Bw") == "aten::mm"
