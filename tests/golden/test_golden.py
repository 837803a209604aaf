"""Answers are those of tests/golden; after a change that means to change them: make golden, and read the diff."""

from __future__ import annotations

import json

import pytest

from tests.golden.rewrite import FOLDER, TOLD, expected, folder_of


@pytest.mark.parametrize("name", [sample.name for sample in TOLD], ids=folder_of)
def test_answers_are_the_expected_ones(name: str) -> None:
    for analysis, text in expected(name).items():
        path = FOLDER / folder_of(name) / f"{analysis}.json"
        assert path.is_file(), f"make golden writes {path}"
        assert json.loads(text) == json.loads(path.read_text(encoding="utf-8")), f"{path} (make golden rewrites it)"


def test_no_expected_answer_is_left_over() -> None:
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.json")}
    assert files == {f"{folder_of(sample.name)}/{analysis.id}.json" for sample in TOLD for analysis in sample.analyses}
