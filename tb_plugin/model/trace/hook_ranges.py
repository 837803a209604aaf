"""Ranges between the "before" and "after" marks of a user's hooks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import codes
from tb_plugin.model.trace.order import sort, split_by_plausibility
from tb_plugin.model.trace.report import Issue
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.model.trace.tree import nest

CODE = "unpaired_marks"
# Names of marks, as hooks write them: "before backward of PatchDropout", "after forward of Block: 3".
_MARK = r"^(?:before|after) (?:forward|backward) of (?s:.)"
_PARTS = re.compile(r"(before|after) (.*)", re.DOTALL)
# Events that must not partly overlap a range.
_NESTED = (EventKind.ANNOTATION, EventKind.MODULE, EventKind.OPERATOR, EventKind.RUNTIME)
# Marks inside more events than this stay unpaired, so that deep nesting takes no quadratic time.
_MAX_LEVELS = 1000
_MAX_EXAMPLES = 3


def with_hook_ranges(raw: RawTrace) -> RawTrace:
    """Adds an annotation "backward of X" from each "before backward of X" to the next "after backward of X".

    Marks are paired on their thread, and the ranges are nested. If an operator calls a hook, the range starts at the
    end of this operator, or ends at its start, so that no range contains a part of an operator. The other marks are
    counted in the report.
    """
    is_mark = pc.match_substring_regex(raw.strings.array, _MARK).to_numpy(zero_copy_only=False)
    if not is_mark.any():
        return raw
    kept = split_by_plausibility(raw)[0]
    host = of_kind(raw.kind, *_NESTED)
    host[raw.python.row] = False
    thread = codes(raw.pid.astype(np.int64), raw.tid.astype(np.int64))
    marks = (raw.kind == EventKind.ANNOTATION) & host & np.append(is_mark, False)[raw.name]
    rows = kept[host[kept] & np.isin(thread[kept], thread[kept[marks[kept]]])]
    rows = rows[sort(raw, rows)]
    mark = np.flatnonzero(marks[rows])
    if not len(mark):
        return raw
    start = raw.start_ns[rows] - raw.start_ns[rows].min()
    end = start + raw.dur_ns[rows]
    before, after = _pairs(thread[rows[mark]], raw.strings.take(raw.name[rows[mark]]).to_pylist())
    first, last = mark[before], mark[after]
    parent = nest(thread[rows].astype(np.int32), start, end).parent
    left, left_all = _outermost(parent, first, lambda pair, around: end[around] <= start[last[pair]])
    right, right_all = _outermost(parent, last, lambda pair, around: start[around] >= end[first[pair]])
    begin, until = end[left], start[right]
    paired = np.flatnonzero(left_all & right_all & (begin <= until))
    alone = np.delete(mark, np.concatenate((before[paired], after[paired])))
    raw = _with_unpaired(raw, rows[alone])
    return _with_rows(raw, rows[first[paired]], begin[paired] + raw.start_ns[rows].min(), (until - begin)[paired])


def _pairs(thread: Int64, names: list[str]) -> tuple[Int64, Int64]:
    """Returns the indices of the marks that start and end a range. Marks must be sorted by time."""
    open_marks: dict[int, list[tuple[str, int]]] = defaultdict(list)
    depths: dict[tuple[int, str], list[int]] = defaultdict(list)
    pairs = []
    for index, (track, name) in enumerate(zip(thread.tolist(), names, strict=True)):
        match = _PARTS.fullmatch(name)
        assert match is not None, name
        which, title = match.groups()
        stack, same = open_marks[track], depths[track, title]
        if which == "before":
            same.append(len(stack))
            stack.append((title, index))
        elif same:
            depth = same[-1]
            pairs.append((stack[depth][1], index))
            while len(stack) > depth:
                depths[track, stack.pop()[0]].pop()
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _outermost(parent: Int32, mark: Int64, leaves_out: Callable[[Int64, Int64], Bool]) -> tuple[Int64, Bool]:
    """Returns the outermost event around each mark that does not contain the other mark; without one, the mark.

    The second result is False where the search was given up.
    """
    found = mark.copy()
    active = np.arange(len(mark))
    for _ in range(_MAX_LEVELS):
        around = parent[found[active]].astype(np.int64)
        go_on = np.flatnonzero(around != MISSING)
        go_on = go_on[leaves_out(active[go_on], around[go_on])]
        active = active[go_on]
        if not len(active):
            break
        found[active] = around[go_on]
    is_final = np.ones(len(mark), np.bool_)
    is_final[active] = False
    return found, is_final


def _with_rows(raw: RawTrace, like: Int64, start: Int64, dur: Int64) -> RawTrace:
    """Appends annotations on the threads of the rows ``like``, whose names lose their first word."""
    names = pc.replace_substring_regex(raw.strings.take(raw.name[like]), r"^\w+ ", "")
    strings, name = raw.strings.extended(names.cast(pa.large_string()))
    absent = np.full(len(like), MISSING, np.int64)
    copied = {
        key: np.concatenate((column := getattr(raw, key), column[like]))
        for key in ("kind", "category", "device", "is_collective", "uses_matrix_unit", "matrix_eligible", "pid", "tid")
    }
    return replace(
        raw,
        strings=strings,
        start_ns=np.concatenate((raw.start_ns, start)),
        dur_ns=np.concatenate((raw.dur_ns, dur)),
        name=np.concatenate((raw.name, name)),
        correlation=np.concatenate((raw.correlation, absent)),
        external_id=np.concatenate((raw.external_id, absent)),
        nth=None if raw.nth is None else np.concatenate((raw.nth, absent)),
        **copied,
    )


def _with_unpaired(raw: RawTrace, rows: Int64) -> RawTrace:
    if not len(rows):
        return raw
    examples = tuple(dict.fromkeys(raw.strings.take(raw.name[rows]).to_pylist()))[:_MAX_EXAMPLES]
    text = 'Hook marks such as "before backward of X" have no matching mark on their thread and form no range.'
    issue = Issue(CODE, "note", text, len(rows), examples=examples)
    return replace(raw, report=replace(raw.report, issues=(*raw.report.issues, issue)))
