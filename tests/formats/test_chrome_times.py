"""Microseconds to nanoseconds at the places where a way of reading them ends: one step on either side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.formats._chrome.times import (
    EXACT_BELOW_US,
    INT64_MAX,
    NeedsDigits,
    from_digits,
    from_numbers,
    is_time,
    nanoseconds,
)

LAST = 2**43 - 1
"""The last whole microsecond whose nanoseconds a float64 holds: its spacing there is 2^-10 us, and 2^-9 from 2^43 on."""


def test_floats_are_exact_up_to_the_boundary_and_nowhere_beyond() -> None:
    texts = [f"{LAST}.{thousandth:03d}" for thousandth in range(1000)]
    expected = [LAST * 1000 + thousandth for thousandth in range(1000)]
    found, clamped = from_numbers([float(text) for text in texts])
    assert (found.tolist(), clamped) == (expected, 0)
    assert [nanoseconds(float(text)) for text in texts] == expected
    # One power of two further on a quarter of the nanoseconds would come out wrong: that is why digits are asked for.
    beyond = 2**44 - 1
    wrong = [round((float(f"{beyond}.{i:03d}") - beyond) * 1000) != i for i in range(1000)]
    assert 0 < sum(wrong) < 1000


@pytest.mark.parametrize("sign", [1, -1])
def test_the_boundary_itself_needs_digits(sign: int) -> None:
    edge = sign * float(2**43)
    assert EXACT_BELOW_US == 2.0**43
    for value in (edge, edge * 1.5, edge * 2):
        with pytest.raises(NeedsDigits):
            from_numbers([1.5, value])
        with pytest.raises(NeedsDigits):
            nanoseconds(value)
    inside = math.nextafter(edge, 0)
    assert from_numbers([inside])[0].tolist() == [nanoseconds(inside)] == [sign * 2**43 * 1000 - sign]


def test_whole_microseconds_are_clamped_where_64_bits_end() -> None:
    most = INT64_MAX // 1000
    assert from_numbers([1, most, -most])[0].tolist() == [1000, most * 1000, -most * 1000]
    assert from_numbers([1, most, -most])[1] == 0
    found, clamped = from_numbers([1, most + 1, -most - 1])
    assert (found.tolist(), clamped) == ([1000, INT64_MAX, -INT64_MAX], 2)
    found, clamped = from_numbers([2**70, 3])
    assert (found.tolist(), clamped) == ([INT64_MAX, 3000], 1)


@pytest.mark.parametrize(
    ("text", "expected", "clamped"),
    [
        ("9223372036854775.807", INT64_MAX, 0),
        ("9223372036854775.808", INT64_MAX, 1),
        ("18446744073709551.615", INT64_MAX, 1),
        ("99999999999999999.999", INT64_MAX, 1),
        ("999999999999999999.999", INT64_MAX, 1),
        ("-9223372036854775.807", -INT64_MAX, 0),
        ("1e20", INT64_MAX, 1),
        ("1e21", INT64_MAX, 1),
        ("-1e400", -INT64_MAX, 1),
        ("1704161511420306.491", 1704161511420306491, 0),
        ("1704161511420306.4915", 1704161511420306492, 0),
        ("0.0005", 0, 0),
        ("0.0015", 2, 0),
        ("7", 7000, 0),
        ('"7.001"', 7001, 0),
    ],
)
def test_digits_where_64_bits_end(text: str, expected: int, clamped: int) -> None:
    alone, count = from_digits([text.encode()])
    assert (alone.tolist(), count) == ([expected], clamped)
    # Beside plain ones, which are read at once.
    beside, count = from_digits([b"1.000", text.encode(), b"2.000"])
    assert (beside.tolist(), count) == ([1000, expected, 2000], clamped)


def test_nothing_is_no_column() -> None:
    assert len(from_numbers([])[0]) == len(from_digits([])[0]) == 0


@pytest.mark.parametrize("value", [1, 1.5, -1, "1.5", b"1.5", b'"2"', " 3 "])
def test_what_is_a_time(value: object) -> None:
    assert is_time(value)


@pytest.mark.parametrize("value", [None, True, math.nan, math.inf, -math.inf, "nan", "x", b"null", [], {}])
def test_what_is_none(value: object) -> None:
    assert not is_time(value)


def test_a_seeded_column_is_the_one_that_single_values_give() -> None:
    values = (np.random.default_rng(5).random(2000) * 2**43).tolist()
    assert from_numbers(values)[0].tolist() == [nanoseconds(value) for value in values]


PLAIN = st.builds(
    lambda whole, rest, end: f"{whole}.{rest:03d}{end}",
    st.integers(0, 10**17),
    st.integers(0, 999),
    st.sampled_from(["", "", "\t"]),
)
ODD = st.one_of(
    st.sampled_from(
        [
            "",
            ".",
            ".123",
            "1.",
            "-1.000",
            "+1.000",
            "1e5",
            "1_0.000",
            "1.000 2.000",
            "1.00",
            "1.0000",
            "\t1.000",
            "0x1.000",
        ]
    ),
    st.text(st.sampled_from('0123456789. \t\n-+eE_"\u0661'), max_size=24),
)


@given(st.lists(PLAIN, min_size=1), st.lists(ODD, max_size=1))
def test_texts_read_at_once_are_what_each_gives_alone(plain: list[str], odd: list[str]) -> None:
    """Whatever stands among them: a text is never read across its end, and what is no time is refused as before."""
    for texts in (plain, [*plain, *odd], [*odd, *plain]):
        try:
            alone = [nanoseconds(text) for text in texts]
        except ValueError:
            with pytest.raises(ValueError):
                from_numbers(texts)
            continue
        clamped = [max(-INT64_MAX, min(INT64_MAX, value)) for value in alone]
        assert from_numbers(texts)[0].tolist() == clamped
        if not any(sign in text for text in texts for sign in '"\t\n\u0661'):
            quoted = [f'"{text}"'.encode() for text in texts]
            assert (
                from_digits(quoted)[0].tolist() == from_digits([text.encode() for text in texts])[0].tolist() == clamped
            )


def test_texts_of_ascends_form_take_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["1736408883704643.212", "7.000", "9223372036854775.807"]
    monkeypatch.setattr("tb_plugin.formats._chrome.times._one_by_one", None)
    expected = [1736408883704643212, 7000, INT64_MAX]
    assert from_numbers(texts)[0].tolist() == expected
    assert from_numbers([f"{text}\t" for text in texts])[0].tolist() == expected
    assert from_digits([f'"{text}"'.encode() for text in texts])[0].tolist() == expected
