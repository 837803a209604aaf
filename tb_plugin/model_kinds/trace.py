"""The trace model and its timeline levels."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.graphs.captures import captures
from tb_plugin.analysis.graphs.replays import has_replays
from tb_plugin.analysis.selection import window_info
from tb_plugin.model import codec
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, of_kind
from tb_plugin.model.trace.served_work import Mode
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tb_plugin.model_kinds.base import Outline
from tb_plugin.model_kinds.timeline_levels import levels_of
from tb_plugin.payloads import ClockInfo, StepInfo
from tb_plugin.profilers import profiler_by_id


class TraceModel:
    version = 19

    def assemble(self, raw: RawTrace) -> TraceTable:
        return assemble(raw)

    def write(self, made: TraceTable, path: str) -> None:
        codec.write(made, path, self.version, profiler_by_id)

    def read(self, path: str) -> TraceTable:
        return codec.read(TraceTable, path, self.version, profiler_by_id)

    def outline(self, made: TraceTable) -> Outline:
        found, whole = made.steps, made.coverage.full
        times = (found.start_ns, found.end_ns, found.host_start_ns, found.host_end_ns)
        steps = [
            StepInfo(label, *bounds)
            for label, *bounds in zip(found.label, *(column.tolist() for column in times), strict=True)
            if found.recorded
        ]
        modes = [Mode(mode).word for mode in found.served.mode.tolist()]
        steps = [replace(step, mode=mode) for step, mode in zip(steps, modes, strict=True)] if modes else steps
        all_steps = () if whole is None else whole.steps
        replays = has_replays(made)
        own = replays and len(captures(made).sequences) > 0
        words = {device.word for device in made.devices}
        word = words.pop() if len(words) == 1 else "GPU"
        return Outline(
            made.report, steps, window_info(made), _clock(made), all_steps, replays, own, word, _devices(made)
        )

    def open_companion(self, made: TraceTable, path: str) -> None:
        levels_of(made, path)


def _devices(trace: TraceTable) -> str:
    used = np.unique(trace.device[of_kind(trace.kind, *DEVICE_WORK)]).tolist()
    devices = [trace.devices[number] for number in used if number != MISSING]
    return ", ".join(dict.fromkeys(device.name or f"device {device.id}" for device in devices))


def _clock(trace: TraceTable) -> ClockInfo | None:
    begin = trace.clock_ns
    return None if begin is None else ClockInfo(str(begin), trace.coverage.end_ns)


MODEL = TraceModel()
