"""docs/views.md: each view's answer is what the page says first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.answers import TRACES, documented, lay_out, shown
from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.browser.harness import VIEWS
from tests.depth import sampled

DOCUMENTED = documented()
EVERY = [answer for answer in DOCUMENTED if answer.view in VIEWS]
"""Those of the views that every trace has."""
OTHERS = [answer for answer in DOCUMENTED if answer.view not in VIEWS]
SOME = [
    answer
    for place, answer in enumerate(EVERY)
    if answer.trace == "CPU" or answer.view == "overview" or place % len(TRACES) == list(VIEWS).index(answer.view) % 4
]
"""All views of the trace that every machine has, the Overview of all, and of each other view one more."""


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    lay_out(folder)
    return folder


def test_every_view_has_an_answer_on_every_trace() -> None:
    assert {(answer.view, answer.trace) for answer in EVERY} == {(view, trace) for view in VIEWS for trace in TRACES}


def test_the_page_says_what_the_docs_say(visit: Open, logdir: Path) -> None:
    tab = visit(logdir)
    at_hand = {name for name, source in TRACES.items() if source.exists()}
    differences = []
    for answer in [*sampled(EVERY, SOME), *OTHERS]:
        if answer.trace not in at_hand or ("base_run" in answer.state and len(at_hand) < len(TRACES)):
            continue
        said = shown(tab, answer)
        assert_healthy(tab.frame())
        if said != answer.text:
            differences.append(f"{answer.view} of {answer.trace}: {said!r}, and in the docs {answer.text!r}")
    assert not differences, "\n".join(differences)
