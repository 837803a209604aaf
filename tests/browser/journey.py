"""Steps of a journey, one after the other in a page that stays loaded."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.conftest import Open
from tests.browser.harness import Tab

Step = Callable[[Tab], None]


def walk(visit: Open, *steps: Step, refusals: bool = False) -> None:
    """Goes through steps on the samples. Each begins in a large window without what another left in storage or routes."""
    tab = visit(refusals=refusals)
    for number, step in enumerate(steps):
        if number:
            tab = visit(refusals=refusals) if tab.faults or not tab.renew(stay=True) else tab
            tab.resize(1440, 900)
            if not refusals:
                tab.refusals = tab.faults
        step(tab)
        assert not tab.faults, f"{step.__name__}: {tab.faults}"
