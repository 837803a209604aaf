"""Columns that matching compares."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.collective_names import POINT_TO_POINT, UNEVEN
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import codes
from tb_plugin.views.distributed.matching.groups import GroupColumns, Groups, ReportedGroup, groups_of
from tb_plugin.views.distributed.matching.match import Calls


def compared_columns(data: pa.Table, step: Int64, no_step: int, sizes: tuple[int, int | None], groups: Int64) -> Calls:
    """Returns the columns that matching compares.

    ``step`` is the step index of each call, where ``no_step`` means outside the steps. ``sizes`` contains the
    number of loaded workers and the world size (None = unknown). ``groups`` contains group codes.
    """
    worker, size = numbers_of(data, "worker"), numbers_of(data, "group_size")
    collective, names = texts_of(data, "collective")
    elements = numbers_of(data, "elements")
    point = is_one_of(collective, names, POINT_TO_POINT)
    source, target = numbers_of(data, "source_rank"), numbers_of(data, "destination_rank")
    unknown = point & ((source < 0) | (target < 0))
    if sizes[0] == 2 and sizes[1] in (None, 2):
        # Each worker is the other's peer, whatever is recorded: a kernel for both directions does not show its direction.
        source = np.select(
            [is_one_of(collective, names, {"send"}), is_one_of(collective, names, {"recv"})], [worker, 1 - worker], 2
        )
        target, unknown = np.zeros_like(source), np.zeros_like(point)
    # In a group of two, each worker is the other's peer in both directions.
    both = is_one_of(collective, names, {"send_recv"}) & (size == 2) & _has_text(data, "group")
    source, target, unknown = np.where(both, 0, source), np.where(both, 0, target), unknown & ~both
    source, target = np.where(point, source, -1), np.where(point, target, -1)
    # The two ends of a transfer have different names and separate sequence numbers.
    name = np.where(point, len(names), collective)
    uneven = is_one_of(collective, names, UNEVEN)
    group = codes(groups, source, target)
    return Calls(
        worker=worker,
        step=step,
        group=group,
        name=name,
        kind=kind_codes(worker, group, name, texts_of(data, "dtype")[0], np.where(uneven, -1, elements)),
        sequence=np.where(point, -1, numbers_of(data, "sequence")),
        lost=unknown,
        no_step=no_step,
    )


def kind_codes(worker: Int64, group: Int64, name: Int64, dtype: Int64, elements: Int64) -> Int64:
    """Returns a code per call. Codes are equal if name, dtype and number of elements are equal.

    If only some workers of a group report sizes for a name, only names are compared.
    """
    both = codes(group, name)
    mine = codes(both, worker)
    knows = np.zeros(int(mine.max(initial=-1)) + 1, np.bool_)
    knows[mine[elements >= 0]] = True
    some, none = (np.zeros(int(both.max(initial=-1)) + 1, np.bool_) for _ in range(2))
    some[both[knows[mine]]] = True
    none[both[~knows[mine]]] = True
    vague = (some & none)[both]
    return codes(name, np.where(vague, 0, dtype), np.where(vague, -2, elements))


def groups_in(data: pa.Table, stated: Sequence[ReportedGroup]) -> Groups:
    """Returns the groups of all calls. ``stated`` contains the groups that workers report."""
    worker, size = numbers_of(data, "worker"), numbers_of(data, "group_size")
    return groups_of(GroupColumns(worker, *texts_of(data, "group"), *texts_of(data, "group_ranks"), size), stated)


def is_one_of(collective: Int64, names: Sequence[str], wanted: Set[str]) -> Bool:
    """Marks the rows whose collective is in ``wanted``. ``collective`` is an index into ``names``."""
    return np.isin(collective, [i for i, name in enumerate(names) if name in wanted])


def _has_text(data: pa.Table, key: str) -> Bool:
    found: Bool = np.asarray(pc.not_equal(pc.fill_null(data[key], ""), ""))
    return found


def numbers_of(data: pa.Table, key: str, missing: int = -1) -> Int64:
    """Returns an integer column as a read-only array. Null values become ``missing``."""
    column = data[key]
    if column.null_count:  # avoids a copy
        column = pc.fill_null(column, missing)
    values: Int64 = column.to_numpy().astype(np.int64, copy=False)
    return values


def texts_of(data: pa.Table, key: str) -> tuple[Int64, list[str]]:
    """Returns a text column as indices into a list of distinct texts. Null values become ""."""
    encoded = data[key].combine_chunks().dictionary_encode()
    names = [name or "" for name in encoded.dictionary.to_pylist()]
    positions: Int64 = pc.fill_null(encoded.indices, len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
    if encoded.null_count:
        names.append("")
    # A dictionary column may contain duplicates.
    place: dict[str, int] = {}
    which = np.array([place.setdefault(name, len(place)) for name in names], np.int64)
    return (positions, names) if len(place) == len(names) else (which[positions], list(place))
