"""Reader for stack files: folded text and speedscope's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.stack_files import FORMATS, LOOKS_JSON
from tb_plugin.formats.stack_files.content import StackContent
from tb_plugin.formats.stack_files.filenames import READER_ID, counted_by
from tb_plugin.formats.stack_files.folded import read_folded
from tb_plugin.formats.stack_files.nodes import is_by_node, read_nodes
from tb_plugin.formats.stack_files.speedscope import MOST_IN_ALL, read_speedscope
from tb_plugin.formats.stream import TextStream, text_of
from tb_plugin.model.stack_profile import StackProfile, places_of_stacks
from tb_plugin.model.trace.report import ReadReport

PER_BYTE = 18  # peak memory per byte of text (measured: 15 for JSON, 13 for folded text of distinct stacks)
PACKED = 20  # bytes of text per stored byte of an archive
_WITH_BLANKS = ((r" at 0x[0-9a-fA-F]+", ""),)
_WITHOUT_BLANKS = (
    (r"_at_0x[0-9a-fA-F]+", ""),
    (r"^(.*\(\d+\)|nn\.Module):_", r"\1: "),
    (r"^<built-in_(method|function)_", r"<built-in \1 "),
    (r"^(<built-in method .+)_of_(.+)_object>$", r"\1 of \2 object>"),
)
"""Gives frames their names in traces: without addresses, and with spaces that export_stacks replaced."""
_MEMORY = r"^stream_\d+$"  # outermost frame in collapsed snapshots of torch.cuda._memory_viz; their values are bytes
_NO_STACKS = "No line contains a stack and a number. Remove the file from the log directory."
_BLOCK_BYTES = 1024 * 1024


class StackFilesReader(DeclaredReader, entry=FORMATS[0]):
    """Reads folded stacks of any tool, and speedscope's sampled and evented profiles."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return PER_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values())

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> StackProfile:
        log = IssueLog()
        with text_of(source, lambda done: progress(ReadState(done, 0, {})), log) as stream:
            profile = _read(source.names()[0], stream, options.chunk_bytes, log)
        count = profile.report.events_loaded
        progress(ReadState(1.0, count, {"other": count} if count else {}))
        return profile


def _read(name: str, stream: TextStream, chunk_bytes: int, log: IssueLog) -> StackProfile:
    head, todo = stream.read(4096), "Export the file again."
    if is_by_node(head):
        found, todo = read_nodes(_all(head, stream), log), "Write the stacks to a file again."
    elif LOOKS_JSON.match(head):
        found = read_speedscope(_all(head, stream), log)
    else:
        found, todo = _folded(name, head, stream, chunk_bytes, log), _NO_STACKS
    if not len(found.places.label):
        raise UnreadableTrace("The file contains no stacks.", do=todo)
    return _profile(found, stream, log)


def _all(head: bytes, stream: TextStream) -> bytes:
    pieces = [head]
    while piece := stream.read(_BLOCK_BYTES):
        pieces.append(piece)
    return b"".join(pieces)


def _folded(name: str, head: bytes, stream: TextStream, chunk_bytes: int, log: IssueLog) -> StackContent:
    found = read_folded(head.removeprefix(b"\xef\xbb\xbf"), stream, chunk_bytes, log)
    counted, what, scale = counted_by(name)
    frames = pc.split_pattern(found.stacks, ";")
    names = pc.if_else(pc.equal(frames.values, ""), "(no name)", frames.values)
    # export_stacks writes no spaces except before the number
    names = _renamed(names, _WITH_BLANKS if pc.any(pc.match_substring(names, " ")).as_py() else _WITHOUT_BLANKS)
    encoded = names.dictionary_encode()
    first = frames.offsets.to_numpy().astype(np.int64)
    frame = encoded.indices.to_numpy().astype(np.int64)
    names = encoded.dictionary
    outermost = names.take(pa.array(frame[first[:-1]]))
    if counted == "value" and pc.all(pc.match_substring_regex(outermost, _MEMORY)).as_py():
        counted, what = "bytes", "Bytes"
    if scale * found.total > MOST_IN_ALL:
        raise UnreadableTrace("The sum of all values is impossibly large.", do=_NO_STACKS)
    places = places_of_stacks(frame, first, np.zeros(len(first) - 1, np.int64), found.values * scale)
    return StackContent(names, places, found.lines, counted, what)


def _renamed(names: pa.Array, changes: Sequence[tuple[str, str]]) -> pa.Array:
    for pattern, replacement in changes:
        names = pc.replace_substring_regex(names, pattern, replacement)
    return names


def _profile(found: StackContent, stream: TextStream, log: IssueLog) -> StackProfile:
    issues = log.issues()
    dropped = sum(issue.count for issue in issues if issue.outcome == "dropped")
    outside = sum(issue.count for issue in issues if issue.code in _UNCOUNTED)
    report = ReadReport(
        format=READER_ID,
        file_bytes=stream.file_bytes,
        text_bytes=stream.text_bytes,
        events_in_file=found.count + outside,
        events_loaded=found.count + outside - dropped,
        events_repaired=sum(issue.count for issue in issues if issue.outcome == "repaired"),
        events_dropped=dropped,
        complete=found.is_complete and not is_packed_badly(issues),
        issues=issues,
        records="stacks",
    )
    return StackProfile(
        names=found.names,
        places=found.places,
        threads=found.threads,
        stacks=report.events_loaded,
        counted=found.counted,
        what=found.what,
        report=report,
        node=found.node,
        node_place=found.node_place,
    )


# codes of items that were dropped before they were counted
_UNCOUNTED = (
    "unreadable_event", "event_too_large", "truncated_tail", "bad_profile", "unknown_profile", "several_units",
)  # fmt: skip
