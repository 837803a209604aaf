"""Device families, and lookups over all of them."""

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
from tb_plugin.model.trace.hardware import GPU, DeviceInfo
from tb_plugin.model.trace.schema import CallRole, EventKind, MatrixUse


class _AnyOf:
    """Searches a text for any of several regexes. They are compiled on first use, because most traces need few of them."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in self._patterns))

    def search(self, text: str) -> re.Match[str] | None:
        return self._compiled.search(text)


DEVICES: tuple[DeviceFamily, ...] = (CPU, CUDA, ROCM, XPU, NPU, MTIA)

_KINDS: Mapping[str, EventKind] = {name: kind for family in DEVICES for name, kind in family.categories.items()}
_BY_NAME = {
    category: [(_AnyOf([pattern]), kind) for pattern, kind in rules]
    for family in DEVICES
    for category, rules in family.kinds_by_name.items()
}
# in lower case; their events are placed on the stream in their arguments, not on the thread
LANES_BY_STREAM = frozenset(category for family in DEVICES for category in family.lanes_by_stream)
_MATRIX_OPERATORS = frozenset(name for family in DEVICES for name in family.matrix_operators)


_COLLECTIVE_KERNEL = _AnyOf(pattern for family in DEVICES for pattern in family.collective_kernels)
_COLLECTIVE_OPERATOR = _AnyOf(pattern for family in DEVICES for pattern in family.collective_operators)
_MATRIX_KERNEL = _AnyOf(pattern for family in DEVICES for pattern in family.matrix_kernels)
_MATRIX_KERNEL_BY_TYPE = _AnyOf(pattern for family in DEVICES for pattern in family.matrix_kernels_by_type)
_PLAIN_KERNEL = _AnyOf(pattern for family in DEVICES for pattern in family.plain_kernels)
_MAX_NAME_CHARS = 8192  # patterns may take quadratic time, and a trace may contain any text
_IDENTITY = frozenset({"id", "uuid", "pciBusId", "pciDeviceId", "pciDomainId"})
_CALLS = [
    (role, _AnyOf(patterns for family in DEVICES for patterns in family.calls.get(role, ())))
    for role in CallRole
    if any(role in family.calls for family in DEVICES)
]
_COUNTER_UNITS = [(_AnyOf([pattern]), unit) for family in DEVICES for pattern, unit in family.counter_units]
_OVERLOAD = re.compile(r"\.\w+$")


def kind_of(category: str) -> EventKind:
    """Returns the event kind of a category (case-insensitive), UNKNOWN if no family defines the category."""
    return _KINDS.get(category.lower(), EventKind.UNKNOWN)


def needs_name(category: str) -> bool:
    """Returns whether events of this category differ in kind, so that their names are needed too."""
    return category.lower() in _BY_NAME


def kind_of_event(category: str, name: str) -> EventKind:
    """Returns the event kind, by name if ``needs_name(category)``, otherwise by category."""
    name = name[:_MAX_NAME_CHARS]
    for pattern, kind in _BY_NAME.get(category.lower(), ()):
        if pattern.search(name):
            return kind
    return kind_of(category)


def is_collective_kernel(name: str) -> bool:
    """Returns whether a device kernel with this name is a communication kernel."""
    return _COLLECTIVE_KERNEL.search(name[:_MAX_NAME_CHARS]) is not None


def is_collective_operator(name: str) -> bool:
    """Returns whether a host operator or annotation with this name is a collective."""
    return _COLLECTIVE_OPERATOR.search(name[:_MAX_NAME_CHARS]) is not None


def matrix_use(name: str) -> MatrixUse:
    """Returns whether a kernel with this name uses matrix units, UNKNOWN if the name does not show this."""
    name = name[:_MAX_NAME_CHARS]
    if _MATRIX_KERNEL.search(name):
        return MatrixUse.YES
    if _MATRIX_KERNEL_BY_TYPE.search(name):
        return MatrixUse.BY_TYPE
    return MatrixUse.NO if _PLAIN_KERNEL.search(name) or _COLLECTIVE_KERNEL.search(name) else MatrixUse.UNKNOWN


def role_of_call(name: str) -> CallRole:
    """Returns the role of a runtime or driver call, OTHER if no family defines one."""
    return next((role for role, pattern in _CALLS if pattern.search(name[:_MAX_NAME_CHARS])), CallRole.OTHER)


def is_matrix_eligible(name: str) -> bool:
    """Returns whether a host operator could use matrix units. The name may include an overload."""
    return name in _MATRIX_OPERATORS or _OVERLOAD.sub("", name) in _MATRIX_OPERATORS


def unit_of_counter(name: str) -> str:
    """Returns the unit of a hardware counter, "" if unknown."""
    name = name[:_MAX_NAME_CHARS]
    return next((unit for pattern, unit in _COUNTER_UNITS if pattern.search(name)), "")


def family_of(properties: Properties, metadata_keys: frozenset[str]) -> DeviceFamily | None:
    """Returns the family with the highest ``claims`` for a device, None if all are 0."""
    claim, family = max(((family.claims(properties, metadata_keys), family) for family in DEVICES), key=lambda x: x[0])
    return family if claim else None


def describe_all(
    row_devices: Sequence[str],
    listed: Mapping[str, Properties],
    allocating: Collection[int],
    metadata_keys: frozenset[str],
) -> tuple[DeviceInfo, ...]:
    """Returns descriptions of the devices in ``row_devices``, followed by all other devices in ``listed``.

    ``listed`` contains ``deviceProperties`` by device id. ``allocating`` contains the device numbers of allocator
    events. On ROCm, events and ``deviceProperties`` may number the devices differently. Devices are then matched in
    ascending order, if their counts are equal.
    """
    families = [family_of(properties, metadata_keys) for properties in (*listed.values(), {})]
    by_node = any(family is not None and family.rows_by_node for family in families)
    if not by_node:
        ids = [*row_devices, *(device for device in listed if device not in row_devices)]
        return tuple(describe(i, listed.get(i, {}), metadata_keys, int(i) if i.isdecimal() else None) for i in ids)
    ordinals = _by_order(row_devices, sorted(allocating) or sorted(int(i) for i in listed if i.isdecimal()))
    common = _common(listed)
    matched = {str(ordinal) for ordinal in ordinals.values()}
    found = [
        describe(i, listed.get(str(ordinals[i]), {}) if i in ordinals else common, metadata_keys, ordinals.get(i))
        for i in row_devices
    ]
    others = [i for i in listed if i not in row_devices and i not in matched]
    return (*found, *(describe(i, listed[i], metadata_keys, int(i) if i.isdecimal() else None) for i in others))


def _by_order(row_devices: Sequence[str], ordinals: Sequence[int]) -> dict[str, int]:
    """Returns the framework's number of each device in ``row_devices``; empty if the counts differ."""
    if len(row_devices) != len(ordinals) or not all(device.isdecimal() for device in row_devices):
        return {}
    return dict(zip(sorted(row_devices, key=int), ordinals, strict=True))


def _common(listed: Mapping[str, Properties]) -> Properties:
    """Properties that all listed devices share; empty if the devices differ in anything except ids."""
    plain = [{key: value for key, value in item.items() if key not in _IDENTITY} for item in listed.values()]
    return plain[0] if plain and all(item == plain[0] for item in plain) else {}


def describe(
    device_id: str, properties: Properties, metadata_keys: frozenset[str], ordinal: int | None = None
) -> DeviceInfo:
    """Returns the description of one device. ``properties`` is empty if the trace has none for this device."""
    family = family_of(properties, metadata_keys)
    major, minor = _integer(properties, "computeMajor"), _integer(properties, "computeMinor")
    has_capability = family is not None and family.has_capability and major is not None
    name = properties.get("name")
    peak = peak_of(str(name)) if name is not None else None
    return DeviceInfo(
        id=device_id,
        ordinal=ordinal,
        vendor=family.id if family else "",
        word=family.word if family else GPU,
        name=str(name) if name is not None else None,
        memory_bytes=_integer(properties, "totalGlobalMem"),
        sm_count=_integer(properties, "numSms", "maxComputeUnits"),
        capability=f"{major}.{minor or 0}" if has_capability else None,
        has_matrix_unit=family.has_matrix_unit(properties) if family and properties else None,
        precisions=family.precisions(properties) if family and properties else (),
        collective_backend=family.collective_backend(properties) if family else "",
        matrix_unit=family.matrix_unit if family else "",
        multiprocessor=family.multiprocessor if family else "",
        matrix_tile=family.matrix_tile if family else "",
        matrix_load=family.matrix_load if family else "",
        peaks=peak.flops if peak else (),
        bandwidth=float(peak.bandwidth) if peak else None,
        link_bandwidth=float(peak.link) if peak and peak.link and "pci" not in str(name).lower() else None,
        facts=family.facts if family else None,
    )


def _integer(properties: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = properties.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
