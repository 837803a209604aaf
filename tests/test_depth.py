"""Rules for what ``make test`` samples."""

from __future__ import annotations

import pytest

from tests.depth import DEEP, examples, sampled


def test_what_is_sampled_is_some_of_all() -> None:
    assert sampled((1, 2, 3), (1, 3)) == ((1, 2, 3) if DEEP else (1, 3))
    for some in ((), (1, 4)):
        with pytest.raises(ValueError, match="not some of"):
            sampled((1, 2, 3), some)


def test_deep_tries_more() -> None:
    with pytest.raises(ValueError, match="no more"):
        examples(suite=60, deep=60)
