"""Python calls around the launches that nodes of graphs stand for, as a tool states them by the ids of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tb_plugin.model.trace.graph_capture import NodeStacks, named_scopes
from tb_plugin.model.trace.schema import MISSING, EventKind

_LARGEST = 2**63


def node_stacks(stacks: Mapping[str, Any], text_id: Callable[[str], int]) -> tuple[NodeStacks, int]:
    """Returns the calls of each node, and how many entries are none: their key is no number, or their value no text.

    ``stacks`` has the full ids of nodes in decimal, and for each a line ``file:line:function`` a call, innermost first.
    ``text_id`` gives a text its string id. Calls read as those of a trace do: ``file(line): function``.
    """
    calls: dict[tuple[int, str], int] = {}
    """By the position of the call around it and its line."""
    known: dict[str, int] = {}
    found: dict[int, int] = {}
    for key, text in stacks.items():
        if not (isinstance(text, str) and key.isascii() and key.isdigit() and len(key) < 20 and int(key) < _LARGEST):
            continue
        if text not in known:
            at = MISSING
            for line in reversed(text.splitlines()):
                if line.strip():
                    at = calls.setdefault((at, line), len(calls))
            known[text] = at
        if known[text] != MISSING:
            found[int(key)] = known[text]
    names = np.array([text_id(_call(line)) for _, line in calls], np.int32)
    parents = np.array([above for above, _ in calls], np.int32)
    nodes = sorted(found)
    scope = np.array([found[node] for node in nodes], np.int32)
    scopes = named_scopes(EventKind.PYTHON, names, parents)
    return NodeStacks(np.array(nodes, np.int64), scope, scopes), len(stacks) - len(found)


def _call(line: str) -> str:
    parts = line.strip().rsplit(":", 2)
    return f"{parts[0]}({parts[1]}): {parts[2]}" if len(parts) == 3 and parts[1].strip().isdigit() else line.strip()
