"""Accelerators as data. DEVICES is the literal list of families; the functions here are what readers ask of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tb_plugin.devices.base import DeviceFamily, Properties
from tb_plugin.devices.cpu import CPU
from tb_plugin.devices.cuda import CUDA
from tb_plugin.devices.mtia import MTIA
from tb_plugin.devices.npu import NPU
from tb_plugin.devices.peaks import peak_of
from tb_plugin.devices.rocm import ROCM
from tb_plugin.devices.xpu import XPU
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.schema import CallRole, EventKind, MatrixUse


class _AnyOf:
    """A search for any of some patterns. They are compiled at the first search: most traces need few of them."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in self._patterns))

    def search(self, text: str) -> re.Match[str] | None:
        """Returns the first match in a text."""
        return self._compiled.search(text)


DEVICES: tuple[DeviceFamily, ...] = (CPU, CUDA, ROCM, XPU, NPU, MTIA)

_KINDS: Mapping[str, EventKind] = {name: kind for family in DEVICES for name, kind in family.categories.items()}
_BY_NAME = {
    category: [(_AnyOf([pattern]), kind) for pattern, kind in rules]
    for family in DEVICES
    for category, rules in family.kinds_by_name.items()
}
LANES_BY_STREAM = frozenset(category for family in DEVICES for category in family.lanes_by_stream)
"""Categories, in lower case, whose events stand on the stream that they state, not on the thread."""
_MATRIX_OPERATORS = frozenset(name for family in DEVICES for name in family.matrix_operators)


_COLLECTIVE_KERNEL = _AnyOf(pattern for family in DEVICES for pattern in family.collective_kernels)
_COLLECTIVE_OPERATOR = _AnyOf(pattern for family in DEVICES for pattern in family.collective_operators)
_MATRIX_KERNEL = _AnyOf(pattern for family in DEVICES for pattern in family.matrix_kernels)
_MATRIX_KERNEL_BY_TYPE = _AnyOf(pattern for family in DEVICES for pattern in family.matrix_kernels_by_type)
_PLAIN_KERNEL = _AnyOf(pattern for family in DEVICES for pattern in family.plain_kernels)
_LONGEST = 8192
"""Characters of a name that are looked at: patterns may take quadratic time, and a trace may hold any text."""
_IDENTITY = frozenset({"id", "uuid", "pciBusId", "pciDeviceId", "pciDomainId"})
_CALLS = [
    (role, _AnyOf(patterns for family in DEVICES for patterns in family.calls.get(role, ())))
    for role in CallRole
    if any(role in family.calls for family in DEVICES)
]
_COUNTER_UNITS = [(_AnyOf([pattern]), unit) for family in DEVICES for pattern, unit in family.counter_units]
_OVERLOAD = re.compile(r"\.\w+$")


def kind_of(category: str) -> EventKind:
    """Returns the neutral kind of a raw category, whatever its case; UNKNOWN when no family knows it."""
    return _KINDS.get(category.lower(), EventKind.UNKNOWN)


def needs_name(category: str) -> bool:
    """Returns True for a category that holds unlike things: ``kind_of_event`` tells what each is."""
    return category.lower() in _BY_NAME


def kind_of_event(category: str, name: str) -> EventKind:
    """Returns the neutral kind of an event of a category for which ``needs_name``, else that of the category."""
    name = name[:_LONGEST]
    for pattern, kind in _BY_NAME.get(category.lower(), ()):
        if pattern.search(name):
            return kind
    return kind_of(category)


def is_collective_kernel(name: str) -> bool:
    """Returns True for the name of a device kernel that communicates."""
    return _COLLECTIVE_KERNEL.search(name[:_LONGEST]) is not None


def is_collective_operator(name: str) -> bool:
    """Returns True for the name of a host operator or annotation that is a collective."""
    return _COLLECTIVE_OPERATOR.search(name[:_LONGEST]) is not None


def matrix_use(name: str) -> MatrixUse:
    """Returns whether a kernel of this name computes on a matrix unit; UNKNOWN where the name tells nothing."""
    name = name[:_LONGEST]
    if _MATRIX_KERNEL.search(name):
        return MatrixUse.YES
    if _MATRIX_KERNEL_BY_TYPE.search(name):
        return MatrixUse.BY_TYPE
    return MatrixUse.NO if _PLAIN_KERNEL.search(name) or _COLLECTIVE_KERNEL.search(name) else MatrixUse.UNKNOWN


def role_of_call(name: str) -> CallRole:
    """Returns what a runtime or driver call of this name does; OTHER where no family knows it."""
    return next((role for role, pattern in _CALLS if pattern.search(name[:_LONGEST])), CallRole.OTHER)


def is_matrix_eligible(name: str) -> bool:
    """Returns True for the name of a host operator whose work may run on a matrix unit, with or without an overload name."""
    return name in _MATRIX_OPERATORS or _OVERLOAD.sub("", name) in _MATRIX_OPERATORS


def unit_of_counter(name: str) -> str:
    """Returns the unit that a hardware counter of this name counts in, "" when no family knows."""
    name = name[:_LONGEST]
    return next((unit for pattern, unit in _COUNTER_UNITS if pattern.search(name)), "")


def family_of(properties: Properties, metadata_keys: frozenset[str]) -> DeviceFamily | None:
    """Returns the family that claims a device most strongly, by name, its keys or the trace's keys; None when none does."""
    claim, family = max(((family.claims(properties, metadata_keys), family) for family in DEVICES), key=lambda x: x[0])
    return family if claim else None


def describe_all(
    seen: Sequence[str], listed: Mapping[str, Properties], allocating: Collection[int], metadata_keys: frozenset[str]
) -> tuple[DeviceInfo, ...]:
    """Returns the devices that rows name (``seen``, in this order), then those that the trace only lists.

    ``listed`` holds ``deviceProperties`` by id, ``allocating`` the numbers of the accelerators in allocator events. Where
    rows number devices otherwise than these do, they are matched in order when there are as many, else not at all.
    """
    families = [family_of(properties, metadata_keys) for properties in (*listed.values(), {})]
    by_node = any(family is not None and family.rows_by_node for family in families)
    if not by_node:
        ids = [*seen, *(device for device in listed if device not in seen)]
        return tuple(describe(i, listed.get(i, {}), metadata_keys, int(i) if i.isdecimal() else None) for i in ids)
    ordinals = _by_order(seen, sorted(allocating) or sorted(int(i) for i in listed if i.isdecimal()))
    common = _common(listed)
    matched = {str(ordinal) for ordinal in ordinals.values()}
    found = [
        describe(i, listed.get(str(ordinals[i]), {}) if i in ordinals else common, metadata_keys, ordinals.get(i))
        for i in seen
    ]
    others = [i for i in listed if i not in seen and i not in matched]
    return (*found, *(describe(i, listed[i], metadata_keys, int(i) if i.isdecimal() else None) for i in others))


def _by_order(seen: Sequence[str], ordinals: Sequence[int]) -> dict[str, int]:
    """The number in the framework of each device that rows name; nothing when there are not as many of both."""
    if len(seen) != len(ordinals) or not all(device.isdecimal() for device in seen):
        return {}
    return dict(zip(sorted(seen, key=int), ordinals, strict=True))


def _common(listed: Mapping[str, Properties]) -> Properties:
    """What is true of whichever listed device: all of it where they differ in nothing but their identity."""
    plain = [{key: value for key, value in item.items() if key not in _IDENTITY} for item in listed.values()]
    return plain[0] if plain and all(item == plain[0] for item in plain) else {}


def describe(
    device_id: str, properties: Properties, metadata_keys: frozenset[str], ordinal: int | None = None
) -> DeviceInfo:
    """Returns what a trace says about one device. ``properties`` is empty when the trace lists none for it."""
    family = family_of(properties, metadata_keys)
    major, minor = _whole(properties, "computeMajor"), _whole(properties, "computeMinor")
    has_capability = family is not None and family.has_capability and major is not None
    name = properties.get("name")
    peak = peak_of(str(name)) if name is not None else None
    return DeviceInfo(
        id=device_id,
        ordinal=ordinal,
        vendor=family.id if family else "",
        word=family.word if family else DeviceInfo.word,
        name=str(name) if name is not None else None,
        memory_bytes=_whole(properties, "totalGlobalMem"),
        sm_count=_whole(properties, "numSms", "maxComputeUnits"),
        capability=f"{major}.{minor or 0}" if has_capability else None,
        max_threads_per_sm=_whole(properties, "maxThreadsPerMultiprocessor"),
        warp_size=_whole(properties, "warpSize"),
        has_matrix_unit=family.has_matrix_unit(properties) if family and properties else None,
        precisions=family.precisions(properties) if family and properties else (),
        collective_backend=family.collective_backend(properties) if family else "",
        matrix_unit=family.matrix_unit if family else "",
        multiprocessor=family.multiprocessor if family else "",
        peaks=peak.flops if peak else (),
        bandwidth=float(peak.bandwidth) if peak else None,
        link_bandwidth=float(peak.link) if peak and peak.link and "pci" not in str(name).lower() else None,
        facts=family.facts if family else None,
    )


def _whole(properties: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = properties.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
