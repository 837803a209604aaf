"""Names and labels stand in the order of their numbers, whatever somebody writes into them."""

from __future__ import annotations

from tb_plugin.analysis.job_tables.stages import ranks_in
from tb_plugin.views.distributed.natural_order import in_order, is_number, natural_key

HUGE = "9" * 5000
"""Python refuses to read a number of more than 4,300 digits."""


def test_numbers_in_names_count_by_their_value() -> None:
    assert sorted(["rank10", "rank2", "host 3 rank1", "rank"], key=natural_key) == [
        "host 3 rank1",
        "rank",
        "rank2",
        "rank10",
    ]
    assert sorted(["b", "10", "9", None, "a"], key=in_order) == ["9", "10", None, "a", "b"]


def test_thousands_of_digits_are_a_text() -> None:
    assert sorted([f"rank{HUGE}", "rank2"], key=natural_key) == [f"rank{HUGE}", "rank2"]
    assert sorted([HUGE, "2", "a"], key=in_order) == ["2", HUGE, "a"]
    assert not is_number(HUGE) and is_number("9" * 19)
    assert ranks_in(f"3, {HUGE}, x, 7") == (3, 7)
