"""Pickles whose objects take more memory than any recording of their size: refused with the reason, before they do."""

from __future__ import annotations

import gzip
import pickle
import tracemalloc

import pytest

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._pickle import machine
from tests.depth import sampled
from tests.snapshots import event, read, snapshot

HEAD = b"\x80\x04}(\x8c\x08segments](e\x8c\x0ddevice_traces]("
LONG = 60_000
TEXT = b"X" + LONG.to_bytes(4, "little") + b"a" * LONG
EVENT = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x02u"
BOMBS = {
    "memoized lists": HEAD + b"]\x94" * 300_000,
    "lists": HEAD + b"(" + b"]" * 500_000,
    "dicts": HEAD + b"(" + b"}" * 500_000,
    "tuples": HEAD + (b"(" + b"]" * 1000 + b"t") * 500,
    "nothings": HEAD + b"(" + b"N" * 3_000_000,
    "copies": HEAD + b"(]" + b"2" * 3_000_000,
    "numbers": HEAD + b"(" + b"J\1\1\1\1" * 500_000,
    "texts": HEAD + b"(" + TEXT * 1000,
    "lines": HEAD + b"(" + (b"V" + b"a" * LONG + b"\n") * 1000,
    # Lists that the memo holds behind events, and old lists that are filled while events are read.
    "nested in events": HEAD + b"](" + (EVENT[:-1] + b"\x8c\x01x](" + b"](]e" * 500 + b"eu\x94") * 200,
    "an old list is filled": b"\x80\x04}(\x8c\x01o]\x94\x8c\x0ddevice_traces](]("
    + EVENT
    + (b"h\x00(" + b"]" * 2000 + b"e0" + EVENT) * 100,
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MiB in any case, so that bombs may be small."""
    monkeypatch.setattr(machine, "FREE_WORDS", 1 << 17)


WAYS = [(name, is_fast) for name in BOMBS for is_fast in (True, False)]


@pytest.mark.parametrize(("name", "is_fast"), sampled(WAYS, [*WAYS[::4], *WAYS[3::4]]))
def test_objects_are_counted(name: str, is_fast: bool, small: None) -> None:
    content = gzip.compress(BOMBS[name])
    tracemalloc.start()
    try:
        told = told_of(content, is_fast)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "too much for" in told and peak < 45 << 20, (told, peak)


def told_of(content: bytes, is_fast: bool) -> str:
    """Why a file is refused, or what is irregular in one of which some events were read."""
    try:
        raw = read(content, is_fast)
    except UnreadableTrace as error:
        return error.what
    assert not raw.report.complete
    return raw.report.issues[0].text


def test_a_long_text_and_a_long_number_are_read_in_part() -> None:
    """A name of 1 MB is cut as before; a number of 1,000 bytes is beyond any column, and its event is dropped."""
    good, long = event("alloc", 512, 512, user_metadata="m" * 1_000_000), event("alloc", 1 << 7999, 512)
    model = snapshot([good, long, good])
    assert len(model.events.size) == 2
    assert max(map(len, model.strings.take(model.events.metadata).to_pylist())) == 16 * 1024


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_events_that_the_machine_reads_cost_nothing_once_they_are_taken(protocol: int, small: None) -> None:
    """5,000 events with stacks of their own, of which the machine reads each: 1 MiB holds one batch."""
    events = [
        event("alloc", 512 * i, 512, i, frames=[{"filename": f"/{i % 7}.py", "line": i % 11, "name": "f"}] * 3)
        for i in range(5_000)
    ]
    raw = read(
        gzip.compress(pickle.dumps({"segments": [], "device_traces": [events]}, protocol=protocol)), is_fast=False
    )
    assert (len(raw.events.size), raw.report.complete) == (5_000, True)
