"""Reader for allocator snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._pickle.machine import Damaged, Ended, Machine, TooLarge
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.memory_snapshot import FORMATS, READER_ID
from tb_plugin.formats.memory_snapshot.columns import Columns, TooMany, is_number
from tb_plugin.formats.memory_snapshot.html_page import Embedded, is_page
from tb_plugin.formats.memory_snapshot.rows import Rows
from tb_plugin.formats.memory_snapshot.store import MAX_US
from tb_plugin.formats.stream import TextStream, text_of
from tb_plugin.formats.values import valid_unicode
from tb_plugin.model.snapshot.table import HOST, Annotations, RawSnapshot
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.profilers import PYTORCH

PER_BYTE = 1.2  # peak memory per byte of the pickle (0.3 to 0.9 were measured)
PACKED = 12  # bytes of a pickle per stored byte of an archive
_CUDA = 1  # c10 DeviceType of the allocator that writes snapshots, also under ROCm
_RECORD = "Record a new snapshot: torch.cuda.memory._dump_snapshot(path)."


class MemorySnapshotReader(DeclaredReader, entry=FORMATS[0]):
    """Reads files of ``torch.cuda.memory._dump_snapshot`` (protocols 0 to 5), also inside pages."""

    def __init__(self, is_fast: bool = True) -> None:
        self._is_fast = is_fast  # False: the opcode machine reads every event, with the same result

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return int(PER_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values()))

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawSnapshot:
        reading = _Reading(self._is_fast)
        with text_of(source, lambda done: progress(reading.state(done)), reading.log) as stream:
            root = reading.read(stream)
        progress(reading.state(1.0))
        return reading.finish(root, stream, source.names()[0])


class _Reading:
    def __init__(self, is_fast: bool) -> None:
        self.log = IssueLog()
        self.rows = Rows(self.log)
        self.is_complete = True
        self._is_fast = is_fast

    def state(self, fraction: float) -> ReadState:
        return ReadState(fraction, self.rows.events_loaded, {"memory": self.rows.events_loaded})

    def read(self, stream: TextStream) -> Any:
        head = stream.read(64 * 1024)
        pending = [head]

        def text(size: int) -> bytes:
            return pending.pop() if pending else stream.read(size)

        source = Embedded(text).read if is_page(head) else text

        def read(size: int) -> bytes:
            block = source(size)
            self.rows.earn(len(block))
            return block

        machine = Machine(read, self.rows, "snapshot", lambda: stream.file_bytes, self._is_fast)
        try:
            return machine.run()
        except Ended:
            self._stop("truncated_tail", "the file is truncated inside the snapshot", machine)
        except TooMany:
            self._stop(
                "too_many",
                "repeated references make the content impossibly large; the rest was skipped",
                machine,
            )
        except TooLarge as error:
            self._stop("too_many", f"{error}; the rest was skipped", machine)
        except Damaged as error:
            self._stop("damaged", f"the pickle is damaged ({error}); the rest was skipped", machine)
        except ValueError as error:  # invalid base64 in a page
            self._stop("damaged", f"{error}; the rest was skipped", machine)
        try:
            return machine.unwound()
        except TooMany:
            return {}

    def _stop(self, code: str, text: str, machine: Machine) -> None:
        self.is_complete = False
        self.rows.dropped += 1
        self.log.add(code, "dropped", machine.offset, text=valid_unicode(text[:1000]))

    def finish(self, root: Any, stream: TextStream, name: str) -> RawSnapshot:
        try:
            self._rest(root)
        except TooMany:
            self.is_complete = False
            self.log.add(
                "too_many",
                "dropped",
                text="repeated references make the content impossibly large; the rest was skipped",
            )
        found = root if isinstance(root, dict) else {}
        is_snapshot = any(key in found for key in ("segments", "device_traces", "host_segments"))
        if not self.rows.loaded and not (is_snapshot and self.is_complete):
            problem = "" if self.is_complete else self.log.issues()[0].text
            why = f" {problem[0].upper()}{problem[1:]}." if problem else ""
            raise UnreadableTrace(f"The pickle contains no allocator snapshot.{why}", name, _RECORD)
        annotations = self._annotations(found.get("external_annotations"))
        rows = self.rows
        events, segments, blocks, stacks = (
            rows.events.build(),
            rows.segments.build(),
            rows.blocks.build(),
            rows.stacks.build(),
        )
        flags, entries = _overflow(found)
        issues = self.log.issues()
        return RawSnapshot(
            events=events,
            segments=segments,
            blocks=blocks,
            stacks=stacks,
            annotations=annotations,
            strings=StringTable(rows.texts.all),
            streams=tuple(rows.streams.all),
            pools=tuple(rows.pools.all),
            devices=rows.devices,
            settings=_settings(found.get("allocator_settings")),
            report=ReadReport(
                format=READER_ID,
                file_bytes=stream.file_bytes,
                text_bytes=stream.text_bytes,
                events_in_file=rows.loaded + rows.dropped,
                events_loaded=rows.loaded,
                events_dropped=rows.dropped,
                events_unknown=sum(issue.count for issue in issues if issue.outcome == "unknown"),
                complete=self.is_complete and not is_packed_badly(issues),
                issues=issues,
                records="events, segments and blocks",
            ),
            recorder=PYTORCH,
            # Snapshots exported from a profile have categories but no settings. Their device may be of any type.
            device_type=_CUDA if "allocator_settings" in found or not (events.category != MISSING).any() else MISSING,
            overflowed=flags,
            max_entries=entries,
        )

    def _rest(self, root: Any) -> None:
        """Adds the lists that did not go to the sink: lists with one item, and lists in other pickle protocols."""
        if isinstance(root, list):
            self.rows.take_segments(root)
        if not isinstance(root, dict):
            return
        for key in ("segments", "host_segments"):
            if isinstance(root.get(key), list):
                self.rows.take_segments(root[key], key == "host_segments")
        traces = root.get("device_traces")
        for device, trace in enumerate(traces if isinstance(traces, list) else []):
            self.rows.devices = max(self.rows.devices, device + 1)
            if isinstance(trace, list) and trace:
                self.rows.take_events(device, trace)
        if isinstance(root.get("host_traces"), list):
            self.rows.take_events(HOST, root["host_traces"])

    def _annotations(self, found: Any) -> Annotations:
        columns = Columns(Annotations)
        rows = []
        for each in found if isinstance(found, list) else []:
            self.rows.spend(1)
            values = each if isinstance(each, dict) else {}
            name, time, device = self.rows.texts.of(values.get("name")), values.get("time_us"), values.get("device", 0)
            stage = values.get("stage")
            is_named = name != MISSING and stage in ("START", "END")
            if is_named and is_number(time) and 0 <= time <= MAX_US and is_number(device):
                rows.append((min(max(device, HOST), 2**15 - 1), name, int(stage == "START"), 1000 * time))
            else:
                self.rows.dropped += 1
                self.log.add("bad_annotation", "dropped", text="annotations without name, time or stage were skipped")
        columns.add_rows(rows)
        return columns.build()


def _settings(found: Any) -> dict[str, Any]:
    plain = (str, int, float, bool)
    kept: dict[str, Any] = {}
    for key, value in list(found.items())[:200] if isinstance(found, dict) else []:
        if isinstance(value, dict):
            kept[valid_unicode(key[:200])] = {
                valid_unicode(str(k)[:200]): valid_unicode(v[:2000]) if isinstance(v, str) else v
                for k, v in list(value.items())[:200]
                if isinstance(v, plain) and abs_fits(v)
            }
        elif isinstance(value, plain) and abs_fits(value):
            kept[valid_unicode(key[:200])] = valid_unicode(value[:2000]) if isinstance(value, str) else value
    return kept


def abs_fits(value: str | float | bool) -> bool:
    return not isinstance(value, int | float) or abs(value) < 2**63


def _overflow(root: Mapping[str, Any]) -> tuple[tuple[int, ...], int | None]:
    """Returns the devices with truncated history, and the maximum number of events, both of newer files only."""
    settings = root.get("allocator_settings")
    places = [root, settings if isinstance(settings, dict) else {}]
    flags = next((place["trace_alloc_overflowed"] for place in places if "trace_alloc_overflowed" in place), None)
    entries = next((place["trace_alloc_max_entries"] for place in places if "trace_alloc_max_entries" in place), None)
    most = entries[0] if isinstance(entries, list) and entries else entries
    found = (
        [number for number, flag in enumerate(flags) if flag is True]
        if isinstance(flags, list)
        else [0]
        if flags is True
        else []
    )
    return tuple(found[:1000]), most if is_number(most) else None
