"""Whatever the damage: no exception but UnreadableTrace, and the same answer for every chunk size."""

# ruff: noqa: UP031  raw events and kernel names stay on one line, and JSON is full of braces
from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Decimal

from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome import times
from tb_plugin.formats._chrome.times import NeedsDigits, from_digits, from_numbers
from tests.depth import examples

from .sources import names, op, plain, read, read_events

JUNK = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\n",
    b"\0",
    b"\xff",
    b"NaN",
    b'},{"ph":',
    b'"traceEvents": [',
    b":",
    rb"\ud800",
    b"null",
]
BASE = json.dumps(
    {
        "schemaVersion": 1,
        "traceEvents": [op(f"op {i}", ts=i, x=[{"name": i}], **{"Input Dims": [[i]]}) for i in range(40)],
        "traceName": "x",
    },
    indent=1,
).encode()

damages = st.lists(
    st.tuples(st.integers(0, len(BASE)), st.integers(0, 30), st.sampled_from(JUNK)), min_size=1, max_size=6
)


def outcome(content: bytes, chunk_bytes: int) -> object:
    try:
        return plain(read(content, chunk_bytes))
    except UnreadableTrace as error:
        return error.what


@examples(suite=25, deep=1_000)
@given(damages, st.integers(64, 3000))
def test_damage_never_raises_and_never_depends_on_the_chunk(places, chunk_bytes):
    content = bytearray(BASE)
    for at, removed, junk in places:
        content[at : at + removed] = junk
    assert outcome(bytes(content), chunk_bytes) == outcome(bytes(content), 1 << 20)


@examples(suite=25, deep=500)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=20), st.integers(64, 500), st.booleans())
def test_every_valid_name_survives(texts, chunk_bytes, escaped):
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    text = json.dumps({"traceEvents": [op(name) for name in texts]}, ensure_ascii=escaped)
    trace = read(text, chunk_bytes)
    assert names(trace) == texts
    assert trace.report.issues == ()


@given(st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), max_size=30))
def test_a_raw_name_in_a_damaged_event_costs_no_other(name):
    event = '{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": 1, "dur": N/A}' % name
    trace = read_events(op("before"), event, op("after"))
    assert names(trace)[0] == "before"
    assert names(trace)[-1] == "after"


micros = st.decimals(min_value=0, max_value=8_796_093_022_207, places=3)
anything = st.decimals(min_value=-(10**15), max_value=10**15, places=3)


@given(st.lists(micros, min_size=1, max_size=20))
def test_floats_below_2_to_43_keep_every_nanosecond(values):
    expected = [int(value * 1000) for value in values]
    assert from_numbers([float(value) for value in values])[0].tolist() == expected


@given(st.lists(anything, min_size=1, max_size=20))
def test_digits_are_exact_everywhere(values):
    expected = [int(value * 1000) for value in values]
    assert from_digits([str(value).encode() for value in values])[0].tolist() == expected


# What Kineto writes since 2024: microseconds since 1970 and three digits. int64 ends in 2262, at 9_223_372_036_854_775.807.
epochs = st.decimals(min_value=10**15, max_value=9_999_999_999_999_999, places=3)
rim = st.decimals(min_value=9_223_372_036_854_775, max_value=9_223_372_036_854_776, places=3)


@given(st.lists(st.one_of(epochs, rim), min_size=1, max_size=20))
def test_digits_of_epoch_times_are_exact_to_the_end_of_64_bits(values):
    expected = [int(value * 1000) for value in values]
    limit = 2**63 - 1
    got, clamped = from_digits([str(value).encode() for value in values])
    assert got.tolist() == [min(value, limit) for value in expected]
    assert clamped == sum(value > limit for value in expected)


def test_kinetos_epoch_times_are_read_at_once(monkeypatch):
    monkeypatch.setattr(times, "_one_by_one", None)  # which takes 20 times as long
    assert from_digits([b"1712195495505582.988", b"0.001"])[0].tolist() == [1712195495505582988, 1]


@given(st.lists(st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False)), max_size=10))
def test_numbers_of_any_size_stay_in_64_bits(values):
    try:
        got, clamped = from_numbers(values)
    except NeedsDigits:
        got, clamped = from_digits([repr(value).encode() for value in values])
    limit = 2**63 - 1
    whole = [
        int((Decimal(repr(value)) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))
        if abs(value) < 1e15
        else int(Decimal(repr(value)) * 1000)
        for value in values
    ]
    assert all(abs(a - max(-limit, min(limit, b))) <= 1 for a, b in zip(got.tolist(), whole, strict=True))
    assert clamped == sum(abs(value) > limit for value in whole)
