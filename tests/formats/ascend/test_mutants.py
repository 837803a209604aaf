"""Profiles with damage of every kind in one file: the rest is there, the file is named, nothing else is raised."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable

import numpy as np

from tb_plugin.errors import UnreadableTrace
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import RawTrace
from tests.conftest import SAMPLES
from tests.depth import DEEP
from tests.formats.ascend.folders import Files, folder, raw_of
from tests.formats.ascend.test_reader import PARTS, small

MUTANTS = 10_000 if DEEP else 40
OF_DATABASES = 2_000 if DEEP else 12
SECONDS = 20
ODD = (
    b'"', b'""', b",", b",,,,", b"\n", b"\r\n", b"\t", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"N/A", b"-1",
    b"1e400", b"nan", b"9" * 40, b"0x7", b"=1+1", b"[", b"]", b"{", b"}", b"\\", b"\\u0000", b"\\ud800", b"null", b"true",
    b"1736408883704643.2125", b"x" * 5_000, '"é\N{FULLWIDTH DIGIT ONE}"'.encode(),
)  # fmt: skip
Change = Callable[[bytearray, random.Random], None]


def _cut(content: bytearray, some: random.Random) -> None:
    del content[some.randrange(len(content) + 1) :]


def _flip(content: bytearray, some: random.Random) -> None:
    for _ in range(some.choice((1, 3, 30))):
        content[some.randrange(len(content))] = some.randrange(256)


def _insert(content: bytearray, some: random.Random) -> None:
    place = some.randrange(len(content) + 1)
    content[place:place] = some.choice(ODD)


def _replace(content: bytearray, some: random.Random) -> None:
    """A cell, or a value of JSON, by something else."""
    ends = [i for i in range(len(content)) if content[i : i + 1] in b',\n:"']
    if len(ends) > 1:
        place = some.randrange(len(ends) - 1)
        content[ends[place] + 1 : ends[place + 1]] = some.choice(ODD)


def _remove(content: bytearray, some: random.Random) -> None:
    place = some.randrange(len(content))
    del content[place : place + some.choice((1, 10, 1000))]


def _repeat(content: bytearray, some: random.Random) -> None:
    place = some.randrange(len(content))
    content[place:place] = content[place : place + some.choice((1, 50, 5000))] * some.choice((1, 7))


def _move_columns(content: bytearray, some: random.Random) -> None:
    """Titles in another order, one twice, one gone; cells stay."""
    head, line, rest = bytes(content).partition(b"\n")
    titles = head.split(b",")
    some.shuffle(titles)
    titles = titles[: some.randrange(len(titles) + 1)] + some.choices(titles, k=some.randrange(3))
    content[:] = b",".join(titles) + line + rest


CHANGES: tuple[Change, ...] = (_cut, _flip, _insert, _replace, _remove, _repeat, _move_columns)


@functools.cache
def invented() -> dict[str, bytes]:
    (rank,) = (SAMPLES / "synthetic_ascend").glob("rank_0_*")
    return {name: folder(rank).open(name).read() for name in folder(rank).names()}


def mutant(of: dict[str, bytes], some: random.Random) -> tuple[str, dict[str, bytes]]:
    """A profile with one file changed, and its name."""
    name = some.choice(sorted(of))
    content = bytearray(of[name])
    for _ in range(some.choice((1, 1, 2, 5))):
        if content:
            some.choice(CHANGES)(content, some)
    return name, {**of, name: bytes(content)}


def files_told(raw: RawTrace) -> set[str]:
    """Files that notes are about, but for what follows from the loss of another: who is in a group, what has no rows."""
    return {issue.file for issue in raw.report.issues if issue.code not in ("links_in_group", "communication_alone")}


def test_mutants_of_text_files_cost_no_other_file() -> None:
    some = random.Random(15)
    read = 0
    for number in range(MUTANTS):
        is_small = number % 5 > 0
        name, files = mutant(dict(small().content) if is_small else invented(), some)
        begun = time.monotonic()
        try:
            raw = raw_of(Files(files))
        except UnreadableTrace as error:  # of such a profile nothing was left
            raise AssertionError(f"{name}: {error}") from error
        table = assemble(raw)
        last = name.rpartition("/")[2]
        assert files_told(raw) <= {last}, (number, name)
        if is_small:
            assert {part for part, is_there in PARTS.items() if not is_there(raw)} <= {last}, (number, name)
        assert raw.report.events_in_file >= raw.report.events_loaded >= 0
        assert (np.diff(table.start_ns) >= 0).all() and (table.dur_ns >= 0).all()
        assert time.monotonic() - begun < SECONDS, (number, name)
        read += len(table) > 0
    assert read > 0.9 * MUTANTS


def test_mutants_of_databases_are_read_or_refused() -> None:
    some = random.Random(16)
    (rank,) = (SAMPLES / "synthetic_ascend_db").glob("rank_0_*")
    whole = {name: folder(rank).open(name).read() for name in folder(rank).names()}
    for number in range(OF_DATABASES):
        name = some.choice(sorted(name for name in whole if name.endswith(".db")))
        content = bytearray(whole[name])
        some.choice((_cut, _flip, _remove, _repeat))(content, some)
        begun = time.monotonic()
        raw = raw_of(Files({**whole, name: bytes(content)}))
        assemble(raw)
        assert files_told(raw) <= {name.rpartition("/")[2]}, number
        assert time.monotonic() - begun < SECONDS, number
