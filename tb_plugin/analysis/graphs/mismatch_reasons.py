"""Reasons why captures do not match graphs, as text."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.demangle import readable_names
from tb_plugin.analysis.graphs.matching import first_difference
from tb_plugin.analysis.graphs.replays import Graphs
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.model.trace.graph_capture import Captured, Scopes, Sequences
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.strings import StringTable

Int64 = npt.NDArray[np.int64]

# Maximum number of similarly long captures compared to find the most similar one.
MOST_COMPARED = 8
# A capture and a graph whose node counts differ by this factor are unrelated.
MUCH = 1.5
_MAX_NAME_CHARS = 1000
_TYPES = re.compile(r"<|\w\(")
_INNERMOST = re.compile(r"(?<!operator)<[^<>()]*>|\([^()<>]*\)")
_KINDS = {EventKind.KERNEL: "a kernel", EventKind.MEMCPY: "a copy", EventKind.MEMSET: "a memset"}
_FIELDS = {"grid": " with the grid ", "block": " with the block "}


class Refusal(msgspec.Struct, frozen=True):
    """A recording that could not be matched to a graph, and the reason for the failure."""

    source: str
    """Name of the other recording on the page; "" if the recording is the trace itself."""
    graph: int
    position: int
    """Index of the first node that differs. The first node has index 0."""
    text: str
    """Reason for the failure, as text for the user. In this text, the first node has number 1."""


def not_fitting(strings: StringTable, graphs: Graphs, graph: int, told: Captured) -> Refusal | None:
    """Returns a description of how the most similar capture differs from a graph.

    Returns None if there are no captures.
    """
    sequences = told.sequences
    captured = np.flatnonzero(sequences.is_capture & (np.diff(sequences.begin) > 0))
    if not len(captured):
        return None
    nodes = graphs.nodes(graph)
    size = nodes.stop - nodes.start
    sizes = np.diff(sequences.begin)[captured]
    near = captured[np.argsort(np.abs(sizes - size), kind="stable")[:MOST_COMPARED]]
    differ = [(*first_difference(graphs, graph, sequences, number), number) for number in near.tolist()]
    position, field, number = max(differ, key=lambda each: each[0])
    begin = int(sequences.begin[number])
    length = int(sequences.begin[number + 1]) - begin
    if not field and length == size:
        text = "Neither the replay nor the capture shows the order in which the nodes run."
    elif not field:
        text = f"The capture has {length} nodes, but the replay ran {size}. "
        text += "Apart from the missing nodes, capture and replay match."
    else:
        sides = (sequences, begin + position), (graphs, nodes.start + position)
        there, here = (_words(strings, work, at, field, short_name) for work, at in sides)
        if there == here:  # they differ only in types
            there, here = (_words(strings, work, at, field, str) for work, at in sides)
        text = f"Node {position + 1}: the capture launches {there}, the replay ran {here}."
        if length != size:
            unlike = max(length, size) > MUCH * min(length, size)
            hint = ", probably because the model or the batch size differs" if unlike else ""
            text = f"The capture has {length} nodes, but the replay has {size} nodes{hint}. {text}"
    return Refusal(told.source_of(number), graph, position, text)


def not_agreeing(strings: StringTable, source: str, graph: int, at: tuple[int, int, int], scopes: Scopes) -> Refusal:
    """Returns a description of a contradiction between several matches.

    ``at`` contains the node and two of its scopes.
    """
    position, first, other = at
    texts = " and ".join(_path(strings, scopes, scope) for scope in (first, other))
    return Refusal(
        source,
        graph,
        position,
        f"Node {position + 1} matches several nodes of the capture, which have different operators or modules: {texts}.",
    )


def too_often(source: str, graph: int) -> Refusal:
    """Returns the refusal of a graph that has too many candidates to compare."""
    return Refusal(
        source, graph, 0, "The recording contains similar work too many times to compare all of it with the graph."
    )


def short_name(name: str) -> str:
    """Returns a kernel name after removing brackets, return type and namespaces."""
    text = (readable_names([name])[0] or name).removeprefix("void ")
    if not _TYPES.search(text):
        return name
    while (shorter := _INNERMOST.sub("", text)) != text:
        text = shorter
    text = text.split("<")[0].split("(")[0].strip()
    return text.rsplit("::", 1)[-1].strip() or name


def _words(strings: StringTable, work: Graphs | Sequences, at: int, field: str, shown: Callable[[str], str]) -> str:
    name = int(work.name[at])
    text = (
        shown(strings[name])[:_MAX_NAME_CHARS]
        if name != MISSING
        else _KINDS.get(EventKind(int(work.kind[at])), "other work")
    )
    return text + (_FIELDS[field] + strings[int(getattr(work, field)[at])] if field in _FIELDS else "")


def _path(strings: StringTable, scopes: Scopes, scope: int) -> str:
    names: list[str] = []
    while scope != MISSING:
        if scopes.kind[scope] in (EventKind.OPERATOR, EventKind.MODULE):
            names.append(module_label(strings[int(scopes.name[scope])])[:_MAX_NAME_CHARS])
        scope = int(scopes.parent[scope])
    return " > ".join(names[::-1][-4:]) or "no operator"
