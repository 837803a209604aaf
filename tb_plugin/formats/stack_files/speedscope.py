"""speedscope's JSON: profiles of samples, and of frames that are opened and closed; each profile is a thread."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.values import storable
from tb_plugin.model.stack_profile import MAX_DEPTH, Counted, Places, joined, places_of_calls, places_of_stacks
from tb_plugin.model.trace.order import YEAR, far_apart

Int64 = npt.NDArray[np.int64]

SCHEMA = re.compile(rb"speedscope\.app/file-format-schema\.json|\"exporter\"\s{0,8}:\s{0,8}\"[^\"]{0,40}speedscope")
MAX_TEXT = 16 * 1024
_UNITS: dict[str, tuple[Counted, float, str]] = {
    "nanoseconds": ("ns", 1, "Time"),
    "microseconds": ("ns", 1e3, "Time"),
    "milliseconds": ("ns", 1e6, "Time"),
    "seconds": ("ns", 1e9, "Time"),
    "bytes": ("bytes", 1, "Bytes"),
    "none": ("samples", 1, "Samples"),
}
"""What a unit counts, and by what its numbers are multiplied."""
_MOST = 2.0**61
MOST_IN_ALL = 2.0**62
"""Sums beyond might turn over."""
_DEEP = f"frames deeper than {MAX_DEPTH:,} count for that around them"
_IMPOSSIBLE = "times further than a year from the others, and samples that last longer, were left out"
_JSON = json.JSONDecoder()


class _Frame(Struct):
    name: str = ""
    file: str | None = None
    line: int | None = None


class _Event(Struct):
    type: str
    frame: int
    at: int | float


class _Profile(Struct):
    type: str
    name: str = ""
    unit: str = "none"
    samples: list[list[int]] = []
    weights: list[int | float] = []
    events: list[_Event] = []


@dataclass(frozen=True, eq=False)
class Profiles:
    """The places of all profiles; ``seen`` counts samples and events of the file, also those that were left out."""

    names: pa.Array
    places: Places
    threads: tuple[str, ...]
    counted: Counted
    what: str
    seen: int
    is_whole: bool


def read_speedscope(data: bytes, log: IssueLog) -> Profiles:
    """Returns the stacks of a document. Raises UnreadableTrace where there are none."""
    frames, profiles, is_whole = _document(data.removeprefix(b"\xef\xbb\xbf"), log)
    names = [_name(frame) for frame in frames]
    threads: list[str] = []
    places: list[Places] = []
    units: dict[Counted, str] = {}
    seen = 0
    total = 0.0
    for raw in profiles:
        profile = _converted(raw, log)
        read = None if profile is None else _KINDS.get(profile.type)
        if profile is None or read is None:
            if profile is not None:
                log.add(
                    "unknown_profile", "dropped", text="profiles that are neither sampled nor evented were left out"
                )
            continue
        counted, scale, what = _UNITS.get(profile.unit, ("value", 1, ""))
        if counted not in units and units:
            text = f"profiles that count something else than the first ones ({next(iter(units))}) were left out"
            log.add("several_units", "dropped", text=text)
            continue
        units[counted] = what
        seen += len(profile.samples) + len(profile.events)
        places.append(read(profile, scale, len(names), len(places), log))
        total += float(places[-1].own.sum(dtype=np.float64))
        if total > MOST_IN_ALL:
            raise UnreadableTrace("Its numbers add up to more than there can be.", do="Export it again.")
        threads.append(profile.name[:MAX_TEXT] or f"profile {len(places)}")
    counted, what = next(iter(units.items()), ("value", ""))
    return Profiles(pa.array(names, pa.large_string()), joined(places), tuple(threads), counted, what, seen, is_whole)


def _document(data: bytes, log: IssueLog) -> tuple[list[Any], list[Any], bool]:
    """Frames and profiles, of a damaged document as far as they can be read."""
    try:
        root = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        text = data.decode("utf-8", "replace")
        listed, _ = _items(text, r'"frames"\s{0,64}:\s{0,64}\[')
        found, at = _items(text, r'"profiles"\s{0,64}:\s{0,64}\[')
        log.add("truncated_tail", "dropped", at, text="the JSON ends early or is damaged from here on")
        return listed, found, False
    shared = root.get("shared") if isinstance(root, dict) else None
    frames = shared.get("frames") if isinstance(shared, dict) else None
    profiles = root.get("profiles") if isinstance(root, dict) else None
    if not isinstance(frames, list) or not isinstance(profiles, list):
        raise UnreadableTrace("It holds no frames and profiles of speedscope.", do="Export it again.")
    return frames, profiles, True


def _items(text: str, opening: str) -> tuple[list[Any], int]:
    """The objects of a list that can be read, and where that ends."""
    begin = re.search(opening, text)
    at = begin.end() if begin else len(text)
    found: list[Any] = []
    try:
        while (start := _NEXT.match(text, at)) is not None:
            item, at = _JSON.raw_decode(text, start.end())
            found.append(item)
    except (ValueError, RecursionError):
        pass
    return storable(found, text.encode(errors="replace"), numbers=False), at


_NEXT = re.compile(r"[\s,]{0,64}(?=\{)")


def _name(frame: Any) -> str:
    try:
        made = msgspec.convert(frame, _Frame)
    except msgspec.ValidationError:
        return "(no name)"
    name = made.name.replace("\n", " ").encode("utf-8", "replace").decode()[:MAX_TEXT] or "(no name)"
    if not made.file or made.line is None:
        return name
    return f"{made.file[:MAX_TEXT]}({made.line}): {name}".encode("utf-8", "replace").decode()


def _converted(raw: Any, log: IssueLog) -> _Profile | None:
    try:
        return msgspec.convert(raw, _Profile)
    except msgspec.ValidationError as error:
        log.add("bad_profile", "dropped", example=str(error), text="profiles that are not of the format were left out")
        return None


def _sampled(profile: _Profile, scale: float, frames: int, thread: int, log: IssueLog) -> Places:
    """Samples with their weights; without weights each counts once."""
    length = np.fromiter(map(len, profile.samples), np.int64, len(profile.samples))
    total = int(length.sum())
    frame = np.fromiter(map(_small, chain.from_iterable(profile.samples)), np.int64, total)
    weights = profile.weights or [1] * len(length)
    value, good = _scaled([*weights[: len(length)], *[0] * (len(length) - len(weights))], scale)
    good[len(weights) :] = False
    outside = np.bincount(
        np.repeat(np.arange(len(length)), length)[(frame < 0) | (frame >= frames)], minlength=len(length)
    )
    long = good & (value > YEAR) & (_UNITS.get(profile.unit, ("value", 1, ""))[0] == "ns")
    if long.all():  # then nothing tells which are wrong
        long[:] = False
    if long.any():
        log.add("impossible_time", "dropped", count=int(long.sum()), text=_IMPOSSIBLE)
    kept = good & (outside == 0) & (length > 0) & (value >= 0) & ~long
    if float(value[kept].sum(dtype=np.float64)) > MOST_IN_ALL:
        raise UnreadableTrace("Its numbers add up to more than there can be.", do="Export it again.")
    if not (kept | long).all():
        text = "samples without frames or weight, or with some that cannot be, were left out"
        log.add("bad_sample", "dropped", count=int((~kept & ~long).sum()), text=text)
    first = np.concatenate(([0], np.cumsum(length[kept])))
    return places_of_stacks(frame[np.repeat(kept, length)], first, np.full(len(first) - 1, thread), value[kept])


def _impossible(profile: _Profile, at: Int64, good: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of the good times cannot be right, as in a trace; what counts no time has none."""
    counted, _, _ = _UNITS.get(profile.unit, ("value", 1, ""))
    if counted != "ns" or not good.any():
        return np.zeros(len(at), np.bool_)
    return good & far_apart(at, good)


def _small(number: int) -> int:
    """A position; -1 for what cannot be one."""
    return number if 0 <= number < 2**31 else -1


def _evented(profile: _Profile, scale: float, frames: int, thread: int, log: IssueLog) -> Places:
    """Frames that are opened and closed: between two events the time belongs to the innermost open one."""
    events = profile.events
    at, good = _scaled([event.at for event in events], scale)
    opens = np.fromiter((event.type == "O" for event in events), np.bool_, len(events))
    good &= opens | np.fromiter((event.type == "C" for event in events), np.bool_, len(events))
    frame = np.fromiter((_small(event.frame) for event in events), np.int64, len(events))
    good &= (frame >= 0) & (frame < frames)
    far = _impossible(profile, at, good)
    good &= ~far
    at, opens, frame = at[good], opens[good], frame[good]
    # A close of nothing is left out: it would take the depth below what it was at the least.
    least = np.minimum.accumulate(np.minimum(np.cumsum(np.where(opens, 1, -1)), 0)) if len(opens) else at
    real = np.diff(least, prepend=0) == 0
    at, opens, frame = at[real], opens[real], frame[real]
    if far.any():
        log.add("impossible_time", "dropped", count=int(far.sum()), text=_IMPOSSIBLE)
    if lost := int((~good & ~far).sum() + (~real).sum()):
        log.add("bad_event", "dropped", count=lost, text="events that open or close no frame were left out")
    end = at[-1:]
    depth = np.cumsum(np.where(opens, 1, -1))
    level = np.where(opens, depth, depth + 1)
    if (deep := level > MAX_DEPTH).any():
        log.add(
            "deep_stack",
            "repaired",
            count=int(deep.sum()),
            text=_DEEP,
        )
        at, opens, frame, level, depth = (column[~deep] for column in (at, opens, frame, level, depth))
    if (back := int((np.diff(at) < 0).sum())) > 0:
        log.add(
            "time_goes_back", "repaired", count=back, text="events before the one ahead of them count as at its time"
        )
        at = np.maximum.accumulate(at)
    place = np.arange(len(at))
    rows = np.flatnonzero(opens)
    closed = np.flatnonzero(~opens)
    crossing = frame[closed] != frame[_latest(rows, level, level[closed], closed)]
    if crossing.any():
        text = "frames that were closed in another order than they were opened end with the innermost one"
        log.add("crossing_frames", "repaired", count=int(crossing.sum()), text=text)
    top = _latest(rows, level, depth, place)
    own = np.zeros(len(at) + 1, np.int64)  # the last one takes what no frame is open in
    np.add.at(own, top, np.diff(at, append=np.maximum(end, at[-1:])))
    parent = _latest(rows, level, level[rows] - 1, rows)
    number = np.append(np.cumsum(opens) - 1, -1)
    return places_of_calls(frame[rows], number[parent], level[rows], own[rows], thread)


_KINDS = {"sampled": _sampled, "evented": _evented}


def _latest(rows: Int64, level: Int64, wanted: Int64, until: Int64) -> Int64:
    """The last opening event (``rows``) at a level up to a place, for many; -1 at level 0."""
    size = len(level) + 1
    order = np.lexsort((rows, level[rows]))
    keys = level[rows][order] * size + rows[order]
    at = np.searchsorted(keys, wanted * size + until, side="right") - 1
    return np.where((wanted > 0) & (at >= 0), rows[order][np.maximum(at, 0)] if len(rows) else -1, -1)


def _scaled(values: Sequence[int | float], scale: float) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """Numbers times a scale as whole ones, and which of them can be."""
    array = np.asarray(values)
    if array.dtype.kind == "i" and scale * float(np.abs(array.astype(np.float64)).max(initial=0)) < 2**53:
        return array.astype(np.int64) * int(scale), np.ones(len(array), np.bool_)
    with np.errstate(over="ignore"):  # such a number is left out
        real = np.array([float(value) for value in values], np.float64) * scale
    good = np.isfinite(real) & (np.abs(real) < _MOST)
    return np.rint(np.where(good, real, 0)).astype(np.int64), good
