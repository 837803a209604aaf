"""Answers are those of tests/golden; after a change that means to change them: make golden, and read the diff."""

from __future__ import annotations

import json

import pytest

from tests.golden.rewrite import FOLDER, TOLD, expected, path_of, stem_of


@pytest.mark.parametrize("name", [sample.name for sample in TOLD], ids=stem_of)
def test_answers_are_the_expected_ones(name: str) -> None:
    path = path_of(name)
    assert path.is_file(), f"make golden writes {path}"
    answers, known = json.loads(expected(name)), json.loads(path.read_text(encoding="utf-8"))
    changed = [view for view in answers.keys() | known.keys() if answers.get(view) != known.get(view)]
    assert changed == [], f"{path} (make golden rewrites it)"


def test_no_expected_answer_is_left_over() -> None:
    assert set(FOLDER.glob("*.json")) == {path_of(sample.name) for sample in TOLD}
