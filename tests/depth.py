"""How much is tried: ``make quick``, ``make test`` and ``make test-deep`` run the same code and differ in this word alone.

``TEST_DEPTH`` is ``quick``, ``suite`` (by default) or ``deep``. Below ``deep`` seeds are fixed: a run repeats the one
before it. docs/testing.md lists everything that is sampled here, and a test compares the list.
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

# Machines that run these tests are shared and slow: a deadline would measure them.
for name, count in (("quick", 20), ("suite", 50), ("deep", 500)):
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
    """The decorator of a property that is too heavy for the fifty examples that others get."""
    return settings(max_examples={"quick": min(suite, 10), "suite": suite, "deep": deep}[DEPTH])


def sampled(every: Sequence[Case], some: Sequence[Case]) -> Sequence[Case]:
    """Returns ``every`` case in ``make test-deep``, and ``some`` of them elsewhere."""
    return every if DEEP else some
