"""Folded stacks: lines of ``outermost;...;innermost value``."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream

MAX_LINE = 1024 * 1024  # longer lines are not stacks
MOST = 2**53  # larger values are skipped: floats would not be exact
_LINE = r"^(?P<stack>.*[^ \t])[ \t]+(?P<value>\+?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?)$"
_INTEGER = r"^[0-9]{1,15}$"
_VALUE = re.compile(rb"\+?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?\Z")
_EXAMINED_LINES = 50  # maximum number of lines to examine
_BATCH = 8 * 1024 * 1024


class Folded(msgspec.Struct, frozen=True, eq=False):
    """Distinct stacks as text, and the value of each. ``lines`` is the number of lines with a stack."""

    stacks: pa.Array
    values: np.ndarray[tuple[int], np.dtype[np.int64]]
    lines: int
    total: float  # approximate sum of all values


def is_folded(head: bytes) -> bool:
    """Returns True if most lines end in a number, and at least one of these lines has several frames."""
    lines = head.replace(b"\r\n", b"\n").split(b"\n")
    whole = lines[:-1] if len(lines) > 1 else lines
    examined = [line for line in whole[:_EXAMINED_LINES] if line.strip() and not line.startswith(b"#")]
    # One regular expression per line would try each space in turn, which is too slow for long lines.
    parts = [line.rsplit(None, 1) for line in examined]
    good = [part[0] for part in parts if len(part) == 2 and _VALUE.match(part[1])]
    return 2 * len(good) > len(examined) and any(b";" in line for line in good)


def read_folded(head: bytes, stream: TextStream, chunk_bytes: int, log: IssueLog) -> Folded:
    """Reads all stacks. Lines without a stack are skipped and logged."""
    lines = _Lines(log)
    rest = head
    while True:
        piece = stream.read(max(chunk_bytes, 64 * 1024))
        rest += piece
        cut = len(rest) if not piece else rest.rfind(b"\n") + 1
        if cut:
            lines.take(rest[:cut])
            rest = rest[cut:]
        if len(rest) > MAX_LINE:
            log.add("event_too_large", "dropped", text=_TOO_LONG)
            rest = _after_line(stream, max(chunk_bytes, 64 * 1024))
        if not piece and not rest:
            return lines.finished()


_TOO_LONG = "lines longer than one megabyte were skipped"


def _after_line(stream: TextStream, size: int) -> bytes:
    while piece := stream.read(size):
        _, found, rest = piece.partition(b"\n")
        if found:
            return rest
    return b""


# stack, integer part and fractional part of its value
_NOTHING = pa.schema({"stack": pa.large_string(), "value": pa.int64(), "part": pa.float64()})


class _Lines:
    def __init__(self, log: IssueLog) -> None:
        self._log = log
        self._tables: list[pa.Table] = [_NOTHING.empty_table()]
        self._bytes = 0
        self._lines = 0
        self._total = 0.0

    def take(self, text: bytes) -> None:
        decoded = text.decode("utf-8", "replace")
        lines = pc.utf8_rtrim(pc.split_pattern(pa.scalar(decoded, pa.large_string()), "\n").values, " \t\r")
        is_stack_line = pc.and_(pc.not_equal(lines, ""), pc.invert(pc.starts_with(lines, "#")))
        lines = lines.filter(is_stack_line)
        found = pc.extract_regex(lines, _LINE)
        self._drop_lines(lines.filter(pc.is_null(found)), "lines that do not end in a number were skipped")
        found = found.filter(pc.is_valid(found))
        stacks, texts = found.field("stack"), found.field("value")
        whole = pc.match_substring_regex(texts, _INTEGER)
        numbers = pc.if_else(whole, None, texts).cast(pa.float64())
        counts = pc.if_else(whole, texts, None).cast(pa.int64())
        large = pc.fill_null(pc.greater_equal(numbers, MOST), False)
        if pc.any(large).as_py():
            self._drop_lines(texts.filter(large), "stacks with an impossibly large value were skipped")
        below = pc.if_else(large, None, pc.floor(numbers))
        parts = pc.fill_null(pc.subtract(numbers, below), 0.0)
        odd = pc.sum(pc.greater(parts, 0)).as_py()
        if odd:
            self._log.add("odd_number", "repaired", count=odd, text="sums of values with fractions were rounded")
        table = pa.table({"stack": stacks, "value": pc.coalesce(counts, below.cast(pa.int64())), "part": parts})
        table = table.filter(pc.is_valid(table["value"]))
        self._lines += len(table)
        self._total += float(sum(table[key].to_numpy().sum(dtype=np.float64) for key in ("value", "part")))
        self._tables.append(table)
        self._bytes += len(text)
        if self._bytes > _BATCH:
            self._tables, self._bytes = [_summed(self._tables)], 0

    def finished(self) -> Folded:
        table = _summed(self._tables)
        # Only the sum is rounded (half up), because rounding each line would change the sum.
        values = table["value"].to_numpy() + np.floor(table["part"].to_numpy() + 0.5).astype(np.int64)
        return Folded(table["stack"].combine_chunks(), values, self._lines, self._total)

    def _drop_lines(self, lines: pa.Array, text: str) -> None:
        if len(lines):
            self._log.add("unreadable_event", "dropped", example=lines[0].as_py(), count=len(lines), text=text)


def _summed(tables: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables)
    # Hashing the texts once is faster than Arrow's group_by.
    encoded = table["stack"].combine_chunks().dictionary_encode()
    sums = {key: np.zeros(len(encoded.dictionary), kind) for key, kind in (("value", np.int64), ("part", np.float64))}
    for key, column in sums.items():
        np.add.at(column, encoded.indices.to_numpy(), table[key].to_numpy())
    return pa.table({"stack": encoded.dictionary, **sums}, schema=_NOTHING)
