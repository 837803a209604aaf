"""Stacks, addresses, streams and pools of a snapshot in words."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.packages import BUILT_IN, STANDARD, is_generated, package_of
from tb_plugin.snapshot.table import Snapshot
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Ids = npt.NDArray[np.integer]

NO_STACK = "(no stack recorded)"
NO_HISTORY = "No history was recorded: these are figures at the moment of the dump."
_PYTHON_FILE = re.compile(r"\.pyw?$|^<.+>$|[/\\][^./\\]+$|^none$")
"""A script may have no extension, as ``bin/torchrun``. PyTorch writes "none" where it converts a profile."""
_AUTOGRAD_NODE = re.compile(r"\bautograd::(?:\w+::)*(?!PyNode|Node\b)(\w+(?:<[^(]*>)?)::apply\(")
_OPERATOR = re.compile(r"\bat::_ops::(\w+)::(?:call|redispatch)\b")
_ALLOCATING = re.compile(r"\bunwind\b|CapturedTraceback|\bgather|Allocator|\bmalloc\b")
"""Native frames of the allocator, and of what records stacks: every stack begins with them."""
_NATIVE, _FRAMEWORK, _INSTALLED, _OWN = range(4)
"""Whose code a frame is; the highest rank of a stack is worth naming."""


@dataclass(frozen=True, eq=False)
class StackWords:
    """Words of stacks, by stack, and one more for -1: frames as PyTorch's profiler writes them."""

    text: pa.Array
    """Frames, innermost first, with ``;`` between: ``path(line): function``."""
    line: pa.Array
    """The innermost Python frame outside of the framework, of installed packages and of Python's standard library.

    Of a stack without one it is the autograd node that runs, else an installed package's, else any Python frame.
    """
    frame_text: list[str]
    """By frame."""

    def named(self, stack: Ids) -> pa.Array:
        """Returns the line of each stack id, in words where there is none."""
        return pc.fill_null(texts_of(self.line, stack), NO_STACK)


@remembered
def stack_words(snapshot: Snapshot) -> StackWords:
    """Returns the stacks in words. A frame of no Python file is its name alone."""
    stacks, strings = snapshot.stacks, snapshot.strings
    files, names = (strings.take(ids).to_pylist() for ids in (stacks.file, stacks.name))
    framework = (BUILT_IN, STANDARD, *snapshot.recorder.packages)
    texts, ranks = [], np.full(len(files), _NATIVE, np.int8)
    for i, (file, line, name) in enumerate(zip(files, stacks.line.tolist(), names, strict=True)):
        is_python = is_python_file(file)
        texts.append(f"{file}({line}): {name or '?'}" if is_python else name or "?")
        if is_python:
            ranks[i] = _rank(texts[i], framework)
    whole, lines = [], []
    for first, end in zip(stacks.first[:-1].tolist(), stacks.first[1:].tolist(), strict=True):
        frames = stacks.frame[first:end]
        whole.append(";".join(texts[frame] for frame in frames.tolist()) or None)
        lines.append(_line(texts, ranks, frames))
    return StackWords(pa.array([*whole, None], pa.large_string()), pa.array([*lines, None], pa.large_string()), texts)


def _rank(text: str, framework: tuple[str, ...]) -> int:
    package, is_installed = package_of(text)
    if package in framework or is_generated(text):
        return _FRAMEWORK
    return _INSTALLED if is_installed else _OWN


def _line(texts: list[str], ranks: npt.NDArray[np.int8], frames: Ids) -> str | None:
    """The frame of a stack, innermost first, that is worth naming; None of no frames."""
    if not len(frames):
        return None
    best = int(frames[np.argmax(ranks[frames])])
    rank = int(ranks[best])
    if rank == _OWN:
        return texts[best]
    native = [texts[frame] for frame in frames[ranks[frames] == _NATIVE].tolist()]
    if node := next(filter(None, map(_AUTOGRAD_NODE.search, native)), None):
        return str(node[1])
    if rank != _NATIVE:
        return texts[best]
    if operator := next(filter(None, map(_OPERATOR.search, native)), None):
        return f"aten::{operator[1]}"
    return str(next((text for text in native if not _ALLOCATING.search(text)), native[0]))


def is_python_file(file: str | None) -> bool:
    """Returns whether a frame of a file is one that the interpreter ran: files of native frames have any other name."""
    return _PYTHON_FILE.search(file or "") is not None


def texts_of(words: pa.Array, stack: Ids) -> pa.Array:
    """Returns the text of each stack id; null for none."""
    return words.take(pa.array(np.where(stack == MISSING, len(words) - 1, stack).astype(np.int64)))


def address_texts(address: Int64) -> pa.Array:
    """Returns addresses as hexadecimal texts; null where none is stated."""
    return pa.array([None if at == MISSING else f"0x{at:x}" for at in address.tolist()], pa.large_string())


def stream_texts(snapshot: Snapshot, stream: Ids) -> pa.Array:
    """Returns streams in words: the default one, and the others as the file numbers them."""
    names = ["default" if value == 0 else f"0x{value:x}" if value > 4096 else str(value) for value in snapshot.streams]
    return texts_of(pa.array([*names, None], pa.large_string()), stream)


def pool_texts(snapshot: Snapshot, pool: Ids) -> pa.Array:
    """Returns pools in words: the one that all share, and private ones by their id."""
    names = ["default" if pair == (0, 0) else f"private {pair[0]}.{pair[1]}" for pair in snapshot.pools]
    return texts_of(pa.array([*names, None], pa.large_string()), pool)


def changes_of(before: Int64, after: Int64) -> pa.Array:
    """Returns in words what became of numbers of bytes."""
    which = np.select([(before == 0) & (after > 0), (before > 0) & (after == 0), after > before, after < before],
                      [0, 1, 2, 3], 4)  # fmt: skip
    return pa.array(["appears", "gone", "grew", "shrank", "same"], pa.string()).take(pa.array(which))
