"""Work of replayed calls: the inputs of their captures, once per replay."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder, kernel, part, trace

BEGIN, END = "cudaStreamBeginCapture", "cudaStreamEndCapture"
BYTES = 2 * 4 * 8
"""Of ``aten::relu`` on 8 numbers."""


def captured(built: TraceBuilder, at: int, *kernels: int) -> TraceBuilder:
    """Adds a capture of one ``aten::relu`` per entry, which launches so many kernels."""
    built.call(at, 1, name=BEGIN)
    for i, count in enumerate(kernels):
        start = at + 3 + 20 * i
        built.op("aten::relu", start, 15, shapes=[[8]], **{"Input type": ["float"]})
        for j in range(count):
            built.event("cuda_runtime", "cudaLaunchKernel", start + 1 + 3 * j, 1, 1, 1, correlation=start + j)
    return built.call(at + 95, 1, name=END)


def replayed(built: TraceBuilder, at: int, count: int) -> TraceBuilder:
    work = [kernel("relu", 2, at=at + 10 + 3 * i) for i in range(count)]
    return built.launches(*work, at=at, dur=2, name="cudaGraphLaunch")


def rows(built: TraceBuilder) -> list[tuple[int, int, int]]:
    """Calls, bytes and kernel time of each row of the roofline."""
    found = part(built.device(0).table(), "roofline").frames["roofline"].data.to_pylist()
    return [(row["work_calls"], row["moved_bytes"], row["work_kernel_ns"]) for row in found]


def test_a_call_counts_once_per_replay() -> None:
    assert rows(replayed(replayed(captured(trace(), 0, 1), 200, 1), 300, 1)) == [(2, 2 * BYTES, 4_000)]


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ((1, 1), (1, 1), [(2, 2 * BYTES, 4_000)]),
        ((2, 1), (1, 2), [(2, 2 * BYTES, 6_000)]),
        ((2, 1), (1, 1, 1), []),
    ],
    ids=["two calls", "other kernels", "captures differ"],
)
def test_equal_calls_of_several_captures(first: tuple[int, ...], second: tuple[int, ...], wanted: object) -> None:
    """Both captures match the graph. Their equal calls are one row, if both captures have as many of them."""
    built = captured(captured(trace(), 0, *first), 100, *second)
    assert rows(replayed(built, 300, sum(first))) == wanted
