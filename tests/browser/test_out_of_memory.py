"""A request for memory that failed: a mark on the curve of memory and a flag on the timeline."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import Open
from tests.browser.expect import assert_healthy
from tests.views.test_out_of_memory import fail, training


def test_it_stands_on_the_curve_and_on_the_timeline(visit: Open, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "worker0.pt.trace.json").write_bytes(fail(training(), 1110).bytes())
    tab = visit(tmp_path)
    frame = tab.follow(run="run", view="memory")
    assert_healthy(frame)
    label = frame.locator("[data-testid=curve] [aria-label]").first.get_attribute("aria-label")
    assert label is not None and label.endswith("Out of memory: 2.00 GiB requested at 110 µs.")
    frame = tab.follow(run="run", view="timeline")
    assert_healthy(frame)
    assert "Out of memory at 110 µs" in frame.inner_text("section[aria-label=Timeline]")
