"""Perfetto traces of any tool, each rule by a trace of a few packets written by hand."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from tb_plugin import registry
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import RawTrace
from tests.pftraces import CLEARED, NEEDS_STATE, annotation, message, number, packet, text, varint

from .sources import Bytes, issues

(PERFETTO,) = [reader for reader in registry.readers() if reader.id == "perfetto"]
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
THREAD, OTHER, PROCESS, VALUES = 11, 12, 13, 14
MONOTONIC, BOOT, REAL = 3, 6, 1


def read(*packets: bytes) -> RawTrace:
    return PERFETTO.read(Bytes(b"".join(packets), "a.pftrace"), ReadOptions(), no_progress)


def described(uuid: int, *parts: bytes) -> bytes:
    return packet(message(60, number(1, uuid), *parts))


def thread(uuid: int, pid: int, tid: int, name: str) -> bytes:
    return described(uuid, message(4, number(1, pid), number(2, tid), text(5, name)))


def event(
    time: int, kind: int, track: int | None, *parts: bytes, sequence: int = 1, flags: int = 0, **more: int
) -> bytes:
    """A packet with a track event; ``more`` is ``clock``."""
    about = number(9, kind) + (number(11, track) if track is not None else b"")
    head = [number(8, time), number(10, sequence), number(13, flags)]
    head += [number(58, more["clock"])] if "clock" in more else []
    return packet(*head, message(11, about, *parts))


def called(name: str) -> bytes:
    return text(23, name)


def rows(raw: RawTrace) -> list[tuple[Any, ...]]:
    """Name, start, duration, process and thread of each row, in order of time."""
    every = zip(raw.name, raw.start_ns.tolist(), raw.dur_ns.tolist(), raw.pid, raw.tid, strict=True)
    found = [(raw.strings[n], start, dur, raw.strings[p], raw.strings[t]) for n, start, dur, p, t in every]
    return sorted(found, key=lambda row: (row[1], -row[2]))


MAIN = thread(THREAD, 7, 70, "main")


def test_slices_nest_by_time_on_their_thread() -> None:
    raw = read(
        MAIN,
        event(1000, BEGIN, THREAD, called("outer")),
        event(1500, BEGIN, THREAD, called("inner")),
        event(1700, END, THREAD),
        event(2001, END, THREAD),
    )
    assert rows(raw) == [("outer", 1000, 1001, "7", "70"), ("inner", 1500, 200, "7", "70")]
    assert raw.thread_names == {("7", "70"): "main"} and raw.report.complete and raw.report.format == "perfetto"


def test_runs_of_ends_close_the_innermost_first_where_the_trace_is_not_pytorchs() -> None:
    """PyTorch alone pairs the first begin of a run with the first end."""
    begun = [event(10 * i, BEGIN, THREAD, called(name)) for i, name in enumerate("ab", 1)]
    assert rows(read(MAIN, *begun, event(30, END, THREAD), event(40, END, THREAD))) == [
        ("a", 10, 30, "7", "70"),
        ("b", 20, 10, "7", "70"),
    ]


def test_a_track_may_be_described_behind_its_events_and_by_another_writer() -> None:
    raw = read(event(1, BEGIN, THREAD, called("a"), sequence=5), event(2, END, THREAD, sequence=5), MAIN)
    assert rows(raw) == [("a", 1, 1, "7", "70")]


def test_tracks_of_a_process_and_of_nothing_are_threads_of_their_own() -> None:
    process = described(PROCESS, message(3, number(1, 7), text(6, "server")))
    requests = described(OTHER, text(2, "requests"), number(5, PROCESS))
    both = [event(t, kind, uuid, called("a")) for uuid in (OTHER, 99) for t, kind in ((1, BEGIN), (2, END))]
    raw = read(process, requests, *both)
    (_, _, _, pid, tid), (_, _, _, nowhere, _) = rows(raw)
    assert pid == "7" and raw.process_names == {"7": "server"} and raw.thread_names["7", tid] == "requests"
    assert nowhere == "(no process)"


def test_interned_names_hold_until_the_state_of_their_sequence_is_cleared() -> None:
    def interned(sequence: int, name: str, flags: int = CLEARED) -> bytes:
        names = message(12, message(2, number(1, 1), text(2, name)), message(1, number(1, 3), text(2, "cat")))
        return packet(number(10, sequence), number(13, flags), names)

    def slice_(time: int, sequence: int) -> bytes:
        named = number(10, 1) + number(3, 3)
        begin = event(time, BEGIN, THREAD, named, sequence=sequence, flags=NEEDS_STATE)
        return begin + event(time + 1, END, THREAD, sequence=sequence)

    raw = read(
        MAIN, interned(1, "one"), interned(2, "two"), slice_(10, 1), slice_(20, 2), interned(1, "new"), slice_(30, 1)
    )
    assert [row[0] for row in rows(raw)] == ["one", "two", "new"]
    assert {raw.strings[i] for i in raw.category} == {"cat"}


def test_events_whose_state_was_lost_are_left_out_and_counted() -> None:
    begin = event(10, BEGIN, THREAD, number(10, 1), flags=NEEDS_STATE)
    dropped = packet(number(10, 1), number(42, 1))
    assert issues(read(MAIN, dropped, begin))["lost_state"] == 1
    assert "lost_state" not in issues(read(MAIN, packet(number(10, 1), number(13, CLEARED)), begin))


def test_defaults_of_a_sequence_say_the_track_and_the_clock() -> None:
    snapshot = packet(
        message(6, *(message(1, number(1, c), number(2, t)) for c, t in ((MONOTONIC, 100), (BOOT, 5100))))
    )
    defaults = packet(
        number(10, 1), number(13, CLEARED), message(59, message(11, number(11, THREAD)), number(58, MONOTONIC))
    )
    raw = read(MAIN, snapshot, defaults, event(200, BEGIN, None, called("a")), event(300, END, None))
    assert rows(raw) == [("a", 5200, 100, "7", "70")]


def test_a_clock_of_a_sequence_may_state_steps_in_a_unit_of_its_own() -> None:
    own = message(1, number(1, 64), number(2, 10), number(3, 1), number(4, 1000))
    snapshot = packet(number(10, 1), message(6, own, message(1, number(1, BOOT), number(2, 1_000_000))))
    steps = [event(t, kind, THREAD, called("a"), clock=64) for t, kind in ((5, BEGIN), (2, END))]
    assert rows(read(MAIN, snapshot, *steps)) == [("a", 1_005_000, 2000, "7", "70")]


def test_a_clock_that_only_another_one_knows_is_reached_over_it() -> None:
    def compared(**times: int) -> bytes:
        return packet(message(6, *(message(1, number(1, int(c[1:])), number(2, t)) for c, t in times.items())))

    raw = read(
        MAIN, compared(c65=0, c3=50), compared(c3=60, c6=1060, c1=9_000_000_000),
        event(5, BEGIN, THREAD, called("a"), clock=65, sequence=0), event(6, END, THREAD, clock=65, sequence=0),
    )  # fmt: skip
    assert rows(raw) == [("a", 1055, 1, "7", "70")]
    assert raw.base_time_ns == 9_000_000_000 - 1060


def test_an_unknown_clock_is_taken_as_it_is_and_told() -> None:
    raw = read(MAIN, event(5, BEGIN, THREAD, called("a"), clock=9), event(6, END, THREAD, clock=9))
    assert rows(raw) == [("a", 5, 1, "7", "70")] and issues(raw)["unknown_clock"] == 1


def test_counters_have_units_and_may_state_changes() -> None:
    def counter(uuid: int, name: str, *parts: bytes) -> bytes:
        return described(uuid, text(2, name), number(5, PROCESS), message(8, *parts))

    raw = read(
        described(PROCESS, message(3, number(1, 7), text(6, "server"))),
        counter(20, "heap", number(3, 3), number(4, 1024)),
        counter(21, "queue", number(5, 1)),
        counter(22, "power", text(6, "W")),
        event(1, COUNTER, 20, number(30, 2)),
        event(2, COUNTER, 21, number(30, 5)),
        event(3, COUNTER, 21, number(30, -2)),
        event(4, COUNTER, 22, varint(44 << 3 | 1) + struct.pack("<d", 1.5)),
    )
    told = [(raw.strings[n], v) for n, v in zip(raw.counters.name, raw.counters.value.tolist(), strict=True)]
    assert told == [("heap (bytes)", 2048), ("queue", 5), ("queue", 3), ("power (W)", 1.5)]
    assert {raw.strings[p] for p in raw.counters.pid} == {"7"}


def test_values_beside_a_slice_belong_to_their_counters() -> None:
    raw = read(
        MAIN, described(20, text(2, "misses"), number(5, THREAD), message(8)),
        event(1, BEGIN, THREAD, called("a"), number(31, 20), number(12, 4)), event(2, END, THREAD),
    )  # fmt: skip
    assert [raw.strings[n] for n in raw.counters.name] == ["misses, thread 70"] and raw.counters.value.tolist() == [4]


VALUES_OF_ANNOTATIONS = [
    (True, "true"), (7, 7), (-3, -3), (1.5, 1.5), ("a\"b\n<b>", 'a"b\n<b>'), ([1, [2]], "[1, [2]]"),
    ({"k": {"l": 1}}, '{"k": {"l": 1}}'), (float("nan"), "nan"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "told"), VALUES_OF_ANNOTATIONS, ids=repr)
def test_annotations_become_arguments(value: Any, told: Any) -> None:
    raw = read(MAIN, event(1, BEGIN, THREAD, called("a"), annotation("key", value)), event(2, END, THREAD))
    (column,) = raw.others
    assert column.key == "key"
    assert (raw.strings[column.value[0]] if column.is_text else column.value[0]) == told


def test_annotations_of_begin_and_end_belong_to_the_slice() -> None:
    raw = read(
        MAIN, event(1, BEGIN, THREAD, called("a"), annotation("x", 1)), event(2, END, THREAD, annotation("y", 2)),
    )  # fmt: skip
    assert {column.key: column.value.tolist() for column in raw.others} == {"x": [1], "y": [2]}


def test_names_of_annotations_may_be_interned() -> None:
    names = packet(number(10, 1), number(13, CLEARED), message(12, message(3, number(1, 4), text(2, "url"))))
    noted = message(4, number(1, 4), text(6, "x"))
    raw = read(MAIN, names, event(1, BEGIN, THREAD, called("a"), noted), event(2, END, THREAD))
    assert [column.key for column in raw.others] == ["url"]


def test_bundles_of_compressed_packets_are_unpacked() -> None:
    begin, end = event(1, BEGIN, THREAD, called("a")), event(2, END, THREAD)
    assert rows(read(packet(message(50, zlib.compress(MAIN + begin))), end)) == [("a", 1, 1, "7", "70")]


def test_damaged_bundles_are_counted() -> None:
    bundle = zlib.compress(MAIN)[:-4]
    begin, end = event(1, BEGIN, THREAD, called("a")), event(2, END, THREAD)
    assert issues(read(packet(message(50, b"\x78\x9cxx")), packet(message(50, bundle)), begin, end))["bad_bundle"] == 2


def test_what_is_not_shown_is_counted_by_what_it_is() -> None:
    raw = read(MAIN, event(1, BEGIN, THREAD, called("a")), event(2, END, THREAD), packet(number(8, 1), message(1, b"")))
    (issue,) = raw.report.issues
    assert issue.code == "not_shown" and "kernel" in issue.text and issue.count == 1


def test_what_only_describes_the_recording_is_not_told() -> None:
    about = [packet(number(3, 9), number(10, 1), message(field, b"")) for field in (33, 35, 89)]
    assert read(MAIN, *about, event(1, BEGIN, THREAD, called("a")), event(2, END, THREAD)).report.issues == ()


def test_events_of_an_older_kind_state_their_phase() -> None:
    old = message(6, number(1, 5), number(2, ord("X")), number(3, 40))
    names = packet(number(10, 1), number(13, CLEARED), message(12, message(2, number(1, 5), text(2, "old"))))
    raw = read(MAIN, names, packet(number(8, 1000), number(10, 1), message(11, number(11, THREAD), old)))
    assert rows(raw) == [("old", 1000, 40_000, "7", "70")]


def test_a_trace_of_a_tool_opens_with_its_tracks() -> None:
    table = assemble(read(MAIN, event(5, BEGIN, THREAD, called("a")), event(9, END, THREAD)))
    assert [(track.process, track.thread) for track in table.tracks] == [("", "main")]
    assert not table.steps.recorded and table.devices == ()


def test_a_recording_of_chromium_has_its_processes_threads_and_measures() -> None:
    raw = PERFETTO.read(
        Bytes((Path(__file__).parent / "twins/chromium.pftrace.gz").read_bytes()), ReadOptions(), no_progress
    )
    measured = [row for row in rows(raw) if row[0].startswith("fibonacci")]
    assert [row[0] for row in sorted(measured, key=lambda row: row[2])] == [f"fibonacci {n}" for n in range(18, 23)]
    assert len({row[1] for row in measured}) == 1, "all begin at one mark"
    assert "Browser" in raw.process_names.values() and "CrBrowserMain" in raw.thread_names.values()
    assert not any("--" in name for name in raw.process_names.values())
    assert raw.base_time_ns is not None and raw.base_time_ns > 10**18
    table = assemble(raw)
    assert 0 < table.coverage.end_ns < 10**10
