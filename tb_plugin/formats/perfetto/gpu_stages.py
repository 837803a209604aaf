"""GPU work as Chrome events: render stages, waits and counters."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
from google.protobuf.message import DecodeError

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto.interned import Interned, clean_text, counter_names, float_json, remember, text_json
from tb_plugin.formats.perfetto.schema import Extra, Launch

# PyTorch's stage name -> category in its JSON
_CATEGORIES = {
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Annotation": "gpu_user_annotation",
    "EventRecord": "graph_event_node",
    "HostNode": "graph_host_node",
}
_LANE = re.compile(r"\[0*(\d+)\] ?(.*)", re.DOTALL)  # PyTorch's queue name: number in brackets, then the name
# names of these arguments in PyTorch's JSON
_ARGUMENTS = {
    "device id": "device", "context id": "context", "stream id": "stream", "registers_per_thread": "registers per thread",
    "shared_mem_dynamic": "dynamic shared memory",
}  # fmt: skip
# arguments that are the same for all stages, or derived from block sizes
_DROPPED_ARGUMENTS = frozenset({"arch", "process_id", "process_name", "thread_count"})
_STREAM = re.compile(r'"stream":(\d+)\b', re.ASCII)
_NO_CORRELATION = re.compile(r'\A(?!.*"correlation":[1-9])', re.DOTALL)
_HOST_FUNCTION = re.compile(r'"host fn":"((?:[^"\\]|\\.)*)"')
_FIRST_ARROW_ID = 1 << 40  # first id of arrows between device work in PyTorch's JSON
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?\Z", re.ASCII)


class Stages:
    """Converts the render stages and counters of GPUs to events as JSON."""

    def __init__(self, base_ns: int, log: IssueLog) -> None:
        self._base = base_ns
        self._log = log
        self._lanes: dict[tuple[int, int], tuple[int, str]] = {}  # (device, queue number) -> thread number and name
        self._calls = (array("Q"), array("q"))  # ids of launched events, and the correlations of their launches
        self._correlation: dict[int, int] = {}
        self._noted = 0
        self._extras = _Extras(log)
        self._stage_rows = array("q")  # per stage: event, start, end, device, lane
        self._waits = array("Q")  # pairs: an event, and an event that it waited for

    def launched(self, event_ids: Iterable[int], correlations: Iterable[int]) -> None:
        """Adds event ids of launched work, and the correlation id of the launching call for each."""
        self._calls[0].extend(event_ids)
        self._calls[1].extend(correlations)

    def stage(self, packet: Any, interned: Interned, time_ns: int) -> str:
        stage = packet.render_stage
        key = (stage.stage_iid, stage.name_iid, stage.kernel_iid, stage.gpu_id, stage.queue_iid)
        head, lane, is_host = interned.stages.get(key) or self._head(key, interned)
        arguments = list(filter(None, map(self._extras.__getitem__, stage.extra_data)))
        if stage.launch:
            arguments.append(self._launch(stage.launch, interned))
        event, device, start = stage.event_id, key[3], time_ns - self._base
        duration = stage.duration
        with suppress(OverflowError):  # an implausible time gets no arrow
            self._stage_rows.extend(array("q", (event, start, start + duration, device, lane)))
        for waited in stage.waited_event_ids:
            self._waits.extend((event, waited))
        args = self._named_lane(",".join(arguments), lane)
        if _NO_CORRELATION.search(args):
            known = self._correlations().get(event)
            args += f',"correlation":{known}' if known is not None else ""
        if is_host:
            function_name = _HOST_FUNCTION.search(args)
            head = head.replace('"HostNode"', f'"HostNode: {function_name[1]}"') if function_name else head
        return f'{{"ph":"X",{head},"ts":{start}e-3,"dur":{duration}e-3,"args":{{{args.lstrip(",")}}}}}'

    def counters(self, packet: Any, interned: Interned, time_ns: int) -> list[str]:
        event = packet.gpu_counter_event
        device, names = interned.counters.get(event.descriptor_iid, (event.gpu_id, {}))
        if event.HasField("descriptor"):
            device, names = event.gpu_id, counter_names(event.descriptor, self._log)
        head = f'"pid":"GPU {device} Counters","ts":{time_ns - self._base}e-3'
        events = []
        for counter in event.counters:
            name = names.get(counter.counter_id, f"counter {counter.counter_id}")
            value = str(counter.int_value) if counter.HasField("int_value") else float_json(counter.double_value)
            events.append(f'{{"ph":"C","name":{text_json(name)},{head},"args":{{"":{value}}}}}')
        return events

    def names(self, described: set[str]) -> list[str]:
        events = [
            f'{{"ph":"M","name":"process_name","pid":{device},"tid":0,"args":{{"name":"GPU {device}"}}}}'
            for device in sorted({device for device, _ in self._lanes})
            if str(device) not in described
        ]
        for (device, _), (lane, name) in self._lanes.items():
            events.append(
                f'{{"ph":"M","name":"thread_name","pid":{device},"tid":{lane},"args":{{"name":{text_json(name)}}}}}'
            )
        return events

    def arrows(self) -> list[str]:
        """Returns arrows from device work to the work that waited for it, as in PyTorch's JSON."""
        if not self._waits:
            return []
        event, *others = np.frombuffer(self._stage_rows, np.int64).reshape(-1, 5).T
        stage_columns = dict(zip(("start", "end", "device", "lane"), others, strict=True))
        order = np.argsort(event, kind="stable")
        ids = np.frombuffer(self._waits, np.uint64).astype(np.int64).reshape(-1, 2)
        place = np.minimum(np.searchsorted(event[order], ids), len(order) - 1)
        later, earlier = np.where(event[order][place] == ids, order[place], -1).T
        known = (later >= 0) & (earlier >= 0)
        if not known.all():
            self._log.add("unpaired_wait", "note", count=int((~known).sum()))
        events = []
        pairs = zip(later[known].tolist(), earlier[known].tolist(), strict=True)
        for arrow_id, (after, before) in enumerate(pairs, _FIRST_ARROW_ID):
            for phase, row, time in (("s", before, "end"), ("f", after, "start")):
                bound = ',"bp":"e"' if phase == "f" else ""
                events.append(
                    f'{{"ph":"{phase}","cat":"ac2g","name":"ac2g","id":{arrow_id},"pid":{stage_columns["device"][row]},'
                    f'"tid":{stage_columns["lane"][row]},"ts":{stage_columns[time][row]}e-3{bound}}}'
                )
        return events

    def _lane(self, device: int, queue: int, interned: Interned) -> int:
        """Returns the thread number of a queue. In PyTorch 2.14, equally named queues share a number."""
        lane = self._lanes.get((device, queue))
        if lane is None:
            stated = interned.specifications.get(queue, f"queue {queue}")
            found = _LANE.match(stated)
            lane = self._lanes[device, queue] = (int(found[1][:18]), found[2]) if found else (queue, stated)
        return lane[0]

    def _head(self, key: tuple[int, ...], interned: Interned) -> tuple[str, int, bool]:
        stage, name, kernel, device, queue = key
        kind = interned.specifications.get(stage, "")
        lane = self._lane(device, queue, interned)
        label = interned.names.get(name) or interned.kernels.get(kernel) or kind or "(no name)"
        text = f'"cat":{text_json(_CATEGORIES.get(kind, kind))},"name":{text_json(label)},"pid":{device},"tid":{lane}'
        made = interned.stages[key] = (text, lane, kind == label == "HostNode")
        return made

    def _named_lane(self, args: str, lane: int) -> str:
        """Sets ``stream`` to the lane if the user named the lane, as in PyTorch's JSON."""
        stated = _STREAM.search(args)
        if stated is None or int(stated[1]) == lane:
            return args
        return f'{args[: stated.start(1)]}{lane}{args[stated.end(1) :]},"original_stream":{stated[1]}'

    def _launch(self, raw: bytes, interned: Interned) -> str:
        known = interned.launches.get(raw)
        if known is None:
            try:
                launch = Launch.FromString(raw)
            except DecodeError:
                self._log.add("unreadable_annotation", "note")
                return '"grid":null'
            sizes = (("grid", launch.grid), ("block", launch.block))
            stated = [f'"{key}":[{size.x},{size.y},{size.z}]' for key, size in sizes]
            for argument in launch.args:
                name = interned.launch_arguments.get(argument.name_iid, f"(argument {argument.name_iid})")
                if name not in _DROPPED_ARGUMENTS:
                    stated.append(f"{text_json(_ARGUMENTS.get(name, name))}:{argument.uint_value}")
            known = remember(interned.launches, raw, ",".join(stated))
        return known

    def _correlations(self) -> dict[int, int]:
        """Returns the correlation id of each launch by event id. In the file, calls precede device work."""
        events, correlations = self._calls
        if len(self._correlation) < len(events) and self._noted < len(events):
            new = slice(self._noted, None)
            self._correlation.update(zip(events[new], correlations[new], strict=True))
            self._noted = len(events)
        return self._correlation


class _Extras(dict[bytes, str]):
    """Maps the undecoded extra data of a stage to a member of a JSON object, or to "" if the data is redundant."""

    def __init__(self, log: IssueLog) -> None:
        super().__init__()
        self._log = log

    def __missing__(self, raw: bytes) -> str:
        try:
            extra = Extra.FromString(raw)
        except DecodeError:
            self._log.add("unreadable_annotation", "note")
            return ""
        name = clean_text(extra.name, self._log)
        if name in _DROPPED_ARGUMENTS:
            return remember(self, raw, "")
        return remember(
            self, raw, f"{text_json(_ARGUMENTS.get(name, name))}:{_json_value(clean_text(extra.value, self._log))}"
        )


def _json_value(value: str) -> str:
    """Returns a text as JSON. Numbers, and the lists and objects of collectives, get no quotes."""
    if _NUMBER.match(value):
        return value
    if value[:1] in ("[", "{"):
        try:
            return msgspec.json.encode(msgspec.json.decode(value)).decode()
        except (msgspec.DecodeError, RecursionError):
            pass
    return text_json(value)
