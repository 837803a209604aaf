"""The pure parts of ``make bench-timeline``: bounds, tables, and the section's place."""

from __future__ import annotations

import pytest

from benchmarks import report
from benchmarks.timeline import Bound, Measured, bounds_of, section

HEADING = "1 May 2027, 12:00 UTC"


def measured(slowest: float = 50.0, **change: object) -> Measured:
    frames = {"still": [99.0], "zoom in": [16.7] * 96 + [20.0] * 4, "pan": [], "zoom out": []}
    frames["after zoom in"] = [16.7, slowest]
    requests = {"warm-up": [(90.0, 300e3)], "measured": [(float(ms), 1000.0 * ms) for ms in range(1, 41)]}
    found = Measured(
        "v100", 1_000_000, 2 * 10**9, 4.5, 200.0, [900, 300, 310], frames, ["99 µs"], requests, 50e6, 2e8, 0.1
    )
    return Measured(**{**vars(found), **change})


def test_each_condition_is_about_the_measured_pass() -> None:
    found = {bound.what: (bound.value, bound.row.split("|")[-2].strip()) for bound in bounds_of(measured())}
    assert found == {
        "p95 between frames while moving": (16.7, "holds"),
        "slowest frame, data arriving included": (50.0, "holds"),
        "tile request p95": (38.0, "holds"),
        "largest tile answer": (40.0, "holds"),
        "first tiles after the click on Timeline": (200.0, "holds"),
        "first tiles, first visit of the page": (900, "**FAILS**"),
        "first tiles, median of 2 more": (305, "holds"),
        "browser heap": (50.0, "holds"),
    }


def test_a_slow_frame_fails_and_no_request_is_no_promise() -> None:
    rows = [bound.row for bound in bounds_of(measured(slowest=61.0, requests={"measured": []}))]
    assert "| slowest frame, data arriving included | 61.0 ms | 60 ms | **FAILS** |" in rows
    assert "| tile request p95 | none seen | 40 ms | |" in rows


@pytest.mark.parametrize(("value", "word"), [(18.0, "holds"), (18.1, "**FAILS**")])
def test_a_bound_is_within_its_limit(value: float, word: str) -> None:
    assert Bound("x", value, 18, "ms").row.endswith(f"| {word} |")


def test_the_section_stays_at_the_end_of_the_document() -> None:
    document = "# Benchmarks\n\n## one\n\n1\n\n## two\n\n2\n"
    once = report.pinned(document, section(HEADING, measured()))
    again = report.pinned(once, section("2 May 2027", measured()))
    assert HEADING in once and HEADING not in again and again.count(report.PINNED) == 1
    newer = report.placed(report.placed(again, "## three\n\n3"), "## four\n\n4")
    heads = [line for line in newer.splitlines() if line.startswith("#")]
    assert heads == ["# Benchmarks", "## four", "## three", "## The timeline, 1,000,000 events of v100"]
