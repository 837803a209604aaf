"""Display names of threads and streams, derived from their work."""

from __future__ import annotations

import re
from collections import Counter

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.copy_directions import DIRECTIONS, directions_of
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.recorder import ThreadRole
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable, Track

# Recorded thread names: number, and possibly a name in parentheses.
_THREAD_NAME = re.compile(r"[tT]hread -?[0-9]+(?: \((.*)\))?$", re.DOTALL)
# Recorded names of unnamed streams; the number may differ from that of the track.
_DEFAULT_STREAM_NAME = re.compile(r"(?i)(?:(?:stream|thread|device|queue)?\s*(-?[0-9]{1,18}))?")
_PLACE = re.compile(r"\([0-9]+\): ")
# Python frames at the start of every thread.
_ENTRY_FRAMES = r"^threading\.py\(|^<built-in "
# Larger numbers are addresses, which mean nothing to a reader.
_LARGEST_THREAD_ID = 10**8
_LONGEST = 60
_WORK = ("compute", "communication", "copies")
# Smaller shares of a stream's work do not name it.
_MIN_NAMING_SHARE = 0.2
_COPIES = _WORK.index("copies")
_KIND = np.full(len(EventKind), MISSING, np.int64)
_KIND[EventKind.KERNEL] = 0
_KIND[[EventKind.MEMCPY, EventKind.MEMSET]] = _COPIES


class TrackName(msgspec.Struct, frozen=True):
    title: str
    """Title that is unique among the threads of the trace, or among the streams of the device."""
    short: str
    """Title of a stream without its work; for a thread, the title."""
    recorded: str
    """Name in the trace. For a thread, this is its name and number; for a stream, it is the device."""
    label: str
    """Title and recorded name in a single text, for tables of events."""
    order: tuple[int, ...]
    """Sort key of the thread or stream.

    Threads are sorted by recorded order. Threads with the same recorded order are sorted as follows: main thread,
    framework threads, other threads, events outside threads. Streams are sorted by number.
    """


@cached_by_argument
def track_names(trace: TraceTable) -> tuple[TrackName, ...]:
    main = main_thread(trace)
    processes = _processes(trace)
    titles, rank = _host_titles(trace, main, processes)
    distinct = _unique_titles(trace, titles, processes)
    work = _work_of(trace)
    # A working lane without a number (operations of a group) is above streams that only wait.
    lanes = [(track.pid, _number_of(track)[1], work[i]) for i, track in enumerate(trace.tracks) if track.is_device]
    processes_with_idle_lanes = {pid for pid, number, has in lanes if has and number < 0}
    processes_with_idle_lanes &= {pid for pid, number, has in lanes if not has and number >= 0}
    return tuple(
        _of_device(trace, track, work[i], sinks=track.pid in processes_with_idle_lanes)
        if track.is_device
        else _of_host(track, distinct[i], rank[i])
        for i, track in enumerate(trace.tracks)
    )


def main_thread(trace: TraceTable) -> int:
    """Returns the track with the step annotations, else the one whose id is the process id (-1 = unknown)."""
    if trace.steps.recorded and len(trace.steps.host_start_ns):
        is_first = (trace.start_ns == trace.steps.host_start_ns[0]) & (trace.end_ns == trace.steps.host_end_ns[0])
        rows = np.flatnonzero(is_first & (trace.kind == EventKind.ANNOTATION))
        if len(rows):
            return int(trace.track[rows[0]])
    first = [
        i
        for i, track in enumerate(trace.tracks)
        if not track.is_device and track.tid == track.pid and not _has_no_process(trace, track)
    ]
    events = np.bincount(trace.track, minlength=len(trace.tracks))
    return max(first, key=lambda i: (int(events[i]), -i), default=MISSING)


def _processes(trace: TraceTable) -> list[str]:
    tools = ~np.isin(np.arange(len(trace.tracks)), trace.track[trace.kind != EventKind.WINDOW])
    own = {i: track for i, track in enumerate(trace.tracks) if not track.is_device and not tools[i]}
    own = {i: track for i, track in own.items() if not _has_no_process(trace, track)}
    named = {track.pid: track.process.strip() for track in own.values()}
    if len(named) < 2:
        return [""] * len(trace.tracks)
    count = Counter(named.values())
    called = {
        pid: (name if count[name] == 1 else f"{name} {pid}" if name else f"Process {pid}" if pid else "")[:_LONGEST]
        for pid, name in named.items()
    }
    return [called[track.pid] if i in own else "" for i, track in enumerate(trace.tracks)]


def _has_no_process(trace: TraceTable, track: Track) -> bool:
    """Returns whether the process is a GPU: Kineto puts threads without a recorded process below GPU 0."""
    return track.process.endswith(f"(GPU {track.pid})") or any(device.id == track.pid for device in trace.devices)


def recorded_name(track: Track) -> str:
    """Returns the recorded name of a thread, "" if the thread has no recorded name."""
    name = track.thread.strip()
    found = _THREAD_NAME.match(name)
    return (found.group(1) or "").strip() if found else name


def _of_host(track: Track, title: str, rank: tuple[int, ...]) -> TrackName:
    if track.is_async:
        return TrackName(title, title, "", title, rank)
    tid = track.tid if _is_plausible(track.tid) else ""
    recorded = " ".join(filter(None, (recorded_name(track), tid)))
    label = title if tid in title else f"{title} ({tid})"
    return TrackName(title, title, recorded, label, rank)


def _of_device(trace: TraceTable, track: Track, work: str, *, sinks: bool) -> TrackName:
    """Returns the name of a stream. If ``sinks`` is set, idle streams are sorted below active ones."""
    own = track.thread.strip()
    stream, number = _number_of(track)
    device = next((device for device in trace.devices if device.id == track.pid), None)
    place = f"{device.word if device else 'Device'} {track.pid}"
    name = device.name if device else ""
    # Waits for all streams have a row of their own with number -1.
    plain = f"Stream {stream}" if stream != "-1" else "All streams"
    # A lane with a name: graph work may be drawn on a lane other than its stream.
    plain = plain if _DEFAULT_STREAM_NAME.fullmatch(own) else own[:_LONGEST]
    title = f"{plain} · {work}" if work else plain
    recorded = f"{place} · {name}" if name else place
    label = f"{place}, {plain[0].lower() + plain[1:] if _DEFAULT_STREAM_NAME.fullmatch(own) else plain}"
    order = (sinks and not work, number < 0, number, track.thread_order)
    return TrackName(title, plain, recorded, f"{label} ({work})" if work else label, order)


def stream_text(track: Track) -> str:
    """Returns the number or name of a stream, as recorded."""
    return _number_of(track)[0]


def _number_of(track: Track) -> tuple[str, int]:
    """Returns the number of a stream as text, and as an integer (-1 = none)."""
    numbered = _DEFAULT_STREAM_NAME.fullmatch(track.thread.strip())
    stream = numbered[1] if numbered and numbered[1] else track.tid.removeprefix("stream").strip()
    return stream, int(stream) if re.fullmatch(r"-?[0-9]{1,18}", stream) else MISSING


def _host_titles(trace: TraceTable, main: int, processes: list[str]) -> tuple[list[str], list[tuple[int, ...]]]:
    roles = trace.recorder.threads
    found = _roles_of(trace, roles)
    of_main = recorded_name(trace.tracks[main]) if main != MISSING else ""
    frames = _outermost_frames(trace)
    kinds = np.zeros((len(trace.tracks), len(EventKind)), np.bool_)
    kinds[trace.track, trace.kind] = True
    others = len(roles) + 1
    titles: list[str] = []
    rank: list[tuple[int, ...]] = []
    for i, track in enumerate(trace.tracks):
        own = recorded_name(track)
        is_tool = kinds[i, EventKind.WINDOW] and kinds[i].sum() == 1
        if track.is_async:
            title, place = track.tid, others + 1
        elif i == main or (processes[i] and track.tid == track.pid):
            title, place = "Main thread", 0
        elif is_tool:
            title, place = track.tid if _number(track.tid) is None else own or "Recorder", others + 1
        elif found[i] != MISSING:
            title, place = roles[found[i]].title, 1 + int(found[i])
        # Threads inherit the name of their starting thread, usually the program's, which says nothing. The same holds for
        # PyTorch threads; for unknown tools it is the only name.
        elif own and own != of_main and not (roles and re.match(r"(?i)python[0-9.]*$", own)):
            title, place = own, others
        elif i in frames:
            title, place = _PLACE.sub(": ", frames[i], count=1), others
        elif kinds[i, EventKind.RUNTIME] and kinds[i].sum() == 1:
            title, place = "Runtime calls", others
        else:
            title, place = f"Thread {track.tid}" if _is_plausible(track.tid) else "Thread", others
        titles.append(title[:_LONGEST])
        # Threads of one kind sort by number; for others the order has no meaning.
        rank.append((track.thread_order, place, (_number(track.tid) or 0) if 0 < place < others else 0))
    return titles, rank


def _unique_titles(trace: TraceTable, titles: list[str], processes: list[str]) -> list[str]:
    """Makes titles unique. Adds thread numbers to equal titles, and process names if there are several processes."""
    hosts = [i for i, track in enumerate(trace.tracks) if not track.is_device]
    titles = [" · ".join(filter(None, (p, title))) for p, title in zip(processes, titles, strict=True)]
    count = Counter(titles[i] for i in hosts)
    used: Counter[str] = Counter()
    distinct = list(titles)
    tids = Counter((titles[i], trace.tracks[i].tid) for i in hosts)
    for i in hosts:
        title, tid = titles[i], trace.tracks[i].tid
        used[title] += 1
        if count[title] > 1:
            unique = _is_plausible(tid) and tids[title, tid] == 1
            distinct[i] = f"{title} {tid}" if unique else f"{title} #{used[title]}"
    return distinct


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _is_plausible(tid: str) -> bool:
    """Returns whether a thread id is meaningful to the user. Very large numbers are memory addresses."""
    number = _number(tid)
    return number is None or 0 <= number < _LARGEST_THREAD_ID


def _roles_of(trace: TraceTable, roles: tuple[ThreadRole, ...]) -> Int64:
    """Returns the first matching role of each track (-1 = none). Matches of thread names come first."""
    found = np.full(len(trace.tracks), MISSING, np.int64)
    if not roles:
        return found
    own = pa.array([recorded_name(track) for track in trace.tracks], pa.string())
    total = np.bincount(trace.track, minlength=len(trace.tracks))
    fits = np.zeros((len(roles), 2, len(trace.tracks)), np.bool_)
    for number, role in enumerate(roles):
        if role.threads:
            fits[number, 0] = pc.match_substring_regex(own, role.threads).to_numpy(zero_copy_only=False)
        if role.events:
            on = np.bincount(trace.track[_matching_texts(trace, role.events)[trace.name]], minlength=len(trace.tracks))
            fits[number, 1] = (on > 0) & ((on == total) | (not role.all_must_match))
    for by in (1, 0):
        for number in reversed(range(len(roles))):
            found[fits[number, by]] = number
    return found


def _matching_texts(trace: TraceTable, pattern: str) -> Bool:
    """Returns whether the text of each string id matches a pattern. The last entry is for id -1."""
    hits = pc.match_substring_regex(trace.strings.array, pattern).fill_null(False).to_numpy(zero_copy_only=False)
    return np.append(hits, False)


def _outermost_frames(trace: TraceTable) -> dict[int, str]:
    """Returns, for each track, the name of the first Python call that is not a common entry frame."""
    rows = np.flatnonzero(trace.kind == EventKind.PYTHON)
    if not len(rows):
        return {}
    rows = rows[~_matching_texts(trace, _ENTRY_FRAMES)[trace.name[rows]]]
    tracks, first = np.unique(trace.track[rows], return_index=True)
    names = trace.strings.take(trace.name[rows[first]]).to_pylist()
    return dict(zip(tracks.tolist(), names, strict=True))


def _work_of(trace: TraceTable) -> list[str]:
    rows = np.flatnonzero(of_kind(trace.kind, EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET))
    kind = _KIND[trace.kind[rows]]
    kind[(kind == 0) & trace.is_collective[rows]] = 1
    time = np.zeros((len(trace.tracks), len(_WORK)), np.int64)
    np.add.at(time, (trace.track[rows], kind), np.maximum(trace.dur_ns[rows], 1))
    groups = _groups_of(trace)
    going = _copy_times(trace, rows[kind == _COPIES])
    said = []
    for i, track in enumerate(trace.tracks):
        named = _main_kinds(time[i])
        backend = next((d.collective_backend for d in trace.devices if d.id == track.pid), "").upper()
        texts = [_communication(backend, groups.get(i, ())) if k == 1 else _WORK[k] for k in named]
        said.append(" and ".join(texts) if named != [_COPIES] else _copies(going[i]))
    return said


def _copy_times(trace: TraceTable, copies: Int64) -> Int64:
    """Returns copy time by track and direction; the last column is for unknown directions and memsets."""
    time = np.zeros((len(trace.tracks), len(DIRECTIONS) + 1), np.int64)
    goes = np.where(trace.kind[copies] == EventKind.MEMCPY, directions_of(trace, copies), MISSING)
    np.add.at(time, (trace.track[copies], goes), np.maximum(trace.dur_ns[copies], 1))
    return time


def _main_kinds(time: Int64) -> list[int]:
    share = time / max(int(time.sum()), 1)
    return [int(k) for k in np.argsort(-time, kind="stable") if share[k] >= _MIN_NAMING_SHARE]


def _copies(time: Int64) -> str:
    named = _main_kinds(time)
    if len(DIRECTIONS) in named:
        return _WORK[_COPIES]
    return f"{_WORK[_COPIES]} {' and '.join(DIRECTIONS[k].whither for k in named)}"


def _communication(backend: str, groups: tuple[str, ...]) -> str:
    what = backend or _WORK[1]
    return f"{what} {groups[0]}" if len(groups) == 1 else f"{what}, {len(groups)} groups" if groups else what


def _groups_of(trace: TraceTable) -> dict[int, tuple[str, ...]]:
    """Returns the process groups (description, else number) of each track's collectives."""
    args = trace.collectives
    on_device = trace.kind[args.row] == EventKind.KERNEL
    said = np.where(
        args.group_description[on_device] != MISSING, args.group_description[on_device], args.group_name[on_device]
    )
    pairs = np.unique(np.stack([trace.track[args.row[on_device]].astype(np.int64), said.astype(np.int64)]), axis=1)
    found: dict[int, tuple[str, ...]] = {}
    for track, text in pairs.T.tolist():
        name = trace.strings[text] if text != MISSING else ""
        if name:
            found[track] = (*found.get(track, ()), name[:_LONGEST])
    return found
