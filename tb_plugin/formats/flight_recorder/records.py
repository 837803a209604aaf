"""Columns from the objects of a flight recorder dump.

Only fields of the schema are read. References in a pickle can turn a small file into very many texts. Therefore
each text is built once per object and stored once per column, and the file size limits the total text of all rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.flight_recorder import SCHEMA, TEXT, Group, Status

MAX_TEXT = 4096  # characters
MAX_FRAMES = 256
MAX_TENSORS = 512
MAX_DIMENSIONS = 64
MAX_GROUPS = 100_000
MAX_RANKS = 1_000_000  # limit on the members of all groups together
_MAX_CHARS_PER_BYTE = (
    32  # limit on characters of all rows per byte of the file, including repeated references; real files are below 4
)
_FREE_CHARS = 64 * 1024 * 1024
_MAX_NUMBER = 2**62
_NUMBER = re.compile(r"-?\d{1,18}")


class Records:
    """Entries of a dump. ``loaded`` and ``dropped`` are numbers of entries."""

    def __init__(self, log: IssueLog, text_bytes: int) -> None:
        self.loaded = 0
        self.dropped = 0
        self._log = log
        self._budget = _FREE_CHARS + _MAX_CHARS_PER_BYTE * text_bytes
        self._columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
        self._numbers: dict[str, dict[str, int]] = {f.name: {} for f in SCHEMA if f.type == TEXT}
        self._text_of: dict[tuple[str, int], str] = {}

    def take(self, entries: list[Any]) -> None:
        """Adds the entries of a dump. The caller must keep a reference to them, because texts are cached by object id."""
        for entry in entries:
            if self._budget < 0:
                self._drop("too_many", "repeated references make the content impossibly large; the rest was skipped")
            elif not isinstance(entry, dict) or not isinstance(entry.get("profiling_name"), str):
                self._drop("bad_record", "entries that do not describe a call were skipped")
            else:
                self._row(entry)

    def table(self) -> pa.Table:
        arrays = []
        for each in SCHEMA:
            values = pa.array(self._columns[each.name], pa.int32() if each.type == TEXT else each.type)
            if each.type == TEXT:
                texts = pa.array(list(self._numbers[each.name]), pa.large_string())
                values = pa.DictionaryArray.from_arrays(values, texts)
            arrays.append(values)
        return pa.table(arrays, schema=SCHEMA)

    def _drop(self, code: str, text: str) -> None:
        self.dropped += 1
        self._log.add(code, "dropped", text=text)

    def _row(self, entry: Mapping[str, Any]) -> None:
        group = entry.get("process_group")
        name, description = group if isinstance(group, list | tuple) and len(group) == 2 else (group, "")
        is_p2p = entry.get("is_p2p") is True
        row = {
            "record": _integer(entry.get("record_id"), self.loaded),
            "group_number": _integer(entry.get("pg_id")),
            "group": self._text("group", name),
            "group_description": self._text("group_description", description),
            "sequence": _integer(entry.get("collective_seq_id", entry.get("seq_id"))),
            "p2p_sequence": _integer(entry.get("p2p_seq_id")),
            "name": self._text("name", entry["profiling_name"]),
            "input_sizes": self._text("input_sizes", entry.get("input_sizes"), _sizes),
            "output_sizes": self._text("output_sizes", entry.get("output_sizes"), _sizes),
            "input_types": self._text("input_types", entry.get("input_dtypes"), _types),
            "output_types": self._text("output_types", entry.get("output_dtypes"), _types),
            "state": self._text("state", entry.get("state")),
            "retired": entry.get("retired") is True,
            "is_p2p": is_p2p,
            "created_ns": _time(entry.get("time_created_ns", entry.get("time_created_us")), "time_created_ns" in entry),
            "started_ns": _time(entry.get("time_discovered_started_ns")),
            "completed_ns": _time(entry.get("time_discovered_completed_ns")),
            "stated_ns": _nanoseconds(entry.get("duration_ms")),
            "timeout_ms": _integer(entry.get("timeout_ms")),
            "thread": self._text("thread", _thread(entry)),
            "stack": self._text("stack", entry.get("frames"), _stack),
        }
        for key, value in row.items():
            self._columns[key].append(value)
        self.loaded += 1

    def _text(self, column: str, value: Any, make: Callable[[Any], str] | None = None) -> int | None:
        """Returns the index of a text in its column. ``make`` converts a list to text, once per list object."""
        if make is None:
            text = value[:MAX_TEXT] if isinstance(value, str) else str(value) if type(value) is int else None
            if text is None:
                return None
        elif not isinstance(value, list | tuple):
            return None
        else:
            key = (column, id(value))
            text = self._text_of.get(key)
            if text is None:
                text = self._text_of[key] = make(value)
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")
        self._budget -= len(text)
        numbers = self._numbers[column]
        return numbers.setdefault(text, len(numbers))


def groups_of(found: object) -> tuple[Group, ...]:
    groups = []
    left = MAX_RANKS
    for key, value in list(found.items())[:MAX_GROUPS] if isinstance(found, dict) else []:
        values = value if isinstance(value, dict) else {}
        name, description = (str(values.get(field) or "")[:MAX_TEXT] for field in ("name", "desc"))
        ranks = values.get("ranks")
        texts = re.findall(r"\d{1,9}", ranks[: 10 * left]) if isinstance(ranks, str) else ranks
        members = [int(rank) for rank in texts[:left] if _integer(rank) is not None] if isinstance(texts, list) else []
        left -= len(members)
        groups.append(Group(name or str(key)[:MAX_TEXT], description, tuple(members)))
    return tuple(groups)


def status_of(found: object) -> tuple[Status, ...]:
    statuses = []
    for key, value in list(found.items())[:MAX_GROUPS] if isinstance(found, dict) else []:
        number = _integer(key)
        if number is not None and isinstance(value, dict):
            progress = (_integer(value.get(f"last_{what}_collective")) for what in ("enqueued", "started", "completed"))
            statuses.append(Status(number, *(-1 if each is None else each for each in progress)))
    return tuple(statuses)


def _integer(value: object, default: int | None = None) -> int | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return value if type(value) is int and abs(value) < _MAX_NUMBER else default


def _time(value: object, is_ns: bool = True) -> int | None:
    number = _integer(value)
    if number is None or number <= 0:
        return None
    number *= 1 if is_ns else 1000
    return number if number < _MAX_NUMBER else None


def _nanoseconds(milliseconds: object) -> int | None:
    if type(milliseconds) in (int, float) and 0 <= milliseconds < _MAX_NUMBER / 10**6:  # type: ignore[operator]
        return round(milliseconds * 10**6)  # type: ignore[operator]
    return None


def _thread(entry: Mapping[str, Any]) -> str | None:
    parts = [entry.get(key) for key in ("thread_name", "thread_id")]
    texts = [part[:MAX_TEXT] for part in parts if isinstance(part, str) and part]
    return " ".join(texts) or None


def _sizes(value: Any) -> str:
    """Formats sizes as in traces: ``[[4, 3], []]``."""
    tensors = [
        f"[{', '.join(str(size) for size in each[:MAX_DIMENSIONS] if _integer(size) is not None)}]"
        for each in value[:MAX_TENSORS]
        if isinstance(each, list | tuple)
    ]
    return f"[{', '.join(tensors)}]" if tensors else ""


def _types(value: Any) -> str:
    return ", ".join(each[:100] for each in value[:MAX_TENSORS] if isinstance(each, str))


def _stack(value: Any) -> str:
    """Formats frames as in traces: ``file(line): function``, innermost frame first."""
    frames = []
    for each in value[:MAX_FRAMES]:
        frame = each if isinstance(each, dict) else {}
        file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        if isinstance(name, str):
            frames.append(f"{str(file)[:500]}({_integer(line, 0)}): {name[:500]}")
    return "\n".join(frames)
