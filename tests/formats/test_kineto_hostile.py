"""Hostile JSON costs bounded time and memory, is told, and costs its neighbours nothing."""

from __future__ import annotations

import functools
import gzip
import json
import subprocess
import sys
import tracemalloc

import pytest

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats import stream
from tb_plugin.formats._chrome import segments
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tests.depth import needs_time, sampled
from tests.formats.hostile import CASES, GOOD, MEGABYTE, event
from tests.formats.sources import Bytes, issues, names, op, read, trace_text

MOST_SECONDS = 25.0
"""Of processor time; the slowest takes 5 on one core. What is quadratic in its size would take minutes."""
MOST_BYTES = 400_000_000
"""Above the interpreter and its libraries; the largest takes 270 MB."""

KNOWN = {
    "nested lists in arguments": (2, {"unreadable_event"}),
    "nested objects in arguments": (2, {"unreadable_event"}),
    "nested lists as shapes": (2, {"unreadable_event"}),
    "nesting without an end": (1, {"truncated_tail", "unclosed_list"}),
    "nested metadata": (1, {"bad_metadata"}),
    "nested metadata at the end": (1, {"bad_metadata"}),
    "a name of 100 MB": (2, {"event_too_large", "unreadable_event"}),
    "an argument of 100 MB": (2, {"event_too_large", "unreadable_event"}),
    "a string of 100 MB without an end": (1, {"event_too_large", "truncated_tail", "unclosed_list"}),
    "100 MB that look like ends of events": (3, {"raw_quote", "unreadable_event"}),
    "metadata of 100 MB": (1, {"metadata_too_large"}),
    "a number of 3 million digits": (2, {"unreadable_event"}),
    "a key half a million times": (3, set()),
    "a million quotes": (1, {"truncated_tail", "unclosed_list"}),
    "a million braces": (1, {"truncated_tail", "unclosed_list"}),
    "100,000 names": (100_001, set()),
    "300,000 names": (300_001, set()),
    "300,000 argument values": (300_001, set()),
    "100,000 categories": (100_001, {"unknown_category"}),
    "30,000 bad escapes": (30_001, {"bad_escape"}),
}
"""Events kept of each case, and what is told about the others."""
DEEP = {
    "nested objects in arguments",  # another bracket
    "an argument of 100 MB",  # takes the way of a name of 100 MB
    "100 MB that look like ends of events",
    "a million braces",  # takes the way of a million quotes
    "300,000 argument values",  # the way of 300,000 names
}
"""Cases for ``make test-deep``: the longest, and the second ones of a kind."""


@pytest.fixture(scope="module")
def cost():
    """Tells what reading one case told and took, in a process of its own."""
    command = [sys.executable, "-m", "tests.formats.hostile"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        @functools.cache
        def ask(case):
            process.stdin.write(f"{case}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask


def test_every_case_is_known():
    assert set(KNOWN) == set(CASES) - {"nothing but lists"} and set(KNOWN) > DEEP


@needs_time
@pytest.mark.parametrize("case", sampled(tuple(KNOWN), [case for case in KNOWN if case not in DEEP]))
def test_hostile_text(case, cost):
    told = cost(case)
    assert (told["events"], set(told["issues"])) == KNOWN[case]
    assert told["good"] == 1
    assert told["seconds"] < MOST_SECONDS and told["peak_bytes"] < MOST_BYTES


def test_nothing_but_lists_is_refused(cost):
    told = cost("nothing but lists")
    assert "no trace events" in told["refused"] and told["seconds"] < 1


@needs_time
def test_names_cost_what_they_hold(cost):
    """Three times the names: three times the memory at most, beside what any trace takes."""
    few, many = cost("100,000 names"), cost("300,000 names")
    assert (few["names"], many["names"]) == (100_001, 300_001)
    assert many["peak_bytes"] - few["peak_bytes"] < 200_000 * 1_000
    assert many["seconds"] < 10 * few["seconds"]


def test_pieces_reach_the_reader():
    """The cases are what they say: the text is as long as it should be."""
    assert sum(map(len, CASES["a name of 100 MB"]())) > 100 * len(MEGABYTE)


def fields(text):
    return event(text).decode()


def test_ids_beyond_64_bits():
    """They stay within the columns, and what is no id links nothing."""
    huge = 2**70
    trace = assemble(
        read(
            trace_text(
                fields(
                    f'"name":"launch","cat":"cuda_runtime","ts":5,"args":{{"correlation":{huge},"External id":{huge}}}'
                ),
                fields(
                    '"name":"k","cat":"kernel","ts":8,'
                    f'"args":{{"correlation":{huge + 1},"External id":{-huge},"stream":{huge},"device":{huge}}}'
                ),
                fields(f'"name":"python","cat":"python_function","ts":9,"args":{{"Python id":{huge}}}'),
                GOOD.decode().replace('"pid":1,"tid":1', f'"pid":{huge},"tid":{-huge}'),
            )
        )
    )
    assert sorted(names(trace)) == ["good", "k", "launch", "python"]
    assert trace.launch.max() == -1, "two different huge numbers are not one id"
    assert (str(huge), str(-huge)) in {(track.pid, track.tid) for track in trace.tracks}


def test_times_of_1601_and_9999_in_one_file():
    """Windows FILETIME's first year and the last of four digits: set aside, counted, and nothing is stretched."""
    now = 1_795_200_788_569_794
    times = {"a": now, "b": now + 100, "c": now + 200, "1601": -11_644_473_600_000_000, "9999": 253_402_300_799_000_000}
    times |= {"negative": -5, "wrapped": 2**63 // 1000}
    trace = assemble(read(trace_text(*(fields(f'"name":"{name}","ts":{time}') for name, time in times.items()))))
    assert sorted(names(trace)) == ["a", "b", "c"]
    assert (trace.coverage.start_ns, trace.coverage.end_ns) == (0, 201_000)
    assert trace.report.events_quarantined == 4
    told = {issue.code: (issue.outcome, issue.count) for issue in trace.report.issues}
    assert told["impossible_time"] == ("quarantined", 4)


def test_negative_times_of_a_trace_that_counts_from_its_start_stay():
    trace = assemble(read(trace_text(*(fields(f'"name":"n{i}","ts":{i}') for i in (-3, 1, 2)))))
    assert len(trace) == 3 and trace.coverage.end_ns == 6_000


def test_the_last_of_duplicate_keys_wins():
    """As in every JSON reader that keeps one."""
    text = fields('"name":"first","name":"second","ts":5,"ts":7,"args":{"External id":1,"External id":2}')
    text = text[:-1] + ',"args":{"External id":3},"dur":4}'
    trace = read(trace_text(text))
    assert (names(trace), trace.start_ns.tolist(), trace.dur_ns.tolist()) == (["second"], [7_000], [4_000])
    assert trace.external_id.tolist() == [3] and issues(trace) == {}


@pytest.fixture
def small_bombs(monkeypatch):
    monkeypatch.setattr(stream, "BOMB_BYTES", 1_000_000)
    monkeypatch.setattr(stream, "BOMB_RATIO", 50)


@pytest.mark.parametrize("where", ["name", "metadata", "between", "after", "members"])
def test_a_gzip_bomb_stops_at_a_stated_ratio_and_size(small_bombs, where):
    blank = b" " * 20_000_000
    texts = {
        "name": b'{"traceEvents":[{"name":"' + blank + b'"}]}',
        "metadata": b'{"x":"' + blank + b'","traceEvents":[]}',
        "between": b'{"traceEvents":[' + GOOD + blank + b"]}",
        "after": b"[" + GOOD + b"]" + blank,
        "members": b'{"traceEvents":[' + GOOD,
    }
    packed = gzip.compress(texts[where])
    if where == "members":  # each is small
        packed += b"".join([gzip.compress(b" " * 100_000)] * 200)
    source = Bytes(packed)
    with pytest.raises(UnreadableTrace) as error:
        KinetoReader().read(source, ReadOptions(), no_progress)
    assert "50 times its size" in error.value.what and error.value.where == source.name
    assert "GB of text" in error.value.do


def test_what_packs_well_and_is_no_bomb(monkeypatch):
    """Events that differ in their time alone pack better than any that were recorded."""
    stack = "torch/nn/modules/module.py(1501): _call_impl;" * 8
    more = f'"name":"aten::mm","args":{{"Call stack":"{stack}"}},"ts":'
    text = trace_text(*[fields(f"{more}{100 + 7 * i}") for i in range(20_000)]).encode()
    packed = gzip.compress(text, 9)
    assert 60 < len(text) / len(packed) < stream.BOMB_RATIO
    monkeypatch.setattr(stream, "BOMB_BYTES", 1_000_000)
    assert len(read(packed).name) == 20_000, "over the size and under the ratio"
    monkeypatch.setattr(stream, "BOMB_BYTES", len(text))
    monkeypatch.setattr(stream, "BOMB_RATIO", 10)
    assert len(read(packed).name) == 20_000, "over the ratio and under the size"


def test_lists_around_the_events_are_not_built_in_memory():
    """Empty lists take 60 bytes each as objects and 3 as text: 3 MB of them ahead and behind, beside what is small."""
    many = "[" + "[]," * 1_000_000 + "[]]"
    text = f'{{"a": {many}, "rank": 3, "traceEvents": [{json.dumps(op())}], "b": {many}, "traceName": "x"}}'.encode()
    tracemalloc.start()
    trace = read(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert trace.metadata == {"rank": 3, "traceName": "x"}
    assert issues(trace) == {"metadata_too_large": 2}
    assert peak < 6 * len(text)


def test_event_lists_that_follow_each_other_cost_what_one_costs(monkeypatch):
    """Each replaces the one before; none is taken apart, and nothing is looked at twice for those behind it."""
    apart = []

    class Counted(segments.Segments):
        def __init__(self, data, first, *rest):
            apart.append(len(data) - first)
            super().__init__(data, first, *rest)

    monkeypatch.setattr(segments, "Segments", Counted)
    lists = ", ".join(f'"traceEvents": [{json.dumps(op(f"op{i}"))}]' for i in range(1_500))
    trace = read("{" + lists + "}")
    assert names(trace) == ["op1499"]
    assert issues(trace) == {"second_event_list": 1_499}
    assert apart == []
