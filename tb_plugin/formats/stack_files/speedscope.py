"""speedscope's JSON: sampled and evented profiles. Each profile becomes a thread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stack_files.content import StackContent
from tb_plugin.formats.values import read_damaged_list, to_storable
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.stack_profile import (
    MAX_DEPTH,
    Counted,
    Places,
    concatenate_places,
    places_of_calls,
    places_of_stacks,
)
from tb_plugin.model.trace.order import YEAR, is_far_from_median

SCHEMA = re.compile(rb"speedscope\.app/file-format-schema\.json|\"exporter\"\s{0,8}:\s{0,8}\"[^\"]{0,40}speedscope")
MAX_TEXT = 16 * 1024
# unit -> quantity, factor, title
_UNITS: dict[str, tuple[Counted, float, str]] = {
    "nanoseconds": ("ns", 1, "Time"),
    "microseconds": ("ns", 1e3, "Time"),
    "milliseconds": ("ns", 1e6, "Time"),
    "seconds": ("ns", 1e9, "Time"),
    "bytes": ("bytes", 1, "Bytes"),
    "none": ("samples", 1, "Samples"),
}
_MAX_NUMBER = 2.0**61
MOST_IN_ALL = 2.0**62  # larger sums might overflow
_DEEP = f"frames nested more than {MAX_DEPTH:,} levels deep are attributed to the frame at that level"
_IMPOSSIBLE = "times more than a year from the median, and samples longer than a year, were skipped"


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


def read_speedscope(data: bytes, log: IssueLog) -> StackContent:
    """Reads all profiles of a document. Raises UnreadableTrace if the document contains no profiles."""
    frames, profiles, is_complete = _document(data.removeprefix(b"\xef\xbb\xbf"), log)
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
                text = "profiles of a type other than sampled or evented were skipped"
                log.add("unknown_profile", "dropped", text=text)
            continue
        counted, scale, what = _UNITS.get(profile.unit, ("value", 1, ""))
        if counted not in units and units:
            text = f"profiles whose unit is not that of the first profile ({next(iter(units))}) were skipped"
            log.add("several_units", "dropped", text=text)
            continue
        units[counted] = what
        seen += len(profile.samples) + len(profile.events)
        places.append(read(profile, scale, len(names), len(places), log))
        total += float(places[-1].own.sum(dtype=np.float64))
        if total > MOST_IN_ALL:
            raise UnreadableTrace("The sum of all values is impossibly large.", do="Export the file again.")
        threads.append(profile.name[:MAX_TEXT] or f"profile {len(places)}")
    counted, what = next(iter(units.items()), ("value", ""))
    names_of = pa.array(names, pa.large_string())
    return StackContent(names_of, concatenate_places(places), seen, counted, what, tuple(threads), is_complete)


def _document(data: bytes, log: IssueLog) -> tuple[list[Any], list[Any], bool]:
    """Returns frames, profiles, and whether the document is complete. Damaged documents are read up to the damage."""
    try:
        root = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        text = data.decode("utf-8", "replace")
        listed, _ = _items(text, r'"frames"\s{0,64}:\s{0,64}\[')
        found, at = _items(text, r'"profiles"\s{0,64}:\s{0,64}\[')
        log.add("truncated_tail", "dropped", at, text="the JSON is truncated or damaged from here on")
        return listed, found, False
    shared = root.get("shared") if isinstance(root, dict) else None
    frames = shared.get("frames") if isinstance(shared, dict) else None
    profiles = root.get("profiles") if isinstance(root, dict) else None
    if not isinstance(frames, list) or not isinstance(profiles, list):
        raise UnreadableTrace("The file lacks the list of speedscope frames or profiles.", do="Export the file again.")
    return frames, profiles, True


def _items(text: str, opening: str) -> tuple[list[Any], int]:
    found: list[Any] = []
    _, at = read_damaged_list(text, opening, lambda item, source: found.append(item))
    return to_storable(found, text.encode(errors="replace"), numbers=False), at


def _name(frame: Any) -> str:
    try:
        parsed = msgspec.convert(frame, _Frame)
    except msgspec.ValidationError:
        return "(no name)"
    name = parsed.name.replace("\n", " ").encode("utf-8", "replace").decode()[:MAX_TEXT] or "(no name)"
    if not parsed.file or parsed.line is None:
        return name
    return f"{parsed.file[:MAX_TEXT]}({parsed.line}): {name}".encode("utf-8", "replace").decode()


def _converted(raw: Any, log: IssueLog) -> _Profile | None:
    try:
        return msgspec.convert(raw, _Profile)
    except msgspec.ValidationError as error:
        log.add("bad_profile", "dropped", example=str(error), text="profiles in an invalid format were skipped")
        return None


def _sampled(profile: _Profile, scale: float, frames: int, thread: int, log: IssueLog) -> Places:
    """Returns the stacks of a sampled profile. If the file contains no weights, each sample has weight 1."""
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
    if long.all():  # without a plausible sample, wrong ones cannot be identified
        long[:] = False
    if long.any():
        log.add("impossible_time", "dropped", count=int(long.sum()), text=_IMPOSSIBLE)
    kept = good & (outside == 0) & (length > 0) & (value >= 0) & ~long
    if float(value[kept].sum(dtype=np.float64)) > MOST_IN_ALL:
        raise UnreadableTrace("The sum of all values is impossibly large.", do="Export the file again.")
    if not (kept | long).all():
        text = "samples with an invalid frame or weight were skipped"
        log.add("bad_sample", "dropped", count=int((~kept & ~long).sum()), text=text)
    first = np.concatenate(([0], np.cumsum(length[kept])))
    return places_of_stacks(frame[np.repeat(kept, length)], first, np.full(len(first) - 1, thread), value[kept])


def _impossible(profile: _Profile, at: Int64, good: Bool) -> Bool:
    """Returns a mask of implausible times, by the same rule as in a trace. Other units have none."""
    counted, _, _ = _UNITS.get(profile.unit, ("value", 1, ""))
    if counted != "ns" or not good.any():
        return np.zeros(len(at), np.bool_)
    return good & is_far_from_median(at, good)


def _small(number: int) -> int:
    return number if 0 <= number < 2**31 else -1


def _evented(profile: _Profile, scale: float, frames: int, thread: int, log: IssueLog) -> Places:
    """Returns the stacks of an evented profile. Time between two events belongs to the innermost open frame."""
    events = profile.events
    at, good = _scaled([event.at for event in events], scale)
    opens = np.fromiter((event.type == "O" for event in events), np.bool_, len(events))
    good &= opens | np.fromiter((event.type == "C" for event in events), np.bool_, len(events))
    frame = np.fromiter((_small(event.frame) for event in events), np.int64, len(events))
    good &= (frame >= 0) & (frame < frames)
    far = _impossible(profile, at, good)
    good &= ~far
    at, opens, frame = at[good], opens[good], frame[good]
    # A close event without an open frame is skipped, because it would make the depth negative.
    least = np.minimum.accumulate(np.minimum(np.cumsum(np.where(opens, 1, -1)), 0)) if len(opens) else at
    real = np.diff(least, prepend=0) == 0
    at, opens, frame = at[real], opens[real], frame[real]
    if far.any():
        log.add("impossible_time", "dropped", count=int(far.sum()), text=_IMPOSSIBLE)
    if lost := int((~good & ~far).sum() + (~real).sum()):
        log.add("bad_event", "dropped", count=lost, text="events that neither open nor close a frame were skipped")
    end = at[-1:]
    depth = np.cumsum(np.where(opens, 1, -1))
    level = np.where(opens, depth, depth + 1)
    if (deep := level > MAX_DEPTH).any():
        log.add("deep_stack", "repaired", count=int(deep.sum()), text=_DEEP)
        at, opens, frame, level, depth = (column[~deep] for column in (at, opens, frame, level, depth))
    if (back := int((np.diff(at) < 0).sum())) > 0:
        text = "events with a time before the previous event were moved to the time of that event"
        log.add("time_goes_back", "repaired", count=back, text=text)
        at = np.maximum.accumulate(at)
    place = np.arange(len(at))
    rows = np.flatnonzero(opens)
    closed = np.flatnonzero(~opens)
    crossing = frame[closed] != frame[_latest(rows, level, level[closed], closed)]
    if crossing.any():
        text = "frames that were closed in the wrong order end together with the innermost open frame"
        log.add("crossing_frames", "repaired", count=int(crossing.sum()), text=text)
    top = _latest(rows, level, depth, place)
    own = np.zeros(len(at) + 1, np.int64)  # the last element receives the time without open frames
    np.add.at(own, top, np.diff(at, append=np.maximum(end, at[-1:])))
    parent = _latest(rows, level, level[rows] - 1, rows)
    number = np.append(np.cumsum(opens) - 1, -1)
    return places_of_calls(frame[rows], number[parent], level[rows], own[rows], thread)


_KINDS = {"sampled": _sampled, "evented": _evented}


def _latest(rows: Int64, level: Int64, wanted: Int64, until: Int64) -> Int64:
    """Returns the last opening event (in ``rows``) at level ``wanted`` up to index ``until``; -1 at level 0."""
    size = len(level) + 1
    order = np.lexsort((rows, level[rows]))
    keys = level[rows][order] * size + rows[order]
    at = np.searchsorted(keys, wanted * size + until, side="right") - 1
    return np.where((wanted > 0) & (at >= 0), rows[order][np.maximum(at, 0)] if len(rows) else -1, -1)


def _scaled(values: Sequence[int | float], scale: float) -> tuple[Int64, Bool]:
    array = np.asarray(values)
    if array.dtype.kind == "i" and scale * float(np.abs(array.astype(np.float64)).max(initial=0)) < 2**53:
        return array.astype(np.int64) * int(scale), np.ones(len(array), np.bool_)
    with np.errstate(over="ignore"):  # such numbers are skipped
        real = np.array([float(value) for value in values], np.float64) * scale
    good = np.isfinite(real) & (np.abs(real) < _MAX_NUMBER)
    return np.rint(np.where(good, real, 0)).astype(np.int64), good
