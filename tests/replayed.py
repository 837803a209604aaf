"""A snapshot's history undone event by event in plain Python, from its final state backwards: what each event left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
PAGE = 2 << 20
Key = tuple[int, Any]


@dataclass
class State:
    """What a device holds."""

    blocks: dict[int, tuple[int, bool | None]] = field(default_factory=dict)
    """By address: size, and whether the release was asked for; None: the events do not tell, for the request is older."""
    segments: dict[int, tuple[int, Key]] = field(default_factory=dict)
    """By address: size, stream and pool. Those that were taken whole."""
    pages: dict[int, Key] = field(default_factory=dict)
    """Of expandable segments, pages of 2 MiB."""

    def rows(self) -> list[tuple[int, int, Key, bool]]:
        """Segments by address: size, stream and pool, whether it is expandable; adjacent pages are one."""
        found = [(address, size, key, False) for address, (size, key) in self.segments.items()]
        start: int | None = None
        for page, key in sorted(self.pages.items()):
            start = page if start is None else start
            if self.pages.get(page + PAGE) != key:
                found.append((start, page + PAGE - start, key, True))
                start = None
        return sorted(found)

    def gaps(self) -> list[tuple[int, int]]:
        """Address and size of what is free."""
        found = []
        taken = sorted((address, address + size) for address, (size, _) in self.blocks.items())
        for start, length, _, _ in self.rows():
            at = start
            for low, high in taken:
                if start <= low < start + length:
                    if low > at:
                        found.append((at, low - at))
                    at = max(at, high)
            if at < start + length:
                found.append((at, start + length - at))
        return found


def final_state(root: Json, device: int) -> State:
    """What is there at the end."""
    state = State()
    for segment in root["segments"]:
        if segment.get("device", 0) != device:
            continue
        key = (segment["stream"], tuple(segment.get("segment_pool_id", (0, 0))))
        address = segment["address"]
        if segment.get("is_expandable"):
            state.pages |= dict.fromkeys(range(address, address + segment["total_size"], PAGE), key)
        else:
            state.segments[address] = (segment["total_size"], key)
        at = address
        for block in segment["blocks"]:
            place = block.get("address", at)
            if block["state"] != "inactive":
                state.blocks[place] = (block["size"], block["state"] != "active_allocated")
            at = place + block["size"]
    return state


def backwards(root: Json, device: int) -> Iterator[tuple[int, State]]:
    """Each event from the last one to -1, with the state after it; the state is changed on the way."""
    events = root["device_traces"][device] if device < len(root.get("device_traces", ())) else []
    state = final_state(root, device)
    requested: set[int] = set()
    announced = []
    for event in events:
        address, action = event.get("addr"), event["action"]
        announced.append(action == "free_completed" and address in requested)
        if action == "free_requested":
            requested.add(address)
        elif action in ("alloc", "free_completed"):
            requested.discard(address)
    yield len(events) - 1, state
    for i in range(len(events) - 1, -1, -1):
        undo(state, events[i], announced[i])
        yield i - 1, state


def undo(state: State, event: Json, was_announced: bool) -> None:
    """Takes one event back."""
    action, address, size = event["action"], event.get("addr"), event["size"]
    key = (event["stream"], tuple(event.get("pool_id", (0, 0))))
    if action == "alloc":
        del state.blocks[address]
    elif action == "free_requested":
        state.blocks[address] = (size, False)
    elif action == "free_completed":
        state.blocks[address] = (size, True if was_announced else None)
    elif action == "segment_alloc":
        del state.segments[address]
    elif action == "segment_free":
        state.segments[address] = (size, key)
    elif action == "segment_map":
        for page in range(address, address + size, PAGE):
            del state.pages[page]
    elif action == "segment_unmap":
        state.pages |= dict.fromkeys(range(address, address + size, PAGE), key)
