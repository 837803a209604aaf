"""Display texts of stacks, addresses, streams and pools."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.code_owner import BUILT_IN, STANDARD, package_of
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.schema import MISSING

Ids = npt.NDArray[np.integer]

# Text of one column of a table, bytes.
MAX_COLUMN_BYTES = 48 << 20
# Characters of a longer column, shared by its rows.
_MAX_CUT_COLUMN_CHARS = 8 << 20
# Minimum and maximum length of a text in such a column, characters.
_CUT_TEXT_CHARS = (200, 2_000)
# Text of all distinct stacks, bytes.
_MAX_STACKS_BYTES = 128 << 20
_CUT_MARK = " ... (cut)"
NO_STACK = "(no stack recorded)"
NO_HISTORY = "No history was recorded. Numbers describe memory at the time of the snapshot."
_PYTHON_FILE = re.compile(r".+\.pyw?|<.+")
_IDENTIFIER = re.compile(r"<?[^\W\d]\w*>?(?:\.<?[^\W\d]\w*>?)*")
# Files of generated code. TorchInductor names files by base32 hashes, in folders of two hash letters.
_GENERATED = re.compile(
    r"<(?!frozen |string>|stdin>|console>|ipython-input-|command-|timed |magic-)"
    r"|.*[/\\]torchinductor[^/\\]*[/\\]|.*[/\\]([a-z2-7]{2})[/\\]c\1[a-z2-7]{40,}\.py$"
)
_NODE = re.compile(
    r"torch::autograd::(?:generated::)?(?:\(anonymous namespace\)::)?(?:CppNode<(?:.*::)?)?(\w+)>?::apply\b"
)
# Native frames of the recorder and the allocator itself.
_RECORDING = re.compile(r"torch::unwind::|CapturedTraceback|gather_with_cpp|CachingAllocator")


class StackWords(msgspec.Struct, frozen=True, eq=False):
    """Texts of stacks, in which frames are written as in PyTorch's profiler. The last entry is for index -1."""

    text: pa.Array
    """Frames of each stack as ``path(line): function``, innermost first, separated by ``;``."""
    line: pa.Array
    """User line of each stack: the innermost Python frame outside of PyTorch, the standard library and packages."""
    frame_text: list[str]
    is_python: npt.NDArray[np.bool_]

    def line_labels(self, stack: Ids) -> pa.Array:
        return pc.fill_null(texts_of(self.line, stack), NO_STACK)


@cached_by_argument
def stack_words(snapshot: Snapshot) -> StackWords:
    """Returns the texts of all stacks. A native frame is represented only by its function name."""
    stacks, strings = snapshot.stacks, snapshot.strings
    files, names = (strings.take(ids).to_pylist() for ids in (stacks.file, stacks.name))
    texts, short, nodes = [], [], {}
    ranks, is_python = np.zeros(len(files), np.int8), np.zeros(len(files), np.bool_)
    for i, (file, line, name) in enumerate(zip(files, stacks.line.tolist(), names, strict=True)):
        is_python[i] = is_python_frame(file, line, name)
        texts.append(f"{file}({line}): {name or '?'}" if is_python[i] else name or "?")
        short.append(re.split(r"[/\\]", texts[i])[-1] if is_python[i] and _GENERATED.match(file or "") else "")
        if is_python[i]:
            package, is_framework = package_of(texts[i])
            own = package not in (BUILT_IN, STANDARD, *snapshot.recorder.packages)
            ranks[i] = (
                _GENERATED_CODE if short[i] else _USER if own and not is_framework else _PACKAGE if own else _PYTHON
            )
        elif node := _NODE.search(name or ""):
            nodes[i] = node[1]
            ranks[i] = _AUTOGRAD
        elif _RECORDING.search(name or ""):
            ranks[i] = _RECORDER
        else:
            ranks[i] = _OPERATOR if "at::_ops::" in (name or "") else _NATIVE
    whole, lines = [], []
    # A few long frames may repeat in many stacks.
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))[stacks.frame] + 1
    most = (
        max(_CUT_TEXT_CHARS[1], _MAX_STACKS_BYTES // (len(stacks.first) or 1))
        if sizes.sum() > _MAX_STACKS_BYTES
        else None
    )
    for first, end in zip(stacks.first[:-1].tolist(), stacks.first[1:].tolist(), strict=True):
        frames = stacks.frame[first:end]
        count = None if most is None else int(np.searchsorted(np.cumsum(sizes[first:end]), most + 2)) + 1
        text = ";".join([texts[frame] for frame in frames[:count].tolist()])
        whole.append((text if most is None or len(text) <= most else text[:most] + _CUT_MARK) or None)
        lines.append(_line_of(frames, ranks, texts, short, nodes) if len(frames) else None)
    if sum(len(line or "") for line in lines) > _MAX_STACKS_BYTES:
        lines = [line and line[: _CUT_TEXT_CHARS[1]] for line in lines]
    return StackWords(
        pa.array([*whole, None], pa.large_string()), pa.array([*lines, None], pa.large_string()), texts, is_python
    )


_RECORDER, _NATIVE, _OPERATOR, _AUTOGRAD, _PYTHON, _PACKAGE, _GENERATED_CODE, _USER = range(8)
"""Kinds of frames, in ascending order. A stack is named after its innermost frame of the highest kind."""


def _line_of(
    frames: Ids, ranks: npt.NDArray[np.int8], texts: list[str], short: list[str], nodes: dict[int, str]
) -> str:
    kinds = ranks[frames]
    at = int(np.argmax(kinds))
    best = int(frames[at])
    if kinds[at] == _AUTOGRAD:
        return nodes[best]
    inside = np.flatnonzero(kinds[:at] == _GENERATED_CODE)
    # The text names the generated code after the user's line.
    return f"{texts[best]}, generated code {short[frames[inside[0]]]}" if len(inside) else texts[best]


def is_python_frame(file: str | None, line: int, name: str | None) -> bool:
    """Returns whether a frame is a Python frame: by its file, else by its line and function name."""
    if file in (None, "", "??"):
        return False
    # Profiles converted by PyTorch have no file: the function name contains it.
    if file == "none" or _PYTHON_FILE.fullmatch(file):
        return True
    base = re.split(r"[/\\]", file)[-1]
    return line > 0 and "." not in base and _IDENTIFIER.fullmatch(name or "") is not None


def texts_of(words: pa.Array, stack: Ids) -> pa.Array:
    """Returns the text at each index, null for -1. Texts are cut if the column exceeds ``MAX_COLUMN_BYTES``."""
    which = np.where(stack == MISSING, len(words) - 1, stack).astype(np.int64)
    sizes = pc.fill_null(pc.binary_length(words), 0).to_numpy()
    if sizes[which].sum() > MAX_COLUMN_BYTES:
        most = int(np.clip(_MAX_CUT_COLUMN_CHARS // len(which), *_CUT_TEXT_CHARS))
        parts = (pc.utf8_slice_codeunits(words, 0, most), *(pa.scalar(each, words.type) for each in (_CUT_MARK, "")))
        words = pc.if_else(pc.greater(pc.utf8_length(words), most), pc.binary_join_element_wise(*parts), words)
    return words.take(pa.array(which))


def address_texts(address: Int64) -> pa.Array:
    return pa.array([None if at == MISSING else f"0x{at:x}" for at in address.tolist()], pa.large_string())


def stream_texts(snapshot: Snapshot, stream: Ids) -> pa.Array:
    names = ["default" if value == 0 else f"0x{value:x}" if value > 4096 else str(value) for value in snapshot.streams]
    return texts_of(pa.array([*names, None], pa.large_string()), stream)


def pool_texts(snapshot: Snapshot, pool: Ids) -> pa.Array:
    names = ["default" if pair == (0, 0) else f"private {pair[0]}.{pair[1]}" for pair in snapshot.pools]
    return texts_of(pa.array([*names, None], pa.large_string()), pool)


def changes_of(before: Int64, after: Int64) -> pa.Array:
    """Returns, for each pair of byte counts, how the count changes: "appears", "gone", "grew", "shrank" or "same"."""
    which = np.select([(before == 0) & (after > 0), (before > 0) & (after == 0), after > before, after < before],
                      [0, 1, 2, 3], 4)  # fmt: skip
    return pa.array(["appears", "gone", "grew", "shrank", "same"], pa.string()).take(pa.array(which))
