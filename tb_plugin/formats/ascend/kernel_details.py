"""Kernels of ``kernel_details.csv``, and their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import asdict, replace

from tb_plugin.devices.npu import CUBE_OR_VECTOR, FACTS
from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.timeline import device_args
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.lib.groupby import number_groups
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.schema import MISSING, EventKind, MatrixUse
from tb_plugin.model.trace.table import AsyncRows, DeviceArgs

NAME, START, DURATION = "Name", "Start Time(us)", "Duration(us)"
WAIT = "Wait Time(us)"
DEVICE, STREAM, CORE, TASK = "Device_id", "Stream ID", "Accelerator Core", "Task Type"
CORE_BY_TASK = "Core by Task Type"
_EITHER, _VECTOR = "AI_CORE", "AI_VECTOR_CORE"
_CUBE = frozenset({"AI_CORE", "MIX_AIC"})
_GROUPS = frozenset({"HCCL", "COMMUNICATION"})
_SHAPES = "Shapes"
_GROUP_TRACK = "Communication"
_NEAR_NS = 1000  # tolerance for the start of a kernel in both files, because of rounding


class Kernels(msgspec.Struct, frozen=True, eq=False):
    """Table rows that have name, start and duration. All columns have equal length."""

    name: Int32
    start_ns: Int64
    dur_ns: Int64
    device: Int32  # -1 = not in the file (before 2025)
    stream: Int32  # string id of the stream number, -1 for none
    is_collective: Bool
    uses_matrix_unit: UInt8
    facts: tuple[OpenColumn, ...]
    """All other columns of the table. Their ``row`` is an index into these kernels."""

    def __len__(self) -> int:
        return len(self.name)

    def take(self, row: Int64) -> Kernels:
        """Returns the kernels with these indices, which must be in ascending order."""
        place = np.full(len(self), MISSING, np.int32)
        place[row] = np.arange(len(row), dtype=np.int32)
        facts = []
        for fact in self.facts:
            has_value = np.flatnonzero(place[fact.row] != MISSING)
            if len(has_value):
                facts.append(replace(fact, row=place[fact.row[has_value]], value=fact.value[has_value]))
        columns = {each: getattr(self, each)[row] for each in self.__struct_fields__ if each != "facts"}
        return Kernels(**columns, facts=tuple(facts))


def kernels_of(table: CsvTable, interner: Interner, log: IssueLog) -> Kernels:
    """Returns the kernels of the table. Rows without a name, and rows with invalid times, are skipped and logged."""
    start, has_start = table.nanoseconds(START)
    duration, has_duration = table.nanoseconds(DURATION)
    names = table.texts(NAME)
    good = has_start & has_duration & (duration >= 0) & np.asarray(pc.is_valid(names))
    if not good.all():
        log.add("bad_row", "dropped", count=int((~good).sum()))
    row = np.flatnonzero(good)
    core = ids_of(table.texts(CORE), interner)[row]
    cube, groups = ([interner.text(word) for word in sorted(words)] for words in (_CUBE, _GROUPS))
    collective = np.isin(core, groups)
    use = np.where(core == MISSING, MatrixUse.UNKNOWN, np.where(np.isin(core, cube), MatrixUse.YES, MatrixUse.NO))
    return Kernels(
        name=ids_of(names, interner)[row],
        start_ns=start[row],
        dur_ns=duration[row],
        device=table.integers(DEVICE)[row].astype(np.int32),
        stream=ids_of(table.texts(STREAM), interner)[row],
        is_collective=collective,
        uses_matrix_unit=np.where(collective, MatrixUse.NO, use).astype(np.uint8),
        facts=tuple(_facts(table, row, interner)),
    )


def core_by_task(columns: Mapping[str, Any], interner: Interner) -> OpenColumn | None:
    """Returns the core type of each kernel that is in no table, derived from its task type. Returns None if there
    are no such kernels.

    The task type AI_CORE is ambiguous unless AI_VECTOR_CORE also occurs: some profiles, such as those of January
    2025, use AI_CORE for kernels on vector cores too.
    """
    others = {column.key: column for column in columns["others"] if column.is_text}
    task = others.get(TASK)
    if task is None:
        return None
    has_core = np.zeros(len(columns["kind"]), np.bool_)
    if CORE in others:
        has_core[others[CORE].row] = True
    words, place = np.unique(task.value, return_inverse=True)
    texts = [interner.texts[word] for word in words.tolist()]
    core_of_task = {core: core for core, _ in FACTS.cores} | ({} if _VECTOR in texts else {_EITHER: CUBE_OR_VECTOR})
    core = np.array(
        [interner.text(core_of_task[text]) if text in core_of_task else MISSING for text in texts], np.int32
    )[place]
    kept = np.flatnonzero((columns["kind"][task.row] == EventKind.KERNEL) & ~has_core[task.row] & (core != MISSING))
    return OpenColumn(CORE_BY_TASK, task.row[kept], core[kept], is_text=True) if len(kept) else None


def uses_of_tasks(core: OpenColumn, use: UInt8, interner: Interner) -> UInt8:
    """Returns the MatrixUse of each row. If it is unknown, derives it from the core type of the kernel's task."""
    use = use.copy()
    cube = np.isin(core.value, [interner.text(word) for word in sorted(_CUBE)])
    unknown = (use[core.row] == MatrixUse.UNKNOWN) & (core.value != interner.text(CUBE_OR_VECTOR))
    use[core.row[unknown]] = np.where(cube[unknown], MatrixUse.YES, MatrixUse.NO)
    return use


def places_among(kernels: Kernels, name: Int32, start_ns: Int64, rows: Int64) -> Int32:
    """Returns which of ``rows`` has the name and start of each kernel; -1 = none. Each row is used once."""
    found = np.full(len(kernels), MISSING, np.int32)
    if not len(rows) or not len(kernels):
        return found
    key, count = number_groups(np.concatenate((kernels.name, name[rows])))
    low = min(int(kernels.start_ns.min()), int(start_ns[rows].min()))
    reach = max(int(kernels.start_ns.max()), int(start_ns[rows].max())) - low + 4 * _NEAR_NS
    if reach * count >= 2**62:  # impossible times
        return found
    ours = key[: len(kernels)] * reach + kernels.start_ns - low
    theirs = key[len(kernels) :] * reach + start_ns[rows] - low
    order = np.argsort(theirs, kind="stable")
    theirs = theirs[order]
    right = np.minimum(np.searchsorted(theirs, ours), len(theirs) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(theirs[right] - ours) <= np.abs(theirs[left] - ours), right, left)
    off = np.abs(theirs[nearest] - ours)
    hit = np.flatnonzero(off <= _NEAR_NS)
    # If two kernels match one row, the nearer kernel is used.
    hit = hit[np.lexsort((off[hit], nearest[hit]))]
    first = np.ones(len(hit), np.bool_)
    first[1:] = nearest[hit][1:] != nearest[hit][:-1]
    found[hit[first]] = rows[order[nearest[hit[first]]]]
    return found


def ids_of(cells: pa.Array, interner: Interner) -> Int32:
    """Returns the string ids of cells; -1 = empty."""
    encoded = cells.dictionary_encode()
    ids = np.array([*(interner.text(text) for text in encoded.dictionary.to_pylist()), MISSING], np.int32)
    found: Int32 = ids[np.asarray(pc.fill_null(encoded.indices, len(ids) - 1))]
    return found


def unquoted_shapes(cells: pa.Array) -> pa.Array:
    """Removes the quotes that protect shapes in spreadsheets; null = empty."""
    bare = pc.utf8_trim(cells, '"')
    return pc.if_else(pc.equal(bare, ""), pa.scalar(None, pa.string()), bare)


def _facts(table: CsvTable, row: Int64, interner: Interner) -> list[OpenColumn]:
    """Returns all columns except name, start and duration. A column is numeric if all its cells are numbers."""
    facts = []
    for title in table.titles:
        if title in (NAME, START, DURATION, DEVICE):
            continue
        cells = table.texts(title)
        cells = cells if len(row) == table.rows else cells.take(pa.array(row))
        if title.endswith(_SHAPES):
            cells = unquoted_shapes(cells)
        has_value = np.flatnonzero(np.asarray(pc.is_valid(cells))).astype(np.int32)
        if not len(has_value):
            continue
        try:
            values = np.asarray(pc.cast(cells.drop_null(), pa.int64()))
        except pa.ArrowInvalid:
            try:
                values = np.asarray(pc.cast(cells.drop_null(), pa.float64()))
            except pa.ArrowInvalid:
                facts.append(OpenColumn(title, has_value, ids_of(cells, interner)[has_value], is_text=True))
                continue
        facts.append(OpenColumn(title, has_value, values))
    return facts


def no_rows_at_all() -> dict[str, Any]:
    """Returns empty columns, for a profile without a trace view."""
    none, ids = np.empty(0, np.int64), np.empty(0, np.int32)
    return {
        "start_ns": none, "dur_ns": none, "name": ids, "category": ids, "kind": np.empty(0, np.uint8), "pid": ids, "tid": ids,
        "nth": none, "correlation": none, "external_id": none, "device": ids, "asynchronous": AsyncRows(),
        "device_args": DeviceArgs(), "others": (),
    }  # fmt: skip


def with_kernels(
    columns: dict[str, Any], kernels: Kernels, interner: Interner, row: Int32 | None = None
) -> tuple[dict[str, Any], Int32]:
    """Adds kernels to the rows, and returns the row of each. Kernels without a row are appended."""
    if row is None:
        drawn = np.flatnonzero(columns["kind"] == EventKind.KERNEL)
        row = places_among(kernels, columns["name"], columns["start_ns"], drawn)
    known = np.flatnonzero(row != MISSING)
    unplaced = np.flatnonzero(row == MISSING)
    made = dict(columns)
    made["dur_ns"] = made["dur_ns"].copy()
    made["dur_ns"][row[known]] = kernels.dur_ns[known]
    count = len(made["start_ns"])
    row[unplaced] = count + np.arange(len(unplaced), dtype=np.int32)
    if len(unplaced):
        made = _appended(made, kernels, unplaced, row[unplaced], interner)
    made["others"] = _merged_facts(made["others"], kernels.facts, row)
    return made, row


def _appended(made: dict[str, Any], kernels: Kernels, chosen: Int64, row: Int32, interner: Interner) -> dict[str, Any]:
    stream, device = kernels.stream[chosen], np.maximum(kernels.device[chosen], 0)
    number, place = np.unique(device, return_inverse=True)
    rows: dict[str, Any] = {
        "start_ns": kernels.start_ns[chosen],
        "dur_ns": kernels.dur_ns[chosen],
        "name": kernels.name[chosen],
        "category": interner.text(""),
        "kind": EventKind.KERNEL,
        "pid": np.array([interner.text(str(each)) for each in number.tolist()])[place],
        "tid": np.where(stream != MISSING, stream, interner.text(_GROUP_TRACK)),
        "device": device,
    }
    made = {
        key: np.concatenate((column, np.broadcast_to(rows.get(key, MISSING), len(chosen)))).astype(column.dtype)
        if isinstance(column, np.ndarray)
        else column
        for key, column in made.items()
    }
    none = np.full(len(chosen), MISSING)
    before, more = made["device_args"], device_args(row, stream, none, none.astype(np.int32))
    both = {key: np.concatenate((column, getattr(more, key))) for key, column in asdict(before).items()}
    return made | {"device_args": replace(before, **both)}


def _merged_facts(others: tuple[OpenColumn, ...], facts: tuple[OpenColumn, ...], row: Int32) -> tuple[OpenColumn, ...]:
    """Returns the arguments in the trace view and the table columns. Table columns replace arguments."""
    stated = {fact.key for fact in facts}
    placed = []
    for fact in facts:
        at = row[fact.row]
        order = np.argsort(at, kind="stable")
        placed.append(replace(fact, row=at[order], value=fact.value[order]))
    return (*(column for column in others if column.key not in stated), *placed)
