"""The supported trace formats."""

from __future__ import annotations

from typing import Any

from tb_plugin.formats.ascend import AscendClusterReader, AscendReader
from tb_plugin.formats.base import Reader
from tb_plugin.formats.chrome_json import ChromeJsonReader
from tb_plugin.formats.execution_trace import ExecutionTraceReader
from tb_plugin.formats.flight_recorder import FlightRecorderReader
from tb_plugin.formats.kineto import KinetoReader
from tb_plugin.formats.megengine import MegEngineReader
from tb_plugin.formats.memory_flow import MemoryFlowReader
from tb_plugin.formats.memory_snapshot import MemorySnapshotReader
from tb_plugin.formats.memory_timeline import MemoryTimelineReader
from tb_plugin.formats.perfetto import PerfettoReader
from tb_plugin.formats.stack_files import StackFilesReader

_KINETO, _CHROME_JSON = KinetoReader(), ChromeJsonReader()

READERS: tuple[Reader[Any], ...] = (
    AscendReader(),
    AscendClusterReader(),
    _KINETO,
    MegEngineReader(),
    _CHROME_JSON,
    PerfettoReader(of_torch=_KINETO, of_tools=_CHROME_JSON),
    MemorySnapshotReader(),
    MemoryTimelineReader(),
    MemoryFlowReader(),
    FlightRecorderReader(),
    StackFilesReader(),
    ExecutionTraceReader(),
)
"""An uncertain file goes to the first reader whose ``sniff`` accepts it: specific formats come before general ones."""
