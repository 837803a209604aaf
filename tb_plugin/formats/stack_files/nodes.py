"""Stacks by CUDA graph node, in the form that ``torch.cuda`` writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stack_files.content import StackContent
from tb_plugin.model.stack_profile import Places
from tb_plugin.model.trace.graph_capture import NodeStacks, scopes_of_kind
from tb_plugin.model.trace.schema import MISSING, EventKind

MAX_TEXT = 16 * 1024
_LOOKS = re.compile(
    rb'\A(?:\xef\xbb\xbf)?[ \t\r\n]{0,64}\{[ \t\r\n]{0,64}"[0-9]{1,19}"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}"[^"]{0,4096}:[0-9]'
)


def is_by_node(head: bytes) -> bool:
    """Returns True for an object whose first key is a number and whose first value starts with a source line."""
    return _LOOKS.match(head) is not None


def read_nodes(data: bytes, log: IssueLog) -> StackContent:
    """Reads the stacks of all nodes. A call's value is its number of nodes. Raises UnreadableTrace for damaged files."""
    try:
        found: dict[str, Any] = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableTrace(
            "The node stacks are truncated or damaged.", do="Write the stacks to a file again."
        ) from error
    names: dict[str, int] = {}
    stacks, bad = node_stacks(found, lambda text: names.setdefault(text[:MAX_TEXT], len(names)))
    if bad:
        text = "entries that do not contain a node id and a stack were skipped"
        log.add("bad_node", "dropped", count=bad, text=text)
    scopes = stacks.scopes
    own = np.bincount(stacks.scope, minlength=len(scopes)).astype(np.int64)
    places = Places(scopes.name, scopes.parent, np.zeros(len(scopes), np.int32), own)
    texts = [name.encode("utf-8", "replace").decode() for name in names]
    names_of = pa.array(texts, pa.large_string())
    return StackContent(names_of, places, len(found), "nodes", "Graph nodes", node=stacks.node, node_place=stacks.scope)


_ID_LIMIT = 2**63


def node_stacks(stacks: Mapping[str, Any], text_id: Callable[[str], int]) -> tuple[NodeStacks, int]:
    """Returns the stacks, with calls as ``file(line): function``, and the number of invalid entries."""
    calls: dict[tuple[int, str], int] = {}  # key: index of the calling call, and the line
    known: dict[str, int] = {}
    found: dict[int, int] = {}
    for key, text in stacks.items():
        if not (isinstance(text, str) and key.isascii() and key.isdigit() and len(key) < 20 and int(key) < _ID_LIMIT):
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
    scopes = scopes_of_kind(EventKind.PYTHON, names, parents)
    return NodeStacks(np.array(nodes, np.int64), scope, scopes), len(stacks) - len(found)


def _call(line: str) -> str:
    parts = line.strip().rsplit(":", 2)
    return f"{parts[0]}({parts[1]}): {parts[2]}" if len(parts) == 3 and parts[1].strip().isdigit() else line.strip()
