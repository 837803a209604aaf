"""Generated pages of docs/reference are those that are committed; ``make docs`` writes them."""

from __future__ import annotations

import pytest

from docs.generate import REFERENCE, names, text_of


@pytest.mark.parametrize("name", names())
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (REFERENCE / f"{name}.md").read_text(encoding="utf-8") == text_of(name), "make docs"


def test_every_page_of_the_reference_is_generated() -> None:
    assert sorted(path.stem for path in REFERENCE.iterdir()) == names()
