"""The Reader of Perfetto's traces. What their events mean is told by the readers of the JSON that they stand for.

What decodes packets is imported when there are some: the protobuf runtime takes as long as all other readers together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import FileSize, Progress, Reader, ReadOptions, Source
from tb_plugin.formats.format_entry import DeclaredReader, windowed
from tb_plugin.formats.issues import is_packed_badly
from tb_plugin.formats.perfetto import FORMATS, READER_ID
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.model.trace.window import Survey
from tb_plugin.profilers import PYTORCH_PACKETS

if TYPE_CHECKING:
    from tb_plugin.formats.perfetto.columns import Reading
    from tb_plugin.formats.perfetto.translate import Translated

PACKED = 8
"""Bytes of packets per stored byte of a gzip file whose trailer says nothing: PyTorch's pack 5 times, Chromium's 12."""
TEXT = 3
"""Bytes of JSON per byte of packets: PyTorch's become 1.4, Chromium's, which say nothing twice, up to 5."""


class OfTorch(Reader[RawTrace], Protocol):
    """Who reads PyTorch's JSON, and takes columns of its ranges as well."""

    def reading(self, options: ReadOptions) -> Reading:
        """Returns a read whose events are handed over."""
        ...


class PerfettoReader(DeclaredReader, entry=FORMATS[0]):
    """Reads packets; ``of_torch`` reads the JSON of PyTorch that they stand for, ``of_tools`` that of any other tool."""

    def __init__(self, of_torch: OfTorch, of_tools: Reader[RawTrace]) -> None:
        self._of_torch = of_torch
        self._of_tools = of_tools

    def need_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the memory that reading files of these sizes takes at its peak."""
        text = {name: FileSize(TEXT * size.text_bytes(PACKED)) for name, size in sizes.items()}
        return self._of_torch.need_bytes(text)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        """Returns the file, or a window of it. Raises UnreadableTrace, StorageError and what ``progress`` raises."""
        from tb_plugin.formats.perfetto.translate import Translated
        from tb_plugin.formats.perfetto.wire import Malformed

        translated = Translated(source, options.chunk_bytes, progress)
        if translated.is_of_torch and options.window is None:
            try:
                return self._columns(translated, options)
            except Malformed:  # not as PyTorch writes it: more is read the slow way
                translated = Translated(source, options.chunk_bytes, progress)
        reader = self._of_torch if translated.is_of_torch else self._of_tools
        trace = reader.read(translated, options, translated.told)
        base_ns = trace.base_time_ns if translated.is_of_torch else translated.base_ns
        recorder = PYTORCH_PACKETS if translated.is_of_torch else trace.recorder
        return replace(trace, report=_report(trace.report, translated), base_time_ns=base_ns, recorder=recorder)

    def _columns(self, translated: Translated, options: ReadOptions) -> RawTrace:
        """A whole trace of PyTorch. Raises Malformed where it is not as PyTorch writes it."""
        reading = self._of_torch.reading(options)
        translated.take_columns(reading)
        trace = reading.finish(translated, translated)
        return replace(trace, report=_report(trace.report, translated), recorder=PYTORCH_PACKETS)

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """Returns what is when in the source's one file. Raises what ``read`` raises."""
        from tb_plugin.formats.perfetto.translate import Translated

        translated = Translated(source, options.chunk_bytes, progress)
        able = windowed(self._of_torch if translated.is_of_torch else self._of_tools)
        if able is None:
            what = "It takes more memory than is allowed, and only a trace of PyTorch can be opened as a window."
            raise UnreadableTrace(what, source.names()[0], "Allow more memory, or record less.")
        return able.survey(translated, options, translated.told)

    def room_bytes(self, memory_bytes: int) -> int:
        """Returns how many bytes of JSON a read can keep in so much memory."""
        able = windowed(self._of_torch)
        return memory_bytes if able is None else able.room_bytes(memory_bytes)


def _report(report: ReadReport, translated: Translated) -> ReadReport:
    """What the reader of the JSON says, and what was met on the way there; offsets are those of the packets."""
    ours = translated.log.issues()
    lost = sum(issue.count for issue in ours if issue.outcome == "dropped")
    issues = (*(replace(issue, first_offset=None) for issue in report.issues), *ours)
    return replace(
        report,
        format=READER_ID,
        file_bytes=translated.file_bytes,
        text_bytes=translated.text_bytes,
        events_seen=report.events_seen + lost,
        events_dropped=report.events_dropped + lost,
        complete=report.complete and translated.complete and not is_packed_badly(ours),
        issues=tuple(sorted(issues, key=lambda issue: (issue.code, issue.text))),
    )
