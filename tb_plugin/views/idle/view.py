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
from tb_plugin.analysis.device_time import device_noun
from tb_plugin.analysis.idle.account import Account, idle_account
from tb_plugin.analysis.idle.causes import METRICS, PHRASES, TITLES, Cause, idle_slices, word_of
from tb_plugin.analysis.idle.host_activity import host_of
from tb_plugin.analysis.launches.unrecorded_work import unrecorded_work
from tb_plugin.analysis.metrics import CHOSEN_STEPS, PER_STEP, STEP, SUM
from tb_plugin.analysis.phrases import vendor_words
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.intervals import Ranges, measure_within, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import (
    Breakdown,
    Column,
    Figure,
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

_SUM = SUM + CHOSEN_STEPS
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
        spent = _spent(trace, idle)
        every = (_groups(trace, idle, spent), _causes(idle), _steps(trace, idle), _pieces(trace, idle, spent))
        frames = {frame.name: frame for frame in every}
        payloads: dict[str, Payload] = {
            "summary": _summary(idle),
            **({"answer": Notices("answer", "Idle time", "answer", [_answer(idle)])} if idle.causes else {}),
            **({"steps": _series(idle)} if trace.steps.recorded else {}),
            **({"idle_by_cause": _by_cause(idle)} if len(idle.causes) > 1 else {}),
        }
        layout = (*payloads, "idle_groups")
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
    earlier_todo: str
    """Advice on work that was launched before the recording."""
    launch_todo: str
    """Advice on launches that were not recorded."""
    where: str
    word: str
    """Word for the devices: "GPU", "NPU" or "device"."""

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
    where = "the steps" if trace.steps.recorded else "the recording"
    word = device_noun(trace)
    keys = ("recording_began_mid_flight", "view.launches")
    earlier, unlaunched = (vendor_words(trace.recorder.todo(key), word) for key in keys)
    found = _Chosen(label, start, end, devices, by_step, (), unrecorded, earlier, unlaunched, where, word)
    causes = sorted((cause for cause in Cause if found.total(cause)), key=lambda cause: (-found.total(cause), cause))
    return replace(found, causes=tuple(causes))


def _idle_columns(idle: _Chosen, *keys: str, share: tuple[str, ...] = ()) -> list[Column]:
    columns = METRICS.columns(*keys, share=share)
    metric = METRICS.metric("idle_ns", f"Idle in {idle.where}", _SUM)
    return [structs.replace(each, metric=metric) if each.metric.key == metric.key else each for each in columns]


def _time_figure(idle: _Chosen, cause: Cause | None) -> Figure:
    """Returns the idle time of a cause (None = all)."""
    if cause is None:
        return METRICS.figure("idle_ns", idle.idle_ns, f"Idle in {idle.where}", window=_SUM)
    return METRICS.figure(f"idle_{word_of(cause)}_ns", idle.total(cause), f"Idle: {TITLES[cause][0]}")


def _summary(idle: _Chosen) -> Figures:
    total, window = idle.idle_ns, idle.where
    shown = 1 if idle.unrecorded_ns else 2
    devices = "" if len(idle.devices) == 1 else f"sum of {len(idle.devices)} {idle.word}s"
    figures = [
        structs.replace(_time_figure(idle, None), note=devices),
        METRICS.figure(
            "idle_ratio", idle.ratio, f"Share of {window}", "excluding unrecorded work" if idle.unrecorded_ns else ""
        ),
        *([METRICS.figure("unrecorded_ns", idle.unrecorded_ns, window=_SUM)] if idle.unrecorded_ns else ()),
        *(
            _time_figure(idle, cause)
            for cause in idle.causes[:shown]
            if cause not in (Cause.UNEXPLAINED, Cause.NOT_RECORDED)
        ),
    ]
    if idle.total(Cause.NOT_RECORDED) < total:
        figures.append(METRICS.figure("idle_unexplained_ratio", idle.total(Cause.UNEXPLAINED) / total))
    return Figures("summary", "Idle time", "", figures, "headline")


def _answer(idle: _Chosen) -> Notice:
    largest = [cause for i, cause in enumerate(idle.causes[:2]) if not i or 10 * idle.total(cause) >= idle.idle_ns]
    times = [_time_figure(idle, cause) for cause in (None, *largest)]
    many = len(idle.devices) > 1
    who = f"The {idle.word}s are" if many else f"The {idle.word} is"
    summed = f", summed over {len(idle.devices)} {idle.word}s" if many else ""
    earlier = idle.unrecorded_ns
    rest = " excluding unrecorded work" if earlier else ""
    is_known = idle.total(Cause.NOT_RECORDED) < idle.idle_ns
    whiles = [f"{{{figure.metric.key}}} {PHRASES[cause]}" for cause, figure in zip(largest, times[1:], strict=True)]
    text = f"{who} idle {{idle_ratio}} of the time{rest} ({{idle_ns}}{PER_STEP}{summed})"
    text += f": {' and '.join(whiles)}." if is_known else ". Launches were not recorded, so the cause is unknown."
    if earlier:
        who = f"the {idle.word}s run" if many else f"the {idle.word} runs"
        text += f" For another {{unrecorded_ns}}{PER_STEP}, {who} unrecorded work, which is not idle time."
    return Notice(
        rule="idle_time",
        severity="info",
        text=text,
        todo=idle.earlier_todo if earlier else "" if is_known else idle.launch_todo,
        figures=[
            METRICS.figure("idle_ratio", idle.ratio),
            *times,
            *([METRICS.figure("unrecorded_ns", earlier, window=_SUM)] if earlier else ()),
        ],
    )


def _by_cause(idle: _Chosen) -> Breakdown:
    parts = idle_slices({cause: idle.total(cause) for cause in idle.causes}, _SUM, "idle")
    what = "" if len(idle.devices) == 1 else "sum over all devices"
    return Breakdown("idle_by_cause", "Idle time by cause", what, "ns", idle.idle_ns, parts, "table")


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
    windows = idle.windows
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
        "idle_pieces": [pieces[cause] for cause in idle.causes],
        "idle_longest_ns": [longest[cause] for cause in idle.causes],
        "cause_means": [TITLES[cause][1] for cause in idle.causes],
    }
    types = (pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string())
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
    columns = [replace(each, metric=replace(each.metric, window=STEP)) for each in _idle_columns(idle, *data)]
    return Frame("idle_steps", "Idle time of the steps", columns, pa.table(data), ("step", "device"), "step")


def _interleaved(columns: Sequence[Int64 | np.int64]) -> Int64:
    return (
        np.stack([np.atleast_1d(column) for column in columns], axis=1).ravel().astype(np.int64)
        if columns
        else np.empty(0, np.int64)
    )


class _Spent(msgspec.Struct, frozen=True, eq=False):
    """One row per idle period in the steps: of one device, with one cause."""

    device: Int64
    start: Int64
    end: Int64
    cause: Int64
    following: Int64
    host: Int64
    """String id of the CPU activity; -1 = none."""
    operator: Int64
    """String id of the operator around the CPU activity; -1 = none."""
    line: Int64
    """Index into ``lines``; -1 = none."""
    lines: pa.Array

    def of(self, chosen: Int64) -> _Spent:
        columns = {each: getattr(self, each)[chosen] for each in self.__struct_fields__ if each != "lines"}
        return structs.replace(self, **columns)


def _spent(trace: TraceTable, idle: _Chosen) -> _Spent:
    windows = idle.windows
    parts = []
    for number, account in idle.devices.items():
        at = np.flatnonzero(_touches(windows, account))
        parts.append(
            (np.full(len(at), number), account.start_ns[at], account.end_ns[at], account.cause[at].astype(np.int64),
             account.gaps.next[account.gap[at]])
        )  # fmt: skip
    device, start, end, cause, following = (
        np.concatenate([part[i] for part in parts]) if parts else np.empty(0, np.int64) for i in range(5)
    )
    lines = code_lines(trace)
    name, _, row = host_of(trace).main_activity_before(following, start, end)
    operator = np.append(trace.name, MISSING)[np.append(trace.operator, MISSING)[row]].astype(np.int64)
    line = lines.of[np.where(row == MISSING, len(trace), row)].astype(np.int64)
    return _Spent(device, start, end, cause, following, name, operator, line, lines.texts)


def _groups(trace: TraceTable, idle: _Chosen, spent: _Spent) -> Frame:
    """Returns idle periods by cause, CPU activity and line; the event is that of the longest period."""
    longest = np.argsort(spent.start - spent.end, kind="stable")
    spent = spent.of(longest)
    groups = group(spent.cause, spent.host, spent.line)
    total = groups.sum(measure_within(idle.windows, spent.start, spent.end))
    first = spent.of(groups.first)
    data = {
        "cause": _cause_titles(first),
        "idle_ns": pa.array(total),
        "idle_pieces": pa.array(groups.count()),
        "idle_longest_ns": pa.array(first.end - first.start),
        "idle_host": trace.strings.take(first.host),
        "idle_line": _line_texts(first),
        "start_ns": pa.array(first.start),
        "event": pa.array(first.following, mask=first.following == MISSING),
    }
    columns = _idle_columns(idle, *(key for key in data if key != "event"), share=("idle_ns",))
    columns = [structs.replace(each, hidden=each.metric.key == "start_ns") for each in columns]
    table = pa.table(data).take(np.argsort(-total, kind="stable"))
    key = ("cause", "idle_host", "idle_line")
    return Frame(
        "idle_groups", "By cause and line", [*columns, Column(_NEXT, hidden=True)], table, key, "cause",
        Sort("idle_ns", True),
    )  # fmt: skip


def _cause_titles(spent: _Spent) -> pa.Array:
    return pa.array([TITLES[Cause(each)][0] for each in spent.cause.tolist()], pa.string())


def _line_texts(spent: _Spent) -> pa.Array:
    return spent.lines.take(pa.array(spent.line, mask=spent.line == MISSING))


def _rank_in_group(of: Int64) -> Int64:
    """Returns the position of each row among the rows of its group."""
    order = np.argsort(of, kind="stable")
    starts = np.flatnonzero(np.append(True, of[order][1:] != of[order][:-1])[: len(of)])
    rank = np.empty(len(of), np.int64)
    rank[order] = np.arange(len(of)) - np.repeat(starts, np.diff(np.append(starts, len(of))))
    return rank


def _pieces(trace: TraceTable, idle: _Chosen, spent: _Spent) -> Frame:
    order = np.lexsort((spent.device, spent.start, spent.start - spent.end))
    kind = group(spent.device[order], spent.cause[order]).of
    spent = spent.of(order[_rank_in_group(kind) < LISTED])
    step, chosen = trace.steps.at(spent.start), set(idle.label)
    labels = pa.array([label if label in chosen else None for label in trace.steps.label], pa.string())
    ids = pa.array([each.id for each in trace.devices], pa.string())
    data = {
        "cause": _cause_titles(spent),
        "dur_ns": pa.array(spent.end - spent.start),
        "start_ns": pa.array(spent.start),
        "step": labels.take(pa.array(step, mask=step == MISSING)),
        "device": ids.take(pa.array(spent.device, mask=spent.device == MISSING)),
        "idle_host": trace.strings.take(spent.host),
        "operator": trace.strings.take(spent.operator),
        "idle_line": _line_texts(spent),
        "next_work": trace.strings.take(np.append(trace.name, MISSING)[spent.following]),
        "event": pa.array(spent.following, mask=spent.following == MISSING),
    }
    # The activity and its line tell more than the operator; a device or a step is one of few.
    hidden = {"operator", *({"device"} if len(idle.devices) == 1 else ())}
    columns = [structs.replace(each, hidden=each.metric.key in hidden) for each in METRICS.columns(*_COLUMNS)]
    columns[_COLUMNS.index("step")] = Column(structs.replace(METRICS["step"], definition=_BEGINS_IN))
    return Frame(
        "idle_pieces", "Longest periods", [*columns, Column(_NEXT, hidden=True)], pa.table(data),
        ("device", "start_ns"), "cause", Sort("dur_ns", True),
    )  # fmt: skip
