"""Reader for Perfetto traces.

The JSON readers interpret the events. The packet decoder is imported on first use, because loading the protobuf
runtime takes as long as loading all other readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import FileSize, Progress, Reader, ReadOptions, Source
from tb_plugin.formats.format_entry import DeclaredReader, as_windowed_reader
from tb_plugin.formats.issues import is_packed_badly
from tb_plugin.formats.perfetto import FORMATS, READER_ID
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.model.trace.window import Survey
from tb_plugin.profilers import PYTORCH_PACKETS

if TYPE_CHECKING:
    from tb_plugin.formats.perfetto.columns import Reading
    from tb_plugin.formats.perfetto.translate import Translated

# bytes of packets per stored byte of a gzip file without a usable trailer (measured: PyTorch 5, Chromium 12)
PACKED = 8
TEXT = 3  # bytes of JSON per byte of packets (measured: 1.4 for PyTorch, up to 5 for Chromium)


class OfTorch(Reader[RawTrace], Protocol):
    """The reader of PyTorch's JSON, which also accepts columns."""

    def reading(self, options: ReadOptions) -> Reading: ...


class PerfettoReader(DeclaredReader, entry=FORMATS[0]):
    """Reads packets as JSON. ``of_torch`` reads events of PyTorch, ``of_tools`` those of other tools."""

    def __init__(self, of_torch: OfTorch, of_tools: Reader[RawTrace]) -> None:
        self._of_torch = of_torch
        self._of_tools = of_tools

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        text = {name: FileSize(TEXT * size.text_bytes(PACKED)) for name, size in sizes.items()}
        return self._of_torch.peak_memory_bytes(text)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        from tb_plugin.formats.perfetto.translate import Translated
        from tb_plugin.formats.perfetto.wire import Malformed

        translated = Translated(source, options.chunk_bytes, progress)
        if translated.is_of_torch and options.window is None:
            try:
                return self._columns(translated, options)
            except Malformed:  # not PyTorch's layout: use the slow path
                translated = Translated(source, options.chunk_bytes, progress)
        reader = self._of_torch if translated.is_of_torch else self._of_tools
        trace = reader.read(translated, options, translated.report_progress)
        base_ns = trace.base_time_ns if translated.is_of_torch else translated.base_ns
        recorder = PYTORCH_PACKETS if translated.is_of_torch else trace.recorder
        return replace(trace, report=_report(trace.report, translated), base_time_ns=base_ns, recorder=recorder)

    def _columns(self, translated: Translated, options: ReadOptions) -> RawTrace:
        """Returns a whole PyTorch trace. Raises Malformed if the trace does not have PyTorch's layout."""
        reading = self._of_torch.reading(options)
        translated.take_columns(reading)
        trace = reading.finish(translated, translated)
        return replace(trace, report=_report(trace.report, translated), recorder=PYTORCH_PACKETS)

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        from tb_plugin.formats.perfetto.translate import Translated

        translated = Translated(source, options.chunk_bytes, progress)
        able = as_windowed_reader(self._of_torch if translated.is_of_torch else self._of_tools)
        if able is None:
            what = "The file needs more memory than allowed. Only PyTorch traces can be opened as a time window."
            raise UnreadableTrace(what, source.names()[0], "Allow more memory, or record less.")
        return able.survey(translated, options, translated.report_progress)

    def room_bytes(self, memory_bytes: int) -> int:
        able = as_windowed_reader(self._of_torch)
        return memory_bytes if able is None else able.room_bytes(memory_bytes)


def _report(report: ReadReport, translated: Translated) -> ReadReport:
    """Adds the problems found in packets to the JSON reader's report. Byte offsets refer to the packets."""
    ours = translated.log.issues()
    lost = sum(issue.count for issue in ours if issue.outcome == "dropped")
    issues = (*(replace(issue, first_offset=None) for issue in report.issues), *ours)
    return replace(
        report,
        format=READER_ID,
        file_bytes=translated.file_bytes,
        text_bytes=translated.text_bytes,
        events_in_file=report.events_in_file + lost,
        events_dropped=report.events_dropped + lost,
        complete=report.complete and translated.complete and not is_packed_badly(ours),
        issues=tuple(sorted(issues, key=lambda issue: (issue.code, issue.text))),
    )
