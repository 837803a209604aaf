"""The reader of allocator snapshots: what it takes, what it refuses, and that its two ways of reading are one."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.memory_snapshot.reader import MemorySnapshotReader
from tb_plugin.formats.memory_snapshot.rows import Rows
from tb_plugin.model.snapshot.table import HOST, Action, RawSnapshot, State
from tests.depth import DEEP, DEPTH, examples, needs_time
from tests.formats.sources import DATA, REPO
from tests.snapshots import event, frames, pickled, read, segment

MEMSNAP = DATA / "memsnap"
needs_memsnap = pytest.mark.skipif(not MEMSNAP.is_dir(), reason="the snapshots of ../shared/data/memsnap are not here")
SAMPLES = sorted((REPO / "samples" / "synthetic_memory").glob("*.gz"))
MANY = [event("alloc", 512 * i, 512, i, user_metadata=f"layer{i % 3}", pool_id=(0, i % 2)) for i in range(3000)]


def told(raw: RawSnapshot) -> dict[str, Any]:
    """Everything a reader returns, with texts, stacks, streams and pools in place of their numbers."""
    strings, stacks = [*raw.strings, None], raw.stacks
    frame = [
        (strings[file], line, strings[name])
        for file, line, name in zip(stacks.file, stacks.line.tolist(), stacks.name, strict=True)
    ]
    stack = [
        [frame[i] for i in stacks.frame[stacks.first[at] : stacks.first[at + 1]]] for at in range(len(stacks))
    ] + [None]  # fmt: skip
    words: dict[str, Any] = {
        "stack": stack,
        "stream": [*raw.streams, None],
        "pool": [*raw.pools, None],
        **dict.fromkeys(("context", "metadata", "category", "name"), strings),
    }
    found: dict[str, Any] = {}
    for part in ("events", "segments", "blocks", "annotations"):
        for column in getattr(raw, part).__struct_fields__:
            values = getattr(getattr(raw, part), column).tolist()
            found[f"{part}.{column}"] = [words[column][v] for v in values] if column in words else values
    return {**found, "settings": raw.settings, "complete": raw.report.complete, "kept": raw.report.events_loaded}


def test_an_event_of_each_kind() -> None:
    actions = (
        "alloc free_requested free_completed segment_alloc segment_free segment_map segment_unmap snapshot annotate"
    )
    history = [event(action, 1024 * i, 512 * i, i) for i, action in enumerate(actions.split())]
    history.append({"action": "oom", "device_free": 77, "size": 99, "stream": 5, "time_us": 1_000_100})
    found = told(read(pickled(history)))
    assert found["events.action"] == [*range(8), Action.ANNOTATE, Action.OOM]
    assert found["events.address"][-1] == 77 and found["events.size"][-1] == 99
    assert found["events.stream"] == [0] * 9 + [5]
    assert found["events.time_ns"][0] == 1_000_000_000
    assert found["events.stack"] == [[]] * 9 + [None]
    assert found["events.pool"] == [None] * 10 and found["kept"] == 10


@pytest.mark.parametrize("protocol", range(6))
def test_all_protocols_say_the_same(protocol: int) -> None:
    shared = frames("/a.py:1:f", "/b.py:2:g")
    history = [event("alloc", 2**46 + i, 2**40 + i, i, frames=shared, pool_id=(0, i)) for i in range(40)]
    segments = [segment(2**46, 4096, [(1024, "active_allocated"), (512, "active_pending_free")])]
    assert told(read(pickled(history, segments, protocol))) == told(read(pickled(history, segments)))


def test_what_a_segment_and_its_blocks_are() -> None:
    raw = read(
        pickled(
            [], [segment(4096, 2048, [(512, "active_allocated"), (512, "active_awaiting_free")], is_expandable=True)]
        )
    )
    assert raw.blocks.address.tolist() == [4096, 4608, 5120]
    assert raw.blocks.state.tolist() == [State.ALLOCATED, State.PENDING, State.INACTIVE]
    assert raw.blocks.requested.tolist() == [512, 512, -1]
    assert (raw.segments.is_large.tolist(), raw.segments.is_expandable.tolist()) == ([1], [1])


def test_old_files_have_fewer_keys() -> None:
    """PyTorch 1.12: a list of segments, blocks without address and with a history, no device, no pools, no times."""
    block = {
        "size": 512,
        "state": "active_allocated",
        "history": [{"addr": 1, "real_size": 300, "frames": frames("a.py:3:f")}],
    }
    segments = [
        {"address": 4096, "total_size": 1024, "stream": 0, "segment_type": "small", "blocks": [block, {**block}]}
    ]
    raw = read(pickle.dumps(segments))
    assert raw.blocks.address.tolist() == [4096, 4608] and raw.blocks.requested.tolist() == [300, 300]
    assert told(raw)["blocks.stack"] == [[("a.py", 3, "f")]] * 2
    assert raw.segments.device.tolist() == [0]
    history = [{"action": "alloc", "addr": 1, "size": 2, "stream": 0}]
    assert read(pickled(history)).events.time_ns.tolist() == [-1]


def test_pinned_host_memory_is_a_device_of_its_own() -> None:
    """PyTorch 2.14: flat lists beside those of the devices."""
    more = {
        "host_segments": [{"address": 64, "size": 4096, "allocated": True}],
        "host_traces": [event("segment_alloc", 64, 4096)],
    }
    raw = read(pickled([event("alloc", 1, 512)], **more))
    assert raw.segments.device.tolist() == [HOST] and raw.events.device.tolist() == [0, HOST]
    assert raw.blocks.size.tolist() == [4096] and raw.blocks.state.tolist() == [State.ALLOCATED]


def test_what_cannot_be_kept_is_counted() -> None:
    history: list[Any] = [
        event("alloc", 0, 512), {"action": "alloc"}, "nonsense", event("alloc", 2**70, 1), event("alloc", 1, -5),
        event("dance", 1, 1), event("alloc", 1, 1, time_us=2**62),
    ]  # fmt: skip
    raw = read(pickled(history, [{"no": "size"}, segment(0, 512)], external_annotations=[{"name": "x"}, 3]))
    assert raw.report.events_dropped == 7 and raw.events.action.tolist() == [0, Action.UNKNOWN, 0]
    counts = {issue.code: issue.count for issue in raw.report.issues}
    assert counts == {"bad_event": 4, "unknown_action": 1, "bad_segment": 1, "bad_annotation": 2}
    assert raw.events.time_ns.tolist()[-1] == -1, "no time that is beyond 64 bits of nanoseconds"


def test_annotations_and_settings() -> None:
    notes = [{"name": "ProfilerStep#0", "stage": stage, "device": 0, "time_us": 7} for stage in ("START", "END")]
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "a:b", "roundup_power2_divisions": {"1": 0}, "odd": [1], "far": 2**80}
    raw = read(pickled([], external_annotations=notes, allocator_settings=settings))
    assert raw.annotations.is_start.tolist() == [1, 0] and raw.annotations.time_ns.tolist() == [7000, 7000]
    assert raw.settings == {"PYTORCH_CUDA_ALLOC_CONF": "a:b", "roundup_power2_divisions": {"1": 0}}


@pytest.mark.parametrize("place", ["root", "settings"])
def test_a_trimmed_history_says_so(place: str) -> None:
    flags = {"trace_alloc_overflowed": [False, True], "trace_alloc_max_entries": 100}
    raw = read(pickled([], **(flags if place == "root" else {"allocator_settings": flags})))
    assert (raw.overflowed, raw.max_entries) == ((1,), 100)


# -- what would run code, and what is damaged


class _Call:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("it ran",))


@pytest.mark.parametrize("protocol", range(6))
def test_code_is_refused_by_name(protocol: int, capsys: pytest.CaptureFixture[str]) -> None:
    content = pickled([event("alloc", 0, 1, user_metadata=_Call())], protocol=protocol)
    with pytest.raises(
        UnreadableTrace, match=r"(GLOBAL|STACK_GLOBAL) (__builtin__|builtins)\.print at byte \d+"
    ) as caught:
        read(content)
    assert "No code was executed" in caught.value.what and "Do not load" in caught.value.do
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (b"\x80\x02}q\x00X\x08\x00\x00\x00segmentsc", "GLOBAL"),
        (b"\x80\x02(ios\nsystem\n", "INST os.system"),
        (b"\x80\x02]R", "REDUCE"),
        (b"\x80\x02]b", "BUILD"),
        (b"\x80\x02]\x81", "NEWOBJ"),
        (b"\x80\x02\x82\x07", "EXT1"),
        (b"\x80\x02P1\n", "PERSID"),
        (b"\x80\x05\x97", "NEXT_BUFFER"),
    ],
)
def test_each_opcode_of_code(code: bytes, name: str) -> None:
    with pytest.raises(UnreadableTrace, match=name):
        read(code + b".")


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps([1, 2, 3]), pickle.dumps("text"), pickle.dumps({"model": {"weight": 1}}), b"", b"\x80\x04", b".",
        b"\x80\x04N.", b"\x80\x09.", b"\x80\x02" + b"(" * 20_000 + b".", b"\x80\x02]q\x00h\x00a.", b"\x80\x02h\x07.",
        b"\x80\x02X\xff\xff\xff\xffabc", b"\x80\x04\x8d" + b"\xff" * 8, b"I" + b"9" * 5000 + b"\n.",
    ],
)  # fmt: skip
def test_what_holds_no_snapshot(content: bytes) -> None:
    with pytest.raises(UnreadableTrace):
        read(content)


def test_a_cut_file_shows_what_it_has() -> None:
    content = pickled(MANY)
    for cut in range(600, len(content) - 1, 4099):
        raw = read(content[:cut])
        kept = len(raw.events.size)
        assert not raw.report.complete and raw.report.issues[-1].code == "truncated_tail"
        assert raw.events.size.tolist() == [512] * kept and raw.events.address.tolist() == [
            512 * i for i in range(kept)
        ]
    assert kept > 2900


def test_damage_ends_the_read_and_says_where() -> None:
    content = pickled(MANY)
    at = content.index(b"layer1") + 40_000
    raw = read(content[:at] + b"\xc8" * 40 + content[at:])
    (issue,) = raw.report.issues
    assert issue.code == "damaged" and issue.first_offset is not None and abs(issue.first_offset - at) < 200
    assert 100 < len(raw.events.size) < 3000 and not raw.report.complete


def test_references_cannot_multiply_a_file() -> None:
    """A list of many references to one list of many references: what a page of text could blow up to terabytes."""
    inner = segment(0, 512)
    inner["blocks"] = [inner["blocks"][0]] * 5_000
    raw = read(pickle.dumps({"segments": [inner] * 5_000, "device_traces": [[]]}))
    assert not raw.report.complete and raw.report.issues[-1].code == "too_many"
    assert len(raw.blocks.size) < 500_000


def test_keys_that_are_no_texts_are_left_out() -> None:
    """Numbers of one hash would make a dict quadratic."""
    odd = {i * (2**61 - 1): 0 for i in range(1000)}
    assert read(pickle.dumps({"segments": [], "device_traces": [], "allocator_settings": odd})).settings == {}


@needs_time
def test_mutants_trip_no_wire(tmp_path: Path) -> None:
    """In ``make test-deep`` 10,000 of them, which takes two minutes."""
    files = []
    for protocol in (0, 2, 4, 5):
        files.append(tmp_path / f"{protocol}.pickle")
        history = [event("alloc", 512 * i, 512, i, frames=frames("a.py:1:f"), pool_id=(0, 1)) for i in range(60)]
        files[-1].write_bytes(pickled(history, [segment(0, 4096, [(512, "active_allocated")])], protocol))
    count = "10000" if DEPTH == "deep" else "300"
    done = subprocess.run(
        [sys.executable, "-m", "tests.formats.mutated_pickles", count, "5", *map(str, files)],
        capture_output=True, text=True, cwd=REPO, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(done.stdout)
    assert sum(outcomes.values()) == int(count) and outcomes["part"] > 0 and outcomes["refused: code"] > 0


# -- two ways of reading

NAMES = st.sampled_from(["", "x", "Torch-Compiled Region: 0/0", "größer", "y" * 300])
NUMBERS = st.sampled_from(
    [0, 1, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**40, 2**47 + 5, 2**62, -1, -300, -(2**40)]
)
FRAME_LISTS = [
    frames(), frames("a.py:1:f"), frames("a.py:1:f", "b.py:2:g"), frames(*(f"c{i}.py:{i}:h" for i in range(300))),
]  # fmt: skip

KEYS = ("addr", "size", "stream", "time_us", "compile_context", "user_metadata", "pool_id", "frames")


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Events of several shapes, in runs: objects are shared as PyTorch shares them, or not."""
    made: list[Any] = []
    for _ in range(draw(st.integers(1, 5))):
        keys = draw(
            st.permutations(
                ["addr", "size", "stream", "time_us", "compile_context", "user_metadata", "pool_id", "frames"]
            )
        )
        keys = keys[: draw(st.integers(3, 8))]
        copied = draw(st.booleans())
        for i in range(draw(st.sampled_from([1, 3, 20, 40]))):
            stack = draw(st.sampled_from(FRAME_LISTS))
            values: dict[str, Any] = {
                "addr": 512 * i, "size": draw(NUMBERS), "stream": draw(NUMBERS), "time_us": 10**15 + i,
                "compile_context": draw(NAMES), "user_metadata": draw(NAMES) + (str(i) if copied else ""),
                "pool_id": (0, draw(st.integers(0, 2))), "frames": list(stack) if copied else stack,
            }  # fmt: skip
            action = draw(st.sampled_from(["alloc", "free_requested", "free_completed", "odd one"]))
            made.append({"action": action, **{key: values[key] for key in keys}})
        if draw(st.booleans()):
            made.append(
                draw(
                    st.sampled_from([None, {"action": "oom", "device_free": 3, "size": 4}, {"action": 3}, [], made[-1]])
                )
            )
    return made


@given(history=histories(), protocol=st.integers(0, 5))
@examples(25, 1500)
def test_decoding_by_runs_is_decoding_one_by_one(history: list[Any], protocol: int) -> None:
    content = pickled(history, [segment(0, 512)], protocol)
    fast, slow = read(content), read(content, is_fast=False)
    assert told(fast) == told(slow)
    assert {i.code: i.count for i in fast.report.issues} == {i.code: i.count for i in slow.report.issues}
    known = [item for item in history if isinstance(item, dict)]
    assert fast.report.events_loaded + fast.report.events_dropped == len(history) + 2 and len(known) <= len(history)


class TorchScript:
    """Writes plain objects as C++ does (``_memory_snapshot_pickled``): protocol 2, numbers after what they are of."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}

    def of(self, value: Any) -> bytes:
        key = value if isinstance(value, str) else id(value)
        if key in self._known:
            number = self._known[key]
            return b"h" + bytes([number]) if number < 256 else b"j" + number.to_bytes(4, "little")
        if isinstance(value, str):
            return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode() + self._put(key)
        if isinstance(value, list):
            return b"](" + b"".join(map(self.of, value)) + b"e" + self._put(key)
        if isinstance(value, tuple):
            return b"".join(map(self.of, value)) + b"\x86"
        if isinstance(value, dict):
            put = self._put(key) if "filename" in value else b""
            return b"}(" + b"".join(self.of(k) + self.of(v) for k, v in value.items()) + b"u" + put
        if value in range(256):
            return b"K" + bytes([value])
        return b"J" + value.to_bytes(4, "little") if value < 2**31 else b"\x8a\x08" + value.to_bytes(8, "little")

    def _put(self, key: Any) -> bytes:
        number = self._known[key] = len(self._known)
        return b"q" + bytes([number]) if number < 256 else b"r" + number.to_bytes(4, "little")


def counted_slow(monkeypatch: pytest.MonkeyPatch, content: bytes) -> tuple[RawSnapshot, int]:
    """What a file holds, and how many of its events the machine read."""
    slow: list[int] = []
    take = Rows.take_events

    def counted(self: Rows, device: int, items: list[Any]) -> None:
        slow.append(len(items))
        take(self, device, items)

    with monkeypatch.context() as patch:
        patch.setattr(Rows, "take_events", counted)
        return read(content), sum(slow)


def test_what_c_plus_plus_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = [frames(*(f"a{i % 7}.py:{k}:f" for k in range(5))) for i in range(400)]
    distinct = {(f["filename"], f["line"]): f for stack in shared for f in stack}
    shared = [[distinct[f["filename"], f["line"]] for f in stack] for stack in shared]
    history = [
        event(action, 2**46 + 512 * i, 512, i, pool_id=(0, 0), user_metadata="", frames=shared[i])
        for i in range(400) for action in ("alloc", "free_requested", "free_completed")
    ]  # fmt: skip
    content = b"\x80\x02" + TorchScript().of({"segments": [], "device_traces": [history]}) + b"."
    assert pickle.loads(content)["device_traces"][0] == history
    found, slow = counted_slow(monkeypatch, content)
    assert told(found) == told(read(pickled(history))) and slow < 120


def test_runs_are_taken_without_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three thousand events of one shape the machine reads but a few."""
    found, slow = counted_slow(monkeypatch, pickled(MANY))
    assert len(found.events.size) == 3000 and slow < 60


# -- files


def test_names_and_first_bytes() -> None:
    reader = MemorySnapshotReader()
    (found,) = reader.find(reader_listing("job/iteration_40/rank3_memory_snapshot.pickle"))
    assert (found.run, found.worker, found.span, found.certain) == ("job", "rank3_memory_snapshot", "40", False)
    (found,) = reader.find(reader_listing("a/host_Jan_01.pkl.gz"))
    assert (found.run, found.worker, found.span) == ("a", "host_Jan_01", None)
    for protocol in range(6):
        assert reader.sniff(pickled([event("alloc", 0, 1)], protocol=protocol)[:65536])
    assert not reader.sniff(pickle.dumps({"state_dict": [1.0]})) and not reader.sniff(b'{"segments": []}')


def reader_listing(path: str) -> list[Any]:
    from tb_plugin.formats.base import ListedFile

    return [ListedFile(path, 1, "x"), ListedFile("other.json", 1, "x")]


def test_packed_and_embedded() -> None:
    plain = pickled(MANY)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(plain)
    text = base64.b64encode(plain + b"\0" * (-len(plain) % 3)).decode()
    page = f'<!DOCTYPE html><script>import "MemoryViz.js"; const local_files = [{{"name": "s", "base64": "{text}"}}]</script>'
    for content in (gzip.compress(plain), sink.getvalue().to_pybytes(), page.encode()):
        assert told(read(content)) == told(read(plain))
    assert MemorySnapshotReader().sniff(page.encode()[:65536])
    assert not MemorySnapshotReader().sniff(b"<!doctype html><title>Sign in</title>")
    cut = read(page.encode()[: len(page) // 2])
    assert not cut.report.complete and len(cut.events.size) > 1000
    packed = sink.getvalue().to_pybytes()
    with pytest.raises(UnreadableTrace):
        read(packed[: len(packed) // 2])


@needs_memsnap
@pytest.mark.parametrize(
    "path", sorted(MEMSNAP.glob("[!E]*.p*")) if MEMSNAP.is_dir() else [], ids=lambda path: path.name
)
def test_files_of_others(path: Path) -> None:
    """Both ways of reading agree, and the sums are those of Python's own unpickler on these files of ours."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)[: 2_000_000 if DEEP else 500_000]  # the slow way takes long
    fast, slow = read(content), read(content, is_fast=False)
    assert told(fast) == told(slow)
    if path.suffix == ".pickle" and "big" not in path.name:
        found = pickle.loads(content)  # made by a script of ours
        segments = found if isinstance(found, list) else found["segments"]
        assert fast.segments.size.sum() == sum(each["total_size"] for each in segments)
        assert fast.blocks.size.sum() == fast.segments.size.sum()
        used = sum(
            block["size"] for each in segments for block in each["blocks"] if block["state"] == "active_allocated"
        )
        assert fast.blocks.size[fast.blocks.state == State.ALLOCATED].sum() == used
        traces = [] if isinstance(found, list) else found["device_traces"]
        assert len(fast.events.size) == sum(map(len, traces))


@needs_memsnap
def test_the_file_that_prints() -> None:
    with pytest.raises(UnreadableTrace, match=r"STACK_GLOBAL builtins\.print at byte 2,683"):
        read((MEMSNAP / "EVIL_reduce.pickle").read_bytes())


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples_both_ways(path: Path) -> None:
    content = gzip.decompress(path.read_bytes())
    assert told(read(content)) == told(read(content, is_fast=False))
