"""CSV tables of Ascend's tools, with typed access to columns."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tb_plugin.formats._chrome.times import INT64_MAX, from_texts, is_time, nanoseconds
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.model.trace.schema import MISSING

MOST_COLUMNS = 512
_MAX_TITLES = 4096  # lines with more columns are not headers; Arrow needs 9 kB per column to split a row
_PART_BYTES = 1 << 23  # text converted to columns at once; rows outside a window are dropped after each part
_SLICE = 1 << 16  # cells converted to Python at once
_QUOTE, _NEW_LINE = b'"\n'
_MAX_PIECE_BYTES = 2**31 - 1
_EMPTY = ("", "N/A", "NA", "NULL", "nan", "NaN")  # texts that mean a missing value
# former column title in lower case -> current title
_SYNONYMS = {
    "step id": "Step Id", "block num": "Block Dim", "mix block num": "Mix Block Dim", "device_id": "Device_id",
    "device id": "Device_id", "stream id": "Stream ID", "task id": "Task ID",
}  # fmt: skip
# 20 digits before the decimal point and 12 after it: enough for any time of this century, and for floats from Python.
_DECIMAL = pa.decimal128(32, 12)
_THOUSAND = pa.decimal128(4, 0)


Keep = Callable[["CsvTable"], Bool]  # returns a boolean mask of the rows to keep


class CsvTable:
    """One table. Empty cells are null. Invalid cells are logged and treated as missing."""

    def __init__(self, titles: Sequence[str], columns: Sequence[pa.Array], log: IssueLog) -> None:
        self.titles = tuple(titles)
        self._columns = dict(zip(titles, columns, strict=True))
        self._log = log
        self._counted: set[str] = set()  # columns whose bad cells are counted; a column may be read several times
        self.rows = len(columns[0]) if columns else 0

    def has(self, *titles: str) -> bool:
        """Returns True if the table has all these columns."""
        return all(title in self._columns for title in titles)

    def texts(self, title: str) -> pa.Array:
        """Returns the cells of a column. Empty cells are null, and so are all cells of a missing column."""
        return self._columns.get(title, pa.nulls(self.rows, pa.string()))

    def nanoseconds(self, title: str) -> tuple[Int64, Bool]:
        """Converts microseconds to nanoseconds (0 = missing). Also returns a mask of the cells with a value."""
        cells = self.texts(title)
        has_value = np.asarray(pc.is_valid(cells))
        filled = cells.drop_null()
        plain = [from_texts(filled.slice(at, _SLICE).to_pylist()) for at in range(0, len(filled), _SLICE)]
        if all(part is not None for part in plain):
            times = np.zeros(len(cells), np.int64)
            times[has_value] = np.concatenate([part for part in plain if part is not None] or [np.empty(0, np.int64)])
            return times, has_value
        try:
            exact = pc.round(
                pc.multiply(pc.cast(cells, _DECIMAL), pa.scalar(1000, _THOUSAND)), 0, round_mode="half_to_even"
            )
            whole = pc.cast(exact, pa.int64())
        except pa.ArrowInvalid:
            log = self._log_for(title)
            whole = pa.array([_time(cell, log) for cell in cells.to_pylist()], pa.int64())
        has_value = np.asarray(pc.is_valid(whole))
        return np.asarray(pc.fill_null(whole, 0)), has_value

    def numbers(self, title: str) -> Float64:
        """Returns a column as floats; NaN = missing."""
        values = np.asarray(pc.fill_null(floats_of(self.texts(title), self._log_for(title)), np.nan))
        return np.where(np.isfinite(values), values, np.nan)

    def integers(self, title: str) -> Int64:
        """Returns a column as integers; -1 = missing."""
        cells = self.texts(title)
        try:
            found = pc.cast(cells, pa.int64())
        except pa.ArrowInvalid:
            values = self.numbers(title)
            whole = np.isfinite(values) & (np.abs(values) < 2.0**53) & (values == np.rint(values))
            return np.where(whole, values, MISSING).astype(np.int64)
        return np.asarray(pc.fill_null(found, MISSING))

    def _log_for(self, title: str) -> IssueLog:
        """Returns the log. If the invalid cells of this column were already logged, returns a temporary log instead."""
        if title in self._counted:
            return IssueLog()
        self._counted.add(title)
        return self._log


def _time(cell: str | None, log: IssueLog) -> int | None:
    if cell is None:
        return None
    if not is_time(cell) or abs(found := nanoseconds(cell)) > INT64_MAX:
        log.add("bad_cell", "note", example=cell)
        return None
    return found


def floats_of(cells: pa.Array, log: IssueLog) -> pa.Array:
    """Converts texts to floats. Invalid texts are logged and become null."""
    try:
        return pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return pa.array([_number(cell, log) for cell in cells.to_pylist()], pa.float64())


def _number(cell: str | None, log: IssueLog) -> float | None:
    if cell is None:
        return None
    try:
        return float(cell)
    except ValueError:
        log.add("bad_cell", "note", example=cell)
        return None


def read_table(pieces: Iterable[bytes], log: IssueLog, keep: Keep | None = None) -> CsvTable | None:
    """Reads a table from pieces of text; None = no header. ``keep`` selects the rows of each part."""
    whole = _WholeRows(_clean(pieces, log))
    head, _, first = next(whole, b"").partition(b"\n")
    titles = _titles(head.decode())
    if not any(titles):
        return None
    if len(titles) > _MAX_TITLES:
        text = f"a table was skipped: its header has more than {_MAX_TITLES:,} columns"
        log.add("many_columns", "dropped", count=len(titles), text=text)
        return None
    if len(titles) > MOST_COLUMNS:
        log.add("many_columns", "dropped", count=len(titles) - MOST_COLUMNS)
    places = [place for place, title in enumerate(titles[:MOST_COLUMNS]) if title]
    names = [titles[place] for place in places]
    parts: list[list[pa.Array]] = [[] for _ in places]
    for body in itertools.chain([first], whole):
        if not body.strip():
            continue
        columns = _columns(body, len(titles), places, log)
        made = [trimmed_cells(column) for column in columns]
        del columns
        if keep is not None:
            mask = pa.array(keep(CsvTable(names, made, log)))
            made = [column.filter(mask) for column in made]
        for part, column in zip(parts, made, strict=True):
            part.append(column)
    return CsvTable(names, [_concatenated(part, log) for part in parts], log)


def _concatenated(parts: list[pa.Array], log: IssueLog) -> pa.Array:
    try:
        return pa.concat_arrays(parts) if parts else pa.array([], pa.string())
    except pa.ArrowInvalid:  # more than 2 GiB
        log.add("long_texts", "note", text="a column of very long texts was skipped")
        return pa.nulls(sum(map(len, parts)), pa.string())
    finally:
        parts.clear()


class _WholeRows(Iterator[bytes]):
    """Splits the text at line ends outside quotes. An open quote extends to the end of the text."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = bytearray()
        self._enough = _PART_BYTES

    def __next__(self) -> bytes:
        for piece in self._pieces:
            self._rest += piece
            if len(self._rest) < self._enough:
                continue
            end = _last_row_end(self._rest)
            self._enough = _PART_BYTES if end else 2 * len(self._rest)
            if end:
                part = bytes(self._rest[:end])
                del self._rest[:end]
                return part
        if not self._rest:
            raise StopIteration
        part, self._rest = bytes(self._rest), bytearray()
        return part


def _last_row_end(text: bytearray) -> int:
    letters = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(letters == _NEW_LINE)
    before = np.searchsorted(np.flatnonzero(letters == _QUOTE), ends)
    outside = ends[before % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def _clean(pieces: Iterable[bytes], log: IssueLog) -> Iterator[bytes]:
    """Yields the text as valid UTF-8, without byte order mark and NUL characters."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_first, is_bad = True, False
    for piece in itertools.chain(pieces, [b""]):
        if is_first:
            piece = piece.removeprefix(codecs.BOM_UTF8)
        is_first = is_first and not piece
        try:
            text = decoder.decode(piece, not piece).encode()
        except UnicodeDecodeError:
            pending = decoder.getstate()[0]
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            text = decoder.decode(pending + piece, not piece).encode()
            is_bad = True
        if zeros := text.count(b"\0"):
            log.add("control_character", "repaired", count=zeros)
            text = text.replace(b"\0", b"")
        yield text
    if is_bad:
        log.add("bad_utf8", "repaired")


def _titles(line: str) -> list[str]:
    """Returns the column titles. A repeated title becomes ""."""
    try:
        found = next(csv.reader([line.replace("\r", "")]), [])
    except csv.Error:  # a title of more than 128 KiB
        return []
    titles: dict[str, int] = {}
    for place, title in enumerate(found):
        text = title.strip()
        titles.setdefault(_SYNONYMS.get(text.lower(), text), place)
    places = {place: title for title, place in titles.items()}
    return [places.get(place, "") for place in range(len(found))]


def _columns(body: bytes, count: int, places: Sequence[int], log: IssueLog) -> list[pa.Array]:
    refused: list[int] = []
    try:
        columns = _arrow_columns(body, count, places, refused)
    except pa.ArrowInvalid:
        return _python_columns(body, count, places, log)
    if refused:
        log.add("bad_row", "dropped", count=len(refused))
    return columns


def _arrow_columns(body: bytes, count: int, places: Sequence[int], refused: list[int]) -> list[pa.Array]:
    """Parses columns with Arrow. Adds an item to ``refused`` for each row of unexpected length. Raises ArrowInvalid."""
    names = [str(place) for place in range(count)]
    wanted = [names[place] for place in places]

    def refuse(row: object) -> str:
        refused.append(1)
        return "skip"

    table = pacsv.read_csv(
        io.BytesIO(body),
        read_options=pacsv.ReadOptions(
            column_names=names, use_threads=False, block_size=min(len(body), _MAX_PIECE_BYTES)
        ),
        parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(wanted, pa.string()),
            include_columns=wanted,
            strings_can_be_null=False,
            quoted_strings_can_be_null=False,
        ),
    )
    return [table.column(name).combine_chunks() for name in wanted]


def _python_columns(body: bytes, count: int, places: Sequence[int], log: IssueLog) -> list[pa.Array]:
    """Parses columns with Python's csv module. Used for text that Arrow rejects, such as an unclosed quote."""
    rows: list[list[str]] = []
    reader = csv.reader(io.StringIO(body.decode(), newline=""))
    while True:
        try:
            row = next(reader, None)
        except csv.Error:
            log.add("bad_row", "dropped")
            continue
        if row is None:
            break
        if len(row) == count:
            rows.append(row)
        elif row:
            log.add("bad_row", "dropped")
    return [pa.array([row[place] for row in rows], pa.string()) for place in places]


def trimmed_cells(column: pa.Array) -> pa.Array:
    """Removes whitespace around cells; null = missing."""
    trimmed = pc.utf8_trim_whitespace(column)
    return pc.if_else(pc.is_in(trimmed, pa.array(_EMPTY)), pa.scalar(None, pa.string()), trimmed)
