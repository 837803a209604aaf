"""Stacks by graph node, as ``torch.cuda`` dumps them.

The file is an object that maps decimal ids to multi-line texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.stack_profile.table import Places
from tb_plugin.model.trace.graph_capture import NodeStacks
from tb_plugin.model.trace.node_stacks import node_stacks

MAX_TEXT = 16 * 1024
_LOOKS = re.compile(
    rb'\A(?:\xef\xbb\xbf)?[ \t\r\n]{0,64}\{[ \t\r\n]{0,64}"[0-9]{1,19}"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}"[^"]{0,4096}:[0-9]'
)


@dataclass(frozen=True, eq=False)
class Nodes:
    """The calls of all nodes as places; a place counts the nodes launched in it."""

    names: pa.Array
    places: Places
    stacks: NodeStacks
    seen: int


def is_by_node(head: bytes) -> bool:
    """Returns True for an object whose first key is a number and whose first text starts with a line of code."""
    return _LOOKS.match(head) is not None


def read_nodes(data: bytes, log: IssueLog) -> Nodes:
    """Returns the stacks of a document. Raises UnreadableTrace for a damaged one."""
    try:
        found: dict[str, Any] = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableTrace("The node stacks are truncated or damaged.", do="Dump them again.") from error
    names: dict[str, int] = {}
    stacks, bad = node_stacks(found, lambda text: names.setdefault(text[:MAX_TEXT], len(names)))
    if bad:
        text = "entries that are not a node with its stack were skipped"
        log.add("bad_node", "dropped", count=bad, text=text)
    scopes = stacks.scopes
    own = np.bincount(stacks.scope, minlength=len(scopes)).astype(np.int64)
    places = Places(scopes.name, scopes.parent, np.zeros(len(scopes), np.int32), own)
    texts = [name.encode("utf-8", "replace").decode() for name in names]
    return Nodes(pa.array(texts, pa.large_string()), places, stacks, len(found))
