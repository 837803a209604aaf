"""Memory flows: exact numbers from the attributes, in any pieces; damage is counted, nothing outside is opened."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Iterator
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import ListedFile, ReadOptions, no_progress
from tests.formats.hostile import Pieces
from tests.formats.sources import DATA, issues, needs_data
from tests.megengine.memory_flow import HEAD, TAIL, T, read, rect, svg, words
from torch_trace_megengine.memory_flow.elements import MAX_BUFFERED
from torch_trace_megengine.memory_flow.model import RawMemoryFlow
from torch_trace_megengine.memory_flow.reader import MemoryFlowReader

MS = 10**6
SMALL = (
    T(0x7F0000001000, 4096, 2 * MS, 5 * MS, "net.conv.Convolution:0", "{4(256),256(1) Float32}", 31),
    T(0x7F0000002000, 1 << 30, 2 * MS + 17, 3 * MS, "net.Reshape:0", group=None),
    T(0x7F0000009000, 5, 7 * MS, None, ""),
)


def tensors(raw: RawMemoryFlow) -> list[tuple[object, ...]]:
    """Address, size, times, name, layout and operator of each."""
    strings = [raw.strings.take(ids).to_pylist() for ids in (raw.name, raw.layout)]
    columns = [column.tolist() for column in (raw.address, raw.size, raw.start_ns, raw.end_ns)]
    return list(zip(*columns, *strings, raw.operator.tolist(), strict=True))


def told(tensor: T) -> tuple[object, ...]:
    end, group = tensor.end or -1, -1 if tensor.group is None else tensor.group
    return tensor.address, tensor.size, tensor.start, end, tensor.name, tensor.layout, group


def test_what_counts_are_the_attributes_not_the_drawing() -> None:
    raw = read(svg(*SMALL))
    assert tensors(raw) == [told(tensor) for tensor in SMALL]
    report = raw.report
    assert (report.events_in_file, report.events_loaded, report.events_other, report.complete) == (3, 3, 0, True)
    assert (report.records, report.issues) == ("tensors", ())
    drawn = re.sub(r' (?:x|y|width|height|fill)="[^"]*"', "", svg(*SMALL))
    assert tensors(read(drawn)) == tensors(raw)
    assert tensors(read(gzip.compress(svg(*SMALL).encode()))) == tensors(raw)
    one_line = svg(*SMALL).replace(">\n</rect>", "/>").replace("\n", "")
    assert tensors(read(one_line)) == tensors(raw)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 100, 1000])
def test_pieces_change_nothing(chunk_bytes: int) -> None:
    text = svg(*SMALL, T(64, 64, 1, 9, 'a "b" & <c>:0')).encode() + b"behind" + rect(SMALL[0]).encode() * 3
    whole, cut = read(text), read(text, chunk_bytes)
    assert tensors(cut) == tensors(whole) and len(tensors(whole)) == 4
    assert cut.report == whole.report


@given(
    st.lists(
        st.builds(
            T,
            st.integers(1, 2**47),
            st.integers(1, 2**45),
            st.integers(1, 2**50),
            st.none() | st.integers(2**50, 2**60),
            st.text(st.characters(exclude_categories=("C", "Z")), max_size=12),
            group=st.none() | st.integers(0, 10**9),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 500),
)
def test_any_tensors_come_back(given_tensors: list[T], chunk_bytes: int) -> None:
    """Whatever a scope is called: names are written as they are."""
    # A name that holds an attribute of its own, or an entity, reads as such.
    odd = [
        t for t in given_tensors if re.search(r'[A-Za-z]="|<rect|&(?:amp|lt|gt|quot|apos|#\d+|#x[0-9A-Fa-f]+);', t.name)
    ]
    kept = [t for t in given_tensors if t not in odd]
    if kept:
        assert tensors(read(svg(*kept), chunk_bytes)) == [told(tensor) for tensor in kept]


@pytest.mark.parametrize(
    ("said", "number"),
    [("1MB 23KB 5B ", 2**20 + 23 * 1024 + 5), ("1GB ", 2**30), ("160B ", 160), ("3KB 1B", 3073), ("2TB ", 2**41)],
)
def test_sizes(said: str, number: int) -> None:
    text = re.sub(r'tag:size="[^"]*"', f'tag:size="{said}"', svg(SMALL[0]))
    assert read(text).size.tolist() == [number]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", "1XB "),
        ("size", "999999999999999999TB "),
        ("size", "12345678901234567890B "),
        ("size", "1025TB "),
        ("produced", "5 minutes"),
        ("erased", "-3ns "),
        ("address", "12"),
        ("address", "0xffffffffffffffff"),
        ("address", "(nil)"),
    ],
)
def test_a_tensor_that_cannot_be_read_is_counted(field: str, value: str) -> None:
    bad = re.sub(rf'tag:{field}="[^"]*"', f'tag:{field}="{value}"', rect(SMALL[0]))
    raw = read(HEAD + rect(SMALL[2]) + bad + TAIL)
    assert tensors(raw) == [told(SMALL[2])]
    assert issues(raw) == {"bad_tensor": 1}
    assert (raw.report.events_in_file, raw.report.events_loaded, raw.report.events_dropped) == (2, 1, 1)
    assert value in raw.report.issues[0].examples[0] or field == "erased"


def test_an_empty_time_is_none_and_an_empty_size_no_memory() -> None:
    raw = read(svg(T(64, 64, 0, 9), T(64, 0, 1, 9), T(128, 8, 100, 50)))
    assert [row[:4] for row in tensors(raw)] == [(64, 64, 0, 9), (128, 8, 100, -1)]
    assert issues(raw) == {"bad_tensor": 1} and "without memory" in raw.report.issues[0].text


@pytest.mark.parametrize(
    "name", ["a & b:0", "x < y:0", "<rectangle>", 'say "no":0', "a&amp;b", "c > d", "&#9;", "&undefined;"]
)
def test_names_that_nobody_escaped(name: str) -> None:
    raw = read(HEAD + rect(SMALL[0]) + rect(T(64, 64, 1, 2, name)) + rect(SMALL[2]) + TAIL)
    kept = [row[4] for row in tensors(raw)]
    mended = {"a&amp;b": "a & b".replace(" ", ""), "&#9;": "\t"}.get(name, name)
    if name == "<rectangle>":
        # It begins as a rectangle does: that one is lost, and said to be.
        assert kept == ["net.conv.Convolution:0", ""] and issues(raw)["bad_element"] >= 1
    else:
        assert kept == ["net.conv.Convolution:0", mended, ""]
        assert issues(raw) == ({} if name in ("a&amp;b", "c > d", "&#9;") else {"raw_markup": 1})


def test_damage_costs_the_rectangle_that_it_is_in() -> None:
    broken = rect(SMALL[1]).replace("tag:size=", "tag:size")
    raw = read(HEAD + rect(SMALL[0]) + broken + rect(SMALL[2]) + TAIL)
    assert tensors(raw) == [told(SMALL[0]), told(SMALL[2])]
    assert issues(raw) == {"bad_element": 1} and raw.report.complete
    assert raw.report.events_in_file == 3 and raw.report.events_dropped == 1
    assert raw.report.issues[0].first_offset is not None


@pytest.mark.parametrize("left", [0.4, 0.6, 0.9])
def test_a_cut_file_has_what_comes_before(left: float) -> None:
    text = svg(*SMALL).encode()
    cut = text[: int(len(HEAD) + left * (len(text) - len(HEAD)))]
    raw = read(cut)
    assert 1 <= len(tensors(raw)) <= 3
    assert tensors(raw) == [told(tensor) for tensor in SMALL][: len(tensors(raw))]
    assert not raw.report.complete and "truncated_tail" in issues(raw)
    packed = read(gzip.compress(text)[:-20])
    assert not packed.report.complete


ENTITIES = '<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE svg [<!ENTITY file SYSTEM "file:///etc/passwd">]>'
PARAMETER = '<!DOCTYPE svg [<!ENTITY % out SYSTEM "http://127.0.0.1:9/x"> %out;]>'


@pytest.mark.parametrize("doctype", [ENTITIES, OUTSIDE, PARAMETER, "<!DOCTYPE svg []>"])
def test_documents_that_declare_anything_are_refused(doctype: str) -> None:
    text = re.sub(r"<!DOCTYPE[^>]*>", lambda _: doctype, svg(T(64, 64, 1, 2, "&file;&b;")))
    with pytest.raises(UnreadableTrace, match=r"declares XML entities.*memory_flow\.svg|memory_flow\.svg.*declares"):
        read(text)


def test_other_doctypes_are_not_fetched() -> None:
    text = svg(*SMALL).replace("http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd", "file:///nowhere/at/all.dtd")
    assert len(tensors(read(text))) == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not an SVG"),
        ("no drawing at all", "not an SVG"),
        (HEAD + TAIL, "no tensor"),
        ("<html><body>gone</body></html>", "not an SVG"),
        (svg(*[T(64, 2**50, 1, 9)] * 4200), "impossibly large"),
        (HEAD + "<g>" * 100 + rect(SMALL[0]), "too deep"),
    ],
)
def test_what_holds_no_tensors_is_refused(text: str, why: str) -> None:
    with pytest.raises(UnreadableTrace, match=why):
        read(text)


def test_what_is_no_tensor_is_said() -> None:
    raw = read(HEAD + rect(SMALL[0]) + rect(SMALL[1]).replace('tag:type="tensor"', 'tag:type="workspace"') + TAIL)
    assert len(tensors(raw)) == 1 and issues(raw) == {"unknown_type": 1}
    odd = read(
        HEAD.encode() + rect(SMALL[0]).replace("net", "n\x01t").encode().replace(b"conv", b"c\xffv") + TAIL.encode()
    )
    assert tensors(odd)[0][4] == "n?t.c\ufffdv.Convolution:0"
    assert issues(odd) == {"bad_utf8": 1, "control_character": 1}


def large() -> Iterator[bytes]:
    """An element of 50 MB between two tensors."""
    yield (HEAD + rect(SMALL[0]) + '<rect tag:type="tensor" tag:name="').encode()
    yield from repeat(b"x" * MAX_BUFFERED, 50)
    yield ('">\n</rect>\n' + rect(SMALL[2]) + TAIL).encode()


HOSTILE = {
    "an element without an end": (large, 2, "event_too_large"),
    "a million quotes": (
        lambda: [HEAD.encode(), b'<rect a="' * 20_000, (rect(SMALL[0]) + TAIL).encode()],
        1,
        "bad_element",
    ),
    "attributes without an end": (
        lambda: [HEAD.encode(), b"<rect " + b' a="x' * 150_000, (rect(SMALL[0]) + TAIL).encode()],
        1,
        "bad_element",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_text_takes_neither_time_nor_memory(case: str) -> None:
    pieces, kept, code = HOSTILE[case]
    raw = MemoryFlowReader().read(Pieces(pieces()), ReadOptions(), no_progress)
    assert len(tensors(raw)) == kept and issues(raw)[code] >= 1
    if case == "an element without an end":
        for chunk_bytes in (100_000, 2**27):
            cut = MemoryFlowReader().read(Pieces(pieces()), ReadOptions(chunk_bytes), no_progress)
            assert tensors(cut) == tensors(raw) and issues(cut) == issues(raw)


def test_mutants_are_read_or_refused() -> None:
    """Bytes changed, taken out and doubled: nothing but UnreadableTrace may come of it, and what is kept is sound."""
    drawn = random.Random(4)
    text = svg(*(T(64 * i + 64, 64, i * 1000 + 1, i * 1000 + 900, f"s{i}.ADD:0") for i in range(12))).encode()
    for _ in range(120):
        piece = bytearray(text)
        for _ in range(drawn.randint(1, 4)):
            at, size = drawn.randrange(len(piece)), drawn.randint(1, 30)
            kind = drawn.randrange(3)
            if kind == 0:
                piece[at] = drawn.randrange(256)
            elif kind == 1:
                del piece[at : at + size]
            else:
                piece[at:at] = piece[at : at + size]
        try:
            raw = read(bytes(piece))
        except UnreadableTrace:
            continue
        report = raw.report
        assert report.events_loaded == len(raw.address) and report.events_in_file >= report.events_loaded
        assert (raw.size > 0).all() and (raw.address >= 0).all()


@pytest.mark.parametrize(
    ("path", "run", "worker"),
    [("a/25915.memory_flow.svg", "a", "25915"), ("7.memory_flow.svg.gz", "", "7"), ("x/.memory_flow.svg", None, None)],
)
def test_names(path: str, run: str | None, worker: str | None) -> None:
    found = MemoryFlowReader().find([ListedFile(path, 9, "f"), ListedFile("a/picture.svg", 9, "f")])
    assert [(one.run, one.worker, one.certain) for one in found] == ([(run, worker, True)] if worker else [])
    assert MemoryFlowReader().sniff(HEAD.encode()) and not MemoryFlowReader().sniff(b"<svg><rect/></svg>")


@needs_data
@pytest.mark.parametrize("run", ["memflow_fwd", "memflow_keep", "memflow_del"])
def test_recorded_drawings_agree_with_what_they_draw(run: str) -> None:
    """Lives are stated twice, and drawn in whole 100 us: three witnesses of one number."""
    (path,) = (DATA / "megengine" / run).glob("*.svg")
    text = path.read_text()
    raw = read(text)
    rects = re.findall(r'width="(\d+)\.0+" fill="[^"]*" tag.*?tag:duration="([^"]*)"', text)
    assert len(rects) == len(raw.address) == text.count("tag:type") > 5 and raw.report.issues == ()
    life = (raw.end_ns - raw.start_ns).tolist()
    assert [words(ns, (("s", 10**9), ("ms", MS), ("us", 1000), ("ns", 1))) for ns in life] == [
        said for _, said in rects
    ]
    assert all(abs(int(width) - ns / 100_000) < 2 for (width, _), ns in zip(rects, life, strict=True))
