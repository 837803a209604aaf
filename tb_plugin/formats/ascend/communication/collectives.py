"""Group, ranks and data size of collectives on the device."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.communication.groups import Group, number_of
from tb_plugin.formats.ascend.kernel_details import Kernels, ids_of, places_among
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.schema import MISSING, EventKind, MatrixUse
from tb_plugin.model.trace.table import CollectiveArgs

# operation type, and the last digits of the group's number: ``hcom_allReduce__586_0_1``
_NAME = re.compile(r"hcom_(?P<type>[A-Za-z]+)_*(?P<tail>[0-9]{1,3})?")
_LIBRARY_NAME = "group name"  # argument that contains the group's name, in databases
_OTHER_NAMES = {"receive": "recv"}
_TYPES = {
    "FP64": "float64", "FP32": "float32", "FP16": "float16", "BFP16": "bfloat16", "BF16": "bfloat16", "INT64": "int64",
    "UINT64": "uint64", "INT32": "int32", "UINT32": "uint32", "INT16": "int16", "UINT16": "uint16", "INT8": "int8",
    "UINT8": "uint8",
}  # fmt: skip
# operations whose count is the number of elements per rank; for other operations it is only a part
_COUNTS_PER_RANK = frozenset({"allreduce", "broadcast", "reduce", "send", "receive"})


def timed_calls(operations: pa.Table) -> pa.Table:
    """Returns the calls that have a name, a start and a duration."""
    has_times = pc.and_(operations["start_ns"].is_valid(), operations["elapse_ns"].is_valid())
    return operations.filter(pc.and_(has_times, operations["operation"].is_valid()))


def operation_kernels(operations: pa.Table, device: int, interner: Interner) -> Kernels:
    """Returns the calls that have start and duration as kernels of a device."""
    some = timed_calls(operations)
    count = some.num_rows
    return Kernels(
        name=ids_of(some["operation"].combine_chunks(), interner),
        start_ns=np.asarray(some["start_ns"]).astype(np.int64),
        dur_ns=np.asarray(some["elapse_ns"]).astype(np.int64),
        device=np.full(count, device, np.int32),
        stream=np.full(count, MISSING, np.int32),
        is_collective=np.ones(count, np.bool_),
        uses_matrix_unit=np.full(count, MatrixUse.NO, np.uint8),
        facts=(),
    )


def collectives_of(
    columns: Mapping[str, Any], operations: pa.Table | None, groups: Mapping[str, Group], interner: Interner
) -> CollectiveArgs:
    """Returns the arguments of all rows that are collectives."""
    names, place = np.unique(columns["name"], return_inverse=True)
    matches = [_NAME.match(interner.texts[name]) for name in names.tolist()]
    is_operation = np.array([match is not None for match in matches], np.bool_)
    rows = np.flatnonzero(is_operation[place] & (columns["kind"] == EventKind.KERNEL)).astype(np.int32)
    if not len(rows):
        return CollectiveArgs()
    by_tail = _by_tail(groups)
    types = [match["type"] if match else "" for match in matches]
    tails = [by_tail.get(match["tail"], f"…{match['tail']}") if match and match["tail"] else "" for match in matches]
    of_name = np.array([interner.text(text) if text else MISSING for text in tails], np.int32)
    group = of_name[place[rows]]
    others, row_count = {column.key: column for column in columns["others"]}, len(columns["kind"])
    # The group comes from the call, or the group's name in a database, or the last digits of its number.
    for known in (
        _mapped(others.get(_LIBRARY_NAME), rows, row_count, interner, number_of),
        _stated_groups(columns, operations, rows, interner),
    ):
        group = np.where(known != MISSING, known, group).astype(np.int32)
    spelled = np.array([interner.text(_OTHER_NAMES.get(text.lower(), text)) for text in types], np.int32)
    count = np.array([text.lower() in _COUNTS_PER_RANK for text in types], np.bool_)[place[rows]]
    elements = np.where(count, _numbers(others.get("count"), rows, row_count), MISSING)
    return CollectiveArgs(
        row=rows,
        name=spelled[place[rows]],
        dtype=_mapped(others.get("data_type"), rows, row_count, interner, lambda text: _TYPES.get(text.upper(), text)),
        in_elements=elements,
        out_elements=np.full(len(rows), MISSING, np.int64),
        sequence=np.full(len(rows), MISSING, np.int64),
        source_rank=np.full(len(rows), MISSING, np.int64),
        destination_rank=np.full(len(rows), MISSING, np.int64),
        **_about(group, groups, interner),
    )


def _by_tail(groups: Mapping[str, Group]) -> dict[str, str]:
    """Maps the last three digits of each group number to the group. Digits shared by several groups are omitted."""
    found: dict[str, list[str]] = defaultdict(list)
    for number in groups:
        found[number[-3:]].append(number)
    return {tail: numbers[0] for tail, numbers in found.items() if len(numbers) == 1}


def _stated_groups(columns: Mapping[str, Any], operations: pa.Table | None, rows: Int32, interner: Interner) -> Int32:
    """Returns the group of each row as a string id, -1 = unknown. Rows are matched to calls by name and start."""
    found = np.full(len(rows), MISSING, np.int32)
    if operations is None or not operations.num_rows:
        return found
    calls = operation_kernels(operations, 0, interner)
    group = ids_of(timed_calls(operations)["group"].combine_chunks(), interner)
    row = places_among(calls, columns["name"], columns["start_ns"], rows.astype(np.int64))
    known = np.flatnonzero(row != MISSING)
    found[np.searchsorted(rows, row[known])] = group[known]
    return found


def _about(group: Int32, groups: Mapping[str, Group], interner: Interner) -> dict[str, Any]:
    numbers, place = np.unique(group, return_inverse=True)
    known: Sequence[Group | None] = [
        groups.get(interner.texts[number]) if number != MISSING else None for number in numbers.tolist()
    ]
    ranks = [interner.text(json.dumps(list(one.ranks))) if one and one.ranks else MISSING for one in known]
    names = [interner.text(one.name) if one and one.name else MISSING for one in known]
    sizes = [len(one.ranks) if one and one.ranks else MISSING for one in known]
    return {
        "group_name": group,
        "group_ranks": np.array(ranks, np.int32)[place],
        "group_description": np.array(names, np.int32)[place],
        "group_size": np.array(sizes, np.int64)[place],
    }


def _numbers(column: OpenColumn | None, rows: Int32, count: int) -> Int64:
    """Returns the whole number of each of ``rows``; -1 = missing. ``count`` is the number of all rows."""
    dense = np.full(count, np.nan)
    if column is not None and not column.is_text:
        dense[column.row] = column.value
    values = dense[rows]
    good = np.isfinite(values) & (values >= 0) & (values < 2.0**62)
    return np.where(good, np.where(good, values, 0), MISSING).astype(np.int64)


def _mapped(column: OpenColumn | None, rows: Int32, count: int, interner: Interner, of: Callable[[str], str]) -> Int32:
    """Converts the text of each of ``rows``, and returns string ids; -1 = no text."""
    dense = np.full(count, MISSING, np.int32)
    if column is not None and column.is_text:
        dense[column.row] = column.value
    words, place = np.unique(dense[rows], return_inverse=True)
    ids = [interner.text(of(interner.texts[word])) if word != MISSING else MISSING for word in words.tolist()]
    return np.array(ids, np.int32)[place]
