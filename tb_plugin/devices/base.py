"""What a family of devices is, as data. Readers resolve it once into columns; after that nobody knows a vendor."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tb_plugin.model.trace.hardware import DeviceFacts
from tb_plugin.model.trace.schema import CallRole, EventKind

Properties = Mapping[str, Any]
"""One item of a trace's ``deviceProperties``."""


def says_nothing(properties: Properties) -> bool | None:
    """Returns the matrix-unit rule of a family whose traces do not tell."""
    return None


def no_precisions(properties: Properties) -> tuple[str, ...]:
    """Returns the number formats of matrix units of a family whose traces do not tell."""
    return ()


def no_backend(properties: Properties) -> str:
    """Returns the backend of process groups of a family of which none is known."""
    return ""


@dataclass(frozen=True)
class DeviceFamily:
    """One vendor's vocabulary. Patterns are searched (not anchored) in names, with the case they are written in."""

    id: str
    word: str = "GPU"
    """What its devices are called; "Device" where there is no common word."""
    categories: Mapping[str, EventKind] = field(default_factory=dict)
    """Lower-cased event category -> neutral kind, of all profiler generations."""
    kinds_by_name: Mapping[str, tuple[tuple[str, EventKind], ...]] = field(default_factory=dict)
    """Of categories that hold unlike things: regular expressions of names, and what such an event is instead."""
    lanes_by_stream: frozenset[str] = frozenset()
    """Categories whose events stand on the stream that they state, not on the thread."""
    collective_kernels: tuple[str, ...] = ()
    """Regular expressions for device kernels that communicate."""
    collective_operators: tuple[str, ...] = ()
    """Regular expressions for host operators and annotations that are collectives."""
    calls: Mapping[CallRole, tuple[str, ...]] = field(default_factory=dict)
    """Regular expressions for runtime and driver calls, by what they do."""
    counter_units: tuple[tuple[str, str], ...] = ()
    """Regular expressions for names of hardware counters, and the unit that they count in; the first that fits holds."""
    collective_backend: Callable[[Properties], str] = no_backend
    """The backend of process groups that is made for a device, "" when none is known."""
    matrix_kernels: tuple[str, ...] = ()
    """Regular expressions for kernels that compute on a matrix unit. They win over ``plain_kernels``."""
    matrix_kernels_by_type: tuple[str, ...] = ()
    """Those that do so, but for float32, of which their name tells nothing."""
    plain_kernels: tuple[str, ...] = ()
    """Regular expressions for kernels that do not. Of a kernel that neither list knows nothing is said."""
    matrix_operators: frozenset[str] = frozenset()
    """Names of host operators whose work may run on a matrix unit."""
    device_names: str = ""
    """Regular expression for the ``name`` of a device, any case."""
    property_keys: frozenset[str] = frozenset()
    """Keys of ``deviceProperties`` only this family writes."""
    metadata_keys: tuple[str, ...] = ()
    """Beginnings of top-level trace keys only this family writes."""
    has_matrix_unit: Callable[[Properties], bool | None] = says_nothing
    precisions: Callable[[Properties], tuple[str, ...]] = no_precisions
    """Which of fp16, bf16, tf32, fp8 the matrix units of a device compute in."""
    matrix_unit: str = ""
    """The vendor's word for its matrix units, plural."""
    multiprocessor: str = ""
    """The vendor's word for what runs a block of threads."""
    rows_by_node: bool = False
    """True when rows number devices among all agents of the machine, processors included, not as the framework does."""
    facts: DeviceFacts | None = None
    """What its profiles state about kernels and cores beside what all do."""
    has_capability: bool = False
    """True when computeMajor and computeMinor are a compute capability in NVIDIA's sense."""

    def claims(self, properties: Properties, metadata_keys: frozenset[str]) -> int:
        """Returns how strongly a device speaks for this family: 3 by name, 2 by its keys, 1 by the trace's, 0 not at all."""
        name = str(properties.get("name", ""))
        if self.device_names and re.search(self.device_names, name, re.IGNORECASE):
            return 3
        if self.property_keys & properties.keys():
            return 2
        if any(key.startswith(start) for start in self.metadata_keys for key in metadata_keys):
            return 1
        return 0
