"""The page of phases: the sentence, the pattern of names, and a phase that the other views are limited to."""

from __future__ import annotations

from tests.browser.conftest import Open

RUN = {"run": "synthetic_gpu"}
PHASE = "Optimizer.step#AdamW.step"
CHIP = "[data-testid=phase]"


def test_what_is_wrong_with_a_search_stands_over_the_table(visit: Open) -> None:
    frame = visit().open(view="operators", **RUN)
    frame.get_by_placeholder("Search operators").fill("/[a/")
    said = frame.get_by_text("Not a valid")
    said.wait_for()
    # What lies on top there is the message itself.
    assert said.evaluate(
        """(message) => {
          const { x, y, width, height } = message.getBoundingClientRect()
          return message.contains(document.elementFromPoint(x + width / 2, y + height - 3))
        }"""
    )
