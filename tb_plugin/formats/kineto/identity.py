"""Rank and job of a Kineto file, from its first bytes."""

from __future__ import annotations

import json
import re
from typing import Any

from tb_plugin.formats.base import JobInfo

_JOB_KEY = re.compile(rb'"distributedInfo"\s*:\s*(?=\{)')
_NUMBER = rb'"%s"\s*:\s*"?(\d{1,9})\b'
_RANK, _WORLD = re.compile(_NUMBER % b"[rR]ank"), re.compile(_NUMBER % b"world_size")
_COLLECTIVE = re.compile(rb'\{[^{}]*"Process Group Ranks"[^{}]*\}')
_RANKS = re.compile(rb'"Process Group Ranks"\s*:\s*"\[([\d, ]*)\]"')
_BACKEND = re.compile(rb'"backend"\s*:\s*"([^"\\]{0,64})"')
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"\\]{1,256})"')
_BASE_TIME = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?(\d{1,19})\b')
# Device events have small pids; host events have the pid of the process.
_HOST_EVENT = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|cuda_runtime|python_function)"[^{}]{0,4096}?"pid"\s*:\s*(\d{1,10})\b'
    rb'[^{}]{0,4096}?"ts"\s*:\s*"?(\d{1,19})(?:\.(\d{1,3}))?'
)
# Tools that merge files of several ranks write the rank into the pid, or keep several processes.
_MERGED = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|cuda_runtime|python_function)"[^{}]{0,4096}?"pid"\s*:\s*"[^"]*[^"\d]'
)
_MERGED_HERE = b'"rankMetadata"'
_STEP = re.compile(rb'"ProfilerStep#(\d{1,9})"')
_FIRST_NS, _LAST_NS = 10**18, 4 * 10**18  # 2001 to 2096, nanoseconds since 1970


def identify(head: bytes) -> JobInfo | None:
    """Returns the job in the first bytes; None for a single process, and for a merged file."""
    if _MERGED_HERE in head[:64]:
        return None
    match = _JOB_KEY.search(head)
    # Rank lists of a large job may exceed the bytes read; the fields before them are enough.
    job = head[match.end() : match.end() + 4096] if match else b""
    rank, world = (_number(pattern, job) for pattern in (_RANK, _WORLD))
    if match is None:
        rank, world = _rank_of_collectives(head)
    elif world is None or world < 2:
        return None
    if rank is None or world is None or not rank < (world or rank + 1):
        return None
    events = _HOST_EVENT.findall(head)
    if len({pid for pid, _, _ in events}) > 1 or _MERGED.search(head):
        return None
    start_ns, clock = _start(head, events)
    host = _HOST.search(head)
    steps = [int(step) for step in _STEP.findall(head)]
    return JobInfo(
        rank=rank,
        world_size=world,
        backend=_text(_BACKEND.search(job)),
        group=_group(head, match.end(), world) if match else "",
        process=f"{_text(host)}:{events[0][0].decode()}" if events else "",
        start_ns=start_ns,
        clock=clock,
        first_step=min(steps, default=None),
    )


def _rank_of_collectives(head: bytes) -> tuple[int | None, int | None]:
    """Returns the rank (None = unknown) and the world size (0 = unknown), based on the rank lists of collectives."""
    ranks: set[int] = set()
    world = 0
    for args in _COLLECTIVE.findall(head):
        listed, place = _RANKS.search(args), _number(_RANK, args)
        members = [int(rank) for rank in listed[1].split(b",") if rank.strip()] if listed else []
        if place is not None and place < len(members):
            ranks.add(members[place])
            world = len(members) if b'"default_pg"' in args else world
    return (ranks.pop(), world) if len(ranks) == 1 else (None, None)


def _number(pattern: re.Pattern[bytes], text: bytes) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match else None


def _text(match: re.Match[bytes] | None) -> str:
    return match[1].decode("utf-8", "replace") if match else ""


def _group(head: bytes, begin: int, world: int) -> str:
    try:
        job: Any = json.JSONDecoder().raw_decode(head[begin:].decode("utf-8", "replace"))[0]
    except ValueError:
        return ""
    groups = job.get("pg_config")
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict) and group.get("pg_size") == world:
            return " ".join(str(group.get(key, "")) for key in ("pg_desc", "backend_config")).strip()
    return ""


def _start(head: bytes, events: list[tuple[bytes, bytes, bytes]]) -> tuple[int | None, str]:
    """Returns the median recording time in nanoseconds, because events are not sorted, and its clock."""
    if not events:
        return None, ""
    from statistics import median

    recorded = int(median(int(whole) * 1000 + int(part.ljust(3, b"0")) for _, whole, part in events))
    base = _number(_BASE_TIME, head)
    for time in (recorded, recorded + (base or 0)):
        if _FIRST_NS <= time < _LAST_NS:
            return time, "unix"
    # Some releases write the base time after the events; it is the same for all processes of a job.
    return recorded, "unstated"
