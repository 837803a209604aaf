"""Tables of three eras: columns by name, times by their digits, and what is no table."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.formats.ascend.csv_table import MOST_COLUMNS, CsvTable, read_table
from tb_plugin.formats.issues import IssueLog
from tests.depth import examples
from tests.formats.ascend.folders import ALEXNET, GPT, OUTPUT, QWEN, needs_recorded


def read(text: str | bytes) -> tuple[CsvTable, dict[str, int]]:
    """The table of a text, and how often the log tells what."""
    log = IssueLog()
    table = read_table([text.encode() if isinstance(text, str) else text], log)
    assert table is not None
    return table, told(table)


def told(table: CsvTable) -> dict[str, int]:
    return {issue.code: issue.count for issue in table._log.issues()}


def times(table: CsvTable, title: str) -> list[int | None]:
    values, there = table.nanoseconds(title)
    return [int(value) if known else None for value, known in zip(values, there, strict=True)]


def column(*cells: str) -> CsvTable:
    return read("a,b\n" + "".join(f"{cell},.\n" for cell in cells))[0]


ERAS = {
    "2023": "Step Id,Name,Start Time(us),Duration(us)\n4,k,1695115378713661.5,12.5\n",
    "early 2025": "Step Id,Model ID,Name,OP State,Start Time(us),Duration(us)\r\n4,1,k,N/A,1695115378713661.500\t,12.5\r\n",
    "late 2025": "\ufeffStep ID,Device_id,Name,Start Time(us),Duration(us)\r\n4,7,k,1695115378713661.500\t,12.500\t\r\n",
}


@pytest.mark.parametrize("text", ERAS.values(), ids=ERAS)
def test_one_row_of_each_era(text: str) -> None:
    table, log = read(text)
    assert table.texts("Name").to_pylist() == ["k"] and table.integers("Step Id").tolist() == [4]
    assert times(table, "Start Time(us)") == [1695115378713661500] and times(table, "Duration(us)") == [12500]
    assert log == {}


@pytest.mark.parametrize(
    ("title", "canonical"),
    [
        *(
            ("Step Id", "Step Id"),
            ("Step ID", "Step Id"),
            ("Block Num", "Block Dim"),
            ("Mix Block Num", "Mix Block Dim"),
        ),
        *(("Device ID", "Device_id"), ("device_id", "Device_id"), ("Stream Id", "Stream ID"), ("Task Id", "Task ID")),
    ],
)
def test_titles_that_changed_are_one(title: str, canonical: str) -> None:
    assert read(f" {title} ,Name\n5,k\n")[0].integers(canonical).tolist() == [5]


def test_order_does_not_matter_and_what_is_missing_is_absent() -> None:
    table, log = read("Duration(us),Name\n1.5,k\n")
    assert times(table, "Duration(us)") == [1500] and table.has("Name") and not table.has("Name", "Step Id")
    assert table.texts("Step Id").to_pylist() == [None] and table.integers("Step Id").tolist() == [-1]
    assert times(table, "Start Time(us)") == [None] and np.isnan(table.numbers("Block Dim")).all()
    assert log == {}


def test_cells_without_a_value_are_null() -> None:
    table = column("", "N/A", "NA", "NULL", "nan", " ", "\t", "0", '"x"')
    assert table.texts("a").to_pylist() == [None] * 7 + ["0", "x"]


@pytest.mark.parametrize(
    ("cell", "ns"),
    [
        ("8873.756000000001", 8873756), ("0.1", 100), ("0.0004", 0), ("0.0005", 0), ("0.0015", 2), ("-1.5", -1500),
        ("1736408883704643.212\t", 1736408883704643212), ("1736408883704643", 1736408883704643000),
        ("1.7364088837046432E15", 1736408883704643200), ("40168000000000003e-20", 0), ("1e3", 1_000_000),
        ("9223372036854775.807", 2**63 - 1), ("0.00040168000000000003", 0), ("101963.20299999998", 101963203),
    ],
)  # fmt: skip
def test_times_are_the_nearest_nanosecond_of_their_digits(cell: str, ns: int) -> None:
    for cells in ((cell,), (cell, "no time", "1")):  # all at once, and one by one
        assert times(column(*cells), "a")[0] == ns


@pytest.mark.parametrize(
    "cell", ["9223372036854775807", "9223372036854775.808", "1e400", "inf", "YES", "0x10", "1.2.3", "12 us"]
)
def test_what_is_no_time_of_64_bits_is_counted_and_absent(cell: str) -> None:
    table = column("1", cell, "2")
    assert times(table, "a") == [1000, None, 2000]
    assert told(table) == {"bad_cell": 1}


@given(st.lists(st.decimals(-(10**15), 10**15, places=3), min_size=1, max_size=5))
@examples(25, 500)
def test_three_decimals_are_never_rounded(values: list[Decimal]) -> None:
    expected = [int(value * 1000) for value in values]
    assert times(column(*(f"{value}\t" for value in values)), "a") == expected
    assert times(column("x", *map(str, values)), "a")[1:] == expected


def test_numbers_of_wrong_types() -> None:
    table = column("1", "2.5", "YES", "1e400", "-inf", "", "18446744073709551616")
    found = table.numbers("a").tolist()
    assert found[:2] == [1.0, 2.5] and found[6] == 2.0**64 and all(np.isnan(each) for each in found[2:6])
    assert told(table) == {"bad_cell": 1}
    assert table.integers("a").tolist() == [1, -1, -1, -1, -1, -1, -1]
    assert column("4294967295", "3", "N/A").integers("a").tolist() == [4294967295, 3, -1]
    assert column("3.0", "2").integers("a").tolist() == [3, 2]


def test_quoted_cells_hold_commas_quotes_and_lines() -> None:
    table, log = read('Name,Shapes,Call Stack\r\nk,"""32,3;1""","a.py(1): f;\r\nb.py(2): g;\r\n"\r\nl,"1,2",\r\n')
    assert table.texts("Shapes").to_pylist() == ['"32,3;1"', "1,2"]
    assert table.texts("Call Stack").to_pylist() == ["a.py(1): f;\r\nb.py(2): g;", None]
    assert table.rows == 2 and log == {}


def test_a_cell_that_is_cut_off_costs_its_row() -> None:
    text = 'Name,Stack,Duration(us)\nk,"a\nb",1\nl,"c\nd",2\nm,"e\nf'
    table, log = read(text)
    assert table.texts("Name").to_pylist() == ["k", "l"] and times(table, "Duration(us)") == [1000, 2000]
    assert log == {"bad_row": 1}


def test_a_table_cut_anywhere_keeps_its_whole_rows() -> None:
    text = 'Name,Stack,Duration(us)\r\nk,"a\r\nb",1.5\r\nl,"c,""d""",2.5\r\n'
    for length in range(text.index("\n") + 1, len(text)):
        table, log = read(text[:length])
        whole = text[:length].endswith(("1.5\r\n", "1.5\r", "1.5", "2.5\r", "2.5"))
        assert table.rows in (0, 1, 2) and set(log) <= {"bad_row"}
        if whole:
            assert times(table, "Duration(us)")[0] == 1500
        if length < text.index('",1.5'):
            assert table.texts("Duration(us)").to_pylist() == []


def test_rows_of_another_length_are_counted() -> None:
    table, log = read("a,b\n1,2\n3\n4,5,6\n\n7,8\n")
    assert table.integers("a").tolist() == [1, 7] and log == {"bad_row": 2}


def test_a_title_that_stands_twice_is_its_first_column() -> None:
    table, log = read("Name,Time,Time,,Step Id,Step ID\nk,1,2,3,4,5\n")
    assert table.titles == ("Name", "Time", "Step Id") and log == {}
    assert table.integers("Time").tolist() == [1] and table.integers("Step Id").tolist() == [4]


def test_texts_that_are_no_utf8_and_zeros_are_repaired() -> None:
    table, log = read(b"Name,b\nk\xff,1\nl\0m,2\n")
    assert table.texts("Name").to_pylist() == ["k\N{REPLACEMENT CHARACTER}", "lm"]
    assert log == {"bad_utf8": 1, "control_character": 1}


@pytest.mark.parametrize("text", ["", "\n", ",,\n1,2,3\n", "\ufeff", "\r\n1,2\r\n"])
def test_without_titles_there_is_no_table(text: str) -> None:
    assert read_table([text.encode()], IssueLog()) is None


@pytest.mark.parametrize("text", ["Name,b", "Name,b\n", "Name,b\r\n\r\n", "Name,b\n  \n"])
def test_titles_alone_are_an_empty_table(text: str) -> None:
    table, log = read(text)
    assert table.rows == 0 and table.has("Name", "b") and log == {}
    assert times(table, "b") == [] and table.numbers("b").tolist() == table.integers("b").tolist() == []


def test_too_many_columns_are_dropped_and_counted() -> None:
    count = MOST_COLUMNS + 3
    table, log = read(",".join(f"c{n}" for n in range(count)) + "\n" + ",".join(map(str, range(count))) + "\n")
    assert len(table.titles) == MOST_COLUMNS and log == {"many_columns": 3}
    assert table.integers("c7").tolist() == [7]


def test_a_cell_larger_than_a_block_is_read() -> None:
    stack = "x" * (3 << 20)
    table, log = read(f'Name,Stack\nk,"{stack}"\nl,y\n')
    assert table.rows == 2 and log == {}
    assert len(table.texts("Stack")[0].as_py()) == len(stack)


@given(st.lists(st.tuples(st.text(max_size=6), st.text(max_size=6)), max_size=6))
@examples(25, 500)
def test_any_cells_come_back_as_python_reads_them(rows: list[tuple[str, str]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    table, _ = read(out.getvalue().encode("utf-8", "replace"))
    empty = {"", "N/A", "NA", "NULL", "nan", "NaN"}

    def seen(cell: str) -> str | None:
        text = cell.encode("utf-8", "replace").decode().replace("\0", "").strip()
        return None if text in empty else text

    assert table.rows == len(rows)
    for place, title in enumerate("ab"):
        assert [strip(cell) for cell in table.texts(title).to_pylist()] == [seen(row[place]) for row in rows]


def strip(cell: Any) -> Any:
    return cell.strip() if cell is not None else None


@needs_recorded
@pytest.mark.parametrize("path", [ALEXNET, QWEN, GPT], ids=["early 2025", "late 2025", "2023"])
def test_recorded_tables_are_read_as_python_reads_them(path: Any) -> None:
    """Every cell of every table, and times by the digits."""
    for file in sorted((path / OUTPUT).glob("*.csv")):
        if file.stat().st_size > 500_000:
            continue
        with file.open(encoding="utf-8-sig", newline="") as text:
            titles, *rows = csv.reader(text)
        table, log = read(file.read_bytes())
        whole = [row for row in rows if len(row) == len(titles)]
        assert table.rows == len(whole), file
        assert log.get("bad_row", 0) == sum(len(row) not in (0, len(titles)) for row in rows), file
        for place, title in enumerate(table.titles):
            cells = [row[place].strip() for row in whole]
            seen = ["" if cell in ("", "N/A", "NA") else cell for cell in cells]
            assert [cell or "" for cell in table.texts(title).to_pylist()] == seen, (file, title)
            if title.endswith("Time(us)"):
                exact = [round(Decimal(cell) * 1000) if cell else None for cell in seen]
                assert times(table, title) == exact, (file, title)
        assert len(table.titles) == len(titles)


CELLS = st.text(st.sampled_from('ab,"\n\r 0.é'), max_size=6)


@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=12), st.integers(1, 40), st.integers(1, 60), st.data()
)
def test_the_parts_that_a_table_is_read_in_change_nothing(
    rows: list[list[str]], piece: int, part: int, data: st.DataObject
) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=data.draw(st.sampled_from(["\n", "\r\n"]))).writerows([["x", "y", "z"], *rows])
    text = out.getvalue().encode()
    if data.draw(st.booleans()):  # cut off anywhere, also in a quote or a letter
        text = text[: data.draw(st.integers(8, max(8, len(text))))]
    whole, log = read(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tb_plugin.formats.ascend.csv_table._PART_BYTES", part)
        small_log = IssueLog()
        small = read_table((text[i : i + piece] for i in range(0, len(text), piece)), small_log)
    assert small is not None
    assert [small.texts(title).to_pylist() for title in "xyz"] == [whole.texts(title).to_pylist() for title in "xyz"]
    assert told(small) == log


def test_what_is_not_kept_is_let_go_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tb_plugin.formats.ascend.csv_table._PART_BYTES", 100)
    asked: list[int] = []

    def keep(part: CsvTable) -> np.ndarray:
        asked.append(part.rows)
        return np.asarray(part.integers("n") % 3 == 0)

    text = "n,t\n" + "".join(f'{i},"a\nb"\n' for i in range(90))
    table = read_table([text.encode()], IssueLog(), keep)
    assert table is not None and table.integers("n").tolist() == list(range(0, 90, 3))
    assert sum(asked) == 90
    table = read_table((text[i : i + 50].encode() for i in range(0, len(text), 50)), IssueLog(), keep)
    assert table is not None and table.integers("n").tolist() == list(range(0, 90, 3))
    assert sum(asked) == 180 and max(asked[1:]) < 20


def test_bad_cells_are_counted_once_however_often_they_are_asked_for() -> None:
    table = column("soon", "1.5", "later")
    for _ in range(3):
        assert times(table, "a") == [None, 1500, None]
        assert np.isnan(table.numbers("a")).tolist() == [True, False, True]
    assert told(table) == {"bad_cell": 2}
