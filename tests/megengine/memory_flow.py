"""Memory flows by hand: drawings as MegEngine's profiler writes them, of tensors that a test names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from tb_plugin.formats.base import ReadOptions, no_progress
from tests.builders import Bytes
from tests.synthetic import loaded
from torch_trace_megengine.memory_flow.model import MemoryFlow, RawMemoryFlow, assembled
from torch_trace_megengine.memory_flow.reader import MemoryFlowReader

_files = loaded("megengine_training.files")
words, TIMES, SIZES = _files.words, _files.TIME_UNITS, _files.SIZE_UNITS

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:tag="https://megengine.org.cn" width="9" height="1">
<rect x="0" y="0" width="9" height="1" fill="blue">
</rect>
"""
TAIL = "</svg>\n"
COLUMNS = ("address", "size", "start_ns", "end_ns", "operator", "name", "layout")


@dataclass(frozen=True)
class T:
    """A tensor; ``end`` None: it was not released. Times in nanoseconds."""

    address: int
    size: int
    start: int
    end: int | None
    name: str = "conv.ADD:0"
    layout: str = "{4(1) Float32}"
    group: int | None = 7


def rect(tensor: T) -> str:
    """The rectangle of a tensor, its values as they stand."""
    group = "" if tensor.group is None else f' tag:group="{tensor.group}"'
    end = tensor.end or 0
    return (
        f'<rect x="1.000000" y="0.500000" height="0.000160" width="0.000000" fill="#AAAAAA" tag:type="tensor" '
        f'tag:name="{tensor.name}" tag:address="0x{tensor.address:x}" tag:size="{words(tensor.size, SIZES)}" '
        f'tag:layout="{tensor.layout}" tag:produced="{words(tensor.start, TIMES)}" tag:erased="{words(end, TIMES)}" '
        f'tag:duration="{words(max(0, end - tensor.start), TIMES)}"{group}>\n</rect>\n'
    )


def svg(*tensors: T) -> str:
    """A drawing of some tensors."""
    return HEAD + "".join(rect(tensor) for tensor in tensors) + TAIL


def read(text: str | bytes, chunk_bytes: int = 512 * 1024) -> RawMemoryFlow:
    """What the reader makes of a drawing."""
    content = text.encode() if isinstance(text, str) else text
    return MemoryFlowReader().read(Bytes(content, "1.memory_flow.svg"), ReadOptions(chunk_bytes), no_progress)


def flow(*tensors: T) -> MemoryFlow:
    """The model of some tensors."""
    return assembled(read(svg(*tensors)))


def no_flow() -> MemoryFlow:
    """The model of no tensors: a reader refuses a file without any, a model need not."""
    none = replace(read(svg(T(64, 64, 1, 2))), **dict.fromkeys(COLUMNS, np.empty(0, np.int64)))
    return assembled(none)
