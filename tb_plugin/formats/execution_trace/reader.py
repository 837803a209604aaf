"""Reader for execution traces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.execution_trace import FORMATS, READER_ID
from tb_plugin.formats.execution_trace.nodes import Nodes
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.stream import text_of
from tb_plugin.formats.values import read_damaged_list, to_storable
from tb_plugin.model.execution_trace import ExecutionTrace
from tb_plugin.model.trace.report import ReadReport

PER_BYTE = 8  # peak memory per byte of text (5 were measured)
PACKED = 26  # bytes of text per stored byte of an archive
_ADVICE = "This is not an execution trace of PyTorch. Record one with torch.profiler.ExecutionTraceObserver."
_FACTS = ("schema", "pid")
_BLOCK_BYTES = 1024 * 1024


class ExecutionTraceReader(DeclaredReader, entry=FORMATS[0]):
    """Reads execution traces of PyTorch. A file can only be read as a whole."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return PER_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values())

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> ExecutionTrace:
        log = IssueLog()
        nodes = Nodes(log)
        with text_of(source, lambda done: progress(ReadState(done, 0, {})), log) as stream:
            pieces = list(iter(lambda: stream.read(_BLOCK_BYTES), b""))
            head, is_complete = _read(b"".join(pieces).removeprefix(b"\xef\xbb\xbf"), nodes, log)
            if not nodes.loaded and (nodes.dropped or not is_complete or not head["nodes"]):
                raise UnreadableTrace("The file contains no execution trace nodes.", do=_ADVICE)
        issues = log.issues()
        truncated = 0 if is_complete else 1
        process = head.get("pid")
        report = ReadReport(
            format=READER_ID,
            file_bytes=stream.file_bytes,
            text_bytes=stream.text_bytes,
            events_in_file=nodes.loaded + nodes.dropped + truncated,
            events_loaded=nodes.loaded,
            events_dropped=nodes.dropped + truncated,
            complete=is_complete and not is_packed_badly(issues),
            issues=issues,
            records="nodes",
        )
        progress(ReadState(1.0, nodes.loaded, {"other": nodes.loaded} if nodes.loaded else {}))
        schema = head.get("schema")
        return ExecutionTrace(
            *nodes.tables(),
            schema[:200] if isinstance(schema, str) else "",
            process if type(process) is int and 0 <= process < 2**53 else None,
            report,
        )


def _read(data: bytes, nodes: Nodes, log: IssueLog) -> tuple[dict[str, Any], bool]:
    """Passes nodes (up to a damage) to ``nodes``. Returns other members, and whether the document is complete."""
    try:
        root = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        # Nodes are decoded one by one, because all objects together would take ten times the memory of the text.
        for raw in msgspec.json.decode(root.get("nodes", msgspec.Raw(b"[]")), type=list[msgspec.Raw]):
            nodes.take(msgspec.json.decode(raw))
        head: dict[str, Any] = {key: msgspec.json.decode(root[key]) for key in _FACTS if key in root}
        return head | {"nodes": "nodes" in root}, True
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass
    text = data.decode("utf-8", "replace")
    known = iter(range(nodes.loaded + nodes.dropped))

    def take(node: Any, source: str) -> None:
        if next(known, None) is None:
            nodes.take(to_storable(node, source.encode(errors="replace"), log))

    begin, at = read_damaged_list(text, r'"nodes"\s{0,64}:\s{0,64}\[', take)
    log.add("truncated_tail", "dropped", at, text="the JSON is truncated or damaged from here on")
    front = text[: max(begin, 0)]
    schema, process = re.search(r'"schema"\s*:\s*"([^"]{1,200})"', front), re.search(r'"pid"\s*:\s*(\d{1,15})', front)
    return {
        "schema": schema[1] if schema else "",
        "pid": int(process[1]) if process else None,
        "nodes": begin >= 0,
    }, False
