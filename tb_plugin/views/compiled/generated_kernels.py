"""Compiler-generated kernels: their names and compiled regions."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.backward import forward_operators
from tb_plugin.analysis.compiled.regions import regions_of
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.recorder import CompiledNames
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class GeneratedName:
    """Facts in the name of a generated kernel."""

    kind: str | None
    """Kind of kernel in words, or as in its name; None if the name does not say."""
    operators: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Generated:
    """Rows of generated kernels by time: host ranges with their names, and runs on devices."""

    row: Int64
    origin: Int64
    """Host row of the range or launch; in a backward pass the forward operator. -1 = unknown."""
    region: Int32
    """Position of the innermost region call around the origin, -1 = none."""


def read_name(names: CompiledNames, text: str) -> GeneratedName | None:
    """Returns the facts in a name; None if it is not a generated kernel."""
    match = re.search(names.kernel, text) if names.kernel else None
    if match is None:
        return None
    code = match[1]
    return GeneratedName(dict(names.kinds).get(code, code), split_operators(match[2], names.operators))


def split_operators(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the operators in a kernel name: greedily the longest known one, else the text up to ``_``."""
    found, rest = [], f"{text}_"
    while rest.strip("_"):
        fits = [name for name in known if rest.startswith(f"{name}_")]
        lead = rest[: len(rest) - len(rest.lstrip("_"))]
        name = max(fits, key=len) if fits else lead + rest.lstrip("_").partition("_")[0]
        found.append(name)
        rest = rest[len(name) + 1 :]
    return tuple(dict.fromkeys(found))


@remembered
def generated_kernels(trace: TraceTable) -> Generated:
    """Returns the generated kernels of a trace, regardless of the selected steps."""
    generated = name_matches(trace, trace.recorder.compiled.kernel)
    row = np.flatnonzero(generated & of_kind(trace.kind, EventKind.OPERATOR, EventKind.KERNEL))
    source = row.copy()
    device = trace.kind[row] == EventKind.KERNEL
    source[device] = launched_by(trace, row[device])
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    forward = forward_operators(trace, operators)
    own = source != MISSING
    behind = np.full(len(row), MISSING, np.int64)
    behind[own] = forward[np.where(device, trace.operator[row], row)[own]]
    origin = np.where(behind != MISSING, behind, source)
    regions = regions_of(trace)
    track, start = trace.track[regions.row], trace.start_ns[regions.row]
    region = np.full(len(row), MISSING, np.int32)
    at = origin[origin != MISSING]
    region[origin != MISSING] = innermost(
        track, start, trace.ends(regions.row), regions.parent, trace.track[at], trace.start_ns[at]
    )
    return Generated(row, origin, region)
