"""Changes that make work shorter or longer by a factor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.backward import forward_operators
from tb_plugin.analysis.blocking_calls import waits_for_device
from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.scope_calls import virtual_operator_calls
from tb_plugin.analysis.host_calls import HostCalls, called_modules, host_calls
from tb_plugin.analysis.kernel_classes import classify_kernels, title_of, word_of
from tb_plugin.analysis.module_paths import BETWEEN, ModulePaths, module_paths, paths_of_calls
from tb_plugin.analysis.operator_calls import call_nesting, is_call
from tb_plugin.analysis.selection import select_rows, steps_of_rows
from tb_plugin.analysis.simulate import Assumption, Change, merge_changes
from tb_plugin.analysis.simulate.dependencies import full_queue_time
from tb_plugin.analysis.step_shares import active_rows
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import places_of
from tb_plugin.lib.intervals import Ranges, join, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, KernelClass, of_kind
from tb_plugin.model.trace.table import TraceTable

NAMED = ("operator", "module", "kernel", "class")
UNNAMED = ("communication", "copies", "data_loading", "launches")
_WORK = {
    "communication": "all communication",
    "copies": "all copies",
    "data_loading": "data loading",
    "launches": "all launch calls",
}
_SPEEDS = {0.0: "gone", 0.5: "twice as fast", 1.0: "unchanged", 2.0: "twice as long"}
# Names that are compared for suggestions.
_MAX_SUGGESTED_FROM = 5000
# A larger factor is a typing error.
MAX_FACTOR = 100.0
FACTOR_DIGITS = 6


class Scale(msgspec.Struct, frozen=True):
    """Work, and the factor of its time; 0 = the work is gone."""

    kind: str
    name: str
    factor: float

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.name}={self.factor:.9g}" if self.name else f"{self.kind}={self.factor:.9g}"

    @property
    def work(self) -> str:
        if self.kind == "class":
            classes = {word_of(each): title_of(each) for each in KernelClass}
            return f"{classes.get(self.name.lower(), self.name)} kernels"
        return f"module {self.name}" if self.kind == "module" else self.name or _WORK[self.kind]

    @property
    def title(self) -> str:
        work = self.work
        return f"{work if self.kind in ('operator', 'kernel') else work[0].upper() + work[1:]} {self._speed}"

    @property
    def _speed(self) -> str:
        if self.factor in _SPEEDS:
            return _SPEEDS[self.factor]
        times = 1 / self.factor if self.factor < 1 else self.factor
        digits = 3 if times >= 1.005 else 7  # never "1 times"
        return f"{times:.{digits}g} times as {'fast' if self.factor < 1 else 'long'}"


def parsed_scale(text: str) -> Scale:
    """Parses ``operator:aten::mm=0.5`` or ``communication=0``. Names may contain ``*``. Rounds factors to 6 digits.

    Raises BadRequest.
    """
    what, _, number = text.rpartition("=")
    kind, _, name = what.partition(":")
    try:
        factor = round(float(number), FACTOR_DIGITS) + 0.0  # no -0.0
    except ValueError:
        factor = -1.0
    hint = (
        "Write KIND:NAME=FACTOR, such as operator:aten::mm=0.5, with the kinds "
        f"{', '.join(NAMED)}; or KIND=FACTOR with {', '.join(UNNAMED)}."
    )
    if kind not in (*NAMED, *UNNAMED) or bool(name) != (kind in NAMED):
        raise BadRequest(f"{text[:80]!r} is not a change.", "scale", hint)
    if not 0 <= factor <= MAX_FACTOR:
        raise BadRequest(f"The factor in {text[:80]!r} is not a number from 0 to {MAX_FACTOR:g}.", "scale", hint)
    if factor > 1 and kind in ("data_loading", "launches"):
        raise BadRequest("CPU time can only become shorter.", "scale", "Use a factor from 0 to 1.")
    return Scale(kind, name, factor)


class Scaled(msgspec.Struct, frozen=True, eq=False):
    """A change of work by a factor, as it is expected, and for the bounds of its saving."""

    low: Change
    expected: Change
    high: Change

    def of(self, assume: Assumption) -> Change:
        return (self.low, self.expected, self.high)[assume]


def scaled(trace: TraceTable, scale: Scale) -> Scaled | None:
    """Returns the change of all work in the steps; None without such work. Raises BadRequest for an unknown class.

    Waits of the host keep their time, except if the call is gone, and for the upper bound.
    """
    rows, calls = _work_and_calls(trace, scale)
    if trace.steps.recorded:
        rows = rows[steps_of_rows(trace)[rows] != MISSING]
    if not len(rows) and not len(calls):
        return None
    host = union(trace.start_ns[calls], trace.ends(calls))
    sure = subtract(host, waits_of_host(trace))
    less = np.rint(trace.dur_ns[rows] * (1 - scale.factor)).astype(np.int64)
    is_gone = scale.factor == 0 and scale.kind != "launches"
    low, expected = _shortened(sure, scale.factor), _shortened(host if is_gone else sure, scale.factor)
    high = expected if scale.factor > 1 else _shortened(host, scale.factor)
    return Scaled(
        replace(low, row=rows, less_ns=less),
        replace(expected, row=rows, less_ns=less),
        replace(high, row=rows, less_ns=less),
    )


@cached_by_argument
def waits_of_host(trace: TraceTable) -> Ranges:
    """Returns the time in which the host waits for a device."""
    calls = np.flatnonzero(waits_for_device(trace) & (trace.kind == EventKind.RUNTIME))
    return join(union(trace.start_ns[calls], trace.ends(calls)), full_queue_time(trace))


def merge_scaled(changes: Sequence[Scaled]) -> Scaled:
    """Combines changes: of common work, the largest reduction and the largest growth count."""
    return Scaled(*(merge_changes([getattr(each, side) for each in changes]) for side in ("low", "expected", "high")))


def _shortened(host: Ranges, factor: float) -> Change:
    return Change(host) if factor == 0 else Change(scaled=host, scaled_share=np.full(len(host), 1 - factor))


@cached_by_argument
def _rows_of(trace: TraceTable, kinds: tuple[EventKind, ...]) -> Int64:
    found: Int64 = np.flatnonzero(of_kind(trace.kind, *kinds))
    return found


def _work_and_calls(trace: TraceTable, scale: Scale) -> tuple[Int64, Int64]:
    """Returns the rows of device work, and of the host calls, that the change affects."""
    none = np.empty(0, np.int64)
    kernels = _rows_of(trace, (EventKind.KERNEL,))
    match scale.kind:
        case "kernel":
            return kernels[_named(trace, scale.name, trace.name[kernels])], none
        case "class":
            return kernels[_of_class(trace, scale.name, kernels)], none
        case "communication":
            return kernels[trace.is_collective[kernels]], none
        case "copies":
            return _rows_of(trace, (EventKind.MEMCPY, EventKind.MEMSET)), none
        case "data_loading":
            return none, np.flatnonzero(active_rows(trace, "dataloader"))
        case "launches":
            launch = trace.launch[_rows_of(trace, DEVICE_WORK)]
            return none, launch[launch != MISSING].astype(np.int64)
        case "module":
            return _of_modules(trace, scale.name)
        case _:
            return _of_operators(trace, scale.name)


def kernel_classes_in(trace: TraceTable) -> list[str]:
    """Returns the classes of the kernels, communication excluded."""
    kernels = np.flatnonzero((trace.kind == EventKind.KERNEL) & ~trace.is_collective)
    return [word_of(each) for each in np.unique(classify_kernels(trace).of(trace.name[kernels])).tolist()]


def _of_class(trace: TraceTable, name: str, kernels: Int64) -> Bool:
    classes = {word_of(each): each for each in KernelClass}
    classes |= {title_of(each).lower(): each for each in KernelClass}
    name = name.lower()
    if name not in classes:
        raise BadRequest(
            f"There is no kernel class {name[:40]!r}.",
            "scale",
            f"Classes: {', '.join(word_of(each) for each in KernelClass)}.",
        )
    found: Bool = classify_kernels(trace).of(trace.name[kernels]) == classes[name]
    return found


class _Calls(msgspec.Struct, frozen=True, eq=False):
    """Operator calls. Virtual calls of replayed work come last, without a row."""

    row: Int64
    name: Int32
    forest: Forest
    owner: Int32
    """Call of each device work (-1 = none)."""


@cached_by_argument
def _calls(trace: TraceTable) -> _Calls:
    row, work = np.flatnonzero(is_call(trace)), _rows_of(trace, DEVICE_WORK)
    position = places_of(row, len(trace))
    parent = position[call_nesting(trace).call[row]]
    replayed = virtual_operator_calls(trace, work, row, parent, position[trace.operator[work]])
    name = replayed.with_virtual(trace.name[row], origins_of(trace).scopes.name[replayed.scope])
    return _Calls(row, name, Forest(replayed.with_virtual(parent, replayed.parent)), replayed.owner)


def _of_operators(trace: TraceTable, name: str) -> tuple[Int64, Int64]:
    calls, work = _calls(trace), _rows_of(trace, DEVICE_WORK)
    chosen = _named(trace, name, calls.name)
    inside = np.append(calls.forest.inside(chosen), False)
    outermost = (chosen & ~inside[calls.forest.parent])[: len(calls.row)]
    return work[inside[calls.owner]], calls.row[outermost]


@cached_by_argument
def _module_calls(trace: TraceTable) -> tuple[HostCalls, ModulePaths]:
    rows = np.flatnonzero(trace.kind == EventKind.MODULE)
    calls = host_calls(trace, select_rows(trace, None), called_modules(trace, rows))
    return calls, paths_of_calls(trace, calls.name, calls.parent)


def _of_modules(trace: TraceTable, name: str) -> tuple[Int64, Int64]:
    """Returns the device work and the host calls in a module, and in the backward pass of its operators."""
    calls, paths = _module_calls(trace)
    work = calls.work[_in_modules(paths, name)[paths.of[calls.owner]]]
    paths = module_paths(trace)
    inside = _in_modules(paths, name)[paths.of]
    is_operator = trace.kind == EventKind.OPERATOR
    inside |= inside[forward_operators(trace, np.flatnonzero(is_operator))]
    return work, np.flatnonzero(inside[:-1] & (is_operator | (trace.kind == EventKind.MODULE)))


def _in_modules(paths: ModulePaths, name: str) -> Bool:
    """Returns, for each path and for -1, whether the path contains the module or path ``name``."""
    texts = paths.texts.to_pylist()
    if "*" in name:
        return np.array([*(_matches(text, name) for text in texts), False], np.bool_)
    within = f"{BETWEEN}{name}{BETWEEN}"
    return np.array([*(within in f"{BETWEEN}{text}{BETWEEN}" for text in texts), False], np.bool_)


def suggestions(trace: TraceTable, scale: Scale) -> list[str]:
    """Returns names in the trace that are similar to an unknown name; for a class, all classes in the trace."""
    if scale.kind == "class":
        return kernel_classes_in(trace)
    if scale.kind == "module":
        _, paths = _module_calls(trace)
        names = {*paths.texts.to_pylist(), *paths.modules.to_pylist()}
    else:
        called = trace.name[_rows_of(trace, (EventKind.KERNEL,))] if scale.kind == "kernel" else _calls(trace).name
        names = {trace.strings[text] for text in np.unique(called)[:_MAX_SUGGESTED_FROM].tolist()}
    return get_close_matches(scale.name, sorted(names)[:_MAX_SUGGESTED_FROM], n=3, cutoff=0.5)


def _named(trace: TraceTable, name: str, ids: Int32) -> Bool:
    """Returns which of the string ids match."""
    if "*" in name:
        return trace.strings.where(lambda text: _matches(text, name))[ids]
    return trace.strings.where(lambda text: text == name)[ids]


def _matches(text: str, name: str) -> bool:
    """Returns whether ``name`` matches; only ``*`` is special, because kernels have names such as ``f [clone .kd]``."""
    return fnmatchcase(text, re.sub(r"[\[?]", r"[\g<0>]", name))
