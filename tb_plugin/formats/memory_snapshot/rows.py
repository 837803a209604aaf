"""Sink of the opcode machine, with columns of events, segments and blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tb_plugin.formats._pickle.machine import EVENTS, Machine, Role
from tb_plugin.formats._pickle.memo import POOL_ID, ROW, STACK, Memo
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.memory_snapshot.columns import Columns, is_number
from tb_plugin.formats.memory_snapshot.fast_decode import Runs
from tb_plugin.formats.memory_snapshot.store import MAX_US, Store
from tb_plugin.formats.values import valid_unicode
from tb_plugin.model.snapshot.table import HOST, Action, FinalBlocks, FinalSegments, State
from tb_plugin.model.trace.schema import MISSING

STATES = {
    "active_allocated": State.ALLOCATED,
    "active_pending_free": State.PENDING,
    "active_awaiting_free": State.PENDING,
    "inactive": State.INACTIVE,
}


class Rows(Store):
    def __init__(self, log: IssueLog) -> None:
        super().__init__(log)
        self.segments = Columns(FinalSegments)
        self.blocks = Columns(FinalBlocks)
        self.devices = 0
        self._runs = Runs(self)
        self._segment_count = 0

    def role(self, key: object, lists: list[list[Any]]) -> Role | None:
        """Returns the role of a list of events or segments, or None for other lists; see ``Sink``."""
        if key == "device_traces" and len(lists) > 1:
            return Role(EVENTS, len(lists[0]) + len(lists) - 2)
        # An old snapshot consists only of segments.
        kind = {
            None: "segments",
            "segments": "segments",
            "host_segments": "host_segments",
            "host_traces": "host_events",
        }
        if len(lists) == 1 and (key is None or type(key) is str) and key in kind:
            return Role(kind[key], 0)
        return None

    def run(self, role: Role, machine: Machine) -> None:
        self.devices = max(self.devices, role.device + 1)
        self._runs.take(role.device, machine)

    def take(self, role: Role, items: list[Any], memo: Memo) -> int | None:
        """Adds events or segments; see ``Sink``. Segments stay in the memo."""
        memo_words = None
        if role.kind in ("segments", "host_segments"):
            self.take_segments(items, role.kind == "host_segments")
        else:
            self.take_events(HOST if role.kind == "host_events" else role.device, items)
            memo_words = self._drop_events(items, memo)
        memo.fresh.clear()
        return memo_words

    def _drop_events(self, items: list[Any], memo: Memo) -> int:
        """Replaces events, stacks and pools in the memo by ids. Returns how many words the memo still uses for them."""
        memo_words = 0
        events = {id(item) for item in items}
        stacks = {id(item["frames"]) for item in items if type(item) is dict and type(item.get("frames")) is list}
        for key in memo.fresh:
            value = memo.objects.get(key)
            if id(value) in events:
                memo.replace(key, ROW, 0)
            elif id(value) in stacks:
                memo.replace(key, STACK, self.stacks.of(value))
            elif type(value) is tuple and (pool := self.pool(value)) != MISSING:
                memo.replace(key, POOL_ID, pool)
            elif (words := _words(value, 2)) is not None:
                memo_words += words
            else:  # nested too deeply for a stack
                memo.replace(key, ROW, 0)
        return memo_words

    # -- events

    def take_events(self, device: int, items: Sequence[Any]) -> None:
        self.devices = max(self.devices, device + 1)
        self.spend(len(items))
        rows = [row for row in (self._event(device, item) for item in items) if row is not None]
        self.dropped += len(items) - len(rows)
        self.loaded += len(rows)
        self.events_loaded += len(rows)
        self.events.add_rows(rows)

    def _event(self, device: int, item: object) -> tuple[int, ...] | None:
        values = item if isinstance(item, dict) else {}
        text = self.texts.of(values.get("action"))
        code = MISSING if text == MISSING else self.action(text)
        address = values.get("device_free" if code == Action.OOM else "addr")
        size, time = values.get("size"), values.get("time_us")
        if text == MISSING or not is_number(address) or not is_number(size) or not size >= 0:
            example = valid_unicode(", ".join(key[:20] for key in list(values)[:10]))
            self.log.add(
                "bad_event", "dropped", example=example, text="events without action, address or size were skipped"
            )
            return None
        if code == Action.UNKNOWN:
            self.unknown_actions(text, 1)
        return (
            device,
            code,
            address,
            size,
            self.stream(values.get("stream")),
            time * 1000 if is_number(time) and 0 <= time <= MAX_US else MISSING,
            self.stacks.of(values.get("frames")),
            self.pool(values.get("pool_id")),
            self.texts.of(values.get("compile_context")),
            self.texts.of(values.get("user_metadata")),
            self.texts.of(values.get("category")),
        )

    # -- the final state

    def take_segments(self, items: Iterable[Any], is_host: bool = False) -> None:
        for item in items:
            self.spend(1)
            if not isinstance(item, dict) or not self._segment(item, is_host):
                self.dropped += 1
                self.log.add("bad_segment", "dropped", text="segments without a size were skipped")

    def _segment(self, item: dict[str, Any], is_host: bool) -> bool:
        size, address = item.get("total_size", item.get("size")), item.get("address")
        device = HOST if is_host else item.get("device", 0)
        if not is_number(size) or size < 0 or not is_number(device) or not HOST <= device < 2**15:
            return False
        at = address if is_number(address) else MISSING
        blocks = item.get("blocks")
        if is_host and not isinstance(blocks, list):
            used = item.get("allocated", item.get("allocated_size", size))
            state = "active_allocated" if used else "inactive"
            blocks = [{"size": size, "state": state, "frames": item.get("frames", item.get("allocation_context"))}]
        kind, expandable = item.get("segment_type"), item.get("is_expandable")
        pool = next((item[key] for key in ("segment_pool_id", "pool_id", "owner_private_pool_id") if key in item), None)
        is_large = MISSING if kind not in ("large", "small") else int(kind == "large")
        is_expandable = int(expandable) if isinstance(expandable, bool) else MISSING
        stack = self.stacks.of(item.get("frames"))
        self.segments.add_rows(
            [(device, at, size, self.stream(item.get("stream")), self.pool(pool), is_large, is_expandable, stack)]
        )
        self.loaded += 1
        self._take_blocks(blocks if isinstance(blocks, list) else [], at)
        self._segment_count += 1
        return True

    def _take_blocks(self, blocks: list[Any], at: int) -> None:
        self.spend(len(blocks))
        rows = []
        for block in blocks:
            size = block.get("size") if isinstance(block, dict) else None
            if not is_number(size) or size < 0:
                self.dropped += 1
                self.log.add("bad_block", "dropped", text="blocks without a size were skipped")
                continue
            at = block["address"] if is_number(block.get("address")) else at
            frames, requested_bytes = _context(block)
            state = block.get("state")
            code = STATES.get(state) if isinstance(state, str) else None
            if code is None:
                self.log.add("unknown_state", "unknown", text="blocks in an unknown state are treated as free")
                code = State.INACTIVE
            requested = (
                requested_bytes
                if code != State.INACTIVE and is_number(requested_bytes) and requested_bytes >= 0
                else MISSING
            )
            rows.append((self._segment_count, at, size, requested, code, self.stacks.of(frames)))
            # Old files contain no addresses, but blocks are contiguous.
            at = at + size if at != MISSING else at
        self.loaded += len(rows)
        self.blocks.add_rows(rows)


def _context(block: dict[str, Any]) -> tuple[object, object]:
    """Returns the stack and the requested bytes of a block. In old files, these are in ``history``."""
    history = block.get("history")
    if "frames" not in block and isinstance(history, list) and history and isinstance(history[0], dict):
        return history[0].get("frames"), history[0].get("real_size")
    return block.get("frames"), block.get("requested_size")


def _words(value: object, levels: int) -> int | None:
    """Returns the size of a container in words without texts; None if it is nested deeper than ``levels``."""
    if type(value) is dict:
        values: Iterable[Any] = value.values()
    elif type(value) in (list, tuple):
        values = value  # type: ignore[assignment]
    else:
        return 8
    if not levels:
        return None
    words = 22
    for each in values:
        more = _words(each, levels - 1)
        if more is None:
            return None
        words += more
    return words
