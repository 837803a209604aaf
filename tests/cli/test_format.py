"""The terminal's formatter passes the same cases as the page's."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path

import pytest

from tb_plugin.format import (
    column_scale,
    family_of,
    family_scales,
    fill,
    format_number,
    format_range,
    format_time,
    format_value,
    printable,
    scale_for,
)
from tb_plugin.payloads import Metric

EVERY = json.loads((Path(__file__).resolve().parents[1] / "format_cases.json").read_text())
CASES = [case for case in EVERY if "text" in case]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['unit']}-{case['value']}-{case.get('column_max', '')}")
def test_case(case):
    scale = scale_for(case["unit"], case["column_max"]) if "column_max" in case else None
    assert format_value(case["value"], case["unit"], scale, UTC) == case["text"]


def test_a_column_has_one_unit():
    scale = column_scale("ns", [15_000_000, None, 20, float("nan")])
    assert [format_number(v, scale) for v in (15_000_000, None, 20, float("nan"))] == ["15.0", "–", "<0.001", "–"]


def test_a_column_has_the_smaller_unit_where_its_smallest_value_would_vanish():
    assert column_scale("ns", [1_500_000, 20]).symbol == "µs"
    assert column_scale("bytes_per_second", [3.53e12, 4e8]).symbol == "GB/s"
    assert column_scale("ns", [98e6, 12]).symbol == column_scale("ns", [1.2e9, 4e3]).symbol == "ms"


@pytest.mark.parametrize("case", [case for case in EVERY if "key" in case], ids=lambda case: case["key"])
def test_a_column_counts_with_its_family(case):
    assert family_of(case["key"], case["unit"]) == case["family"]


@pytest.mark.parametrize("case", [case for case in EVERY if "range" in case], ids=lambda case: case["range"])
def test_bounds_are_in_the_unit_of_the_upper_one(case):
    assert format_range(case["low"], case["high"], case["unit"]) == case["range"]


def test_each_family_of_columns_has_one_unit():
    values = {"total_ns": [2_000_000_000], "self_ns": [3_000_000], "mean_ns": [8_591_000], "calls": [3]}
    metrics = [Metric(key, key, "count" if key == "calls" else "ns", "") for key in values]
    assert [scale.symbol for scale in family_scales(metrics, values.__getitem__)] == ["ms", "ms", "ms", ""]


def test_parts_of_an_event_have_the_unit_of_the_whole():
    values = {"dur_ns": [21_700, 2_000_000], "wait_ns": [900], "start_ns": [5_000_000_000], "before_ns": [8e8]}
    metrics = [Metric(key, key, "ns", "") for key in values]
    assert [scale.symbol for scale in family_scales(metrics, values.__getitem__)] == ["µs", "µs", "s", "ms"]
    assert family_scales(metrics[1:], values.__getitem__)[0].symbol == "ns"


def test_halves_go_up_as_in_the_browser():
    assert [format_value(v, "number") for v in (1.125, 1.005, 10.25)] == ["1.13", "1.01", "10.3"]


def test_time_before_1970():
    assert format_time(-1000, UTC) == "1969-12-31 23:59:59"


def test_templates():
    assert fill("{a} of {b} {c} {}", {"a": "1", "b": "2"}) == "1 of 2 {c} {}"
    assert fill("{a}{per_step}", {"a": "1"}) == "1"


def test_control_characters_do_not_reach_the_terminal():
    assert printable("a\x1b[31m\nb") == r"a\x1b[31m\nb"
    assert printable("\x9b\u202e\u2028\u2066\ud800\u00a0µ") == r"\x9b\u202e\u2028\u2066\ud800 µ"
