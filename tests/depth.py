"""Depth of the tests: what ``make quick`` and ``make test`` sample of ``make test-deep``.

``TEST_DEPTH`` is ``quick``, ``suite`` (by default) or ``deep``. Below ``deep`` seeds are fixed: two runs try the same.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

DEPTHS = ("quick", "suite", "deep")
DEPTH = os.environ.get("TEST_DEPTH", "suite")
if DEPTH not in DEPTHS:
    raise ValueError(f"TEST_DEPTH is one of {', '.join(DEPTHS)}, not {DEPTH!r}")
DEEP = DEPTH == "deep"

Case = TypeVar("Case")
needs_time = pytest.mark.skipif(DEPTH == "quick", reason="make quick leaves out what takes seconds")
"""For tests on recordings and on inputs of many megabytes."""

deep = pytest.mark.skipif(not DEEP, reason="make test-deep")
"""For tests that take long and of which a quicker one stands beside them."""

# Machines that run these tests are shared and slow: a deadline would measure them.
for name, count in (("quick", 20), ("suite", 20), ("deep", 500)):
    settings.register_profile(
        name,
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=name != "deep",
        print_blob=True,
    )
settings.load_profile(DEPTH)


def examples(suite: int, deep: int) -> settings:
    """The decorator of a property that needs another number of examples than most."""
    if deep <= suite:
        raise ValueError(f"deep tries no more than suite: {deep} <= {suite}")
    return settings(max_examples={"quick": min(suite, 10), "suite": suite, "deep": deep}[DEPTH])


def sampled(every: Sequence[Case], some: Sequence[Case]) -> Sequence[Case]:
    """Returns ``every`` case in ``make test-deep``, and ``some`` of them elsewhere."""
    if not some or any(case not in every for case in some):
        raise ValueError(f"{some} are not some of {every}")
    return every if DEEP else some
