"""Recorded shapes and types of operator inputs."""

from __future__ import annotations

import json
import math
import re

import msgspec
import numpy as np

from tb_plugin.analysis.dtypes import element_bytes
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import Whole, group, places_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable

_LONGEST = 4_096
"""Maximum length of a text to parse, in characters. Lists of tensors may be very long."""
Dims = tuple[int, ...]


def names_that(trace: TraceTable, rows: Whole, pattern: str) -> Int64:
    """Returns the string ids of the event names in ``rows`` that match a regex. An empty regex matches nothing."""
    if not pattern or not len(rows):
        return np.empty(0, np.int64)
    used = np.zeros(len(trace.strings), np.bool_)
    used[trace.name[rows]] = True
    ids, search = np.flatnonzero(used), re.compile(pattern).search
    found = [search(text) is not None for text in trace.strings.take(ids).to_pylist()]
    return ids[np.array(found, np.bool_)]


def rows_that(trace: TraceTable, rows: Whole, pattern: str) -> Bool:
    """Returns whether the name of each row matches a regex; row -1 never matches."""
    known = rows[rows != MISSING]
    flags = np.zeros(len(trace.strings) + 1, np.bool_)
    flags[names_that(trace, known, pattern)] = True
    found: Bool = flags[np.where(rows == MISSING, MISSING, np.append(trace.name, MISSING)[rows])]
    return found


def input_dims(text: str) -> list[Dims]:
    """Parses the recorded dimensions of each input. An input that is not a tensor has the dimensions ``()``."""
    try:
        inputs = json.loads(text) if len(text) <= _LONGEST else []
    except ValueError:
        return []
    if not isinstance(inputs, list):
        return []
    return [tuple(each) if isinstance(each, list) and all(type(n) is int for n in each) else () for each in inputs]


def input_types(text: str) -> list[str]:
    """Parses the recorded type of each input."""
    try:
        inputs = json.loads(text) if len(text) <= _LONGEST else []
    except ValueError:
        return []
    return [each if isinstance(each, str) else "" for each in inputs] if isinstance(inputs, list) else []


@cached_by_argument
def arguments(trace: TraceTable) -> Arguments:
    place = places_of(trace.operators.row, len(trace))
    return Arguments(place, np.append(trace.operators.shapes, MISSING), np.append(trace.operators.types, MISSING))


class Arguments(msgspec.Struct, frozen=True, eq=False):
    """Recorded arguments of operators. ``place`` maps each row (and -1) to an index into ``shapes`` and ``types``."""

    place: Int32
    shapes: Int32
    types: Int32

    def shape_of(self, rows: Whole) -> Int64:
        """Returns the string id of the recorded shapes for each row; -1 = not recorded."""
        found: Int64 = self.shapes[self.place[rows]].astype(np.int64)
        return found

    def type_of(self, rows: Whole) -> Int64:
        """Returns the string id of the recorded types for each row; -1 = not recorded."""
        found: Int64 = self.types[self.place[rows]].astype(np.int64)
        return found


class Extents(msgspec.Struct, frozen=True, eq=False):
    """Elements and bytes of each operator's largest input, and the number of inputs of this size; 0 = unknown."""

    numbers: Int64
    inputs: Int64
    bytes: Int64

    def take(self, of: Bool) -> Extents:
        return Extents(self.numbers[of], self.inputs[of], self.bytes[of])


def largest_inputs(trace: TraceTable, operators: Whole) -> Extents:
    """Returns the size of the largest input of each operator. ``operators`` contains row numbers; -1 = none."""
    texts, types = arguments(trace).shape_of(operators), arguments(trace).type_of(operators)
    groups = group(texts, types)
    found = np.zeros((3, len(groups)), np.int64)
    shown = [trace.strings.take(column[groups.first]).to_pylist() for column in (texts, types)]
    for i, (text, kinds) in enumerate(zip(*shown, strict=True)):
        counts = [math.prod(dims) if dims else 0 for dims in input_dims(text or "[]")]
        most = min(max(counts, default=0), 1 << 56)
        if most:
            at = counts.index(max(counts))
            size = element_bytes([*input_types(kinds or "[]"), *[""] * len(counts)][at]) or 0
            found[:, i] = most, counts.count(max(counts)), most * size
    numbers, inputs, sizes = found[:, groups.of]
    return Extents(numbers, inputs, sizes)
