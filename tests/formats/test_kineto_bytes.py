"""Bytes and JSON: the damages people reported (user-demand section 4 A), one test each. One bad event costs itself."""

# ruff: noqa: E501, UP031  raw events and kernel names stay on one line, and JSON is full of braces
from __future__ import annotations

import gzip
import json

import pytest

from tb_plugin.errors import UnreadableTrace

from .sources import DATA, issues, kinds, names, needs_data, op, read, read_events, trace_text

GOOD = op("aten::good")


def raw(name: str) -> str:
    """An event whose name is put between the quotes as it is."""
    return '{"ph": "X", "cat": "cpu_op", "name": "' + name + '", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'


def kineto(name: str) -> str:
    """The same in the layout of PyTorch 2.13: one key a line."""
    return (
        '  {\n    "ph": "X",\n    "cat": "cpu_op",\n    "name": "'
        + name
        + '",\n    "pid": 1,\n    "tid": 1,\n    "ts": 1,\n    "dur": 2\n    ,\n    "args": {\n      "External id": 3\n    }\n  }'
    )


def only_name(text: str) -> str:
    trace = read_events(GOOD, text, GOOD)
    assert names(trace)[0] == names(trace)[2] == "aten::good"
    assert trace.report.events_repaired == 1
    assert trace.report.events_dropped == 0
    return names(trace)[1]


def test_A1_windows_path_in_call_stack():
    event = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Call stack":"C:\\Users\\me\\x.py(1): f"}}'
    trace = read_events(GOOD, event)
    assert trace.strings[trace.operators.stack[0]] == r"C:\Users\me\x.py(1): f"
    assert issues(trace) == {"bad_escape": 1}
    assert trace.report.issues[0].first_offset == trace_text(GOOD, event).index(event)


def test_A2_the_same_deep_inside_a_file_costs_only_itself():
    events = [op(f"op{i}") for i in range(500)]
    trace = read_events(*events, raw(r"C:\Users\x"), *events)
    assert len(trace.name) == 1001
    assert issues(trace) == {"bad_escape": 1}


def test_A3_escapes_json_knows_and_does_not_know_in_one_name():
    assert only_name(raw(r"torch\cuda\__init__.py(219): _lazy_init")) == r"torch\cuda\__init__.py(219): _lazy_init"
    assert only_name(raw(r"C:\temp\new\Users\bin")) == r"C:\temp\new\Users\bin"


def test_A4_valid_escapes_survive_repair():
    # In the damaged event a valid name stands beside the broken stack.
    event = r'{"ph":"X","cat":"cpu_op","name":"tab\there \"q\" \\ \u00e9","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Call stack":"D:\Qt"}}'
    trace = read_events(event)
    assert names(trace) == ['tab\there "q" \\ é']
    assert trace.strings[trace.operators.stack[0]] == "D:\\Qt"
    assert names(read_events(raw(r"C:\\Users\\x \"y\" \n"))) == ['C:\\Users\\x "y" \n']


def test_A5_backslash_in_flow_record():
    flow = r'{"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 3, "cat": "cpu_to_cuda", "name": "C:\Users", "args": {}}'
    trace = read_events(GOOD, flow)
    assert (len(trace.name), trace.report.events_other, trace.report.events_repaired) == (1, 1, 1)


@pytest.mark.parametrize("word", ["N/A", "NaN", "nan", "inf", "-inf", "Infinity", "-Infinity"])
def test_A6_bare_words_as_values(word):
    event = (
        '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"blocks per SM": %s, "stream": 7, "note": "N/A nan"}}'
        % word
    )
    trace = read_events(event, GOOD)
    assert names(trace) == ["k", "aten::good"]
    assert trace.device_args.blocks_per_sm[0] != trace.device_args.blocks_per_sm[0]
    assert issues(trace) == {"bare_word": 1}


def test_A7_newline_and_quotes_in_a_name():
    name = '_test_lib_impl = torch.library.Library("_inductor_test", "IMPL")\n(1): <module>'
    assert only_name(raw(name)) == name


@pytest.mark.parametrize("name", ['a "q" b', 'f(x="1", y="2")', 'brackets {"device": "cpu"}, </script>', '"', '""'])
def test_A7_quotes_in_the_layout_of_2_13(name):
    assert only_name(kineto(name)) == name


def test_A7_backslash_before_the_closing_quote():
    assert only_name(raw("C:\\dir\\")) == "C:\\dir\\"


@pytest.mark.parametrize("char", ["\t", "\n", "\x01", "\x1f"])
def test_A8_raw_control_characters(char):
    assert only_name(raw(f"a{char}b")) == f"a{char}b"


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"\xf0\x9f", b"\xc0\xb9", b"\xed\xa0\x80"])
def test_A9_to_A13_bytes_that_are_not_utf8(bad):
    text = trace_text(GOOD, raw("torch/_inductor/config.py(0): @"), GOOD).encode().replace(b"@", bad)
    trace = read(text)
    assert names(trace)[1].startswith("torch/_inductor/config.py(0): �")
    assert issues(trace) == {"bad_utf8": 1}
    assert len(trace.name) == 3


@pytest.mark.parametrize(("bad", "code"), [(b"\xff\xfe", "bad_utf8"), (rb"\ud800", "lone_surrogate")])
def test_A9_to_A13_in_an_argument_that_is_not_decoded(bad, code):
    text = trace_text(op("aten::mm", **{"Input type": ["float@"]})).encode().replace(b"@", bad)
    trace = read(text)
    assert issues(trace) == {code: 1}
    assert "\ufffd" in trace.strings[trace.operators.types[0]]


def test_A13_half_a_surrogate_pair():
    assert only_name(raw(r"a\ud800b \ud83d\ude00")) == "a�b 😀"


def test_A14_unescaped_quotes_in_metadata_after_the_list():
    trace = read('{"traceEvents": [%s], "INFO": ["say "hi" twice", "b"], "traceName": "x"}' % json.dumps(GOOD))
    assert names(trace) == ["aten::good"]
    assert trace.metadata == {"INFO": ['say "hi" twice', "b"], "traceName": "x"}


def test_A15_bare_list_without_categories():
    trace = read(
        '[{"name": "a", "ph": "X", "ts": 5.966000000000349, "dur": 1, "tid": 1, "pid": "CPU functions", "args": {}}]'
    )
    assert [kind.name for kind in kinds(trace)] == ["OPERATOR"]
    assert trace.start_ns.tolist() == [5966]


def test_A16_missing_opening_quote_of_a_key():
    trace = read_events(GOOD, '{"ph": "s", "id": 1, "cat": "fwdbwd", "name": "f", "pid": 1, tid": 0, "ts": 3}', GOOD)
    assert issues(trace) == {"missing_quote": 1, "unpaired_flow": 1}
    assert len(trace.name) == 2


def test_A17_interleaved_writers():
    trace = read_events(
        GOOD,
        '{"ph": "X", "cat": "cpu_{"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 1, "dur": 2}',
        GOOD,
    )
    assert names(trace) == ["aten::good", "b", "aten::good"]
    assert issues(trace) == {"unreadable_event": 1}
    assert trace.report.events_dropped == 1


def test_A17_garbage_between_events():
    trace = read_events(GOOD, '"name": \x00\x01 garbage}', GOOD)
    assert len(trace.name) >= 1
    assert trace.report.events_dropped >= 1


def test_A18_gzip_of_several_members():
    text = trace_text(*[op(f"op{i}") for i in range(50)]).encode()
    stored = b"".join(gzip.compress(text[i : i + 100]) for i in range(0, len(text), 100))
    for packed in (stored, stored + b"\0" * 512):
        trace = read(packed)
        assert len(trace.name) == 50
        assert (trace.report.file_bytes, trace.report.text_bytes) == (len(packed), len(text))
        assert trace.report.complete


def test_A18_bytes_after_the_gzip_stream():
    trace = read(gzip.compress(trace_text(GOOD).encode()) + b"trailer")
    assert (names(trace), issues(trace)) == (["aten::good"], {"gzip_trailing_bytes": 1})


def test_A19_truncated_text_and_truncated_gzip():
    text = trace_text(*[op(f"op{i}") for i in range(100)]).encode()
    trace = read(text[: text.index(b"op99") + 2])
    assert (len(trace.name), trace.report.complete, issues(trace)["truncated_tail"]) == (99, False, 1)
    packed = gzip.compress(trace_text(*[op(f"op{i * 7919 % 1000}", ts=i * i) for i in range(3000)]).encode())
    trace = read(packed[: len(packed) // 2])
    assert 500 < len(trace.name) < 3000
    assert not trace.report.complete
    assert issues(trace)["gzip_truncated"] == 1


def test_A19_damage_is_not_truncation():
    whole = bytearray(gzip.compress(trace_text(*[op(f"op{i * 7919 % 1000}", ts=i * i) for i in range(3000)]).encode()))
    sizes, checksum, garbage = (bytearray(whole) for _ in range(3))
    checksum[-8] ^= 0xFF
    garbage[len(whole) // 2 : len(whole) // 2 + 64] = b"\xff" * 64
    for packed, is_damaged in ((sizes[:-100], False), (checksum, True), (garbage, True)):
        report = read(bytes(packed)).report
        assert (report.complete, report.is_damaged) == (False, is_damaged), report.issues


def test_A19_damaged_gzip_keeps_what_came_before():
    packed = bytearray(
        gzip.compress(trace_text(*[op(f"op{i * 7919 % 1000}", ts=i * i) for i in range(20000)]).encode())
    )
    packed[len(packed) // 2] ^= 0xFF
    try:
        trace = read(bytes(packed))
    except UnreadableTrace:
        return
    assert len(trace.name) <= 20000


def test_A19_a_small_damaged_gzip_gives_what_lies_before_the_damage():
    packed = bytearray(gzip.compress(trace_text(*[op(f"op{i * 7919 % 1000}", ts=i * i) for i in range(2000)]).encode()))
    at = len(packed) // 2
    packed[at : at + 100] = bytes(100)
    trace = read(bytes(packed))
    assert 500 < len(trace.name) < 2000 and issues(trace)["gzip_corrupt"] == 1 and not trace.report.complete
    packed[20:60] = bytes(40)
    with pytest.raises(UnreadableTrace, match="The archive is damaged at the start"):
        read(bytes(packed))


def test_A20_content_decides_about_compression():
    assert names(read(gzip.compress(trace_text(GOOD).encode()))) == ["aten::good"]
    assert names(read(trace_text(GOOD))) == ["aten::good"]


def test_A21_unknown_top_level_keys_are_kept():
    trace = read_events(GOOD, metadata={"a": [1, {"b": None}]}, schemaVersion=1)
    assert trace.metadata == {"metadata": {"a": [1, {"b": None}]}, "schemaVersion": 1}


@needs_data
@pytest.mark.parametrize("path", sorted((DATA / "torch213/escapes").glob("*.json")), ids=lambda path: path.name)
def test_every_hazard_pytorch_2_13_writes(path):
    trace = read(path)
    assert trace.report.complete
    assert trace.report.events_dropped == 0
    assert len(trace.name) >= 6
    if path.name.startswith("name_quote"):
        assert 'a "q" b' in names(trace)
    if path.name.startswith("meta_quote"):
        assert trace.metadata["m"] == 'say /"hi/"'
    if path.name.startswith("meta_dup_key"):
        assert trace.metadata["traceName"].endswith("meta_dup_key.pt.trace.json")
