"""Outliers by three standard deviations; for few values, by Dixon's Q.

All arithmetic uses integers, so comparisons with the limits are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

FEWEST = 3
# below this count no value can be three standard deviations from the mean that includes it
MANY = 11
MIN_SIGMAS = 3
# values closer to the median than this are no outliers, however alike the others are
LEAST_PERCENT = 5
# Q (r10) at 99 % confidence, in thousandths, by the number of values: D. B. Rorabacher, "Statistical treatment for rejection
# of deviant values", Analytical Chemistry 63 (1991) 139-146, table 1.
CRITICAL_Q = {3: 994, 4: 926, 5: 821, 6: 740, 7: 680, 8: 634, 9: 598, 10: 568}


def outlier_rows(values: Sequence[int]) -> list[int]:
    """Returns the indices of unusually large values, largest first.

    To find unusually small values, negate all values.
    """
    if len(values) < FEWEST:
        return []
    middle = twice_median(values)
    least = LEAST_PERCENT * abs(middle)
    far = [place for place, value in enumerate(values) if (2 * value - middle) * 100 > least]
    far.sort(key=lambda place: (-values[place], place))
    if len(values) >= MANY:
        return _beyond_sigmas(values, far)
    return far[:1] if far and _fails_q(values) else []


def twice_median(values: Sequence[int]) -> int:
    """Returns twice the median, which is always an integer."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]


def _beyond_sigmas(values: Sequence[int], places: Sequence[int]) -> list[int]:
    """Indices of the values with x - mean > 3 s.

    The test uses s² = (n Σx² - (Σx)²) / (n (n - 1)), but neither divides nor takes a square root.
    """
    count, total = len(values), sum(values)
    least = MIN_SIGMAS * MIN_SIGMAS * count * (count * sum(each * each for each in values) - total * total)
    deviations = [count * values[place] - total for place in places]
    return [place for place, far in zip(places, deviations, strict=True) if far > 0 and (count - 1) * far * far > least]


def _fails_q(values: Sequence[int]) -> bool:
    """Whether the largest value is an outlier by Dixon's Q test.

    The gap to the next value, divided by the range of all values, must exceed the critical value.
    """
    ordered = sorted(values)
    return (ordered[-1] - ordered[-2]) * 1000 > CRITICAL_Q[len(ordered)] * (ordered[-1] - ordered[0])
