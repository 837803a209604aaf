"""Idle time of devices by cause and step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import structs
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.idle.account import Account, idle_account
from tb_plugin.analysis.idle.causes import METRICS, TITLES, Cause, idle_slices, word_of
from tb_plugin.analysis.idle.host_activity import host_of
from tb_plugin.analysis.launches.unrecorded_work import unrecorded_work
from tb_plugin.analysis.metrics import CHOSEN_STEPS
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import Ranges, measure_within, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import (
    Breakdown,
    Column,
    Figures,
    Line,
    Metric,
    Notice,
    Notices,
    Payload,
    Series,
    Sort,
)
from tb_plugin.views.idle import VIEW

# Longest first, per cause.
LISTED = 200
_NEXT = Metric("event", "Event", "count", "Timeline number of the event after the gap.")
_BEGINS_IN = (
    "Step in which the idle time starts. Empty if it starts outside the selected steps; its full time is included."
)
_COLUMNS = ("cause", "dur_ns", "start_ns", "step", "device", "idle_host", "operator", "idle_line", "next_work")


class IdleTime(DeclaredView, entry=VIEW):
    selects = "steps"

    def part(self, trace: TraceTable, params: Params) -> Part:
        idle = _chosen(trace, params.steps)
        frames = {frame.name: frame for frame in (_causes(idle), _steps(trace, idle), _pieces(trace, idle))}
        payloads: dict[str, Payload] = {
            "summary": _summary(idle),
            **({"answer": Notices("answer", "Idle time", "answer", [_answer(idle)])} if idle.causes else {}),
            **({"steps": _series(idle)} if trace.steps.recorded else {}),
            **({"average_idle": _average(idle)} if idle.causes else {}),
        }
        layout = (*payloads, "idle_pieces")
        return Part(select_rows(trace, params.steps).coverage, {}, frames, payloads, layout)


class _Chosen(msgspec.Struct, frozen=True, eq=False):
    label: tuple[str, ...]
    start_ns: Int64
    end_ns: Int64
    devices: Mapping[int, Account]
    by_step: Mapping[int, Mapping[Cause, Int64]]
    """Idle nanoseconds for each device and cause, one value per step."""
    causes: tuple[Cause, ...]
    unrecorded: Mapping[int, Int64]
    todo: str
    where: str

    def total(self, cause: Cause) -> int:
        return sum(int(of[cause].sum()) for of in self.by_step.values())

    @property
    def idle_ns(self) -> int:
        return sum(map(self.total, Cause))

    @property
    def ratio(self) -> float | None:
        length = int((self.end_ns - self.start_ns).sum()) * len(self.devices) - self.unrecorded_ns
        return self.idle_ns / length if length else None

    @property
    def unrecorded_ns(self) -> int:
        return sum(int(of.sum()) for of in self.unrecorded.values())

    @property
    def windows(self) -> Ranges:
        return union(self.start_ns, self.end_ns)


def _chosen(trace: TraceTable, steps: tuple[str, ...] | None) -> _Chosen:
    at = chosen_steps(trace, steps)
    start, end = trace.steps.start_ns[at], trace.steps.end_ns[at]
    devices = {device: idle_account(trace, device) for device in device_busy(trace)}
    by_step = {device: account.by_cause(start, end) for device, account in devices.items()}
    label = tuple(trace.steps.label[i] for i in at)
    unrecorded = {device: measure_within(unrecorded_work(trace, device), start, end) for device in devices}
    todo = trace.recorder.todo("recording_began_mid_flight")
    where = "the steps" if trace.steps.recorded else "the recording"
    found = _Chosen(label, start, end, devices, by_step, (), unrecorded, todo, where)
    causes = sorted((cause for cause in Cause if found.total(cause)), key=lambda cause: (-found.total(cause), cause))
    return replace(found, causes=tuple(causes))


def _idle_columns(idle: _Chosen, *keys: str, share: tuple[str, ...] = ()) -> list[Column]:
    columns = METRICS.columns(*keys, share=share)
    metric = METRICS.metric("idle_ns", f"Idle in {idle.where}", CHOSEN_STEPS)
    return [structs.replace(each, metric=metric) if each.metric.key == metric.key else each for each in columns]


def _summary(idle: _Chosen) -> Figures:
    total, window = idle.idle_ns, idle.where
    figures = [
        METRICS.figure(
            "idle_ns",
            total,
            f"Idle in {window}",
            "" if len(idle.devices) == 1 else f"{len(idle.devices)} devices",
            CHOSEN_STEPS,
        ),
        METRICS.figure(
            "idle_ratio", idle.ratio, f"Of {window}", "excluding unrecorded work" if idle.unrecorded_ns else ""
        ),
        *([METRICS.figure("unrecorded_ns", idle.unrecorded_ns, window=CHOSEN_STEPS)] if idle.unrecorded_ns else ()),
        *(
            METRICS.figure(f"idle_{word_of(cause)}_ns", idle.total(cause))
            for cause in idle.causes[:2]
            if cause != Cause.UNEXPLAINED  # comes last, as a share
        ),
        METRICS.figure("idle_unexplained_ratio", idle.total(Cause.UNEXPLAINED) / total if total else None),
    ]
    return Figures("summary", "Idle time", "", figures, "headline")


def _answer(idle: _Chosen) -> Notice:
    keys = [f"idle_{word_of(cause)}_ns" for cause in idle.causes]
    largest = [i for i, cause in enumerate(idle.causes[:2]) if not i or 10 * idle.total(cause) >= idle.idle_ns]
    whiles = [f"{{{keys[i]}}} while {TITLES[idle.causes[i]][1].rstrip('.')}" for i in largest]
    who, runs = (
        ("The device is", "the device runs") if len(idle.devices) == 1 else ("The devices are", "the devices run")
    )
    earlier = idle.unrecorded_ns
    rest = " excluding unrecorded work" if earlier else ""
    more = f" For another {{unrecorded_ns}}, {runs} unrecorded work, which is not idle time." if earlier else ""
    return Notice(
        rule="idle_time",
        severity="info",
        text=f"{who} idle for {{idle_ns}}, {{idle_ratio}} of the time{rest}: {', and '.join(whiles)}.{more}",
        todo=idle.todo if earlier else "",
        figures=[
            METRICS.figure("idle_ns", idle.idle_ns, f"Idle in {idle.where}", window=CHOSEN_STEPS),
            METRICS.figure("idle_ratio", idle.ratio),
            *(METRICS.figure(keys[i], idle.total(idle.causes[i])) for i in largest),
            *([METRICS.figure("unrecorded_ns", earlier, window=CHOSEN_STEPS)] if earlier else ()),
        ],
    )


def _average(idle: _Chosen) -> Breakdown:
    count = max(len(idle.label), 1)
    parts = idle_slices({cause: idle.total(cause) for cause in idle.causes}, CHOSEN_STEPS, "idle")
    shares = [structs.replace(part, value=part.value / count) for part in parts]
    what = "" if len(idle.devices) == 1 else "sum over all devices"
    title = "Idle time per step" if len(idle.label) > 1 else "Idle time by cause"
    return Breakdown("average_idle", title, what, "ns", idle.idle_ns / count, shares, "table")


def _series(idle: _Chosen) -> Series:
    lines = [
        Line(METRICS.metric(f"idle_{word_of(cause)}_ns"), f"idle_{word_of(cause)}",
             sum((of[cause] for of in idle.by_step.values()), np.zeros(len(idle.label), np.int64)).tolist())
        for cause in idle.causes
    ]  # fmt: skip
    what = "" if len(idle.devices) == 1 else "sum over all devices"
    return Series(
        "steps", "Idle time of the steps", what, METRICS.metric("step"), list(idle.label), lines, "stacked_bars"
    )


def _causes(idle: _Chosen) -> Frame:
    windows, count = idle.windows, max(len(idle.label), 1)
    pieces, longest = dict.fromkeys(Cause, 0), dict.fromkeys(Cause, 0)
    for account in idle.devices.values():
        length = account.end_ns - account.start_ns
        touches = _touches(windows, account)
        for cause in idle.causes:
            mine = touches & (account.cause == cause)
            pieces[cause] += int(mine.sum())
            longest[cause] = max(longest[cause], int(length[mine].max(initial=0)))
    data = {
        "cause": [TITLES[cause][0] for cause in idle.causes],
        "idle_ns": [idle.total(cause) for cause in idle.causes],
        "idle_mean_ns": [idle.total(cause) / count for cause in idle.causes],
        "idle_pieces": [pieces[cause] for cause in idle.causes],
        "idle_longest_ns": [longest[cause] for cause in idle.causes],
        "cause_means": [TITLES[cause][1] for cause in idle.causes],
    }
    types = (pa.string(), pa.int64(), pa.float64(), pa.int64(), pa.int64(), pa.string())
    table = pa.table({key: pa.array(values, kind) for (key, values), kind in zip(data.items(), types, strict=True)})
    columns = _idle_columns(idle, *data, share=("idle_ns",))
    return Frame("idle_causes", "Causes", columns, table, ("cause",), "cause", Sort("idle_ns", True))


def _touches(windows: Ranges, account: Account) -> npt.NDArray[np.bool_]:
    place = np.searchsorted(windows.end, account.start_ns, side="right")
    found: npt.NDArray[np.bool_] = np.append(windows.start, np.iinfo(np.int64).max)[place] < account.end_ns
    return found


def _steps(trace: TraceTable, idle: _Chosen) -> Frame:
    keys = [f"idle_{word_of(cause)}_ns" for cause in idle.causes]
    names = {device: trace.devices[device].id if device != MISSING else "" for device in idle.devices}
    data = {
        "step": pa.array([label for label in idle.label for _ in idle.devices], pa.string()),
        "device": pa.array([names[device] for _ in idle.label for device in idle.devices], pa.string()),
        "idle_ns": pa.array(_interleaved([sum(of.values(), np.int64(0)) for of in idle.by_step.values()])),
        **{
            key: pa.array(_interleaved([of[cause] for of in idle.by_step.values()]))
            for key, cause in zip(keys, idle.causes, strict=True)
        },
        **({"unrecorded_ns": pa.array(_interleaved(list(idle.unrecorded.values())))} if idle.unrecorded_ns else {}),
    }
    return Frame(
        "idle_steps", "Idle time of the steps", _idle_columns(idle, *data), pa.table(data), ("step", "device"), "step"
    )


def _interleaved(columns: Sequence[Int64 | np.int64]) -> Int64:
    return (
        np.stack([np.atleast_1d(column) for column in columns], axis=1).ravel().astype(np.int64)
        if columns
        else np.empty(0, np.int64)
    )


def _pieces(trace: TraceTable, idle: _Chosen) -> Frame:
    windows = idle.windows
    rows = [_listed(device, account, windows) for device, account in idle.devices.items()]
    device, start, end, cause, following = (
        np.concatenate([part[i] for part in rows]) if rows else np.empty(0, np.int64) for i in range(5)
    )
    order = np.lexsort((device, start, start - end))
    device, start, end, cause, following = (column[order] for column in (device, start, end, cause, following))
    name, operator, line = _host(trace, start, end, following)
    step, chosen = trace.steps.at(start), set(idle.label)
    labels = pa.array([label if label in chosen else None for label in trace.steps.label], pa.string())
    ids = pa.array([each.id for each in trace.devices], pa.string())
    data = {
        "cause": pa.array([TITLES[Cause(each)][0] for each in cause.tolist()], pa.string()),
        "dur_ns": pa.array(end - start),
        "start_ns": pa.array(start),
        "step": labels.take(pa.array(step, mask=step == MISSING)),
        "device": ids.take(pa.array(device, mask=device == MISSING)),
        "idle_host": name,
        "operator": operator,
        "idle_line": line,
        "next_work": trace.strings.take(np.append(trace.name, MISSING)[following]),
        "event": pa.array(following, mask=following == MISSING),
    }
    columns = [*METRICS.columns(*_COLUMNS), Column(_NEXT, hidden=True)]
    columns[_COLUMNS.index("step")] = Column(structs.replace(METRICS["step"], definition=_BEGINS_IN))
    return Frame(
        "idle_pieces", "Longest pieces", columns, pa.table(data), ("device", "start_ns"), "cause", Sort("dur_ns", True)
    )


def _listed(device: int, account: Account, windows: Ranges) -> tuple[Int64, ...]:
    length = account.end_ns - account.start_ns
    touches = _touches(windows, account)
    chosen = []
    for cause in Cause:
        mine = np.flatnonzero(touches & (account.cause == cause))
        chosen.append(mine[np.lexsort((account.start_ns[mine], -length[mine]))[:LISTED]])
    at = np.concatenate(chosen)
    return (
        np.full(len(at), device), account.start_ns[at], account.end_ns[at], account.cause[at].astype(np.int64),
        account.gaps.next[account.gap[at]],
    )  # fmt: skip


def _host(trace: TraceTable, start: Int64, end: Int64, following: Int64) -> tuple[pa.Array, pa.Array, pa.Array]:
    lines = code_lines(trace)
    name, _, row = host_of(trace).did_before(following, start, end)
    around = np.append(trace.operator, MISSING)[row]
    operator = np.append(trace.name, MISSING)[around].astype(np.int64)
    line = lines.of[np.where(row == MISSING, len(trace), row)].astype(np.int64)
    texts = lines.texts.take(pa.array(line, mask=line == MISSING))
    return trace.strings.take(name), trace.strings.take(operator), texts
