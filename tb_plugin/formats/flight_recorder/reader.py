"""Reader for flight recorder dumps, one file per rank."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._pickle.machine import Damaged, Ended, Machine, Role
from tb_plugin.formats._pickle.memo import Memo
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.flight_recorder import FORMATS, READER_ID, TEXT
from tb_plugin.formats.flight_recorder.records import Records, groups_of, status_of
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.stream import TextStream, text_of
from tb_plugin.formats.values import read_damaged_list, to_storable
from tb_plugin.model.flight_recorder import RawFlight
from tb_plugin.model.trace.report import ReadReport

PER_BYTE = 22  # peak memory per byte of text (18 were measured, mostly objects of a pickle)
PACKED = 12  # bytes of text per stored byte of an archive
_AGAIN = "Record a new dump: torch.distributed writes one when a collective times out (TORCH_FR_BUFFER_SIZE)."
_BLOCK_BYTES = 1024 * 1024


class FlightRecorderReader(DeclaredReader, entry=FORMATS[0]):
    """Reads flight recorder dumps, which ``torch.distributed`` writes on each rank when a collective hangs."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return PER_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values())

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawFlight:
        log = IssueLog()
        with text_of(source, lambda done: progress(ReadState(done, 0, {})), log) as stream:
            made = _read(stream, log)
        count = made.report.events_loaded
        progress(ReadState(1.0, count, {"other": count} if count else {}))
        return made


def _read(stream: TextStream, log: IssueLog) -> RawFlight:
    head = stream.read(64 * 1024)
    root, is_complete = _json_root(head, stream, log) if TEXT.match(head) else _pickle_root(head, stream, log)
    # PyTorch 2.2 wrote only the entries.
    found = root if isinstance(root, dict) else {"entries": root}
    entries = found.get("entries")
    if not isinstance(entries, list):
        raise UnreadableTrace("The file contains no flight recorder entries.", do=_AGAIN)
    records = Records(log, stream.text_bytes)
    records.take(entries)
    if not records.loaded and (entries or not is_complete):
        raise UnreadableTrace("None of the entries describes a collective call.", do=_AGAIN)
    issues = log.issues()
    version, library, old_library = (
        str(found.get(key) or "")[:200] for key in ("version", "comm_lib_version", "nccl_version")
    )
    truncated = 0 if is_complete else 1
    return RawFlight(
        records=records.table(),
        groups=groups_of(found.get("pg_config")),
        status=status_of(found.get("pg_status")),
        version=version,
        library=library or old_library,
        report=ReadReport(
            format=READER_ID,
            file_bytes=stream.file_bytes,
            text_bytes=stream.text_bytes,
            events_in_file=records.loaded + records.dropped + truncated,
            events_loaded=records.loaded,
            events_dropped=records.dropped + truncated,
            complete=is_complete and not is_packed_badly(issues),
            issues=issues,
            records="calls",
        ),
    )


class _Nothing:
    """Sink that receives no items, because a dump has only a few thousand calls."""

    def role(self, key: object, lists: list[list[Any]]) -> Role | None:
        return None

    def take(self, role: Role, items: list[Any], memo: Memo) -> None:
        pass

    def run(self, role: Role, machine: Machine) -> None:
        pass


def _pickle_root(head: bytes, stream: TextStream, log: IssueLog) -> tuple[Any, bool]:
    """Returns the content of a pickle, and whether it is complete. Raises UnreadableTrace if the pickle would run code."""
    pending = [head]

    def read(size: int) -> bytes:
        return pending.pop() if pending else stream.read(size)

    machine = Machine(read, _Nothing(), "flight recorder's dump", lambda: stream.file_bytes)
    try:
        return machine.run(), True
    except Ended:
        log.add("truncated_tail", "dropped", machine.offset, text="the file is truncated inside the dump")
    except Damaged as error:
        text = f"the pickle is damaged ({error}); the rest was skipped"
        log.add("damaged", "dropped", machine.offset, text=text)
    return machine.unwound(), False


def _json_root(head: bytes, stream: TextStream, log: IssueLog) -> tuple[Any, bool]:
    """Returns the content, and whether it is complete. Of a damaged file, only entries before the damage."""
    pieces = [head]
    while piece := stream.read(_BLOCK_BYTES):
        pieces.append(piece)
    data = b"".join(pieces).removeprefix(b"\xef\xbb\xbf")
    try:
        return msgspec.json.decode(data), True
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass
    text = data.decode("utf-8", "replace")
    found: dict[str, Any] = {key: _value_of(text, key) for key in ("pg_config", "pg_status", "version")}
    entries: list[Any] = []

    def take(entry: Any, source: str) -> None:
        entries.append(to_storable(entry, source.encode(errors="replace"), log, numbers=False))

    begin, position = read_damaged_list(text, r'"entries"\s{0,64}:\s{0,64}\[', take)
    log.add(
        "truncated_tail", "dropped", len(text[:position].encode()), text="the JSON is truncated or damaged from here on"
    )
    return ({**found, "entries": entries} if begin >= 0 else None), False


_JSON = json.JSONDecoder()


def _value_of(text: str, key: str) -> Any:
    match = re.search(rf'"{key}"\s{{0,64}}:\s{{0,64}}(?=[{{"])', text)
    try:
        return None if match is None else _JSON.raw_decode(text, match.end())[0]
    except (ValueError, RecursionError):
        return None
