"""Graph breaks: compiled calls inside other compiled calls."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from tb_plugin.analysis.compiled.compiling import first_calls, guards_of, wrapper_ranges, wrapper_times
from tb_plugin.analysis.compiled.regions import regions_of
from tb_plugin.analysis.range_patterns import REGION
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import Groups, group, sum_by
from tb_plugin.lib.intervals import Ranges, join, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable


class Breaks(msgspec.Struct, frozen=True, eq=False):
    """Compiled calls that another compiled call makes, sorted by time.

    ``call`` contains indices into ``regions_of``.
    """

    call: Int64
    function: Int64
    """Number of the place of the graph break. Breaks between the same two functions have the same number."""
    cost_ns: Int64
    """Time of the guard checks before the call, plus the call's wrapper overhead."""

    def __len__(self) -> int:
        return len(self.call)


def number_of(trace: TraceTable, name: int) -> str:
    """Returns the number in the name of a compiled region, such as ``3/0``. ``name`` is a string id."""
    return trace.strings[name].removeprefix(REGION)


def functions_of(trace: TraceTable) -> Int64:
    """Returns a function number for each compiled call. All compilations of a function have the same number."""
    names = trace.name[regions_of(trace).row]
    distinct, inverse = np.unique(names, return_inverse=True)
    functions = [number_of(trace, int(name)).partition("/")[0] for name in distinct]
    number = {function: at for at, function in enumerate(dict.fromkeys(functions))}
    return np.array([number[function] for function in functions], np.int64)[inverse.ravel()]


def guard_times(trace: TraceTable) -> Int64:
    """Returns, for each compiled call, the duration of the guard checks directly before it."""
    guards, call = guards_of(trace), checked_for(trace)
    led = np.flatnonzero(call != MISSING)
    return sum_by(call[led], trace.dur_ns[guards.row[led]], len(regions_of(trace).row))


def checked_for(trace: TraceTable) -> Int64:
    """Returns, for each guard check, the index of the compiled call that follows (-1 = none).

    If the check leads to a compilation, the following call is the first call of the newly compiled code.
    """
    guards = guards_of(trace)
    first_call = np.append(first_calls(trace), MISSING)[guards.compilation]
    return np.where(guards.region != MISSING, guards.region, first_call)


@cached_by_argument
def breaks_of(trace: TraceTable) -> Breaks:
    """Returns all graph breaks in the trace, in all steps."""
    regions, function = regions_of(trace), functions_of(trace)
    call = np.flatnonzero(regions.parent != MISSING)
    pair: Groups = group(function[regions.parent[call]], function[call])
    return Breaks(call, pair.of, guard_times(trace)[call] + wrapper_times(trace)[call])


def place_of(trace: TraceTable, code: int) -> str | None:
    """Returns the source location of a graph break as ``path(line): function``; None if unknown.

    ``code`` is the string id of the function that resumes after the graph break.
    """
    pattern = trace.recorder.compiled.resumed
    match = re.search(pattern, trace.strings[code]) if pattern and code != MISSING else None
    return f"{match[1]}({match[3]}): {match[2]}" if match else None


def cost_ranges(trace: TraceTable, call: Int64) -> Ranges:
    """Returns the time ranges of guard checks and wrapper overhead in these compiled calls and in compiled calls
    nested in them.
    """
    guards = guards_of(trace)
    checks = guards.row[np.isin(checked_for(trace), call)]
    return join(wrapper_ranges(trace, call), union(trace.start_ns[checks], trace.ends(checks)))
