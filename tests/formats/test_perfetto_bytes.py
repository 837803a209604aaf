"""Packets that are damaged, cut, hostile or none: told, bounded, and no harm to those beside them."""

from __future__ import annotations

import gzip
import io
import random
import zlib

import pytest

from tb_plugin import registry
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import FileSize, ListedFile, ReadOptions, no_progress
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto import packets, translate
from tb_plugin.formats.stream import TextStream
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.service.discovery.scan import Root, Scanner
from tb_plugin.storage.files import Folder
from tests.depth import DEEP
from tests.pftraces import annotation, message, number, packet, text, varint
from tests.samples import SAMPLES
from tests.test_counted_work import peak

from .sources import Bytes, issues, names, plain
from .test_perfetto_tools import BEGIN, END, MAIN, THREAD, called, event, read, rows
from .test_perfetto_torch import read as read_torch

(PERFETTO,) = [reader for reader in registry.readers() if reader.id == "perfetto"]
RECORDED = gzip.decompress((SAMPLES / "cuspy_cpu/worker0.pftrace.gz").read_bytes())
GOOD = event(1, BEGIN, THREAD, called("good")) + event(2, END, THREAD)
LATER = event(11, BEGIN, THREAD, called("later")) + event(12, END, THREAD)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (packet(message(11, b"\xff" * 20)), "unreadable_packet"),
        (packet(varint(11 << 3 | 5) + b"1234"), ""),  # a wrong type on the wire is another, unknown field
        (packet(varint(11 << 3 | 6)), "unreadable_packet"),
        (packet(message(11, message(4, b"\xff\xff"), number(9, 1))), "unreadable_annotation"),
        (packet(b"\x5a\xff\xff\xff\xff\x7f"), "unreadable_packet"),  # a length beyond its packet
        (packet(message(11, number(9, 77))), "unknown_type"),
        (packet(), ""),
    ],
)
def test_a_damaged_packet_costs_itself_alone(damage: bytes, code: str) -> None:
    raw = read(MAIN, GOOD, damage, LATER)
    assert {"good", "later"} <= {row[0] for row in rows(raw)}
    assert code in issues(raw) or not code


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (b"\x0a" + varint(2**40), "lost_packets"),
        (b"\x0a" + b"\xff" * 11, "lost_packets"),
        (b"\x0b", "lost_packets"),
        (b"{}", "lost_packets"),
        (b"\x0a\x7f\x08", "truncated_packet"),
        (b"\x0a", "truncated_packet"),
    ],
)
def test_where_packets_end_the_rest_is_left_and_told(damage: bytes, code: str) -> None:
    raw = read(MAIN, GOOD, damage)
    assert names(raw) == ["good"] and issues(raw) == {code: 1} and not raw.report.complete
    assert raw.report.issues[0].first_offset == len(MAIN + GOOD)
    assert raw.report.events_in_file == raw.report.events_loaded + raw.report.events_dropped + raw.report.events_other


def nested(depth: int) -> bytes:
    value = number(4, 1)
    for _ in range(depth):
        value = message(12, value)
    return message(4, text(10, "deep"), value)


def test_deep_nesting_is_cut_or_costs_its_annotation() -> None:
    for depth, kept in ((10, 1), (60, 1), (3000, 0)):
        raw = read(MAIN, event(1, BEGIN, THREAD, called("a"), nested(depth)), event(2, END, THREAD))
        assert names(raw) == ["a"] and len(raw.others) == kept


def test_text_of_a_trace_is_data() -> None:
    name = '","ph":"X","x":"<img src=x onerror=alert(1)>\x00\n\u2028'
    begin = event(1, BEGIN, THREAD, called(name), annotation('k":1,"', name))
    raw = read(MAIN, begin, event(2, END, THREAD))
    assert names(raw) == [name] and [column.key for column in raw.others] == ['k":1,"']
    broken = event(1, BEGIN, THREAD, message(23, b"\xff\xfe"))
    raw = read(MAIN, broken, event(2, END, THREAD))
    assert names(raw) == ["\ufffd\ufffd"] and issues(raw) == {"bad_utf8": 1}


def test_cut_at_any_byte_it_opens_as_far_as_it_goes() -> None:
    cuts = random.Random(3).sample(range(len(RECORDED)), 2_000 if DEEP else 60)
    before = -1
    for cut in sorted(cuts):
        try:
            raw = read_torch(RECORDED[:cut])
        except UnreadableTrace as error:
            assert before <= 0 and error.do
            continue
        assert not raw.report.complete or "truncated_packet" not in issues(raw)
        assert len(raw.start_ns) >= before
        before = len(raw.start_ns)
    assert 0 < before <= 335


@pytest.mark.parametrize(("share", "begun", "unfinished"), [(0.5, 116, 116), (0.97, 335, 97)])
def test_begins_whose_ends_were_cut_off_last_to_the_end(share: float, begun: int, unfinished: int) -> None:
    """PyTorch writes all begins, then all ends: half a file is begins alone."""
    raw, whole = read_torch(RECORDED[: int(share * len(RECORDED))]), read_torch(RECORDED)
    assert issues(raw) == {"truncated_packet": 1, "unfinished_range": unfinished} and len(raw.start_ns) == begun
    last = raw.start_ns + raw.dur_ns == (raw.start_ns + raw.dur_ns).max()
    assert last.sum() >= unfinished and raw.dur_ns.min() >= 0
    assert set(names(raw)) <= set(names(whole))
    assert plain(raw)["operators"]["row"], "their arguments are kept"


def test_a_cut_archive_opens_as_far_as_it_goes() -> None:
    packed = gzip.compress(RECORDED)
    raw = read_torch(packed[: len(packed) - 2000])
    assert "gzip_truncated" in issues(raw) and not raw.report.complete


@pytest.mark.parametrize("chunk_bytes", [64, 1000, 30_000])
def test_the_size_of_chunks_changes_nothing(chunk_bytes: int) -> None:
    one, other = plain(read_torch(RECORDED, chunk_bytes)), plain(read_torch(RECORDED))
    assert one == other


def mutant(random_: random.Random) -> bytes:
    """The recording with a few bytes changed, taken out, doubled or moved."""
    data = bytearray(RECORDED)
    for _ in range(random_.choice((1, 1, 2, 5, 20))):
        at, length = random_.randrange(len(data)), random_.choice((1, 1, 2, 8, 300))
        action = random_.randrange(5)
        if action == 0:
            data[at] ^= 1 << random_.randrange(8)
        elif action == 1:
            del data[at : at + length]
        elif action == 2:
            data[at:at] = data[at : at + length]
        elif action == 3:
            data[at : at + length] = random_.randbytes(length)
        else:
            data[at:at] = random_.choice((b"\xff" * 10, b"\x0a\x00", b"\x92\x03", b"\x22", varint(2**63), b"\x0a"))
    return bytes(data)


MUTANTS = 10_000 if DEEP else 150


def test_mutants_are_read_or_refused() -> None:
    random_ = random.Random(14)
    for _ in range(MUTANTS):
        data = mutant(random_)
        try:
            raw = PERFETTO.read(Bytes(data, "m.pftrace"), ReadOptions(), no_progress)
        except UnreadableTrace as error:
            assert error.what and error.do
            continue
        assemble(raw)
        report = raw.report
        assert report.complete or report.issues
        counted = report.events_loaded + report.events_dropped + report.events_other
        assert report.events_in_file <= counted + sum(issue.count for issue in report.issues if issue.outcome == "note")


@pytest.mark.parametrize("empty", [packet(), b"\x0a\x80\x00", b"\x0a" + 9 * b"\x80" + b"\x00"])
def test_empty_packets_are_skipped_without_decoding_them(empty: bytes) -> None:
    """Anywhere between packets, also where a batch ends, and in bundles; not inside of a packet, which is its content."""
    stand_in = (
        MAIN + GOOD + event(5, BEGIN, THREAD, called("a" + packet().decode() + "b")) + event(6, END, THREAD) + LATER
    )
    ends: list[int] = []
    packets._complete_packets(bytearray(stand_in), ends)
    begins = [0, *ends]
    many = 20_000 * empty
    spread = many + b"".join(stand_in[a:b] + many for a, b in zip(begins, ends, strict=False))
    bundle = packet(message(50, zlib.compress(spread)))
    for content in (spread, bundle + many):
        log = IssueLog()
        stream = TextStream(io.BytesIO(content), len(content), lambda fraction: None, log)
        found = [each for batch in packets.Packets(stream, 4096, log).batches() for each in batch]
        assert len(found) == len(ends) and not log.issues()
    assert rows(read(spread)) == rows(read(stand_in)) and issues(read(spread)) == issues(read(stand_in))
    cut = spread[: spread.rindex(LATER[-4:]) + 2]
    assert issues(read(cut)) == issues(read(stand_in[:-2]))


def test_a_file_of_empty_packets_holds_none() -> None:
    content = 100_000 * packet()
    assert packets.looks_like_packets(content[:4096]) and not packets.looks_like_packets(b"")
    with pytest.raises(UnreadableTrace, match="no trace packets"):
        read(content)


def test_a_bundle_that_unpacks_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "BOMB_BYTES", 1_000_000)
    bomb = packet(message(50, zlib.compress(b"\x0a\x00" * 400_000)))
    with pytest.raises(UnreadableTrace, match="impossibly large"):
        read(MAIN, *[bomb] * 3)


def test_a_name_that_is_said_very_often_is_refused_where_it_would_fill_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(translate, "BOMB_BYTES", 1_000_000)
    names_ = packet(number(10, 1), number(13, 1), message(12, message(2, number(1, 1), text(2, "x" * 100_000))))
    often = [event(i, BEGIN, THREAD, number(10, 1)) for i in range(400)]
    with pytest.raises(UnreadableTrace, match="over 200 times as large"):
        read(MAIN, names_, *often)


def test_a_packet_that_states_an_impossible_length_takes_no_memory() -> None:
    assert peak(lambda: read(MAIN, GOOD, b"\x0a" + varint(2**31))) < 20_000_000


@pytest.mark.parametrize(
    ("head", "is_one"),
    [(RECORDED[:4096], True), (MAIN, True), (b"\x0a\xff\xff\x03" + b"\x12" * 5000, True), (b"", False), (b"\n{}", False),
     (b"\n\n\n", False), (b'{"traceEvents":[', False), (b"\x0a\x03\xff\xff\xff", False)],
)  # fmt: skip
def test_what_looks_like_packets(head: bytes, is_one: bool) -> None:
    assert PERFETTO.sniff(head) is is_one


@pytest.mark.parametrize(
    ("path", "worker", "span"),
    [
        ("run/worker0.1790857026000000000.pftrace.gz", "worker0", "1790857026000000000"),
        ("run/rank0_trace.pftrace", "rank0_trace", None),
        ("run/host_1.1790857026000.pt.trace.pftrace", "host_1", "1790857026000"),
        ("run/v1.2.perfetto-trace", "v1.2", None),
    ],
)
def test_names(path: str, worker: str, span: str | None) -> None:
    (candidate,) = PERFETTO.find([ListedFile(path, 1, "f")])
    assert (candidate.run, candidate.worker, candidate.span, candidate.certain) == ("run", worker, span, False)


def test_other_names() -> None:
    assert PERFETTO.find([ListedFile(path, 1, "f") for path in ("a.json", "pftrace", "a.pftrace.tmp", "a.pb")]) == []


def test_what_lies_behind_the_name_decides_who_reads_it(tmp_path) -> None:
    files = {
        "packets.pftrace.gz": gzip.compress(RECORDED),
        "torch.pftrace": b'{"schemaVersion": 1, "traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1}]}',
        "tool.pftrace.gz": gzip.compress(b'[{"ph":"X","name":"a","ts":1,"dur":1}]'),
        "none.pftrace": b"nothing",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    scan = Scanner([Root(Folder(str(tmp_path)))], registry.readers()).scan()
    assert {found.worker: found.reader.id for found in scan.profiles} == {
        "packets": "perfetto",
        "torch": "kineto",
        "tool": "chrome",
    }
    assert [url.rsplit("/")[-1] for url, _ in scan.skipped] == ["none.pftrace"]


def test_its_need_grows_with_what_it_holds() -> None:
    one = PERFETTO.peak_memory_bytes({"a": FileSize(1_000_000)})
    assert one < PERFETTO.peak_memory_bytes({"a": FileSize(1_000_000, is_packed=True)})


@pytest.mark.parametrize("is_name", [True, False])
def test_long_texts_are_cut_and_counted(is_name: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 texts of 100,000 bytes, of which 1,000 each are kept, as names of events and as values of annotations."""
    monkeypatch.setattr("tb_plugin.formats.perfetto.interned.MAX_TEXT_BYTES", 1000)
    content = b""
    for i in range(20):
        long = f"{i:02}" + "x" * 100_000
        said = called(long) if is_name else called("n") + annotation("key", long)
        content += event(10 * i + 1, BEGIN, THREAD, said) + event(10 * i + 2, END, THREAD)
    raw = read(content)
    assert issues(raw)["long_text"] == 20
    if is_name:
        assert names(raw) == [f"{i:02}" + "x" * 998 for i in range(20)]


def test_a_batch_of_events_with_a_long_name_becomes_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate, "_PIECE_CHARS", 1000)
    pieces = list(translate._merged_events(["a" * 400, "", "b" * 700, "c", "d" * 999]))
    assert [len(piece) for piece in pieces] == [1102, 1002]
    assert ",\n".join(pieces) == ",\n".join(["a" * 400, "b" * 700, "c", "d" * 999])
