"""The timeline and the memory flow as MegEngine writes them."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable

from events import Json

from .process import Process


def lanes_of(process: Process) -> dict[str, int]:
    """Numbers of the lanes: threads in the order of their first record, then devices, then streams of CUPTI."""
    seen = dict.fromkeys(lane for _, _, lane, _ in sorted(process.log, key=lambda record: record[:2]))
    ranks = [("interpreter", "worker"), ("gpux:0", "gpux:1"), ("stream of gpux:0", "stream of gpux:1")]
    ordered = [lane for group in ranks for lane in seen if lane in group]
    return {lane: number for number, lane in enumerate(ordered)}


def ratio_of(process: Process) -> tuple[float, int]:
    """The share of time with a kernel, in percent, and when the last kernel ended."""
    last = max(operation.device_end_ns for operation in process.operations)
    first = min(operation.device_start_ns for operation in process.operations)
    return 100 * busy((o.device_start_ns, o.device_end_ns) for o in process.operations) / (last - first), last


def busy(intervals: Iterable[tuple[int, int]]) -> int:
    """Returns how long at least one of the intervals was open."""
    total = until = 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def text(process: Process) -> str:
    """Returns the timeline as MegEngine writes it."""
    lanes = lanes_of(process)
    counters: dict[str, int] = defaultdict(int)
    ratio, last = ratio_of(process)
    host = lanes["worker"]
    ratios = {"train_time_ratio": ratio / 2, "gpu_usgae_ratio": ratio}
    events: list[Json] = [_counter(process, host, name, value, 0) for name, value in ratios.items()]
    for _, _, lane, event in sorted(process.log, key=lambda record: record[:2]):
        if "change" in event:
            name, change = event["change"]
            counters[name] += change
            events.append(_counter(process, lanes[lane], name, counters[name], event["ts"]))
        else:
            events.append({**event, "pid": process.pid, "tid": lanes[lane], "ts": event["ts"] / 1000})
    events += [_counter(process, host, name, value, last) for name, value in reversed(ratios.items())]
    for lane, number in lanes.items():
        if not lane.startswith("stream"):  # the writer names threads and devices alone
            events.append({"args": {"name": lane}, "name": "thread_name", "ph": "M", "pid": process.pid, "tid": number})
    written = {"traceEvents": events, "metadata": {"localTime": str(process.local_time_ns)}}
    head, tail = (json.dumps(part, sort_keys=True, separators=(",", ":")) for part in written.values())
    return f'{{"traceEvents":{head},"metadata":{tail}}}'


TIME_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
SIZE_UNITS = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1))


def words(number: int, units: Iterable[tuple[str, int]]) -> str:
    """A number as the writer says it: nothing for zero."""
    said = ""
    for unit, size in units:
        if number >= size:
            said, number = f"{said}{number // size}{unit} ", number % size
    return said


def drawing(process: Process) -> str:
    """Returns the memory flow as MegEngine draws it: a tensor that was not released ends at nothing."""
    tensors = [(tensor, tensor.storage) for tensor in process.tensors.values() if tensor.storage is not None]
    low, high = min(s.address for _, s in tensors), max(s.address + s.size for _, s in tensors)
    begin, end = min(t.created_ns for t, _ in tensors), max(t.released_ns for t, _ in tensors)
    width, height = (end - begin) // 100_000, (high - low) / 1e6
    rows = [f'<rect x="0" y="0" width="{width}" height="{height:.6f}" fill="blue">\n</rect>\n']
    random.Random(process.config.seed).shuffle(tensors)  # the writer keeps them by hash
    for tensor, storage in tensors:
        life = tensor.released_ns - tensor.created_ns
        x, y = (tensor.created_ns - begin) // 100_000, (storage.address - low) / 1e6
        fill = next(color for most, color in _FILLS if life <= most)
        group = f' tag:group="{tensor.producer}"' if tensor.producer is not None else ""
        rows.append(
            f'<rect x="{x:.6f}" y="{y:.6f}" height="{tensor.bytes / 1e6:.6f}" '
            f'width="{int(life / 100_000):.6f}" fill="{fill}" '
            f'tag:type="tensor" tag:name="{tensor.name}" tag:address="0x{storage.address:x}" '
            f'tag:size="{words(tensor.bytes, SIZE_UNITS)}" tag:layout="{tensor.layout}" '
            f'tag:produced="{words(tensor.created_ns, TIME_UNITS)}" tag:erased="{words(tensor.released_ns, TIME_UNITS)}" '
            f'tag:duration="{words(life, TIME_UNITS)}"{group}>\n</rect>\n'
        )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" '
        '"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">\n<svg xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:tag="https://megengine.org.cn" width="{width}" height="{height:.6f}">\n{"".join(rows)}</svg>\n'
    )


_FILLS = (
    *(
        (0, "#DDDDDD"),
        (10**5, "#CCCCCC"),
        (10**6, "#BBBBBB"),
        (10**7, "#AAAAAA"),
        (10**8, "#999999"),
        (10**9, "#888888"),
    ),
    (float("inf"), "#555555"),
)


def _counter(process: Process, tid: int, name: str, value: float, ts: int) -> Json:
    args = {"value": float(value)}
    return {"args": args, "name": name, "ph": "C", "pid": process.pid, "tid": tid, "ts": ts / 1000}
