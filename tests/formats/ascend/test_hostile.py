"""Files made to hurt: cells and documents of any size, files that vanish, databases that somebody holds."""

from __future__ import annotations

import io
import json
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from tb_plugin.errors import StorageError
from tb_plugin.formats.ascend.reader import AscendReader
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.storage.files import FileSource
from tests.depth import DEEP
from tests.formats.ascend.databases import database as database_of
from tests.formats.ascend.databases import training
from tests.formats.ascend.folders import OUTPUT, Files, codes, raw_of
from tests.formats.ascend.test_kernels import HEAD, line
from tests.formats.ascend.test_reader import PARTS, small, with_bytes
from tests.formats.ascend.test_timeline import HOST, at, names, task, x

LONG = 10_000_000 if DEEP else 1_000_000
GOOD = f"{HEAD}\n{line('mm', 20.5, '10.25')}\n".encode()
SECONDS = 5


@contextmanager
def soon() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < SECONDS


def kernels_in(raw: Any) -> list[str]:
    found: list[str] = raw.strings.take(raw.name).to_pylist()
    return found


# Made when a test asks: every process has this list.
MUCH: dict[str, Callable[[], bytes]] = {
    "a name": lambda: line("x" * LONG, 30, "1").encode(),
    "zeros before a duration": lambda: line("mm", 30, "0" * 100_000 + "1").encode(),
    "one cell": lambda: b"a" * LONG,
    "quotes": lambda: b'"' * LONG,
    "a quote without end": lambda: b'"' + b"no end\n" * (LONG // 7),
    "commas": lambda: b"," * LONG,
    "lines": lambda: b"\n" * LONG,
    "zeros": lambda: b"\0" * LONG,
    "no utf-8": lambda: b"\xff" * LONG,
    "a duration": lambda: line("mm", 30, "9" * LONG).encode(),
}


@pytest.mark.parametrize("what", MUCH)
def test_very_much_of_it_costs_no_kernel_before(what: str) -> None:
    with soon():
        raw = raw_of(Files({f"{OUTPUT}kernel_details.csv": GOOD + MUCH[what]() + b"\n"}))
        assemble(raw)
    is_kernel = what in ("a name", "zeros before a duration")
    assert kernels_in(raw)[0] == "mm" and len(raw.start_ns) == 1 + is_kernel
    assert bool(raw.report.issues) == (not is_kernel and what != "lines"), "empty lines are no rows"


def test_what_comes_after_a_quote_without_end_is_counted() -> None:
    rows = b"".join(f"{line(f'k{i}', 30 + i, '1')}\n".encode() for i in range(50))
    raw = raw_of(Files({f"{OUTPUT}kernel_details.csv": GOOD + b'"open,' + rows}))
    assert kernels_in(raw) == ["mm"] and codes(raw) == {"bad_row"}


def test_columns_in_any_order_twice_and_gone() -> None:
    titles, cells = HEAD.split(","), line("mm", 20.5, "10.25").split(",")
    assert len(titles) == len(cells)
    some = random.Random(3)
    whole = raw_of(Files({f"{OUTPUT}kernel_details.csv": GOOD}))
    for _ in range(20):
        order = some.sample(range(len(titles)), len(titles))
        twice = [*order, *some.choices(order, k=3)]
        text = f"{','.join(titles[i] for i in twice)}\n{','.join(cells[i] for i in twice)}\n"
        raw = raw_of(Files({f"{OUTPUT}kernel_details.csv": text.encode()}))
        assert (raw.start_ns.tolist(), raw.dur_ns.tolist()) == (whole.start_ns.tolist(), whole.dur_ns.tolist())
        assert {fact.key for fact in raw.others} == {fact.key for fact in whole.others}
    for title in ("Name", "Start Time(us)", "Duration(us)"):
        kept = [i for i in range(len(titles)) if titles[i] != title]
        text = f"{','.join(titles[i] for i in kept)}\n{','.join(cells[i] for i in kept)}\n"
        raw = raw_of(with_bytes("kernel_details.csv", text.encode()))
        (issue,) = raw.report.issues
        assert issue.code == "missing_columns" and title in issue.text


NESTED = b"[" * 1_000_000
BOMBS: dict[str, Callable[[], bytes]] = {
    "nested lists": lambda: NESTED,
    "nested objects": lambda: b'{"a":' * 1_000_000,
    "closed nesting": lambda: b'{"a":' + NESTED + b"]" * 1_000_000 + b"}",
    "a very long string": lambda: b'{"note2":"' + b"x" * LONG + b'"}',
    "a string without end": lambda: b'{"note2":"' + b"x" * LONG,
    "a million keys": lambda: b"{" + b",".join(b'"k%d":%d' % (i, i) for i in range(1_000_000)) + b"}",
    "one key a million times": lambda: b"{" + b",".join([b'"k":1'] * 1_000_000) + b"}",
    "a number of a million digits": lambda: b'{"n":' + b"9" * 1_000_000 + b"}",
    "more than is read": lambda: b'{"n":"' + b"x" * 17_000_000 + b'"}',
}


READ = ("a very long string",)


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("name", ["profiler_metadata.json", "profiler_info_3.json"])
def test_settings_of_any_size_cost_no_other_file(name: str, bomb: str) -> None:
    with soon():
        raw = raw_of(with_bytes(name, BOMBS[bomb]()))
    assert len(raw.metadata) < 1000 and (codes(raw) == {"bad_settings"}) == (bomb not in READ)
    assert {part for part, is_there in PARTS.items() if not is_there(raw)} <= {name}
    assert {issue.file for issue in raw.report.issues} <= {name}


@pytest.mark.parametrize("ending", [b"", b",", b', {"ph": "X", "name": "ha', b', {"ph": "X", "ts": "17'])
def test_a_trace_view_that_was_being_written_when_the_program_died(ending: bytes) -> None:
    """No closing bracket, and half an event."""
    whole = json.dumps([*names(), x("ProfilerStep#12", HOST, HOST, at(0), 90, "cpu_op"), task("mm", 20.5, 10)]).encode()
    raw = raw_of(with_bytes("trace_view.json", whole[:-1] + ending))
    assert {"ProfilerStep#12", "mm"} <= set(kernels_in(raw)) and not raw.report.complete
    assert {issue.file for issue in raw.report.issues} == {"trace_view.json"}
    assert {part for part, is_there in PARTS.items() if not is_there(raw)} == set()


class Broken(io.RawIOBase):
    """A file of which nothing can be read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise self._error


@dataclass(frozen=True)
class Vanishing:
    """A Source whose file is gone, or is refused, once somebody reads it."""

    of: Files
    bad: str
    error: Exception

    def names(self) -> Any:
        return self.of.names()

    def size(self, name: str) -> int:
        return self.of.size(name)

    def open(self, name: str) -> BinaryIO:
        return cast(BinaryIO, Broken(self.error)) if name.endswith(self.bad) else io.BytesIO(self.of.content[name])


@pytest.mark.parametrize("name", [name for name in PARTS if name != "operator_details.csv"])
@pytest.mark.parametrize(
    "error", [StorageError("It is gone.", do="Look."), OSError(5, "Input/output error")], ids=["ours", "os"]
)
def test_a_file_that_vanishes_while_it_is_read(name: str, error: Exception) -> None:
    raw = raw_of(Vanishing(small(), name, error))
    assert {part for part, is_there in PARTS.items() if not is_there(raw)} == {name}
    assert codes(raw, name) == {"file_lost"} and not raw.report.complete


@pytest.mark.parametrize("name", [name for name in PARTS if name != "operator_details.csv"])
def test_a_file_that_vanishes_before_it_is_read(name: str, tmp_path: Path) -> None:
    """It was listed, and is no more: not even its size is known."""
    paths = {}
    for key, content in small().content.items():
        path = tmp_path / key.rpartition("/")[2]
        path.write_bytes(content)
        paths[key] = str(path)
    (tmp_path / name).unlink()
    raw = raw_of(FileSource(paths))
    assert {part for part, is_there in PARTS.items() if not is_there(raw)} == {name}
    assert codes(raw) == {"file_lost"} and not raw.report.complete
    if name != "trace_view.json":
        assert AscendReader().survey(FileSource(paths), ReadOptions(), no_progress).label == ("12",)


def on_disk(folder: Path) -> FileSource:
    (folder / OUTPUT).mkdir(parents=True)
    path = folder / OUTPUT / "ascend_pytorch_profiler_3.db"
    path.write_bytes(database_of(training()))
    return FileSource({f"{OUTPUT}{path.name}": str(path)})


def test_a_database_that_somebody_holds_is_read(tmp_path: Path) -> None:
    """Locked by another connection, in the middle of a change that nobody will see."""
    source = on_disk(tmp_path)
    path = next((tmp_path / OUTPUT).iterdir())
    with sqlite3.connect(path, isolation_level=None) as holding:
        holding.execute("BEGIN EXCLUSIVE")
        holding.execute("DELETE FROM TASK")
        raw = raw_of(source)
        holding.execute("ROLLBACK")
    holding.close()
    assert "aten::mm" in raw.strings and not {issue.code for issue in raw.report.issues} - {"lost_task"}


def test_a_blob_where_a_text_belongs_and_one_of_many_megabytes() -> None:
    rows = training()
    rows["STRING_IDS"] = [(number, b"\xff\xfe" if text == "aten::mm" else text) for number, text in rows["STRING_IDS"]]
    rows["META_DATA"] = [("note", b"\0" * 12_000_000)]
    with soon():
        raw = raw_of(Files({f"{OUTPUT}ascend_pytorch_profiler_3.db": database_of(rows)}))
    assert "aten::mm" not in raw.strings and len(raw.start_ns) > 10
    assert {"bad_cell"} <= {issue.code for issue in raw.report.issues}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    source = on_disk(tmp_path)
    other = tmp_path / OUTPUT / "kernel_details.csv"
    other.write_bytes(GOOD)
    other.chmod(0)
    raw = raw_of(FileSource({**source._paths, f"{OUTPUT}kernel_details.csv": str(other)}))
    assert codes(raw, "kernel_details.csv") == {"file_lost"}
