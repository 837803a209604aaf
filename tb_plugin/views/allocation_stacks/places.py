"""Merged allocation stacks, weighted by bytes.

The bytes of a stack count for all frames of the stack, and are own bytes of the innermost frame only.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.code_owner import package_of
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.errors import BadRequest
from tb_plugin.lib.groupby import Int64, group
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.schema import MISSING

# Merge by line of code, by function, or by file; a file's nested calls of itself are one place.
BY = ("line", "function", "file")


class Places(msgspec.Struct, frozen=True, eq=False):
    """Nodes of the merged stacks, parents before children. The first node is the root."""

    name: list[str]
    package: list[tuple[str, bool]]
    """Package of the code, and whether it belongs to a framework."""
    parent: Int64
    bytes: Int64
    """Bytes allocated in the node and in all nodes below it."""
    own_bytes: Int64
    blocks: Int64
    """Number of blocks allocated in the node and in all nodes below it."""


class _Labels(msgspec.Struct, frozen=True, eq=False):
    text: list[str]
    package: list[tuple[str, bool]]
    of: Int64


@cached_by_argument
def _labels(snapshot: Snapshot, by: str) -> _Labels:
    words = stack_words(snapshot)
    whole = words.frame_text
    texts = whole
    if by != "line":
        files = [text or "" for text in snapshot.strings.take(snapshot.stacks.file).to_pylist()]
        names = [text or "?" for text in snapshot.strings.take(snapshot.stacks.name).to_pylist()]
        native = (~words.is_python).tolist()
        if by == "file":
            texts = ["(no Python file)" if bare else file for file, bare in zip(files, native, strict=True)]
        else:
            texts = [name if bare else f"{file}: {name}" for file, name, bare in zip(files, names, native, strict=True)]
    known: dict[str, int] = {}
    packages: list[tuple[str, bool]] = []
    of = np.empty(len(texts), np.int64)
    for i, text in enumerate(texts):
        of[i] = known.setdefault(text, len(known))
        if of[i] == len(packages):
            packages.append(package_of(whole[i]))
    return _Labels(list(known), packages, of)


def places_of_stacks(
    snapshot: Snapshot, root: str, stack: npt.NDArray[np.integer], size: Int64, by: str = "line"
) -> Places:
    """Returns the merged stacks of blocks, below a root node. Raises BadRequest for an unknown ``by``."""
    if by not in BY:
        raise BadRequest(f"by cannot be {by[:40]}.", "by", f"Choose one of {', '.join(BY)}.")
    groups = group(stack)
    bytes_, number, which = groups.sum(size), groups.count(), stack[groups.first].astype(np.int64)
    labels = _labels(snapshot, by)
    label, length = _outermost_first(snapshot, labels, which, by)
    first = np.cumsum(length) - length
    # Level by level from the outside: ``node`` is the current place of each stack.
    node, texts, packages = np.zeros(len(which), np.int64), [*labels.text, NO_STACK], [*labels.package, ("", False)]
    name, package, parent = [root], [("", False)], [np.array([MISSING], np.int64)]
    total, blocks = [bytes_.sum(keepdims=True)], [number.sum(keepdims=True)]
    place_count, level, at = 1, 0, np.arange(len(which))
    while len(at):
        level_labels = label[first[at] + level]
        cells = group(node[at], level_labels)
        parent.append(node[at[cells.first]])
        name += [texts[i] for i in level_labels[cells.first].tolist()]
        package += [packages[i] for i in level_labels[cells.first].tolist()]
        total.append(cells.sum(bytes_[at]))
        blocks.append(cells.sum(number[at]))
        node[at] = cells.of + place_count
        place_count, level = place_count + len(cells), level + 1
        at = at[length[at] > level]
    own = np.zeros(place_count, np.int64)
    np.add.at(own, node, bytes_)
    return Places(name, package, np.concatenate(parent), np.concatenate(total), own, np.concatenate(blocks))


def _outermost_first(snapshot: Snapshot, labels: _Labels, stack: Int64, by: str) -> tuple[Int64, Int64]:
    stacks, none = snapshot.stacks, len(labels.text)
    known = stack != MISSING
    begin, end = (np.where(known, np.append(stacks.first, 0)[stack + more], 0) for more in (0, 1))
    length = end - begin
    of = np.repeat(np.arange(len(stack)), length)
    back = np.arange(len(of)) - np.repeat(np.cumsum(length) - length, length)
    label = labels.of[stacks.frame[end[of] - 1 - back]]
    if by == "file" and len(of):
        # Adjacent frames of one file are one place.
        kept = np.concatenate(([True], (label[1:] != label[:-1]) | (of[1:] != of[:-1])))
        of, label = of[kept], label[kept]
        length = np.bincount(of, minlength=len(stack))
    # A stack without frames is one place.
    bare = np.flatnonzero(length == 0)
    order = np.argsort(np.concatenate((of, bare)), kind="stable")
    return np.concatenate((label, np.full(len(bare), none)))[order], np.maximum(length, 1)
