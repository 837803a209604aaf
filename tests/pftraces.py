"""Kineto's JSON as the packets that PyTorch 2.15 makes of it (formats-2.15.md, section 4), written byte by byte.

It shares nothing with the reader: neither its schema nor a library. Losses are those of PyTorch's encoder.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

CLEARED, NEEDS_STATE = 1, 2
STAGES = {
    "kernel": 1,
    "gpu_memcpy": 2,
    "gpu_memset": 3,
    "gpu_user_annotation": 4,
    "graph_event_node": 5,
    "graph_host_node": 6,
}
STAGE_NAMES = ("Kernel", "Memcpy", "Memset", "Annotation", "EventRecord", "HostNode")
NOT_CARRIED = frozenset({"Trace", "cpu_instant_event"})
EXTRA = {"device": "device id", "context": "context id", "stream": "stream id"}
LAUNCH_ARGS = {"registers per thread": "registers_per_thread", "shared memory": "shared_mem_dynamic"}


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    return message(field, value.encode())


def packet(*parts: bytes) -> bytes:
    return message(1, *parts)


def annotation(name: str, value: Any, field: int = 4) -> bytes:
    """A debug annotation; nested ones are fields 11 (members) and 12 (elements)."""
    return message(field, text(10, name) if name else b"", *_value(value))


def _value(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        yield from (annotation(key, member, 11) for key, member in sorted(value.items()))
    elif isinstance(value, list):
        yield from (message(12, *_value(element)) for element in value)
    elif isinstance(value, bool):
        yield number(2, value)
    elif isinstance(value, int):
        yield number(4, value)
    elif isinstance(value, float):
        yield varint(5 << 3 | 1) + struct.pack("<d", value)
    else:
        yield text(6, "null" if value is None else value)


class _Table(dict[Any, int]):
    """Value -> number, from ``first`` on in the order of first use."""

    def __init__(self, first: int = 1) -> None:
        super().__init__()
        self._first = first

    def __missing__(self, key: Any) -> int:
        self[key] = found = len(self) + self._first
        return found


def pftrace(document: dict[str, Any]) -> bytes:
    """What PyTorch would write of a trace: not compressed."""
    return b"".join(packets(document))


def packets(document: dict[str, Any]) -> Iterator[bytes]:
    base = int(document["baseTimeNanoseconds"])
    events = document["traceEvents"]
    ranges = [event for event in events if event["ph"] == "X" and event.get("cat") not in NOT_CARRIED]
    work = [event for event in ranges if event.get("cat") in STAGES]
    host = [event for event in ranges if event.get("cat") not in STAGES]
    counters = [event for event in events if event["ph"] == "C"]
    launched = defaultdict(list)
    for position, event in enumerate(work, 1):
        launched[event.get("args", {}).get("correlation")].append(position)
    names, categories, lanes, kernels = _Table(), _Table(), _Table(100), _Table()
    body = list(_slices(host, base, names, categories, launched))
    body += _stages(work, base, names, lanes, kernels)
    specs = _Table(0)
    body += [_counter(event, base, specs) for event in counters]
    yield packet(
        message(6, *(message(1, number(1, clock), number(2, base)) for clock in (6, 1))), number(8, base), number(10, 1)
    )
    yield from _descriptors(events, host)
    interned = [message(2, number(1, iid), text(2, name)) for name, iid in names.items()]
    interned += [message(1, number(1, iid), text(2, name)) for name, iid in categories.items()]
    interned += [message(24, number(1, iid), text(2, name), number(4, 2)) for iid, name in enumerate(STAGE_NAMES, 1)]
    interned += [message(24, number(1, iid), text(2, name), number(4, 0)) for (_, name), iid in lanes.items()]
    interned += [message(1000, number(1, iid), text(3, name)) for name, iid in kernels.items()]
    interned += [message(1001, number(1, iid), text(2, name)) for iid, name in enumerate(LAUNCH_ARGS.values(), 1)]
    listed = [message(1, number(1, iid), text(2, name)) for name, iid in specs.items()]
    interned.append(message(47, number(1, 1), message(2, *listed), number(3, 0)))
    yield packet(number(10, 1), number(13, CLEARED), message(12, *interned))
    yield from body


def _ns(event: dict[str, Any], key: str) -> int:
    return round(float(event[key]) * 1000)


def _place(value: Any) -> int:
    return 2**31 - 1 if value == -1 else int(value)


def _track(event: dict[str, Any]) -> int:
    return _place(event["pid"]) * 2**32 + _place(event["tid"]) + 1


def _slices(
    host: list[dict[str, Any]], base: int, names: _Table, categories: _Table, launched: dict[Any, list[int]]
) -> Iterator[bytes]:
    ends = []
    for event in host:
        start, track = base + _ns(event, "ts"), _track(event)
        category, args = event.get("cat"), event.get("args") or {}
        parts = [number(9, 1), number(11, track), number(10, names[event["name"]])]
        if category not in (None, "overhead", "cuda_sync"):
            parts.append(number(3, categories[category]))
        if category in ("cuda_runtime", "cuda_driver") and launched.get(args.get("correlation")):
            parts.append(message(3000, *(number(1, each) for each in launched[args["correlation"]])))
        parts += [annotation(key, value) for key, value in sorted(args.items())]
        yield packet(number(8, start), number(10, 1), number(13, NEEDS_STATE), message(11, *parts))
        ends.append((start + _ns(event, "dur"), track))
    for end, track in ends:
        yield packet(number(8, end), number(10, 1), message(11, number(9, 2), number(11, track)))


def _stages(work: list[dict[str, Any]], base: int, names: _Table, lanes: _Table, kernels: _Table) -> Iterator[bytes]:
    for position, event in enumerate(work, 1):
        args: dict[str, Any] = dict(event.get("args") or {})
        kind, device, lane = event["cat"], int(event["pid"]), int(event["tid"])
        queue = lanes[device, f"[{lane:03d}] stream {lane}"]
        parts = [number(1, position), number(2, _ns(event, "dur")), number(5, 1), number(11, device)]
        parts += [number(13, queue), number(14, STAGES[kind])]
        if "grid" in args:
            parts.append(number(19, kernels[event["name"]]))
            sizes = [
                message(field, *(number(i, each) for i, each in enumerate(args.pop(key), 1)))
                for field, key in ((1, "grid"), (2, "block"))
            ]
            stated = [(iid, args.pop(key)) for iid, key in enumerate(LAUNCH_ARGS, 1) if key in args]
            sizes += [message(3, number(1, iid), number(4, value)) for iid, value in stated if value]
            parts.append(message(21, *sizes))
        elif kind not in ("gpu_memcpy", "graph_event_node", "graph_host_node"):
            parts.append(number(20, names[event["name"]]))
        parts += [
            message(6, text(1, EXTRA.get(key, key)), text(2, value if isinstance(value, str) else str(value)))
            for key, value in args.items()
        ]
        yield packet(number(8, base + _ns(event, "ts")), number(10, 1), number(13, NEEDS_STATE), message(53, *parts))


def _counter(event: dict[str, Any], base: int, specs: _Table) -> bytes:
    ((_, value),) = event["args"].items()
    stated = number(2, value) if isinstance(value, int) else varint(3 << 3 | 1) + struct.pack("<d", value)
    sample = message(52, message(2, number(1, specs[event["name"]]), stated), number(4, 1))
    return packet(number(8, base + _ns(event, "ts")), number(10, 1), number(13, NEEDS_STATE), sample)


def _descriptors(events: list[dict[str, Any]], host: list[dict[str, Any]]) -> Iterator[bytes]:
    stated = {(e["name"], str(e["pid"]), str(e.get("tid"))): e["args"].get("name") for e in events if e["ph"] == "M"}
    seen: set[int] = set()
    for event in host:
        pid, tid, track = _place(event["pid"]), _place(event["tid"]), _track(event)
        if pid not in seen:
            seen.add(pid)
            name = next(
                (v for (k, p, _), v in stated.items() if k == "process_name" and p == str(event["pid"])), "python"
            )
            yield packet(message(60, number(1, 2**63 + pid), message(3, number(1, pid), text(6, str(name or "")))))
        if track not in seen:
            seen.add(track)
            name = stated.get(("thread_name", str(event["pid"]), str(event["tid"]))) or f"thread {tid}"
            thread = message(4, number(1, pid), number(2, tid), text(5, str(name)))
            yield packet(message(60, number(1, track), number(5, 2**63 + pid), thread))
