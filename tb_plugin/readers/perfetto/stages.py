"""Work of a GPU as Chrome's events: what a device ran (render stages), what it waited for, and its counters."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from google.protobuf.message import DecodeError

from tb_plugin.readers.issues import IssueLog
from tb_plugin.readers.perfetto.interned import Interned, counter_names, number, plain, quoted, remember
from tb_plugin.readers.perfetto.schema import Extra, Launch

_CATEGORIES = {
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Annotation": "gpu_user_annotation",
    "EventRecord": "graph_event_node",
    "HostNode": "graph_host_node",
}
"""PyTorch's name of a stage -> the category of the same work in its JSON."""
_LANE = re.compile(r"\[0*(\d+)\] ?(.*)", re.DOTALL)
"""How PyTorch calls a queue: its number in brackets, then its name."""
_ARGUMENTS = {
    "device id": "device", "context id": "context", "stream id": "stream", "registers_per_thread": "registers per thread",
    "shared_mem_dynamic": "shared memory",
}  # fmt: skip
"""Arguments that PyTorch's JSON has under another name."""
_CONSTANT = frozenset({"arch", "process_id", "process_name", "thread_count"})
"""What PyTorch repeats in every stage of a trace, and the product of the sizes of a block."""
_STREAM, _CORRELATION, _HOST_FUNCTION = '"stream"', '"correlation"', '"host fn"'
_ARROW = 1 << 40
"""Ids of arrows between device work begin here in PyTorch's JSON."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?\Z", re.ASCII)


class Stages:
    """Turns render stages and counters of a GPU into events, as JSON."""

    def __init__(self, base_ns: int, log: IssueLog) -> None:
        self._base = base_ns
        self._log = log
        self._lanes: dict[tuple[int, int], tuple[int, str]] = {}
        """Device and number of a queue -> its number among threads, and its name."""
        self._calls = (array("Q"), array("q"))
        """Event that a call launched, and the correlation of that call."""
        self._correlation: dict[int, int] | None = None
        self._noted = 0
        self._extras = _Extras(log)
        self._seen = {name: array("q") for name in ("event", "start", "end", "device", "lane")}
        self._waited = (array("Q"), array("Q"))
        """Event, and one that it waited for."""

    def launched(self, event_ids: Iterable[int], correlations: Iterable[int]) -> None:
        """Notes events, and the correlation of the call that launched each."""
        self._calls[0].extend(event_ids)
        self._calls[1].extend(correlations)

    def stage(self, packet: Any, interned: Interned, time_ns: int) -> str:
        """Returns the event of one render stage."""
        stage = packet.render_stage
        kind = interned.specifications.get(stage.stage_iid, "")
        lane = self._lane(stage, interned)
        name = interned.names.get(stage.name_iid) or interned.kernels.get(stage.kernel_iid) or kind or "(no name)"
        arguments = self._arguments(stage, interned, lane)
        start, duration = time_ns - self._base, min(stage.duration, 2**63 - 1)
        if kind == "HostNode" and not stage.name_iid and _HOST_FUNCTION in arguments:
            name = f"HostNode: {msgspec.json.decode(arguments[_HOST_FUNCTION])}"
        category = _CATEGORIES.get(kind, kind)
        for key, value in zip(self._seen, (stage.event_id, start, start + duration, stage.gpu_id, lane), strict=True):
            self._seen[key].append(min(value, 2**63 - 1))
        for waited in stage.waited_event_ids:
            self._waited[0].append(stage.event_id)
            self._waited[1].append(waited)
        args = ",".join([f"{key}:{value}" for key, value in arguments.items()])
        return (
            f'{{"ph":"X","cat":{quoted(category)},"name":{quoted(name)},"pid":{stage.gpu_id},"tid":{lane},'
            f'"ts":{start}e-3,"dur":{duration}e-3,"args":{{{args}}}}}'
        )

    def counters(self, packet: Any, interned: Interned, time_ns: int) -> list[str]:
        """Returns the events of one sample of counters."""
        event = packet.gpu_counter_event
        device, names = interned.counters.get(event.descriptor_iid, (event.gpu_id, {}))
        if event.HasField("descriptor"):
            device, names = event.gpu_id, counter_names(event.descriptor, self._log)
        head = f'"pid":"GPU {device} Counters","ts":{time_ns - self._base}e-3'
        events = []
        for counter in event.counters:
            name = names.get(counter.counter_id, f"counter {counter.counter_id}")
            value = str(counter.int_value) if counter.HasField("int_value") else number(counter.double_value)
            events.append(f'{{"ph":"C","name":{quoted(name)},{head},"args":{{"":{value}}}}}')
        return events

    def names(self, described: set[str]) -> list[str]:
        """Returns the events that name devices (but those in ``described``) and their queues."""
        events = [
            f'{{"ph":"M","name":"process_name","pid":{device},"tid":0,"args":{{"name":"GPU {device}"}}}}'
            for device in sorted({device for device, _ in self._lanes})
            if str(device) not in described
        ]
        for (device, _), (lane, name) in self._lanes.items():
            events.append(
                f'{{"ph":"M","name":"thread_name","pid":{device},"tid":{lane},"args":{{"name":{quoted(name)}}}}}'
            )
        return events

    def arrows(self) -> list[str]:
        """Returns the arrows between device work that waited for each other, as PyTorch's JSON has them."""
        if not self._waited[0]:
            return []
        seen = {key: np.frombuffer(column, np.int64) for key, column in self._seen.items()}
        order = np.argsort(seen["event"], kind="stable")
        sorted_ids = seen["event"][order]

        def rows(column: Any) -> Any:
            ids = np.frombuffer(column, np.uint64).astype(np.int64)
            place = np.minimum(np.searchsorted(sorted_ids, ids), len(order) - 1)
            return np.where(sorted_ids[place] == ids, order[place], -1)

        later, earlier = rows(self._waited[0]), rows(self._waited[1])
        known = (later >= 0) & (earlier >= 0)
        if not known.all():
            self._log.add("unpaired_wait", "note", count=int((~known).sum()))
        events = []
        for number_, (after, before) in enumerate(zip(later[known].tolist(), earlier[known].tolist(), strict=True)):
            for phase, row, time in (("s", before, "end"), ("f", after, "start")):
                bound = ',"bp":"e"' if phase == "f" else ""
                events.append(
                    f'{{"ph":"{phase}","cat":"ac2g","name":"ac2g","id":{_ARROW + number_},"pid":{seen["device"][row]},'
                    f'"tid":{seen["lane"][row]},"ts":{seen[time][row]}e-3{bound}}}'
                )
        return events

    def _lane(self, stage: Any, interned: Interned) -> int:
        # PyTorch 2.14 gives the queues of two devices one number where they have one name.
        key = (stage.gpu_id, stage.queue_iid)
        lane = self._lanes.get(key)
        if lane is None:
            stated = interned.specifications.get(stage.queue_iid, f"queue {stage.queue_iid}")
            found = _LANE.match(stated)
            lane = (int(found[1][:18]), found[2]) if found else (stage.queue_iid, stated)
            self._lanes[key] = lane
        return lane[0]

    def _arguments(self, stage: Any, interned: Interned, lane: int) -> dict[str, str]:
        """Name -> value, both JSON."""
        found: dict[str, str] = dict(map(self._extras.__getitem__, stage.extra_data))
        found.pop("", None)
        if (stream := found.get(_STREAM)) is not None and stream != str(lane):  # a lane that a person named
            found['"original_stream"'] = stream
            found[_STREAM] = str(lane)
        if stage.launch:
            found |= self._launch(stage.launch, interned)
        if found.get(_CORRELATION, "0") == "0" and (known := self._correlations().get(stage.event_id)) is not None:
            found[_CORRELATION] = str(known)
        return found

    def _launch(self, raw: bytes, interned: Interned) -> dict[str, str]:
        known = interned.launches.get(raw)
        if known is None:
            try:
                launch = Launch.FromString(raw)
            except DecodeError:
                self._log.add("unreadable_annotation", "note")
                return {}
            sizes = (("grid", launch.grid), ("block", launch.block))
            known = {quoted(key): f"[{size.x},{size.y},{size.z}]" for key, size in sizes}
            for argument in launch.args:
                name = interned.launch_arguments.get(argument.name_iid, f"(argument {argument.name_iid})")
                if name not in _CONSTANT:
                    known[quoted(_ARGUMENTS.get(name, name))] = str(argument.uint_value)
            remember(interned.launches, raw, known)
        return known

    def _correlations(self) -> dict[int, int]:
        """Event -> correlation of the call that launched it. Calls stand before device work."""
        if self._correlation is None or self._noted != len(self._calls[0]):
            self._correlation = dict(zip(*self._calls, strict=True))
            self._noted = len(self._calls[0])
        return self._correlation


class _Extras(dict[bytes, tuple[str, str]]):
    """Undecoded fact of a stage -> its name and value as JSON, the name empty where it says nothing."""

    def __init__(self, log: IssueLog) -> None:
        super().__init__()
        self._log = log

    def __missing__(self, raw: bytes) -> tuple[str, str]:
        try:
            extra = Extra.FromString(raw)
        except DecodeError:
            self._log.add("unreadable_annotation", "note")
            return "", ""
        name = plain(extra.name, self._log)
        made = (
            ("", "")
            if name in _CONSTANT
            else (quoted(_ARGUMENTS.get(name, name)), _stated(plain(extra.value, self._log)))
        )
        return remember(self, raw, made)


def _stated(value: str) -> str:
    """A text as the JSON that it was made of: numbers, and lists or objects of collectives."""
    if _NUMBER.match(value):
        return value
    if value[:1] in ("[", "{"):
        try:
            return msgspec.json.encode(msgspec.json.decode(value)).decode()
        except (msgspec.DecodeError, RecursionError):
            pass
    return quoted(value)
