"""The recorded shapes and types of operators' inputs as numbers. Each distinct text is looked at once."""

from __future__ import annotations

import json
import math
import re

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import group, places_of
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_LONGEST = 4_096
"""Characters of a text that are looked at: lists of tensors may be as long as a model."""
Dims = tuple[int, ...]


def names_that(trace: TraceTable, rows: npt.NDArray[np.integer], pattern: str) -> Int64:
    """Returns the names (string ids) of these rows that an expression of the recorder is found in; "" in none."""
    if not pattern or not len(rows):
        return np.empty(0, np.int64)
    used = np.zeros(len(trace.strings), np.bool_)
    used[trace.name[rows]] = True
    ids, search = np.flatnonzero(used), re.compile(pattern).search
    found = [search(text) is not None for text in trace.strings.take(ids).to_pylist()]
    return ids[np.array(found, np.bool_)]


def rows_that(trace: TraceTable, rows: npt.NDArray[np.integer], pattern: str) -> Bool:
    """Returns which of these rows (-1 = none) have a name that an expression of the recorder is found in."""
    known = rows[rows != MISSING]
    flags = np.zeros(len(trace.strings) + 1, np.bool_)
    flags[names_that(trace, known, pattern)] = True
    found: Bool = flags[np.where(rows == MISSING, MISSING, np.append(trace.name, MISSING)[rows])]
    return found


def sizes(text: str) -> list[Dims]:
    """Returns the dimensions of each input in a recorded text, () for what is no tensor."""
    try:
        inputs = json.loads(text) if len(text) <= _LONGEST else []
    except ValueError:
        return []
    if not isinstance(inputs, list):
        return []
    return [tuple(each) if isinstance(each, list) and all(type(n) is int for n in each) else () for each in inputs]


def types(text: str) -> list[str]:
    """Returns the type of each input in a recorded text."""
    try:
        inputs = json.loads(text) if len(text) <= _LONGEST else []
    except ValueError:
        return []
    return [each if isinstance(each, str) else "" for each in inputs] if isinstance(inputs, list) else []


@remembered
def arguments(trace: TraceTable) -> Arguments:
    """Returns where the arguments of operators stand."""
    place = places_of(trace.operators.row, len(trace))
    return Arguments(place, np.append(trace.operators.shapes, MISSING), np.append(trace.operators.types, MISSING))


class Arguments(msgspec.Struct, frozen=True, eq=False):
    """For each row (one more for -1) its place among the operators with arguments; their texts by place."""

    place: npt.NDArray[np.int32]
    shapes: npt.NDArray[np.int32]
    types: npt.NDArray[np.int32]

    def shape_of(self, rows: npt.NDArray[np.integer]) -> Int64:
        """Returns the string id of the shapes of each of these rows, -1 = not recorded."""
        found: Int64 = self.shapes[self.place[rows]].astype(np.int64)
        return found

    def type_of(self, rows: npt.NDArray[np.integer]) -> Int64:
        """Returns the string id of the types of each of these rows, -1 = not recorded."""
        found: Int64 = self.types[self.place[rows]].astype(np.int64)
        return found


class Extents(msgspec.Struct, frozen=True, eq=False):
    """What shapes say of some operators, 0 = unknown: numbers in the largest input, and how many inputs are as large."""

    numbers: Int64
    inputs: Int64

    def take(self, of: Bool) -> Extents:
        """Returns those of the chosen ones."""
        return Extents(self.numbers[of], self.inputs[of])


def extents(trace: TraceTable, operators: npt.NDArray[np.integer]) -> Extents:
    """Returns the largest input of each of these operators (rows, -1 = none)."""
    texts = arguments(trace).shape_of(operators)
    groups = group(texts)
    found = np.zeros((2, len(groups)), np.int64)
    for i, text in enumerate(trace.strings.take(texts[groups.first]).to_pylist()):
        counts = [math.prod(dims) for dims in sizes(text or "[]") if dims]
        most = max(counts, default=0)
        found[:, i] = min(most, 1 << 60), counts.count(most)
    numbers, inputs = found[:, groups.of]
    return Extents(numbers, inputs)
