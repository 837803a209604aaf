"""A database is a file of a stranger: whatever is in it, what can be read is shown, and the rest is told."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.ascend.database import names, safe_open
from tb_plugin.formats.ascend.database.safe_open import Database, open_database
from tb_plugin.formats.base import ReadOptions
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.views.overview.view import Overview
from tests.depth import DEEP, examples
from tests.formats.ascend.databases import ANALYSED, ROWS, T0, TABLES, Folder, database, read, training

SECONDS = 20
DAMAGED = 100 if DEEP else 12
MANY = "CREATE TABLE t AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {}) SELECT x FROM n"


@pytest.fixture(scope="module")
def good() -> bytes:
    return database(training())


def tried(content: bytes) -> RawTrace | None:
    """The profile, where there is one. Any error but those for a person fails the test."""
    begin = time.monotonic()
    try:
        raw = read(content)
        assemble(raw)
    except UnreadableTrace:
        raw = None
    assert time.monotonic() - begin < SECONDS
    return raw


def codes(raw: RawTrace) -> set[str]:
    return {issue.code for issue in raw.report.issues}


def within(content: bytes, use: Callable[[Database, IssueLog], Any]) -> Any:
    log = IssueLog()
    with open_database(Folder({"x.db": content}), "x.db", log, lambda fraction: None) as found:
        return use(found, log)


def test_cut_anywhere(good: bytes) -> None:
    some = random.Random(1)
    lengths = [0, 1, 15, 16, 50, 99, 100, 4095, 4096, 4097, *(some.randrange(len(good)) for _ in range(DAMAGED))]
    for length in sorted(lengths):
        raw = tried(good[:length])
        if raw is not None:
            assert {"database_cut", "database_damaged", "no_tables"} & codes(raw), length
            assert all(issue.file == "ascend_pytorch_profiler_3.db" for issue in raw.report.issues)


def test_of_a_database_that_was_cut_the_rest_is_read() -> None:
    rows = {table: content for table, content in training().items() if table in ("STRING_IDS", "TASK")}
    rows["TASK"] = [
        (T0 + number, T0 + number + 1, 0, 100 + number, number, 1, 10, 0, 2, 3, 4) for number in range(5000)
    ]
    content = database(rows)
    cut = len(content) * 3 // 4 + 100
    raw = read(content[:cut])
    assert 3000 < len(raw.start_ns) < 4000
    assert not raw.report.complete
    told = {issue.code: issue.text for issue in raw.report.issues}
    assert f"only its first {cut // 4096} of {len(content) // 4096} pages" in told["database_cut"]
    assert "only part of table TASK was read" in told["database_damaged"]


def test_bytes_flipped(good: bytes) -> None:
    some = random.Random(2)
    for _ in range(DAMAGED):
        content = bytearray(good)
        for _ in range(some.choice((1, 3, 30))):
            content[some.randrange(len(content))] = some.randrange(256)
        tried(bytes(content))


@pytest.mark.parametrize(
    "content", [b"", b"no database at all" * 50, bytes(4096), b"SQLite format 3\0", b"\x8f" * 8192]
)
def test_no_database(content: bytes) -> None:
    with pytest.raises(UnreadableTrace):
        read(content)
    raw = read({ROWS: content, ANALYSED: database({"StepTraceTime": [(0, "1", 1, 2, 3)]})})
    assert codes(raw) == {"file_lost"}
    assert [table.name for table in raw.reported_tables] == ["step_times"]


def test_a_head_that_speaks_of_a_log_is_read(good: bytes) -> None:
    raw = read(good[:18] + b"\2\2" + good[20:])
    assert "aten::mm" in raw.strings


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE TASK", "CREATE VIEW TASK AS SELECT 1 AS startNs, 2 AS endNs, 3 AS globalTaskId"],
        [
            "DROP TABLE TASK",
            "CREATE VIEW TASK AS WITH RECURSIVE n(startNs) AS (SELECT 1 UNION ALL SELECT startNs FROM n) "
            "SELECT startNs, 2 AS endNs FROM n",
        ],
        ["DROP TABLE TASK", "CREATE VIRTUAL TABLE TASK USING fts5(startNs, endNs)"],
    ],
)
def test_what_is_no_table_is_not_asked(good: bytes, statements: list[str]) -> None:
    raw = tried(database(training(), statements))
    assert raw is not None
    assert not (raw.kind == EventKind.MEMCPY).any()
    assert "aten::mm" in raw.strings


def test_a_table_whose_definition_was_swapped_for_a_view() -> None:
    swap = (
        "UPDATE sqlite_master SET sql = 'CREATE VIEW TASK AS WITH RECURSIVE n(startNs) AS (SELECT 1 UNION ALL SELECT "
        "startNs FROM n) SELECT startNs, startNs AS endNs FROM n' WHERE name = 'TASK'"
    )
    tried(database(training(), ["PRAGMA writable_schema = ON", swap]))


def test_triggers_and_computed_columns_do_not_run() -> None:
    more = [
        "CREATE TRIGGER t AFTER INSERT ON TASK BEGIN DELETE FROM TASK; END",
        "ALTER TABLE TASK RENAME COLUMN startNs TO old",
        "ALTER TABLE TASK ADD COLUMN startNs INTEGER AS (length(hex(zeroblob(900000000)))) VIRTUAL",
    ]
    raw = tried(database(training(), more))
    assert raw is not None
    assert "missing_column" in codes(raw)
    assert "aten::mm" in raw.strings


def test_only_columns_of_one_table_are_allowed(good: bytes) -> None:
    def use(found: Database, log: IssueLog) -> None:
        asked = found._connection.execute
        for query in (
            "SELECT * FROM TASK",
            "SELECT length(name) FROM sqlite_master",
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n",
            "ATTACH 'other.db' AS other",
            "PRAGMA query_only = OFF",
            "DELETE FROM TASK",
            "CREATE TABLE x (y)",
            "SELECT load_extension('x')",
        ):
            with pytest.raises(sqlite3.DatabaseError):
                asked(query)

    within(good, use)


def test_text_that_is_sql_is_text() -> None:
    rows = training()
    evil = "'; DROP TABLE TASK; --\" <script>\x00"
    rows["STRING_IDS"] = [(number, evil if text == "mm_cube" else text) for number, text in rows["STRING_IDS"]]
    raw = read(database(rows))
    assert evil in raw.strings


def test_names_of_columns_and_tables_that_are_sql() -> None:
    made = within(
        database(
            {},
            ['CREATE TABLE "a""; DROP" ("x""y" INTEGER, "startNs" INTEGER)', 'INSERT INTO "a""; DROP" VALUES (7, 8)'],
        ),
        lambda found, log: found.read('a"; DROP', whole='x"y startNs'),
    )
    assert (made.integers('x"y').tolist(), made.integers("startNs").tolist()) == ([7], [8])


ODD: list[Any] = [
    None,
    -1,
    0,
    2**63 - 1,
    -(2**63),
    1.5,
    float("inf"),
    1e300,
    "",
    "12",
    "x",
    "9" * 30,
    b"\xff\0",
    "\ud7ff",
]


@pytest.mark.parametrize("value", ODD)
def test_one_value_in_all_columns(value: Any) -> None:
    loose = {table: ", ".join(column.split()[0] for column in columns.split(", ")) for table, columns in TABLES.items()}
    rows: dict[str, list[tuple[Any, ...]]] = {
        table: [(value,) * len(columns.split(", "))] * 3 for table, columns in loose.items()
    }
    tried(database(rows, tables=loose))


@examples(suite=8, deep=200)
@given(st.data())
def test_any_value_in_any_column(data: st.DataObject) -> None:
    loose = {table: ", ".join(column.split()[0] for column in columns.split(", ")) for table, columns in TABLES.items()}
    rows: dict[str, list[tuple[Any, ...]]] = {name: list(content) for name, content in training().items()}
    for _ in range(data.draw(st.integers(1, 12))):
        table = data.draw(st.sampled_from(sorted(rows)))
        if rows[table]:
            row = data.draw(st.integers(0, len(rows[table]) - 1))
            place = data.draw(st.integers(0, len(rows[table][row]) - 1))
            changed = list(rows[table][row])
            changed[place] = data.draw(st.sampled_from([*ODD, T0, T0 + 2**40]))
            rows[table][row] = tuple(changed)
    raw = tried(database(rows, tables=loose))
    assert raw is not None


def test_values_of_the_wrong_kind_are_counted() -> None:
    loose = {**TABLES, "TASK": ", ".join(column.split()[0] for column in TABLES["TASK"].split(", "))}
    rows = training()
    rows["TASK"][0] = ("soon", *rows["TASK"][0][1:])
    raw = read(database(rows, tables=loose))
    told = {issue.code: (issue.outcome, issue.count, issue.examples) for issue in raw.report.issues}
    assert told["bad_cell"] == ("note", 1, ("TASK.startNs",))
    assert told["bad_row"] == ("dropped", 1, ())
    assert not (raw.kind == EventKind.MEMCPY).any()


@pytest.mark.parametrize("table", sorted(training()))
def test_any_table_may_be_missing(table: str) -> None:
    rows = training()
    del rows[table]
    raw = tried(database(rows))
    assert raw is not None
    assert len(raw.start_ns) > 5


@pytest.mark.parametrize("table", sorted(training()))
def test_columns_may_be_missing(table: str) -> None:
    columns = [column.split()[0] for column in TABLES[table].split(", ")]
    some = random.Random(table).sample(columns, min(4 if DEEP else 2, len(columns))) if len(columns) > 2 else ()
    for column in some:
        if "PRIMARY KEY" not in TABLES[table].split(", ")[columns.index(column)]:
            raw = tried(database(training(), [f"ALTER TABLE {table} DROP COLUMN {column}"]))
            assert raw is not None


def test_a_table_without_times_is_told() -> None:
    raw = read(database(training(), ["ALTER TABLE TASK DROP COLUMN endNs"]))
    told = {issue.code: issue.text for issue in raw.report.issues}
    assert told["missing_column"] == "table TASK has no column endNs; its rows were skipped"


def test_very_many_columns() -> None:
    wide = ", ".join(f"c{number}" for number in range(1900))
    raw = tried(database(training(), ["DROP TABLE TASK", f"CREATE TABLE TASK (startNs, endNs, {wide})"]))
    assert raw is not None
    # SQLite makes no table of 10,000 columns; a file may say that it has one.
    wide = ", ".join(f"c{number}" for number in range(10_000))
    swap = f"UPDATE sqlite_master SET sql = 'CREATE TABLE TASK (startNs, endNs, {wide})' WHERE name = 'TASK'"
    tried(database(training(), ["PRAGMA writable_schema = ON", swap]))


def test_very_many_tables() -> None:
    content = database(training(), [f"CREATE TABLE x{number} (y)" for number in range(300)])
    raw = tried(content)
    assert raw is not None
    assert not (raw.kind == EventKind.UNKNOWN).any()


def test_pages_that_lie_in_themselves_end() -> None:
    """An inner page whose children are all the same leaf: many more rows than fit into the file."""
    content = bytearray(database({}, [MANY.format(30_000)]))
    page = 4096
    root = within(bytes(content), lambda found, log: found._query_schema("SELECT rootpage FROM sqlite_master", "x"))[0][
        0
    ]
    begin = (root - 1) * page
    assert content[begin] == 5, "an inner page of a table"
    cells = int.from_bytes(content[begin + 3 : begin + 5], "big")
    first = int.from_bytes(content[begin + 12 : begin + 14], "big")
    child = content[begin + first : begin + first + 4]
    for cell in range(cells):
        place = int.from_bytes(content[begin + 12 + 2 * cell : begin + 14 + 2 * cell], "big")
        content[begin + place : begin + place + 4] = child
    within(bytes(content), lambda found, log: found.read("t", whole="x"))

    def few(found: Database, log: IssueLog) -> list[str]:
        found.size = 40_000
        found.read("t", whole="x")
        return [issue.text for issue in log.issues()]

    assert "more rows than the file can contain" in within(bytes(content), few)[0]


def test_a_table_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    content = database({}, [MANY.format(200_000)])

    def use(found: Database, log: IssueLog) -> tuple[int, list[str]]:
        monkeypatch.setattr(safe_open, "MOST_SECONDS", 0.0)
        return found.read("t", whole="x").rows, [issue.text for issue in log.issues()]

    rows, told = within(content, use)
    assert rows < 200_000
    assert "took longer" in told[0]


def test_a_text_too_long_for_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_open, "MOST_TEXT_BYTES", 1000)
    rows = training()
    rows["META_DATA"] = [("long", "x" * 5000)]
    raw = read(database(rows))
    assert {"database_damaged"} <= codes(raw)
    assert "aten::mm" in raw.strings


def test_a_long_text_that_all_rows_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MOST_BYTES", 100_000)
    monkeypatch.setattr(names, "MOST_TIMES", 0)
    rows = training()
    rows["STRING_IDS"] = [(number, "x" * 90_000 if text == "FLOAT" else text) for number, text in rows["STRING_IDS"]]
    raw = read(database(rows))
    assert "long_texts" in codes(raw)
    assert {"Type", "Input Shapes"} <= {column.key for column in raw.others}
    assert "Input Data Types" not in {column.key for column in raw.others}


def test_the_copy_is_removed_and_progress_may_stop(
    good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    read(good)
    assert list(tmp_path.iterdir()) == []

    class Stop(Exception):
        pass

    def stop(state: object) -> None:
        raise Stop

    from tb_plugin.formats.ascend.reader import AscendReader

    with pytest.raises(Stop):
        AscendReader().read(Folder({ROWS: good}), ReadOptions(), stop)
    assert list(tmp_path.iterdir()) == []


def test_tasks_whose_types_are_lost_are_no_work() -> None:
    """Without the text of its type nobody knows what a task is; what other tables say of a task or operation counts."""
    rows = training()
    lost = ("MEMCPY_ASYNC", "KERNEL_AIVEC", "SDMA", "hcom_allReduce__1_0_1", "mm_vec")
    number = {text: key for key, text in rows["STRING_IDS"]}
    rows["STRING_IDS"] = [row for row in rows["STRING_IDS"] if row[1] not in lost]
    raw = read(database(rows))
    kinds = dict(zip(raw.strings.take(raw.name).to_pylist(), raw.kind.tolist(), strict=True))
    for text, kind in (("MEMCPY_ASYNC", "DEVICE_ANNOTATION"), ("SDMA", "DEVICE_ANNOTATION"), ("mm_vec", "KERNEL")):
        assert kinds[str(number[text])] == EventKind[kind], text
    collective = raw.strings.take(raw.name[raw.is_collective]).to_pylist()
    assert collective == ["HcclAllreduce", str(number["hcom_allReduce__1_0_1"])]
    (told,) = (issue for issue in raw.report.issues if issue.code == "unknown_tasks")
    assert told.count == 2 and "displayed but not analyzed" in told.text


def test_a_type_of_a_task_that_is_no_core_tells_none() -> None:
    """Without COMPUTE_TASK_INFO kernels have the type of their task as name, which may be any text, and no core."""
    rows = training()
    del rows["COMPUTE_TASK_INFO"], rows["COMMUNICATION_OP"]
    raw = read(database(rows))
    kernels = raw.strings.take(raw.name[raw.kind == EventKind.KERNEL]).to_pylist()
    assert sorted(kernels) == ["KERNEL_AICORE", "KERNEL_AICORE", "KERNEL_AIVEC"]
    assert not {"Accelerator Core", "Core by Task Type"} & {column.key for column in raw.others}
    facts = Overview().part(assemble(raw), Params()).facts
    assert [key for key in facts if ".core." in key] == []
