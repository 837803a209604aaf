"""Device families as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tb_plugin.model.trace.hardware import DeviceFacts
from tb_plugin.model.trace.schema import CallRole, EventKind

Properties = Mapping[str, Any]  # one item of a trace's ``deviceProperties``


def says_nothing(properties: Properties) -> bool | None:
    """Returns None, because traces of this family do not show whether a device has matrix units."""
    return None


def no_precisions(properties: Properties) -> tuple[str, ...]:
    """Returns (), because traces of this family do not show the supported number formats."""
    return ()


def no_backend(properties: Properties) -> str:
    """Returns "", because no process group backend is known for this family."""
    return ""


class DeviceFamily(msgspec.Struct, frozen=True):
    """Names and regexes for the devices of one vendor. Regexes are case-sensitive and match any part of a name."""

    id: str
    word: str = "GPU"  # name of its devices; "Device" if there is no common one
    categories: Mapping[str, EventKind] = msgspec.field(default_factory=dict)
    """Event kinds by lower-case category. Covers all profiler versions."""
    kinds_by_name: Mapping[str, tuple[tuple[str, EventKind], ...]] = msgspec.field(default_factory=dict)
    """Name regexes with event kinds, for categories that contain several event kinds."""
    lanes_by_stream: frozenset[str] = frozenset()
    """Categories of events that are shown on the stream in their arguments instead of on their thread."""
    collective_kernels: tuple[str, ...] = ()
    """Regexes for communication kernels."""
    collective_operators: tuple[str, ...] = ()
    """Regexes for host operators and annotations that are collectives."""
    calls: Mapping[CallRole, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Regexes for runtime and driver calls, by role."""
    counter_units: tuple[tuple[str, str], ...] = ()
    """Regexes for hardware counters, with their units. The first matching regex applies."""
    collective_backend: Callable[[Properties], str] = no_backend
    """Returns the process group backend for a device, "" if unknown."""
    matrix_kernels: tuple[str, ...] = ()
    """Regexes for kernels that use matrix units. They take precedence over ``plain_kernels``."""
    matrix_kernels_by_type: tuple[str, ...] = ()
    """Regexes for kernels that use matrix units for all types except float32. Their names do not show the type."""
    matrix_tile: str = ""
    """Regex for the rows and columns of the output that a block computes, in names of matmul kernels: two groups."""
    matrix_load: str = ""
    """Regex for the elements that a thread loads at once, in names of matmul kernels: one group."""
    plain_kernels: tuple[str, ...] = ()
    """Regexes for kernels that do not use matrix units. For kernels that match no list, this is unknown."""
    matrix_operators: frozenset[str] = frozenset()
    """Host operators that could use matrix units."""
    device_names: str = ""  # regular expression for the ``name`` of a device, any case
    property_keys: frozenset[str] = frozenset()  # keys of ``deviceProperties`` that only this family writes
    metadata_keys: tuple[str, ...] = ()  # prefixes of top-level trace keys that only this family writes
    has_matrix_unit: Callable[[Properties], bool | None] = says_nothing
    # formats of the matrix units: fp16, bf16, tf32, fp8
    precisions: Callable[[Properties], tuple[str, ...]] = no_precisions
    matrix_unit: str = ""  # the vendor's word, plural
    multiprocessor: str = ""  # the vendor's word for the unit that runs a block of threads
    rows_by_node: bool = False
    """Whether trace events number devices by agent of the machine, including CPUs. The framework does not."""
    facts: DeviceFacts | None = None
    """Kernel and core data that only this vendor's profiles contain."""
    has_capability: bool = False
    """Whether ``computeMajor`` and ``computeMinor`` give an NVIDIA compute capability."""

    def claims(self, properties: Properties, metadata_keys: frozenset[str]) -> int:
        """Returns how clearly a device belongs to this family: 3 by name, 2 by property keys, 1 by metadata keys, 0 not."""
        name = str(properties.get("name", ""))
        if self.device_names and re.search(self.device_names, name, re.IGNORECASE):
            return 3
        if self.property_keys & properties.keys():
            return 2
        if any(key.startswith(start) for start in self.metadata_keys for key in metadata_keys):
            return 1
        return 0
