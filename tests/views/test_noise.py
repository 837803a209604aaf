"""Intervals of changes, judged by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from tb_plugin.analysis.noise import _T_QUANTILE, change_intervals, is_significant

STEP_NS = 100_000_000


def share_found(seeds: int, steps: tuple[int, int], noise: float, change: float = 0.0) -> float:
    found = 0
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        base, exp = (STEP_NS * (1 + noise * random.standard_normal((1, count))) for count in steps)
        found += int(is_significant(*change_intervals(base.astype(np.int64), (exp * (1 + change)).astype(np.int64)))[0])
    return found / seeds


@pytest.mark.parametrize("steps", [(3, 3), (5, 5), (10, 10), (20, 20), (3, 20), (5, 10)], ids=str)
def test_false_alarms_stay_below_5_percent(steps: tuple[int, int]) -> None:
    assert share_found(400, steps, noise=0.05) < 0.05


def test_a_change_of_5_percent_is_found_at_2_percent_noise() -> None:
    assert share_found(200, (10, 10), noise=0.02, change=0.05) >= 0.9


def test_the_interval_covers_the_true_change_of_skewed_times() -> None:
    covered = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        base, exp = STEP_NS + random.exponential(STEP_NS / 20, (2, 1, 10))
        low, high = change_intervals(base, exp + 1_000_000)
        covered += bool(low[0] <= 1_000_000 <= high[0])
    assert covered >= 190


def test_results_depend_only_on_the_data() -> None:
    random = np.random.default_rng(1)
    base, exp = random.integers(90, 110, (4, 7)), random.integers(95, 120, (4, 5))
    low, high = change_intervals(base, exp)
    again_low, again_high = change_intervals(base, exp)
    turned_low, turned_high = change_intervals(exp, base)
    assert (low == again_low).all() and (high == again_high).all()
    assert (turned_low == -high).all() and (turned_high == -low).all()


def test_equal_steps_have_exact_intervals() -> None:
    low, high = change_intervals(np.full((1, 3), 100), np.full((1, 4), 130))
    assert (low[0], high[0]) == (30, 30) and is_significant(low, high)[0]
    low, high = change_intervals(np.full((1, 3), 100), np.full((1, 3), 100))
    assert not is_significant(low, high)[0]


def test_many_steps_need_bounded_memory() -> None:
    samples = np.random.default_rng(1).integers(90, 110, (1, 5_000))
    low, high = change_intervals(samples, samples[:, ::-1] + 1)
    assert 0 < low[0] < 1 < high[0]
    half_width = 1.96 * samples.std() * (2 / samples.shape[1]) ** 0.5
    assert high[0] - low[0] == pytest.approx(2 * half_width, rel=0.1)


@pytest.mark.parametrize(("df", "exact"), [(2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (29, 2.0452)])
def test_quantiles_of_students_t(df: int, exact: float) -> None:
    assert sum(term / df**power for power, term in enumerate(_T_QUANTILE)) == pytest.approx(exact, rel=0.01)
