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
    """Returns None: traces of this family do not show whether a device has matrix units."""
    return None


def no_precisions(properties: Properties) -> tuple[str, ...]:
    """Returns (): traces of this family do not show the supported number formats."""
    return ()


def no_backend(properties: Properties) -> str:
    """Returns "": the family has no known process group backend."""
    return ""


class DeviceFamily(msgspec.Struct, frozen=True):
    """Names and patterns of one vendor. Regexes are case-sensitive and may match anywhere in a name."""

    id: str
    word: str = "GPU"  # name of its devices; "Device" if there is no common one
    categories: Mapping[str, EventKind] = msgspec.field(default_factory=dict)
    """Event kinds by lower-case category, for all profiler versions."""
    kinds_by_name: Mapping[str, tuple[tuple[str, EventKind], ...]] = msgspec.field(default_factory=dict)
    """For categories with several event kinds: name regexes and their kinds."""
    lanes_by_stream: frozenset[str] = frozenset()
    """Categories whose events are placed on the stream in their arguments instead of the thread."""
    collective_kernels: tuple[str, ...] = ()
    """Regexes for device kernels that communicate."""
    collective_operators: tuple[str, ...] = ()
    """Regexes for host operators and annotations that are collectives."""
    calls: Mapping[CallRole, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Regexes for runtime and driver calls, by role."""
    counter_units: tuple[tuple[str, str], ...] = ()
    """Regexes for hardware counters and their units; the first match wins."""
    collective_backend: Callable[[Properties], str] = no_backend
    """Process group backend for a device, "" if unknown."""
    matrix_kernels: tuple[str, ...] = ()
    """Regexes for kernels on matrix units. They take precedence over ``plain_kernels``."""
    matrix_kernels_by_type: tuple[str, ...] = ()
    """Regexes for kernels that use matrix units except for float32; the name does not show the type."""
    plain_kernels: tuple[str, ...] = ()
    """Regexes for kernels without matrix units. Kernels that match neither list are unknown."""
    matrix_operators: frozenset[str] = frozenset()
    """Host operators that may use matrix units."""
    device_names: str = ""  # regular expression for the ``name`` of a device, any case
    property_keys: frozenset[str] = frozenset()  # keys of ``deviceProperties`` that only this family writes
    metadata_keys: tuple[str, ...] = ()  # prefixes of top-level trace keys that only this family writes
    has_matrix_unit: Callable[[Properties], bool | None] = says_nothing
    # formats of the matrix units: fp16, bf16, tf32, fp8
    precisions: Callable[[Properties], tuple[str, ...]] = no_precisions
    matrix_unit: str = ""  # the vendor's word, plural
    multiprocessor: str = ""  # the vendor's word for the unit that runs a block of threads
    rows_by_node: bool = False
    """Rows number devices among all agents of the machine, including CPUs, unlike the framework."""
    facts: DeviceFacts | None = None
    """Additional kernel and core data in the vendor's profiles."""
    has_capability: bool = False
    """Whether computeMajor and computeMinor are an NVIDIA compute capability."""

    def claims(self, properties: Properties, metadata_keys: frozenset[str]) -> int:
        """Returns the strength of the claim: 3 by device name, 2 by device keys, 1 by trace keys, 0 for none."""
        name = str(properties.get("name", ""))
        if self.device_names and re.search(self.device_names, name, re.IGNORECASE):
            return 3
        if self.property_keys & properties.keys():
            return 2
        if any(key.startswith(start) for start in self.metadata_keys for key in metadata_keys):
            return 1
        return 0
