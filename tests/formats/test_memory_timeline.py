"""Memory timelines: both forms, by first bytes, in any pieces; damage is counted, what is none is refused."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import numpy as np
import pytest

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import ListedFile, ReadOptions, no_progress
from tb_plugin.formats.memory_timeline.reader import MemoryTimelineReader
from tb_plugin.formats.unsupported_files import identify_unsupported
from tb_plugin.model.category_memory import BEFORE, CATEGORIES, RawCategoryMemory, assembled
from tests.builders import Bytes
from tests.formats.sources import DATA, issues, needs_data

T = 1_795_194_180_430_290_198
US = T // 1000
RAW = [[-1, 1, 864, 0], [-1, 1, 40, 7], [T, 2, 512, 4], [T + 5, 3, -512, 4], [T + 5, 3, 512, 5], [T + 9, 4, -512, 5]]
LEVELS = [[US, US, US + 3], [[0, 864, 0, 0, 0, 0, 0, 0, 40], [0, 864, 0, 0, 0, 512, 0, 0, 40], [0, 864] + [0] * 7]]


def read(content: Any, chunk_bytes: int = 512 * 1024) -> RawCategoryMemory:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return MemoryTimelineReader().read(Bytes(text, "m.json"), ReadOptions(chunk_bytes), no_progress)


def rows(raw: RawCategoryMemory) -> list[tuple[int, str, int, int]]:
    """Time, category, action and bytes."""
    names = [CATEGORIES[i] for i in raw.category]
    return list(zip(raw.time_ns.tolist(), names, raw.action.tolist(), raw.bytes.tolist(), strict=True))


def test_raw() -> None:
    raw = read(RAW)
    assert rows(raw) == [
        (BEFORE, "parameter", 1, 864),
        (BEFORE, "unknown", 1, 40),
        (T, "activation", 2, 512),
        (T + 5, "activation", 3, -512),
        (T + 5, "gradient", 3, 512),
        (T + 9, "gradient", 4, -512),
    ]
    assert (raw.report.events_in_file, raw.report.events_loaded, raw.report.complete) == (6, 6, True)
    assert read(gzip.compress(json.dumps(RAW).encode())).bytes.tolist() == raw.bytes.tolist()
    assert rows(read(b"\xef\xbb\xbf\n" + json.dumps(RAW, indent=2).encode())) == rows(raw)


def test_levels() -> None:
    raw = read(LEVELS)
    ns = US * 1000
    assert rows(raw) == [
        (BEFORE, "parameter", 0, 864),
        (BEFORE, "unknown", 0, 40),
        (ns, "activation", 0, 512),
        (ns + 3000, "activation", 0, -512),
        (ns + 3000, "unknown", 0, -40),
    ]
    # Without a doubled first time nothing was there before.
    assert rows(read([[US, US + 1], [[0] * 8 + [40], [0] * 8 + [40]]])) == [(ns, "unknown", 0, 40)]
    assert read([[US, US + 1], [[0] * 8 + [40], [0] * 8 + [40]]]).end_ns == ns + 1000


@pytest.mark.parametrize("form", ["raw", "levels"])
def test_pieces_of_any_size_give_the_same(form: str) -> None:
    chance = random.Random(1)
    if form == "raw":
        content: Any = [
            [T + 7 * i, chance.randint(1, 4), chance.randint(-(10**9), 10**12), chance.randrange(8)] for i in range(900)
        ]
    else:
        sizes = [[0, *(chance.randrange(10**10) for _ in range(8))] for _ in range(900)]
        content = [[US + 3 * i for i in range(900)], sizes]
    text = json.dumps(content).encode()
    whole = rows(read(text))
    for chunk in (8192, 8193, 9000, 20_000):
        again = read(text, chunk)
        assert rows(again) == whole and again.report.issues == read(text).report.issues
    if form == "raw":
        assert whole == [(t, CATEGORIES[c], a, b) for t, a, b, c in content if a != 1] or len(whole) == 900


@pytest.mark.parametrize("at", [60, 61, 62, 75, 90])
def test_a_raw_file_that_is_cut_is_shown_as_far_as_it_goes(at: int) -> None:
    text = json.dumps(RAW).encode()[:at]
    raw = read(text)
    assert rows(raw) == rows(read(RAW))[: len(raw.bytes)] and len(raw.bytes) in (2, 3)
    assert not raw.report.complete and issues(raw) == {"truncated_tail": 1}


def test_levels_that_are_cut() -> None:
    text = json.dumps(LEVELS).encode()
    raw = read(text[: text.rindex(b"[0, 864, 0") - 1])
    assert len(raw.bytes) == 3 and not raw.report.complete
    assert issues(raw) == {"truncated_tail": 1, "missing_sizes": 1}
    with pytest.raises(UnreadableTrace, match="the sizes are missing") as caught:
        read(text[:40])
    assert caught.value.where == "m.json"
    packed = gzip.compress(text)
    assert not read(packed[:-6]).report.complete


def test_rows_that_are_none_are_left_out_and_counted() -> None:
    odd = [
        [T, 9, 1, 0],
        [T, 2, 1, 8],
        [T, 2, 2**51, 0],
        [T, 2, 5],
        [T, 2, 5, 0, 0],
        [T, 2, "x", 0],
        [T, 2, 2**70, 1],
        None,
    ]
    raw = read([*RAW[:3], *odd, *RAW[3:]])
    assert rows(raw) == rows(read(RAW))
    assert sum(issues(raw).values()) == 8 == raw.report.events_dropped
    assert {"unknown_row", "unreadable_event"} == issues(raw).keys()
    assert raw.report.complete
    assert issues(read([*RAW, [T, 2, -5, 0], [T, 4, 5, 0]])) == {"odd_sign": 2}
    levels = json.loads(json.dumps(LEVELS))
    levels[1][1] = [0, 1]
    assert [row[0] for row in rows(read(levels))] == [BEFORE, BEFORE, US * 1000 + 3000]
    levels = json.loads(json.dumps(LEVELS))
    levels[1][0][0] = 7
    assert rows(read(levels)) == rows(read(LEVELS)) and issues(read(levels)) == {"sentinel": 1}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([[], []], "no times"),
        ([], "no memory timeline"),
        ([[US + 5, US], [[0] * 9, [0] * 9]], "not in ascending order"),
        ([[US, US + 1], [[0] * 5]], "no memory timeline"),
        ([[1, 2, 3, 4]], "no memory timeline"),
        ([[T, 2, 2**50, 0]] * 5000, "impossibly large"),
        (b"[[" + b"1795194180430290," * 3 + b'"x", 5], [[0,0,0,0,0,0,0,0,0]]]', "no memory timeline"),
        (b"[[" + b"1795194180430290," * 9000 + b'"x"], [[0,0,0,0,0,0,0,0,0]]]', "not an integer"),
        (b"[[" + b"1795194180430290," * 9000 + b"x" * 600_000, "not a number"),
    ],
)
def test_what_cannot_be_read_is_refused(content: Any, says: str) -> None:
    with pytest.raises(UnreadableTrace, match=says) as caught:
        read(content)
    assert caught.value.where == "m.json" and caught.value.do


def test_text_without_end_costs_no_memory() -> None:
    raw = read(json.dumps(RAW).encode()[:-1] + b"," + b" [1" * 100_000)
    assert rows(raw) == rows(read(RAW)) and raw.report.events_dropped >= 1


def test_mutants_are_read_or_refused() -> None:
    chance = random.Random(7)
    texts = [json.dumps(content).encode() for content in (RAW * 20, LEVELS)]
    for _ in range(600):
        text = bytearray(chance.choice(texts))
        for _ in range(chance.randint(1, 4)):
            text[chance.randrange(len(text))] = chance.choice(b'[],0123456789- "x{}\x00\xff')
        try:
            made = assembled(read(bytes(text)))
        except UnreadableTrace:
            continue
        assert (made.levels(np.arange(len(made.bytes) + 1))[-1] >= 0).all()


@pytest.mark.parametrize(
    ("path", "worker", "span"),
    [
        ("run/memory_timeline.json", "memory_timeline", None),
        ("run/memory_timeline.raw.json.gz", "memory_timeline.raw", None),
        ("run/memory_timeline.raw.gz", "memory_timeline.raw", None),
        ("run/rank3.1795200788569794381.mem.raw.json.gz", "rank3.mem.raw", "1795200788569794381"),
        ("run/host_1795200788569.json", "host", "1795200788569"),
        ("run/picture.html", "picture", None),
    ],
)
def test_names(path: str, worker: str, span: str | None) -> None:
    (found,) = MemoryTimelineReader().find([ListedFile(path, 1, "f")])
    assert (found.run, found.worker, found.span, found.certain) == ("run", worker, span, False)


def test_other_names_are_left_alone() -> None:
    assert (
        MemoryTimelineReader().find([ListedFile(name, 1, "f") for name in ("a.gz", "b.txt", "raw.gz", "c.html.gz")])
        == []
    )


def test_first_bytes() -> None:
    sniff = MemoryTimelineReader().sniff
    times = json.dumps([[US + i for i in range(9000)], [[0] * 9] * 9000]).encode()
    assert sniff(json.dumps(RAW).encode()) and sniff(json.dumps(LEVELS).encode()) and sniff(b"[[], []]")
    assert all(sniff(times[:size]) for size in (40_000, 65_536, 162_010, 162_030, 162_060))
    for other in (
        b"[]",
        b"[[1, 2], [3, 4]]",
        b'[{"ph": "X"}]',
        b'[["a"]]',
        b"[[1, 2, 3, 4], [5]]",
        b"{}",
        b"[[1795194180233898]]",
    ):
        assert not sniff(other)


def test_its_html_is_told_as_a_picture() -> None:
    head = b"""<html>
<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>
<body>
  <img src='data:image/png;base64,iV"""
    assert "image from export_memory_timeline" in identify_unsupported("memory.html", head)
    assert "web page" in identify_unsupported("memory.html", b"<html><head><title>Sign in</title>")


@needs_data
def test_both_forms_of_a_recording_say_the_same() -> None:
    folder = DATA / "torch213"
    levels, raw = (assembled(read((folder / f"memory_timeline.{end}").read_bytes())) for end in ("json", "raw.json.gz"))
    assert levels.before.tolist() == raw.before.tolist() and raw.missing.sum() == 0
    us = np.array([int(time / 1000) for time in (raw.origin_ns + raw.time_ns).tolist()])  # PyTorch's own rounding
    last = np.flatnonzero(np.append(us[1:] != us[:-1], True))
    of_levels = levels.levels(levels.rows_until(us[last] * 1000 - levels.origin_ns))
    assert of_levels.tolist() == raw.levels(last + 1).tolist()
    assert "image" in identify_unsupported("m.html", (folder / "memory_timeline.html").read_bytes()[:65_536])
