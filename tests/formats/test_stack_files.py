"""Files of stacks: folded text and speedscope's JSON, what they count, damage, and our own exports read again."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import ListedFile
from tb_plugin.formats.stack_files.folded import is_folded
from tb_plugin.formats.stack_files.reader import StackFilesReader
from tb_plugin.formats.unsupported_files import identify_unsupported
from tb_plugin.model import stack_profile as table
from tb_plugin.model.stack_profile import StackProfile
from tb_plugin.service.answers.stack_export import write_stacks
from tests.conftest import sample
from tests.depth import examples
from tests.formats.sources import DATA, needs_data
from tests.stack_profiles import evented, samples_of, speedscope, stack_profile, stacks

READER = StackFilesReader()


def issues(profile: StackProfile) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for issue in profile.report.issues:
        found[issue.code] += issue.count
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b 3\na;c 4\na 1\n", {"a;b": 3, "a;c": 4, "a": 1}),
        ("a;b 3\na;b 4", {"a;b": 7}),
        ("a b;c d 5\n", {"a b;c d": 5}),  # the last blank separates
        ("a;b\t5\r\n\r\na;b 1\r\n", {"a;b": 6}),
        ("# made by hand\n\na;b 2\n", {"a;b": 2}),
        ("a;;b 2\n;c 1\n", {"a;(no name);b": 2, "(no name);c": 1}),
        ("é;ü 2\n", {"é;ü": 2}),
        ("a;b +7\n", {"a;b": 7}),
        ("a;b 1e3\n", {"a;b": 1000}),
        ("a;b 0\na;c 1\n", {"a;c": 1}),
        ("f (x.py:3);g at 0x7f00 1\nf (x.py:3);g at 0x7f01 1\n", {"f (x.py:3);g": 2}),
        ("m.py(3):_<module>;nn.Module:_A_0;<built-in_method_f_of_T_object_at_0x7f> 4\n",
         {"m.py(3): <module>;nn.Module: A_0;<built-in method f of T object>": 4}),
    ],
)  # fmt: skip
def test_folded(text: str, expected: dict[str, int]) -> None:
    profile = stack_profile(text)
    assert stacks(profile) == expected and not issues(profile)
    assert stacks(stack_profile(gzip.compress(text.encode()))) == expected
    assert stacks(stack_profile(b"\xef\xbb\xbf" + text.encode())) == expected


def test_lines_that_are_none_are_counted() -> None:
    profile = stack_profile("a;b 3\nno number\nc;d 1.5\nx;y 1e300\n5\ne;f -3\n")
    assert stacks(profile) == {"a;b": 3, "c;d": 2}
    assert issues(profile) == {"odd_number": 1, "unreadable_event": 4}
    assert (profile.report.events_in_file, profile.report.events_loaded, profile.report.events_dropped) == (6, 2, 4)


@pytest.mark.parametrize(
    ("head", "taken"),
    [
        (b"no number\na;b 3\nc 4\n", True),
        (b"a;b -3\n" + b"a;b 3\n" * 200, True),
        (b"a;b 3\nno number\na;c 4\nx", True),
        (b"one;two\nthree\na;b 3\n", False),
        (b"a;b\nc 3\n", False),  # what has frames has no number
        (b"a 1\nb 2\n", False),
        (b"", False),
    ],
)
def test_a_bad_line_is_no_reason_to_refuse_a_file(head: bytes, taken: bool) -> None:
    assert READER.sniff(head) is taken


def test_fractions_are_added_and_then_rounded() -> None:
    profile = stack_profile("a;b 4.6\na;b 1.5\na;c 0.5\na;d 2.5\na;e 0.1\n" + "a;e 0.1\n" * 9)
    assert stacks(profile) == {"a;b": 6, "a;c": 1, "a;d": 3, "a;e": 1}


def test_sums_that_would_turn_over_are_refused() -> None:
    for content in ("a;b 9007199254740000\n" * 1000, speedscope(["a"], samples_of([[0]] * 9, [2**60] * 9))):
        with pytest.raises(UnreadableTrace, match="impossibly large"):
            stack_profile(content)
    several = speedscope(["a"], *[samples_of([[0]], [2**60])] * 9)
    with pytest.raises(UnreadableTrace, match="impossibly large"):
        stack_profile(several)


def test_bytes_that_are_no_text_and_lines_without_end() -> None:
    assert stacks(stack_profile(b"a;\xff\xfe 3\n")) == {"a;��": 3}
    long = b"a;b 1\n" + b"x" * 3_000_000 + b" 5\na;c 2\n" + b"y" * 2_000_000
    for chunk in (1, 100_000, 10_000_000):
        profile = stack_profile(long, chunk_bytes=chunk)
        assert stacks(profile)["a;b"] == 1 and stacks(profile)["a;c"] == 2
    with pytest.raises(UnreadableTrace, match="no stack"):
        stack_profile("only words\n")
    with pytest.raises(UnreadableTrace):
        stack_profile(b"")


@pytest.mark.parametrize(
    ("name", "counted", "what", "scale"),
    [
        ("a.self_cpu_time_total.txt", "ns", "Self CPU time", 1000),
        ("self_cuda_time_total.stacks", "ns", "Self CUDA time", 1000),
        ("w.host.folded.txt", "ns", "Host time", 1),
        ("w.device.folded.txt.gz", "ns", "Device time", 1),
        ("x.collapsed", "value", "", 1),
    ],
)
def test_what_a_name_says_is_counted(name: str, counted: str, what: str, scale: int) -> None:
    profile = stack_profile("a;b 3\n", name)
    assert (profile.counted, profile.what, stacks(profile)) == (counted, what, {"a;b": 3 * scale})


def test_collapsed_snapshots_count_bytes() -> None:
    text = "stream_0;seg_1;active_allocated;train.py:80:<module> 1024\nstream_7;seg_2;inactive 512\n"
    assert stack_profile(text).counted == "bytes"
    assert stack_profile(text + "other;x 1\n").counted == "value"


TREE = (("O", 0, 0), ("O", 1, 1), ("C", 1, 4), ("O", 2, 5.5), ("C", 2, 6), ("C", 0, 10))


def test_speedscope() -> None:
    document = speedscope(
        ["a", {"name": "b", "file": "x.py", "line": 3}, {"name": "c", "file": "only"}],
        samples_of([[0, 1], [0], [0, 1]], [1, 2, 3], "milliseconds"),
        evented(
            ("O", 0, 0),
            ("O", 1, 1),
            ("C", 1, 4),
            ("O", 2, 5.5),
            ("C", 2, 6),
            ("C", 0, 10),
            unit="microseconds",
            name="",
        ),
    )
    profile = stack_profile(document, "p.speedscope.json")
    assert (profile.counted, profile.what, profile.threads) == ("ns", "Time", ("t", "profile 2"))
    assert stacks(profile) == {
        "0:a": 2_000_000, "0:a;x.py(3): b": 4_000_000, "1:a": 6500, "1:a;x.py(3): b": 3000, "1:a;c": 500,
    }  # fmt: skip
    assert (profile.report.events_in_file, profile.report.events_dropped, profile.report.complete) == (9, 0, True)
    counted = stack_profile(speedscope(["a"], samples_of([[0], [0]], [], "none")))
    assert counted.counted == "samples" and stacks(counted) == {"a": 2}


@pytest.mark.parametrize(
    ("events", "expected", "told"),
    [
        ([("O", 0, 1), ("C", 0, 4)], {"a": 3}, {}),
        ([("O", 0, 1), ("O", 1, 2)], {"a": 1}, {}),  # never closed: its time is that until the last event
        ([("C", 1, 0), ("O", 0, 1), ("C", 0, 4), ("C", 0, 9)], {"a": 3}, {"bad_event": 2}),
        ([("O", 0, 1), ("O", 1, 2), ("C", 0, 5), ("C", 1, 6)], {"a": 2, "a;b": 3}, {"crossing_frames": 2}),
        ([("O", 0, 5), ("O", 1, 2), ("C", 1, 8), ("C", 0, 9)], {"a": 1, "a;b": 3}, {"time_goes_back": 1}),
        ([("O", 0, 1), ("O", 7, 2), ("X", 0, 3), ("C", 0, 4)], {"a": 3}, {"bad_event": 2}),
        ([("O", 0, 0), ("C", 0, 2), ("O", 0, 5), ("C", 0, 6)], {"a": 3}, {}),
    ],
)
def test_frames_that_are_opened_and_closed(events: list[Any], expected: dict[str, int], told: dict[str, int]) -> None:
    profile = stack_profile(speedscope(["a", "b"], evented(*events)))
    assert stacks(profile) == expected and issues(profile) == told


@pytest.mark.parametrize(
    ("samples", "weights", "expected", "lost"),
    [
        ([[0], [1, 0]], [1], {"a": 1}, 1),
        ([[0], []], [1, 1], {"a": 1}, 1),
        ([[0], [9], [-1], [2**70]], [1, 1, 1, 1], {"a": 1}, 3),
        ([[0], [0]], [2**80, 1], {"a": 1}, 1),
        ([[0], [0]], [-1, 1], {"a": 1}, 1),
        ([[0], [0]], [0.4, 1.6], {"a": 2}, 0),
    ],
)
def test_samples_that_are_none(samples: Any, weights: Any, expected: dict[str, int], lost: int) -> None:
    profile = stack_profile(speedscope(["a", "b"], samples_of(samples, weights)))
    assert stacks(profile) == expected and sum(issues(profile).values()) == lost
    assert profile.report.events_loaded == len(samples) - lost


def test_profiles_that_are_none() -> None:
    bad = [5, {"type": "other"}, {"type": "sampled", "samples": "x"}, {"type": "evented", "events": [{"type": "O"}]}]
    profile = stack_profile(speedscope(["a", 7, {"name": None}], samples_of([[0], [1]], [1, 1]), *bad))  # type: ignore[arg-type]
    assert stacks(profile) == {"a": 1, "(no name)": 1} and issues(profile) == {"bad_profile": 3, "unknown_profile": 1}
    several = stack_profile(speedscope(["a"], samples_of([[0]], [1], "bytes"), samples_of([[0]], [1], "seconds")))
    assert several.counted == "bytes" and stacks(several) == {"a": 1} and issues(several) == {"several_units": 1}
    for document in ({}, {"shared": {}, "profiles": []}, speedscope(["a"])):
        with pytest.raises(UnreadableTrace):
            stack_profile(document, "p.json")


def test_a_document_that_is_cut_is_shown_as_far_as_it_goes() -> None:
    text = json.dumps(speedscope(["a"], *[samples_of([[0]] * 50, [1] * 50)] * 20)).encode()
    cut = stack_profile(text[: len(text) // 2], "p.json")
    assert not cut.report.complete and issues(cut) == {"truncated_tail": 1} and 5 < len(cut.threads) < 12
    packed = gzip.compress(b"a;b 1\n" * 50_000, mtime=0)
    assert not stack_profile(packed[:-20]).report.complete


def test_depth_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [("O", 0, i) for i in range(30_000)]
    profile = stack_profile(speedscope(["a"], evented(*events)))
    assert (
        len(profile) == table.MAX_DEPTH and int(profile.places.own.sum()) == 29_999 and "deep_stack" in issues(profile)
    )
    assert len(stack_profile(";".join(["a"] * 30_000) + " 1")) == table.MAX_DEPTH


@pytest.mark.parametrize(
    ("path", "worker", "is_quiet"),
    [
        ("a/x.folded", "x", False),
        ("x.collapsed.gz", "x", False),
        ("x.folded.txt", "x", False),
        ("x.stacks", "x", False),
        ("p.speedscope.json.gz", "p", False),
        ("profiler_stacks.txt", "profiler_stacks", False),
        ("self_cpu_time_total.txt", "self_cpu_time_total", False),
        ("README.txt", "README", True),
        ("x.py", None, False),
        (".txt", None, False),
    ],
)
def test_names(path: str, worker: str | None, is_quiet: bool) -> None:
    found = READER.find([ListedFile(path, 1, "f")])
    assert [(each.worker, each.is_quiet, each.certain) for each in found] == (
        [(worker, is_quiet, False)] if worker else []
    )


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (b"a;b 1\n", True),
        (b"a;b 1", True),
        (b"# x\na 1\na;b 2.5\n", True),
        (b"a;b 1\nc;d 2\ne;f", True),  # the last line goes on
        (b"a 1\nb 2\n", False),  # numbers of any kind
        (b"words; and words\n", False),
        (b"a;b 1\nwords\n", False),
        (b"", False),
        (b'{"$schema":"https://www.speedscope.app/file-format-schema.json"', True),
        (b'{"traceEvents":[]}', False),
    ],
)
def test_first_bytes(head: bytes, is_one: bool) -> None:
    assert READER.sniff(head) is is_one


def test_an_empty_export_is_explained() -> None:
    assert "verbose=True" in identify_unsupported(
        "run/profiler_stacks.txt", b""
    ) and "verbose=True" in identify_unsupported("self_cuda_time_total.txt", b"")
    assert identify_unsupported("notes.txt", b"") == "" and identify_unsupported("stacks.txt", b"something") == ""


@needs_data
def test_the_recorded_export_is_its_lines_added_up() -> None:
    path = DATA / "torch213" / "export_stacks.self_cpu_time_total.txt"
    lines = path.read_text().splitlines()
    profile = stack_profile(path.read_bytes(), path.name)
    assert int(profile.places.own.sum()) == 1000 * sum(int(line.rpartition(" ")[2]) for line in lines)
    assert profile.stacks == len(lines) and not issues(profile)


@pytest.mark.parametrize("name", ["transformer_cpu/worker0.1795200792214301078.pt.trace.json.gz"])
def test_what_we_export_is_read_again(name: str, tmp_path: Any) -> None:
    trace = sample(name)
    read = {}
    for form, ending in (("folded", "w.host.folded.txt"), ("speedscope", "w.speedscope.json")):
        path = tmp_path / ending
        write_stacks(trace, Params(), form, str(path))
        read[form] = stack_profile(path.read_bytes(), ending)
    totals = {form: int(profile.places.own.sum()) for form, profile in read.items()}
    assert totals["folded"] == totals["speedscope"] > 0
    assert {profile.counted for profile in read.values()} == {"ns"} and not any(issues(each) for each in read.values())
    if len(read["speedscope"].threads) == 1:
        assert sorted(stacks(read["folded"]).values()) == sorted(stacks(read["speedscope"]).values())


CALLS = st.recursive(
    st.just([]), lambda inner: st.lists(st.tuples(st.integers(0, 3), inner), max_size=4), max_leaves=25
)


@given(CALLS)
@examples(25, 1000)
def test_events_samples_and_folded_text_say_the_same(calls: list[Any]) -> None:
    """A tree of calls, each a nanosecond before, between and behind those inside it, counted by recursion."""
    events: list[tuple[str, int, int]] = []
    expected: dict[str, int] = defaultdict(int)
    clock = 0

    def call(frame: int, inside: list[Any], path: tuple[int, ...]) -> None:
        nonlocal clock
        path = (*path, frame)
        events.append(("O", frame, clock))
        for each, more in [*inside, (None, None)]:
            expected[";".join(f"f{i}" for i in path)] += 1
            clock += 1
            if each is not None:
                call(each, more, path)
        events.append(("C", frame, clock))

    for frame, inside in calls:
        call(frame, inside, ())
    if not expected:
        return
    names = [f"f{i}" for i in range(4)]
    samples = [[int(name[1:]) for name in path.split(";")] for path in expected]
    assert stacks(stack_profile(speedscope(names, evented(*events)))) == expected
    assert stacks(stack_profile(speedscope(names, samples_of(samples, [*expected.values()])))) == expected
    text = "".join(f"{path} {value}\n" for path, value in expected.items())
    for chunk in (64 * 1024, 512 * 1024):
        assert stacks(stack_profile(text, chunk_bytes=chunk)) == expected


def test_mutants_end_in_a_word() -> None:
    contents = [
        b"a;b 1\nc;d;e 55\n" * 20,
        json.dumps(speedscope(["a", "b"], evented(*TREE[:3], ("C", 0, 6)), samples_of([[0, 1]], [2]))).encode(),
    ]  # fmt: skip
    chance = random.Random(14)
    for number in range(600):
        mutant = bytearray(contents[number % 2])
        for _ in range(chance.choice((1, 3, 20))):
            at = chance.randrange(len(mutant))
            mutant[at : at + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(3)))
        try:
            profile = stack_profile(bytes(mutant))
            assert (profile.places.parent < range(len(profile))).all() and (profile.places.own >= 0).all()
        except UnreadableTrace:
            pass


def test_looking_at_a_head_takes_no_longer_than_its_length() -> None:
    """A pattern that tries all blanks of a line took 20 s for a list of numbers."""
    for line in (b"1 " * 32_000, b"[[1, 2, 3], " * 5_000, b"a b;" * 16_000):
        started = time.process_time()
        assert not is_folded(line + b"x")
        assert time.process_time() - started < 0.5


NODES = {
    "12884901889": "b.py:7:run\na.py:3:<module>",
    "12884901890": "b.py:7:run\na.py:3:<module>",
    "5": "c:\\d.py:9:f",
}


def test_stacks_by_node_of_a_graph() -> None:
    head = json.dumps(NODES).encode()
    assert (
        StackFilesReader().sniff(head)
        and READER.find([ListedFile("x/w0.kernel_py_stacks.json", 9, "")])[0].worker == "w0"
    )
    found = stack_profile(head.decode(), "w0.kernel_py_stacks.json")
    names, places = found.names.to_pylist(), found.places
    assert (found.counted, found.stacks, found.report.complete) == ("nodes", 3, True)
    assert found.node.tolist() == [5, 12884901889, 12884901890]
    assert [names[places.label[at]] for at in found.node_place] == ["c:\\d.py(9): f", *["b.py(7): run"] * 2]
    inner = found.node_place[1]
    assert names[places.label[places.parent[inner]]] == "a.py(3): <module>" and places.own[inner] == 2


@pytest.mark.parametrize("text", ['{"5": "a.py:3:f", ', '{"5": "a.py:3:f"} 7', '{"5": "a.py:3:f", "6": {"a"}}'])
def test_damaged_stacks_by_node_are_refused(text: str) -> None:
    with pytest.raises(UnreadableTrace):
        stack_profile(text, "w0.kernel_py_stacks.json")


def test_what_is_no_node_is_counted() -> None:
    found = stack_profile(b'{"5": "a.py:3:f", "x": "a.py:3:f", "99999999999999999999": "a.py:3:f", "7": 3, "8": ""}')
    assert found.node.tolist() == [5] and found.report.events_dropped == 4 and found.stacks == 1


@pytest.mark.parametrize(
    "head", [b'{"5": 3}', b'{"a": "b.py:3:f"}', b'{"5": "no line"}', b"{}", b'{"5": {"a.py:3:f": 1}}']
)
def test_other_objects_are_none(head: bytes) -> None:
    assert not StackFilesReader().sniff(head)
