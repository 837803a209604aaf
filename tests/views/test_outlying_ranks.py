"""Ranks whose values stand out: by hand, in noise, and among other outliers."""

from __future__ import annotations

import numpy as np
import pytest

from tb_plugin.analysis.outlying_ranks import median_of_others, outlying_ranks
from tests.depth import sampled


def ranks_in(*means: float, steps: int = 10, noise: float = 1.0, seed: int = 0) -> list[int]:
    drawn = np.random.default_rng(seed).normal(0, noise, (len(means), steps))
    return np.flatnonzero(outlying_ranks(np.array(means)[:, None] + drawn)).tolist()


def test_one_or_several_slow_ranks_stand_out() -> None:
    assert ranks_in(100, 100, 130, 100) == [2]
    assert ranks_in(100, 130, 130, 100, 101, 100, 99, 100) == [1, 2]
    assert ranks_in(100, 70, 100, 100) == []
    assert ranks_in(100, 130, 100) == [1]


def test_few_values_show_no_outlier() -> None:
    assert ranks_in(100, 130) == []
    assert ranks_in(100, 100, 130, steps=1) == []
    assert ranks_in(100, 101, 100, 170, steps=1, noise=0) == [3]
    assert not outlying_ranks(np.array([[1.0], [9.0]]), np.array(0.1)).any()


def test_constant_differences_between_ranks_are_noise() -> None:
    assert ranks_in(100, 110, 120, 130, 140, noise=0.1) == []
    assert ranks_in(100, 110, 105, 300, 112, noise=0.1) == [3]


def test_a_given_noise_replaces_differences_between_ranks() -> None:
    values = np.array([[0.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]])
    assert outlying_ranks(values, np.array(0.1)).tolist() == [False, True]
    assert outlying_ranks(values, np.array(5.0)).tolist() == [False, False]
    # A single late step counts like a small delay in each step.
    late = np.array([[0.0] * 16, [144.0, *[0.0] * 15], [0.0] * 16])
    assert outlying_ranks(late, np.array(1.0)).tolist() == [False, True, False]
    assert not outlying_ranks(late, np.array(20.0)).any()


def test_groups_are_tested_at_once_and_missing_values_are_ignored() -> None:
    values = np.random.default_rng(1).normal(100, 1, (3, 5, 8))
    values[1, 4] += 50
    values[1, 4, 2] = values[2, 0, :3] = np.nan
    assert np.argwhere(outlying_ranks(values)).tolist() == [[1, 4]]


@pytest.mark.parametrize("steps", [1, 5, 50])
@pytest.mark.parametrize("ranks", [3, 4, 8, 64])
def test_noise_makes_next_to_no_rank_an_outlier(ranks: int, steps: int) -> None:
    tries = 20 * len(sampled(range(100), range(5)))
    values = np.random.default_rng(ranks).normal(100, 10, (tries, ranks, steps))
    assert outlying_ranks(values).any(axis=-1).mean() <= 0.02


def test_the_median_of_the_others() -> None:
    assert median_of_others(np.array([5.0, 1.0, 9.0, 3.0])).tolist() == [3, 5, 3, 5]
    assert median_of_others(np.array([5.0, 1.0])).tolist() == [1, 5]
