"""Step functions in bins: by hand, and as a recount with fractions, piece by piece, finds them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.lib.intervals import union
from tb_plugin.lib.step_function import Curve, bin_curve, edges_of, indicator, sum_of_intervals
from tests.depth import examples

NAN = math.nan


def curve(*points: tuple[int, float], before: float = NAN) -> Curve:
    times, values = zip(*points, strict=True) if points else ((), ())
    return Curve(np.array(times, np.int64), np.array(values, np.float64), before)


def bins(of: Curve, *edges: int) -> list[tuple[float, float, float]]:
    found = bin_curve(of, np.array(edges, np.int64))
    return list(zip(found.mean.tolist(), found.low.tolist(), found.high.tolist(), strict=True))


def same(one: list[tuple[float, ...]], other: list[tuple[float, ...]]) -> bool:
    return np.allclose(one, other, rtol=1e-14, atol=0, equal_nan=True)


def test_a_value_holds_until_the_next_one() -> None:
    of = curve((10, 4.0), (20, 0.0), before=1.0)
    assert bins(of, 0, 10, 15, 25, 30) == [(1, 1, 1), (4, 4, 4), (2, 0, 4), (0, 0, 0)]


def test_what_was_met_for_no_time_is_still_an_extreme() -> None:
    of = curve((10, 9.0), (10, 2.0), (20, 7.0), (20, 2.0))
    assert bins(of, 10, 20, 30) == [(2, 2, 9), (2, 2, 7)]


def test_a_mean_is_over_the_known_time() -> None:
    of = curve((10, 4.0), (20, NAN), (30, 8.0))
    assert same(bins(of, 0, 10, 20, 30, 40), [(NAN,) * 3, (4, 4, 4), (NAN,) * 3, (8, 8, 8)])
    assert same(bins(of, 0, 20, 35), [(4, 4, 4), (8, 8, 8)])


def test_a_bin_without_time_knows_nothing() -> None:
    assert same(bins(curve((5, 1.0)), 5, 5, 7), [(NAN,) * 3, (1, 1, 1)])


def test_a_narrow_bin_of_a_long_trace_loses_no_digits() -> None:
    of = curve((0, 3e10), (10**15, 7.0), (10**15 + 4, 5e10))
    assert bins(of, 10**15, 10**15 + 2, 10**15 + 8) == [(7, 7, 7), ((7 * 2 + 5e10 * 4) / 6, 7, 5e10)]


def test_edges_are_whole_and_cannot_overflow() -> None:
    assert edges_of(3, 13, 4).tolist() == [3, 5, 8, 10, 13]
    far = 10**18
    assert edges_of(7, far, 4000).tolist() == [7 + (far - 7) * i // 4000 for i in range(4001)]


def test_sums_of_open_intervals() -> None:
    start, end = np.array([0, 5, 10, 20, 30]), np.array([10, 10, 12, 20, 25])
    of = sum_of_intervals(start, end, np.array([0.1, 0.2, 0.4, 9.0, 9.0]))
    assert of.time_ns.tolist() == [0, 5, 10, 12]
    assert np.allclose(of.value, [0.1, 0.3, 0.4, 0.0]) and of.value[-1] == 0.0
    assert sum_of_intervals(start, end).value.tolist() == [1, 2, 1, 0]
    assert bins(indicator(union(start, end)), 0, 12, 24) == [(1, 1, 1), (0, 0, 0)]


values = st.one_of(st.just(NAN), st.integers(-5, 5).map(float), st.floats(-1e12, 1e12))
points = st.lists(st.tuples(st.integers(0, 60), values), max_size=15).map(lambda p: sorted(p, key=lambda x: x[0]))


def recount(of: Curve, left: int, right: int) -> tuple[float, float, float]:
    """Nanosecond by nanosecond, in fractions."""
    area, known, met = Fraction(0), 0, []
    for moment in range(left, right):
        now = [v for t, v in zip(of.time_ns, of.value, strict=True) if t == moment]
        past = [v for t, v in zip(of.time_ns, of.value, strict=True) if t <= moment]
        holds = past[-1] if past else of.before
        met += now or [holds]
        if not math.isnan(holds):
            area, known = area + Fraction(float(holds)), known + 1
    met = [value for value in met if not math.isnan(value)]
    return (float(area / known), min(met), max(met)) if known else (NAN, NAN, NAN)


@given(points, values, st.lists(st.integers(-5, 70), min_size=2, max_size=8).map(sorted))
@examples(suite=25, deep=1_000)
def test_any_bins_of_any_curve(drawn: list[tuple[int, float]], before: float, edges: list[int]) -> None:
    of = curve(*drawn, before=before)
    expected = [recount(of, a, b) for a, b in itertools.pairwise(edges)]
    found = bins(of, *edges)
    assert np.allclose([f[1:] for f in found], [e[1:] for e in expected], rtol=0, atol=0, equal_nan=True)
    assert np.allclose([f[0] for f in found], [e[0] for e in expected], rtol=1e-12, atol=1e-3, equal_nan=True)
    assert all(low <= mean <= high or math.isnan(mean) for mean, low, high in found)


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(-3, 20), st.integers(1, 8)), max_size=12)


@given(spans)
def test_any_open_intervals(drawn: list[tuple[int, int, int]]) -> None:
    start = np.array([a for a, _, _ in drawn], np.int64)
    end = start + np.array([d for _, d, _ in drawn], np.int64)
    weight = np.array([w / 8 for _, _, w in drawn])
    edges = np.arange(-1, 66)
    for of, each in (
        (sum_of_intervals(start, end, weight), weight),
        (sum_of_intervals(start, end), np.ones(len(drawn))),
    ):
        expected = [float(each[(start <= t) & (end > t)].sum()) for t in edges[:-1]]
        assert bin_curve(of, edges).mean.tolist() == expected
