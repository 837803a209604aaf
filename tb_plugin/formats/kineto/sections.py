"""Arguments of one chunk as section columns.

``used`` contains the fields of ``Args`` that the file has used so far. A column without values in the chunk is
skipped. Each field has a separate list comprehension, which is faster than ``attrgetter``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.columns import Section, Values, float64s, int64s
from tb_plugin.formats._chrome.events import ABSENT
from tb_plugin.formats._chrome.interning import Ids, Interner
from tb_plugin.formats.kineto.events import Args
from tb_plugin.lib.arrays import Int32, Int64, UInt8
from tb_plugin.model.trace.schema import EventKind

Columns = dict[str, npt.NDArray[Any]]

_OPERATORS = (EventKind.OPERATOR, EventKind.ANNOTATION)
_PYTHON = (EventKind.PYTHON,)
_PYTHON_COLUMNS = {"Python id": "python_id", "Python parent id": "parent_id", "Python module id": "module_id"}
# fields of ``Args`` and their columns; collectives are few, so no list comprehension per field is needed
_COLLECTIVE_WORDS = {
    "collective": "name", "dtype": "dtype", "group_name": "group_name", "group_description": "group_description",
    "group_ranks": "group_ranks",
}  # fmt: skip
_COLLECTIVE_INTEGERS = {
    "in_elements": "in_elements", "out_elements": "out_elements", "group_size": "group_size",
    "collective_sequence": "sequence", "source_rank": "source_rank", "destination_rank": "destination_rank",
}  # fmt: skip
_SEPARATOR = b"\0"  # never part of valid JSON


class Sections:
    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        words, whole = np.int32, np.int64
        # argument -> column, and the lookup for its string ids (None for integers)
        self._operator_columns: dict[str, tuple[str, Ids | None]] = {
            "Input Dims": ("shapes", interner.raw),
            "Input type": ("types", interner.raw),
            "Input Strides": ("strides", interner.raw),
            "Concrete Inputs": ("concrete", interner.raw),
            "Call stack": ("stack", interner.raw),
            "Sequence number": ("sequence", None),
            "Fwd thread id": ("forward_thread", None),
        }
        self.operators = Section(
            shapes=words, types=words, strides=words, concrete=words, stack=words, sequence=whole, forward_thread=whole
        )
        self.python = Section(python_id=whole, parent_id=whole, module_id=whole)
        self.device = Section(
            stream=words, grid=words, block=words, registers=whole, shared_memory=whole,
            blocks_per_sm=np.float64, occupancy=np.float64, bytes=whole, direction=words,
        )  # fmt: skip
        self.collectives = Section(
            name=words, dtype=words, in_elements=whole, out_elements=whole, group_size=whole,
            group_name=words, group_description=words, group_ranks=words, sequence=whole, source_rank=whole,
            destination_rank=whole,
        )  # fmt: skip

    def take_piece(self) -> list[Columns]:
        return [section.take() for section in self._all()]

    def merge(self, piece: list[Columns], first_row: int, ids: Int32) -> None:
        for section, columns in zip(self._all(), piece, strict=True):
            section.merge(columns, first_row, ids)

    def _all(self) -> tuple[Section, ...]:
        return self.operators, self.python, self.device, self.collectives

    def add_operators(self, rows: Int64, args: Sequence[Args], used: Collection[str]) -> None:
        columns: Columns = {}
        raw, words = self._interner.raw, self._interner.words
        dims = [a.input_dims for a in args] if "input_dims" in used else []
        if "input_dims_old" in used and (not dims or ABSENT in dims):
            dims = [a.input_dims_old if a.input_dims is ABSENT else a.input_dims for a in args]
        if dims:
            _raw(columns, "shapes", dims, raw)
        if "input_type" in used:
            _raw(columns, "types", [a.input_type for a in args], raw)
        if "input_strides" in used:
            _raw(columns, "strides", [a.input_strides for a in args], raw)
        if "concrete_inputs" in used:
            _raw(columns, "concrete", [a.concrete_inputs for a in args], raw)
        if "call_stack" in used:
            _words(columns, "stack", [a.call_stack for a in args], words)
        if "sequence_number" in used:
            _integers(columns, "sequence", [a.sequence_number for a in args])
        if "forward_thread" in used:
            _integers(columns, "forward_thread", [a.forward_thread for a in args])
        self.operators.add(rows, columns)

    def add_columns(self, kinds: UInt8, first: int, args: Mapping[str, tuple[Int64, Values]]) -> None:
        """Adds arguments of rows, starting at row ``first``. Python calls with a module id become MODULE events."""
        for section, of_kinds, named in (
            (self.operators, _OPERATORS, self._operator_columns),
            (self.python, _PYTHON, {key: (column, None) for key, column in _PYTHON_COLUMNS.items()}),
        ):
            chosen = np.flatnonzero(np.isin(kinds, of_kinds))
            stated = {
                column: spread_column(len(kinds), args[key], ids)[chosen]
                for key, (column, ids) in named.items()
                if key in args
            }
            section.add(chosen + first, stated)
            if "module_id" in stated:
                kinds[chosen[stated["module_id"] != -1]] = EventKind.MODULE

    def add_python(self, rows: Int64, args: Sequence[Args], used: Collection[str]) -> Int64:
        """Adds arguments of Python calls. Returns module ids; -1 = not a module."""
        columns: Columns = {}
        if "python_id" in used:
            _integers(columns, "python_id", [a.python_id for a in args])
        if "python_parent_id" in used:
            _integers(columns, "parent_id", [a.python_parent_id for a in args])
        if "python_module_id" in used:
            _integers(columns, "module_id", [a.python_module_id for a in args])
        self.python.add(rows, columns)
        modules: Int64 = columns.get("module_id", np.full(len(rows), -1, np.int64))
        return modules

    def add_device(self, rows: Int64, args: Sequence[Args], used: Collection[str]) -> None:
        columns: Columns = {}
        if "stream" in used:
            streams = [None if a.stream == -1 else a.stream for a in args]
            _words(columns, "stream", streams, self._interner.words)
        if "grid" in used:
            _raw(columns, "grid", [a.grid for a in args], self._interner.raw)
        if "block" in used:
            _raw(columns, "block", [a.block for a in args], self._interner.raw)
        if "registers" in used:
            _integers(columns, "registers", [a.registers for a in args])
        if "shared_memory" in used:
            _integers(columns, "shared_memory", [a.shared_memory for a in args])
        if "blocks_per_sm" in used:
            _floats(columns, "blocks_per_sm", [a.blocks_per_sm for a in args])
        if "occupancy" in used:
            _floats(columns, "occupancy", [a.occupancy for a in args])
        if "occupancy" in columns:
            columns["occupancy"] = columns["occupancy"] / 100.0  # percent to ratio
        if "bytes" in used:
            _integers(columns, "bytes", [a.bytes for a in args])
        if "direction" in used:
            _words(columns, "direction", [a.direction for a in args], self._interner.words)
        self.device.add(rows, columns)

    def add_collectives(self, rows: Int64, args: Sequence[Args], used: Collection[str]) -> None:
        """Adds collective arguments. The caller selects the rows that have a collective name."""
        columns: Columns = {}
        for field, column in _COLLECTIVE_WORDS.items():
            if field in used:
                _words(columns, column, [getattr(a, field) for a in args], self._interner.words)
        for field, column in _COLLECTIVE_INTEGERS.items():
            if field in used:
                _integers(columns, column, [getattr(a, field) for a in args])
        self.collectives.add(rows, columns)


def spread_column(count: int, stated: tuple[Int64, Values] | None, ids: Ids | None = None) -> npt.NDArray[Any]:
    """Returns a column of ``count`` rows from row indices and values. Texts become string ids; -1 = missing."""
    column = np.full(count, -1, np.int64 if ids is None else np.int32)
    if stated is not None:
        places, values = stated
        if ids is not None:
            column[places] = ids.of(values if isinstance(values, list) else [b"%d" % each for each in values.tolist()])
        else:
            column[places] = int64s(python_values(values)) if isinstance(values, list) else values
    return column


def python_values(values: Values) -> list[Any]:
    """Converts values to Python objects. JSON lists and objects stay undecoded."""
    if not isinstance(values, list):
        return list(values.tolist())
    known = {text: msgspec.Raw(text) if text[:1] in (b"[", b"{") else msgspec.json.decode(text) for text in set(values)}
    return [known[text] for text in values]


def _all_absent(values: list[Any], absent: Any) -> bool:
    # ``count`` is fast only for identical objects. Checking the first value avoids the slow case.
    return values[0] is absent and values.count(absent) == len(values)


def _integers(columns: Columns, name: str, values: list[Any]) -> None:
    if not _all_absent(values, -1):
        columns[name] = int64s(values)


def _floats(columns: Columns, name: str, values: list[Any]) -> None:
    column = float64s(values)
    if not np.isnan(column).all():
        columns[name] = column


def _words(columns: Columns, name: str, values: list[Any], ids: Ids) -> None:
    if not _all_absent(values, None):
        columns[name] = ids.of(values)


def _raw(columns: Columns, name: str, values: list[Any], ids: Ids) -> None:
    if not _all_absent(values, ABSENT):
        columns[name] = ids.of(_copied(values))


def _copied(values: list[Any]) -> list[bytes]:
    """Copies undecoded values, because the next chunk overwrites the buffer that they refer to."""
    copies = _SEPARATOR.join(values).split(_SEPARATOR)  # faster than a call of bytes for each
    return copies if len(copies) == len(values) else list(map(bytes, values))
