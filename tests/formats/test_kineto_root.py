"""The root of a file: every form the event list comes in, and files that are no trace."""

# ruff: noqa: UP031  raw events and kernel names stay on one line, and JSON is full of braces
from __future__ import annotations

import json

import pytest

from tb_plugin import registry
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.views.overview.data_quality import data_notices

from .sources import DATA, issues, names, needs_data, op, read, read_events

EVENT = json.dumps(op("a"))


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ('{"traceEvents": [%s]}', True),
        ("[%s]", True),
        ("[%s,\n]", True),
        ("[%s", False),
        ("[%s,", False),
        ('\ufeff{"traceEvents": [%s]}', True),
        ("\ufeff [%s]", True),
        ('{"traceEvents": [%s,]}', True),
        ('{"traceEvents": [%s], "a": 1,}', True),
        ('{"traceEvents": [%s]', False),
        ('{"traceEvents": [%s', False),
        ('{"traceEvents":[\n\n  %s\n  ,\n\n]\n}', True),
        ('{"traceEvents": "dup", "traceEvents": [%s], "traceName": "x"}', True),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [64, 4096])
def test_forms_of_the_list(text, complete, chunk_bytes):
    trace = read(text % EVENT, chunk_bytes)
    assert names(trace) == ["a"]
    assert trace.report.complete == complete
    assert trace.report.events_dropped == trace.report.events_repaired == 0


@pytest.mark.parametrize("text", ['{"traceEvents": null}', '{"traceEvents": [], "x": 1}', '{"traceEvents":[ ]}'])
def test_no_events(text):
    trace = read(text)
    assert (len(trace.name), trace.report.complete, trace.report.events_in_file) == (0, True, 0)


def test_the_last_of_two_lists_wins():
    trace = read('{"traceEvents": [%s, %s], "x": 1, "traceEvents": [%s]}' % (EVENT, EVENT, json.dumps(op("b"))))
    assert names(trace) == ["b"]
    assert trace.metadata == {"x": 1}
    assert issues(trace) == {"second_event_list": 2}
    assert (trace.report.events_in_file, trace.report.events_loaded, trace.report.events_dropped) == (3, 1, 2)


@pytest.mark.parametrize("between", ["", "\n", ",\n", " \r\n\r\n"])
@pytest.mark.parametrize("chunk_bytes", [64, 512 * 1024])
def test_of_two_appended_documents_the_events_of_the_first_are_counted(between, chunk_bytes):
    one = '{"schemaVersion": 1, "traceEvents": [%s, %s, %s], "x": 1}' % (EVENT, EVENT, EVENT)
    trace = read(one + between + one.replace(EVENT, json.dumps(op("b"))).replace("x", "y"), chunk_bytes)
    assert trace.metadata == {"schemaVersion": 1, "y": 1} and set(issues(trace)) == {"second_event_list"}
    assert names(trace) == ["b"] * 3 and trace.report.events_dropped == 3
    assert [issue.outcome for issue in trace.report.issues if issue.code == "second_event_list"] == ["dropped"]
    (notice,) = [each for each in data_notices(assemble(trace)) if "earlier recording" in each.text]
    assert notice.severity == "high" and notice.figures[0].value == 3


def test_an_empty_list_before_another_costs_nothing():
    trace = read('{"traceEvents": [], "traceEvents": [%s]}' % EVENT)
    assert names(trace) == ["a"] and issues(trace) == {}


def test_a_list_behind_a_bare_list_is_lost_and_counted():
    assert issues(read(f"[{EVENT}]\n[{EVENT}]")) == {"trailing_events": 1}
    assert issues(read(f"[{EVENT}]\nfinished")) == {"trailing_text": 1}


def test_a_file_of_zeros_is_no_format_of_its_own():
    with pytest.raises(UnreadableTrace, match="starts with zero bytes"):
        read("\0" * 5000)


def test_keys_after_the_list_and_duplicates():
    trace = read('{"a": 1, "b": 1, "traceEvents": [%s], "b": 2, "c": [{"name": 1}, {"ph": 2}]}' % EVENT, 64)
    assert trace.metadata == {"a": 1, "b": 2, "c": [{"name": 1}, {"ph": 2}]}


@pytest.mark.parametrize("chunk_bytes", [64, 512 * 1024])
def test_header_larger_than_the_buffer(chunk_bytes):
    header = {"big": "x" * 3_000_000, "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "computeMajor": 9}]}
    trace = read('{%s, "traceEvents": [%s]}' % (json.dumps(header)[1:-1], EVENT), chunk_bytes)
    assert names(trace) == ["a"]
    assert len(trace.metadata["big"]) == 3_000_000
    assert trace.devices[0].has_matrix_unit


@pytest.mark.parametrize(("room", "kept"), [(4, {"a", "b"}), (3, {"a"}), (2, {"b"})])
def test_metadata_of_very_many_values_is_kept_as_far_as_there_is_room(monkeypatch, room, kept):
    """``a`` counts as three values, ``b`` as one."""
    monkeypatch.setattr("tb_plugin.formats._chrome.document.MAX_METADATA_VALUES", room)
    trace = read('{"a": [1, 2, 3], "b": [4], "traceEvents": [%s]}' % EVENT)
    assert set(trace.metadata) == kept
    assert ("metadata_too_large" in issues(trace)) is (len(kept) < 2)


def test_insane_header_is_dropped_and_reported(monkeypatch):
    monkeypatch.setattr("tb_plugin.formats._chrome.document.MAX_METADATA_BYTES", 10_000)
    trace = read('{"big": "%s", "traceEvents": [%s], "end": 1}' % ("x" * 100_000, EVENT), 1024)
    assert names(trace) == ["a"]
    assert issues(trace)["metadata_too_large"] >= 1
    assert trace.metadata == {"end": 1}


@pytest.mark.parametrize(
    "text", ["", " ", "hello", "1", '"x"', "{}", '{"a": [1]}', "[]", "[1, 2]", "[[1], [2]]", '[{"a": 1}]', "{", "["]
)
def test_what_is_no_trace(text):
    with pytest.raises(UnreadableTrace) as caught:
        read(text)
    assert caught.value.what
    assert caught.value.where == "worker0.pt.trace.json"
    assert caught.value.do


def test_lists_of_objects_inside_arguments_do_not_cut_an_event():
    inner = [{"name": f"x{i}", "ph": "X"} for i in range(20)]
    events = [op(f"op{i}", frames=inner) for i in range(30)]
    for chunk_bytes in (64, 999, 512 * 1024):
        trace = read(json.dumps({"traceEvents": events}), chunk_bytes)
        assert names(trace) == [f"op{i}" for i in range(30)]
        assert trace.report.issues == ()


def test_a_name_that_looks_like_the_end_of_an_event():
    events = [op('}, {"ph": "X"'), op('}], "traceName": "'), op("]}")]
    for chunk_bytes in (64, 512 * 1024):
        trace = read(json.dumps({"traceEvents": events}), chunk_bytes)
        assert names(trace) == [event["name"] for event in events]
        assert trace.report.issues == ()


def test_elements_that_are_no_events():
    trace = read_events(op("a"), "17", '{"ph": "X", "name": 5, "ts": 1, "dur": 1, "args": [1]}', op("b"))
    assert names(trace)[0] == "a"
    assert names(trace)[-1] == "b"


SNIFFS = [
    (b'{"traceEvents": [', "chrome"),
    (b'{"schemaVersion": 1, "traceEvents": [', "kineto"),
    (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op"', "kineto"),
    (b'{"traceEvents": [{"ph": "X", "cat": "FEE", "name": "f (a.py:1)"', "chrome"),
    (b'\xef\xbb\xbf{\n "schemaVersion": 1, "deviceProperties": [', "kineto"),
    (b'{"displayTimeUnit": "ms", "x', "chrome"),
    (b'[{"ph": "X"', "chrome"),
    (b'[\n {"name": "aten::mm", "ph": "X"', "kineto"),
    (b'[{"name": "mm", "ph": "X", "pid": "CPU functions"', "kineto"),
    (b'{"name": "left-pad", "version": "1.0.0"', None),
    (b'{"schemaVersion": 2, "mediaType": "application/vnd.docker', None),
    (b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [', "execution_trace"),
    (b"[[1, 2], [3, 4]]", None),
    (b'[{"a": 1}]', None),
    (b"", None),
    (b"\x80\x04", None),
]


@pytest.mark.parametrize(("head", "expected"), SNIFFS)
def test_the_first_reader_that_knows_the_first_bytes(head, expected):
    assert next((reader.id for reader in registry.readers() if reader.sniff(head)), None) == expected


@needs_data
@pytest.mark.parametrize("name", ["execution_trace.json", "memory_timeline.json"])
def test_sniff_refuses_other_files_of_pytorch(name):
    assert not KinetoReader().sniff((DATA / "torch213" / name).read_bytes()[:65536])


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_called_empty(text):
    with pytest.raises(UnreadableTrace, match="is empty"):
        read(text)


def test_an_event_too_large_to_be_one(monkeypatch):
    monkeypatch.setattr("tb_plugin.formats._chrome.document.MAX_EVENT_BYTES", 10_000)
    huge = json.dumps(op("huge", text="x" * 100_000))
    trace = read('{"traceEvents": [%s, %s, %s], "end": 1}' % (EVENT, huge, json.dumps(op("b"))), 1024)
    assert names(trace)[0] == "a"
    assert names(trace)[-1] == "b"
    assert "huge" not in names(trace)
    assert issues(trace)["event_too_large"] >= 1


def test_brackets_nested_thousands_deep():
    trace = read('{"traceEvents": [%s, %s, %s]}' % (EVENT, '{"ph": ' + "[" * 100_000, EVENT))
    assert names(trace)[0] == "a"
    assert trace.report.events_dropped == 1
