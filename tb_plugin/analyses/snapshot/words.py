"""Stacks, addresses, streams and pools of a snapshot in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.packages import BUILT_IN, STANDARD, package_of
from tb_plugin.snapshot.table import Snapshot
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Ids = npt.NDArray[np.integer]

NO_STACK = "(no stack recorded)"
NO_HISTORY = "No history was recorded: these are figures at the moment of the dump."
_NATIVE = ("", "??")
"""Files of frames that the interpreter did not run."""


@dataclass(frozen=True, eq=False)
class StackWords:
    """Words of stacks, by stack, and one more for -1: frames as PyTorch's profiler writes them."""

    text: pa.Array
    """Frames, innermost first, with ``;`` between: ``path(line): function``."""
    line: pa.Array
    """The innermost frame outside of the framework and of Python's standard library."""
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
    texts, ranks = [], np.zeros(len(files), np.int8)
    for i, (file, line, name) in enumerate(zip(files, stacks.line.tolist(), names, strict=True)):
        is_python = is_python_file(file)
        texts.append(f"{file}({line}): {name or '?'}" if is_python else name or "?")
        # 2: the person's own, 1: Python's, 0: native.
        ranks[i] = is_python + (
            is_python and package_of(texts[i])[0] not in (BUILT_IN, STANDARD, *snapshot.recorder.packages)
        )
    whole, lines = [], []
    for first, end in zip(stacks.first[:-1].tolist(), stacks.first[1:].tolist(), strict=True):
        frames = stacks.frame[first:end]
        whole.append(";".join(texts[frame] for frame in frames.tolist()) or None)
        lines.append(texts[frames[int(np.argmax(ranks[frames]))]] if len(frames) else None)
    return StackWords(pa.array([*whole, None], pa.large_string()), pa.array([*lines, None], pa.large_string()), texts)


def is_python_file(file: str | None) -> bool:
    """Returns whether a frame of a file is one that the interpreter ran."""
    return (file or "") not in _NATIVE


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
