"""Which of some values stand out: by three standard deviations, or, of few, by Dixon's test.

Whole numbers all the way: a limit is met exactly or not.
"""

from __future__ import annotations

from collections.abc import Sequence

FEWEST = 3
MANY = 11
"""From so many values on one of them can be three standard deviations away from the mean of all, itself included."""
SIGMAS = 3
LEAST_PERCENT = 5
"""A value that differs less from the median is nothing to look at, however alike the others are."""
# Q (r10) at 99 % confidence, in thousandths, by the number of values: D. B. Rorabacher, "Statistical treatment for rejection
# of deviant values", Analytical Chemistry 63 (1991) 139-146, table 1.
CRITICAL_Q = {3: 994, 4: 926, 5: 821, 6: 740, 7: 680, 8: 634, 9: 598, 10: 568}


def outlying(values: Sequence[int]) -> list[int]:
    """Returns the places of values that stand out above the others, the largest first; negate them to ask for those below."""
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
    """Returns the sum of the two values in the middle: of an odd number twice the one in the middle."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]


def _beyond_sigmas(values: Sequence[int], places: Sequence[int]) -> list[int]:
    """x - mean > 3 s with s² = (n Σx² - (Σx)²) / (n (n - 1)), without a division or a root."""
    count, total = len(values), sum(values)
    least = SIGMAS * SIGMAS * count * (count * sum(each * each for each in values) - total * total)
    away = [count * values[place] - total for place in places]
    return [place for place, far in zip(places, away, strict=True) if far > 0 and (count - 1) * far * far > least]


def _fails_q(values: Sequence[int]) -> bool:
    """The gap to the next value over the whole range, against the critical value."""
    ordered = sorted(values)
    return (ordered[-1] - ordered[-2]) * 1000 > CRITICAL_Q[len(ordered)] * (ordered[-1] - ordered[0])
