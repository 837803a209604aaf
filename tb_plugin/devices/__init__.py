"""Accelerators as data. DEVICES is the literal list of families; the functions here are what readers ask of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tb_plugin.devices.base import DeviceFamily, Properties
from tb_plugin.devices.cpu import CPU
from tb_plugin.devices.cuda import CUDA
from tb_plugin.devices.mtia import MTIA
from tb_plugin.devices.npu import NPU
from tb_plugin.devices.rocm import ROCM
from tb_plugin.devices.xpu import XPU
from tb_plugin.trace.hardware import DeviceInfo
from tb_plugin.trace.schema import EventKind, MatrixUse

DEVICES: tuple[DeviceFamily, ...] = (CPU, CUDA, ROCM, XPU, NPU, MTIA)

_KINDS: Mapping[str, EventKind] = {name: kind for family in DEVICES for name, kind in family.categories.items()}
_MATRIX_OPERATORS = frozenset(name for family in DEVICES for name in family.matrix_operators)


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


_COLLECTIVE_KERNEL = _any_of(pattern for family in DEVICES for pattern in family.collective_kernels)
_COLLECTIVE_OPERATOR = _any_of(pattern for family in DEVICES for pattern in family.collective_operators)
_MATRIX_KERNEL = _any_of(pattern for family in DEVICES for pattern in family.matrix_kernels)
_PLAIN_KERNEL = _any_of(pattern for family in DEVICES for pattern in family.plain_kernels)
_LONGEST = 8192
"""Characters of a name that are looked at: patterns may take quadratic time, and a trace may hold any text."""
_OVERLOAD = re.compile(r"\.\w+$")


def kind_of(category: str) -> EventKind:
    """The neutral kind of a raw category, whatever its case; UNKNOWN when no family knows it."""
    return _KINDS.get(category.lower(), EventKind.UNKNOWN)


def is_collective_kernel(name: str) -> bool:
    """True for the name of a device kernel that communicates."""
    return _COLLECTIVE_KERNEL.search(name[:_LONGEST]) is not None


def is_collective_operator(name: str) -> bool:
    """True for the name of a host operator or annotation that is a collective."""
    return _COLLECTIVE_OPERATOR.search(name[:_LONGEST]) is not None


def matrix_use(name: str) -> MatrixUse:
    """Whether a kernel of this name computes on a matrix unit; UNKNOWN where the name tells nothing."""
    name = name[:_LONGEST]
    if _MATRIX_KERNEL.search(name):
        return MatrixUse.YES
    return MatrixUse.NO if _PLAIN_KERNEL.search(name) or _COLLECTIVE_KERNEL.search(name) else MatrixUse.UNKNOWN


def is_matrix_eligible(name: str) -> bool:
    """True for the name of a host operator whose work may run on a matrix unit, with or without an overload name."""
    return name in _MATRIX_OPERATORS or _OVERLOAD.sub("", name) in _MATRIX_OPERATORS


def family_of(properties: Properties, metadata_keys: frozenset[str]) -> DeviceFamily | None:
    """The family that claims a device most strongly, by its name, its keys or the trace's keys; None when none does."""
    claim, family = max(((family.claims(properties, metadata_keys), family) for family in DEVICES), key=lambda x: x[0])
    return family if claim else None


def describe(device_id: str, properties: Properties, metadata_keys: frozenset[str]) -> DeviceInfo:
    """What a trace says about one device. ``properties`` is empty when the trace lists none for it."""
    family = family_of(properties, metadata_keys)
    major, minor = _whole(properties, "computeMajor"), _whole(properties, "computeMinor")
    has_capability = family is not None and family.has_capability and major is not None
    name = properties.get("name")
    return DeviceInfo(
        id=device_id,
        vendor=family.id if family else "",
        name=str(name) if name is not None else None,
        memory_bytes=_whole(properties, "totalGlobalMem"),
        sm_count=_whole(properties, "numSms", "maxComputeUnits"),
        capability=f"{major}.{minor or 0}" if has_capability else None,
        max_threads_per_sm=_whole(properties, "maxThreadsPerMultiprocessor"),
        warp_size=_whole(properties, "warpSize"),
        has_matrix_unit=family.has_matrix_unit(properties) if family and properties else None,
        precisions=family.precisions(properties) if family and properties else (),
        matrix_unit=family.matrix_unit if family else "",
        multiprocessor=family.multiprocessor if family else "",
    )


def _whole(properties: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = properties.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
