"""The Python line that executed each CPU event."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.code_owner import BUILT_IN, STANDARD, package_of
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

# Interpreter functions have no file line; their caller does.
_HAS_LINE = re.compile(r"[(:][0-9]+\)")


class CodeLines(msgspec.Struct, frozen=True, eq=False):
    """Python lines. ``of`` maps rows to indices into ``texts`` (-1 = unknown); its last entry is for row -1."""

    of: Int32
    texts: pa.Array


@cached_by_argument
def code_lines(trace: TraceTable) -> CodeLines:
    """Returns the Python line that was executing during each host row, if recorded.

    This is the line of the innermost Python function outside the framework and the standard library. If there is no
    such function, the innermost known line is used. If no Python calls enclose the row, the recorded stack of the
    nearest enclosing operator is searched in the same way.
    """
    python = np.flatnonzero(trace.kind == EventKind.PYTHON)
    names = _distinct(trace, trace.name[python])
    texts = trace.strings.take(names).to_pylist()
    with_line = _own(trace, python, names, [_names_a_line(text) for text in texts])
    outside = _own(trace, python, names, [_is_outside(trace, text) for text in texts])
    inner, found = inherit(with_line, trace.python_parent), inherit(outside, trace.python_parent)
    found = np.where(found != MISSING, found, inner)
    stack = np.full(len(trace), MISSING, np.int32)
    stack[trace.operators.row] = trace.operators.stack
    stack = np.where(found == MISSING, inherit(stack, trace.operator), MISSING)
    # Texts are long and repeat, so each distinct one is checked once.
    lines, stacks = _distinct(trace, found), _distinct(trace, stack)
    told = [line_of_stack(trace, text) for text in trace.strings.take(stacks).to_pylist()]
    both = pa.concat_arrays([trace.strings.take(lines).cast(pa.large_string()), pa.array(told, pa.large_string())])
    encoded = both.dictionary_encode()
    number = pc.fill_null(encoded.indices, MISSING).to_numpy().astype(np.int32)
    of = np.full((2, len(trace.strings) + 1), MISSING, np.int32)
    of[0, lines], of[1, stacks] = number[: len(lines)], number[len(lines) :]
    return CodeLines(
        np.append(np.where(found != MISSING, of[0, found], of[1, stack]), np.int32(MISSING)), encoded.dictionary
    )


def _distinct(trace: TraceTable, ids: Int32) -> Int64:
    used = np.zeros(len(trace.strings) + 1, np.bool_)
    used[ids] = True
    return np.flatnonzero(used[:-1])


def _own(trace: TraceTable, python: Int64, names: Int64, chosen: Sequence[bool]) -> Int32:
    found = np.full(len(trace), MISSING, np.int32)
    flags = np.zeros(len(trace.strings) + 1, np.bool_)
    flags[names] = chosen
    kept = python[flags[trace.name[python]]]
    found[kept] = trace.name[kept]
    return found


def _names_a_line(text: str) -> bool:
    return _HAS_LINE.search(text) is not None


def _is_outside(trace: TraceTable, text: str) -> bool:
    return _names_a_line(text) and package_of(text)[0] not in (BUILT_IN, STANDARD, *trace.recorder.packages)


def line_of_stack(trace: TraceTable, text: str | None) -> str | None:
    """Returns the first frame outside the framework and the standard library, or the innermost frame."""
    frames = (text or "").split(";")
    return next((frame for frame in frames if _is_outside(trace, frame)), frames[0]) or None
