"""Bandwidths of collectives: classes and their medians, the line over sizes, shares of links, and slow nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Part
from tb_plugin.devices.peaks import peak_of
from tb_plugin.payloads import Series
from tb_plugin.views.distributed.bandwidth.measured import line_of
from tb_plugin.views.distributed.bandwidth.payloads import nodes_short
from tb_plugin.views.distributed.rank.profile import CALL, DEVICE, GROUP, table
from tests.jobs_of_parts import notices_of, part_with, sample_parts, table_of, view_of

GB = 10**9


def part_of(worker: str, node: str, calls: Sequence[Mapping[str, Any]], peak: int | None = None) -> Part:
    """A rank of nothing but calls."""
    rows = [
        dict.fromkeys(CALL) | {"call": i, "step": "0", "dtype": "Float", "on_device": True} | call
        for i, call in enumerate(calls)
    ]
    device = dict.fromkeys(DEVICE) | {"node": node, "process": worker, "device": "0", "link_peak": peak}
    group = dict(zip(GROUP, ("1", "dp", "", 2, "[0, 1]", None), strict=True))
    tables = {
        "collectives": table(CALL, rows), "devices": table(DEVICE, [device]), "process_groups": table(GROUP, [group]),
    }  # fmt: skip
    return part_with(worker, tables)


def reduced(at: int, dur: int, size: int, sequence: int, **more: Any) -> dict[str, Any]:
    about = {
        "collective": "all_reduce",
        "elements": size // 4,
        "comm_bytes": size,
        "group": "1",
        "group_ranks": "[0, 1]",
    }
    return {**about, "group_size": 2, "sequence": sequence, "start_ns": at, "dur_ns": dur, **more}


def test_a_class_has_the_sum_of_its_times_and_their_median() -> None:
    """1000 bytes in 10, 20 and 60 ns, each the time of the rank that comes last; the factor of two ranks is 1."""
    late = [reduced(100 * i, dur, 1000, i) for i, dur in enumerate((10, 20, 60))]
    early = [reduced(100 * i - 5, dur + 5, 1000, i) for i, dur in enumerate((10, 20, 60))]
    parts = [part_of("a", "n0", late, 100 * GB), part_of("b", "n0", early, 100 * GB)]
    (row,) = table_of(parts, "bandwidths")
    assert (row["met"], row["median_transfer_ns"], row["comm_bytes"]) == (3, 20, 1000)
    assert row["algorithm_bandwidth"] == row["bus_bandwidth"] == pytest.approx(3000 / 90 * GB)
    assert row["link_share"] == pytest.approx(3000 / 90 / 100)
    assert (row["group_description"], row["nodes"], row["group_size"]) == ("dp", "n0", 2)


def test_bounds_unknown_sizes_and_other_nodes_have_no_part_in_it() -> None:
    known, unknown = reduced(0, 10, 1000, 0), reduced(100, 10, 1000, 1, comm_bytes=None)
    parts = [part_of(name, node, [known, unknown], GB) for name, node in (("a", "n0"), ("b", "n1"))]
    (row,) = table_of(parts, "bandwidths")
    assert (row["met"], row["nodes"], row["link_share"]) == (1, "n0, n1", None)
    of_three = [part_of(name, "n0", [known | {"group_size": 3, "group_ranks": "[0, 1, 2]"}]) for name in "ab"]
    assert table_of(of_three, "bandwidths") == [] and "bandwidth" not in view_of(of_three).payloads
    assert table_of(parts[:1], "bandwidths") == []


def test_the_line_over_sizes_is_found_through_the_view_of() -> None:
    """5 us and 100 GB/s: 1 kB takes 5,010 ns, 1 MB 15,000 ns, 100 MB 1,005,000 ns."""
    sizes = (1000, 10**6, 10**8)
    calls = [reduced(10**7 * i, 5000 + size // 100, size, i) for i, size in enumerate(sizes)]
    parts = [part_of(name, "n0", calls) for name in "ab"]
    (fit,) = table_of(parts, "bandwidth_fits")
    assert fit["fit_latency_ns"] == pytest.approx(5000) and fit["fit_bandwidth"] == pytest.approx(100 * GB)
    assert (fit["fit_sizes"], fit["fit_deviation"]) == (3, pytest.approx(0, abs=1e-12))
    series = view_of(parts).payloads["bandwidth"]
    assert isinstance(series, Series) and series.x == list(sizes)
    measured, fitted = series.lines
    assert measured.values == pytest.approx([size * GB / (5000 + size // 100) for size in sizes])
    assert fitted.values == pytest.approx(measured.values)


def test_a_line_through_two_of_three_sizes_does_not_tell_the_third() -> None:
    """The size in the middle takes three times as long as the line through the others says; of four it is one of few."""
    sizes = (1000, 10**6, 10**8, 10**9)
    moved = np.array(sizes, np.float64)
    time = (5000 + moved / 100) * [1, 3, 1, 1]
    three, four = line_of(moved[:3], time[:3]), line_of(moved, time)
    assert three is not None and four is not None
    assert three[2] > 0.2 and four == pytest.approx((5000, 0.01, 0), abs=1e-9)
    calls = [reduced(10**8 * i, round(each), size, i) for i, (size, each) in enumerate(zip(sizes, time, strict=True))]
    (none,) = table_of([part_of(name, "n0", calls[:3]) for name in "ab"], "bandwidth_fits")
    assert (none["fit_sizes"], none["fit_latency_ns"], none["fit_deviation"]) == (3, None, None)
    (fit,) = table_of([part_of(name, "n0", calls) for name in "ab"], "bandwidth_fits")
    assert fit["fit_bandwidth"] == pytest.approx(100 * GB)


def test_too_few_or_too_alike_sizes_have_no_line() -> None:
    moved = np.array([1.0, 2.0, 3.9]) * 1e6
    assert line_of(moved, 5000 + moved) is None
    assert line_of(moved[[0, 2]] * [1, 9], 5000 + moved[[0, 2]]) is None
    assert (
        line_of(np.array([1e3, 1e6, 1e9]), np.array([9e6, 5e6, 1e6])) is not None
    )  # a rate that no size has: told apart


@given(
    latency=st.floats(0, 1e5),
    per_byte=st.floats(1e-3, 1),
    seed=st.integers(0, 10**6),
    wrong=st.integers(0, 2),
)
def test_planted_latency_and_bandwidth_come_back_beside_outliers(
    latency: float, per_byte: float, seed: int, wrong: int
) -> None:
    random = np.random.default_rng(seed)
    moved = np.geomspace(1e3, 1e9, 12)
    time = latency + per_byte * moved
    time[random.choice(12, wrong, replace=False)] *= 3
    found = line_of(moved, time)
    assert found is not None
    assert found[1] == pytest.approx(per_byte, rel=0.01 if wrong else 1e-6)
    if not wrong:
        assert found[0] == pytest.approx(latency, rel=1e-6, abs=1e-6 * (1 + per_byte * 1e3))


def test_sizes_of_latency_alone_are_in_the_table_and_not_in_the_chart() -> None:
    def chart(*sizes: int) -> Series:
        calls = [reduced(10**7 * i, 5000 + 100 * i, size, i, group_ranks="[0, 1]") for i, size in enumerate(sizes)]
        found = view_of([part_of(name, "n0", calls) for name in "ab"]).payloads["bandwidth"]
        assert isinstance(found, Series)
        return found

    mixed = chart(4, 1024, 1 << 20)
    assert mixed.x == [1024, 1 << 20] and "sizes below 512 B" in mixed.subtitle
    # Where there is nothing larger it is what there is.
    small = chart(4, 256)
    assert small.x == [4, 256] and "sizes below" not in small.subtitle


def test_many_nodes_are_their_number_the_first_and_the_last() -> None:
    assert nodes_short(["a", "b"]) == "a, b"
    assert nodes_short([f"n{at:02}" for at in range(32)]) == "32 nodes: n00 … n31"


def test_a_slow_pair_of_nodes_is_named() -> None:
    """Six pairs of nodes; between n0 and n4 the same messages take 1.5 times as long."""
    parts, number = [], 0
    for first, second in (("n0", "n1"), ("n0", "n2"), ("n0", "n3"), ("n0", "n4"), ("n5", "n6"), ("n6", "n7")):
        ranks = f"[{number}, {number + 1}]"
        factor = 1.5 if second == "n4" else 1
        calls = [
            reduced(10**7 * i, round(factor * (1000 * (i + 1) + number)), 1000 * (i + 1), i, group_ranks=ranks)
            for i in range(4)
        ]
        parts += [part_of(f"rank{number + i}", node, calls) for i, node in enumerate((first, second))]
        number += 2
    (slow,) = [notice for notice in notices_of(parts) if notice.rule == "slow_nodes"]
    figures = {figure.metric.key: figure.value for figure in slow.figures}
    assert figures["nodes"] == "n0, n4" and figures["slowdown"] == pytest.approx(1.5, rel=0.01)
    assert figures["node_sets"] == 6
    assert table_of(parts, "nodes")[0]["nodes"] == "n0, n4"


def test_nothing_is_slow_where_all_are_alike() -> None:
    for name in ("synthetic_ddp", "synthetic_groups"):
        assert "slow_nodes" not in {notice.rule for notice in notices_of(sample_parts(name))}


def test_links_have_a_peak_where_the_board_has_them() -> None:
    known = {
        name: peak.link
        for name in ("NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB", "NVIDIA L4")
        if (peak := peak_of(name))
    }
    assert known == {"NVIDIA H100 80GB HBM3": 450, "Tesla V100-SXM2-16GB": 150, "NVIDIA L4": None}
