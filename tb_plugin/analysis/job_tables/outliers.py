"""Outliers: by three standard deviations, or by Dixon's Q for few values.

All arithmetic is integer, so limits are exact.
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


def outlying(values: Sequence[int]) -> list[int]:
    """Returns positions of values that are outliers above the others, largest first. Negate values to find low outliers."""
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
    """Returns the sum of the two middle values; twice the middle one for an odd number of values."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]


def _beyond_sigmas(values: Sequence[int], places: Sequence[int]) -> list[int]:
    """x - mean > 3 s with s² = (n Σx² - (Σx)²) / (n (n - 1)), without a division or a root."""
    count, total = len(values), sum(values)
    least = MIN_SIGMAS * MIN_SIGMAS * count * (count * sum(each * each for each in values) - total * total)
    deviations = [count * values[place] - total for place in places]
    return [place for place, far in zip(places, deviations, strict=True) if far > 0 and (count - 1) * far * far > least]


def _fails_q(values: Sequence[int]) -> bool:
    """Dixon's Q: gap to the next value over the range, against the critical value."""
    ordered = sorted(values)
    return (ordered[-1] - ordered[-2]) * 1000 > CRITICAL_Q[len(ordered)] * (ordered[-1] - ordered[0])
