"""The threads of the host that make calls: how they are called, and which of them is idle."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.selection import EVERYTHING, Chosen, select_rows
from tb_plugin.analysis.stack_frames import stack_frames, thread_starts
from tb_plugin.analysis.track_names import track_names
from tb_plugin.lib.groupby import stable_order
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable, Track

Int64 = npt.NDArray[np.int64]

_IN_FILES = {
    "threading.py": "wait|_wait_for_tstate_lock|join|acquire",
    "queue.py": "get",
    "selectors.py": "select",
    "socket.py": "accept|readinto",
    "subprocess.py": "_try_wait|_wait|wait",
    "concurrent/futures/thread.py": "_worker",
    "concurrent/futures/_base.py": "result",
    "multiprocessing/pool.py": r"worker|_handle_\w+|_wait_for_updates",
    "multiprocessing/connection.py": "wait|poll|_poll|_recv|recv|recv_bytes|accept",
    "multiprocessing/queues.py": "get|_feed",
    r"multiprocessing/popen_\w+.py": "wait|poll",
}
"""Functions of the standard library that wait, by their files."""
_OF_C = "acquire|sleep|poll|select|wait|waitpid|epoll_wait|kevent|accept|recv|recv_into"
"""Functions that are written in C and wait."""


def _waits() -> re.Pattern[str]:
    """How tools write them: ``file(line): function``, ``Class.function (file:line)``; of C by the object or by the module."""
    files = {file.replace(".py", r"\.py").replace("/", r"[/\\]"): names for file, names in _IN_FILES.items()}
    files_first = "|".join(rf"{file}\(\d+\): (?:{names})" for file, names in files.items())
    names_first = "|".join(rf"(?:{names}) \((?:.*[/\\])?{file}:\d+\)" for file, names in files.items())
    ways = (
        rf"(?:.*[/\\])?(?:{files_first})",
        rf"(?:\w+\.)*(?:{names_first})",
        rf"<built-in (?:method|function) (?:{_OF_C})\b.*>",
        r"<built-in method get of _queue\.SimpleQueue .*>",
        r"<method '(?:acquire|poll|recv)' of .*>",
        r"_thread\.R?[lL]ock\.(?:acquire|__enter__)|time\.sleep|_queue\.SimpleQueue\.get",
        rf"(?:_socket|select|posix)\.(?:\w+\.)*(?:{_OF_C})",
    )
    return re.compile("|".join(ways))


WAITS = _waits()
"""Calls in which a thread waits for another one, for a clock or for input: locks, queues, sleeping, sockets."""
MOSTLY = 0.95
"""An idle thread waits for this share of its time."""
_WORK = (EventKind.OPERATOR, EventKind.RUNTIME, EventKind.MODULE, EventKind.ANNOTATION)
_FIRST = 8
"""So many frames of a thread are looked at for what it runs."""
_MACHINERY = re.compile(r"(?:.*[/\\])?threading\.py\(\d+\): ")


@dataclass(frozen=True)
class Thread:
    """One thread of the host. ``key`` tells it apart from all others."""

    number: int
    key: str
    name: str
    host_ns: int
    """Time in which it is in calls that began in the chosen steps."""
    wait_ns: int
    """Of it in waits in which nothing else runs."""
    idle: bool


def thread_key(track: Track) -> str:
    """Process and thread id: what tells the tracks of a trace apart."""
    return f"{track.pid}:{track.tid}"


@remembered
def threads_of(trace: TraceTable, rows: Chosen = EVERYTHING) -> tuple[Thread, ...]:
    """Returns the threads that have frames, with their time in the chosen steps.

    One is idle that calls no operator, runtime or module there, opens no named range, and waits nearly all of its time.
    Where all are, none is.
    """
    frames = stack_frames(trace, "both", "none")
    if not len(frames.row):
        return ()
    count = int(frames.thread.max()) + 1
    chosen = select_rows(trace, *rows).rows[frames.row]
    own = np.where(chosen, frames.own_ns, 0)
    waits = trace.strings.where(lambda text: WAITS.fullmatch(text) is not None)[trace.name[frames.row]]
    host = np.bincount(frames.thread, weights=own, minlength=count).astype(np.int64)
    wait = np.bincount(frames.thread[waits], weights=own[waits], minlength=count).astype(np.int64)
    works = np.zeros(count, np.bool_)
    works[frames.thread[chosen & of_kind(trace.kind[frames.row], *_WORK)]] = True
    idle = ~works & (host > 0) & (wait >= MOSTLY * host)
    found = np.unique(frames.thread)
    idle &= bool((~idle & (host > 0)).any())
    numbers = found.tolist()
    order = stable_order(frames.thread)
    first = np.searchsorted(frames.thread[order], found)
    called = [
        _called(trace, n, frames.row[order[at : at + _FIRST]]) for n, at in zip(numbers, first.tolist(), strict=True)
    ]
    return tuple(
        Thread(number, key, name, int(host[number]), int(wait[number]), bool(idle[number]))
        for number, (key, name) in zip(numbers, called, strict=True)
    )


def _called(trace: TraceTable, number: int, rows: Int64) -> tuple[str, str]:
    """Key and name: that of the track, and of a thread of ``threading`` also what it runs. ``rows`` are its first frames."""
    starts = thread_starts(trace)
    opens = np.flatnonzero(starts.thread == number)
    place = int(trace.track[starts.row[opens[0]]]) if len(opens) else number
    track, ordinal = trace.tracks[place], int(starts.ordinal[opens[0]]) if len(opens) else 0
    runs = _runs(trace, rows) if len(opens) else ""
    # What else was recorded under one id is no part of the thread that has it.
    name = f"{track.thread.strip() or f'thread {track.tid}'}: {runs}" if runs else track_names(trace)[place].title
    key = thread_key(track)
    return (f"{key}#{ordinal + 1}" if ordinal else key), name


def _runs(trace: TraceTable, rows: Int64) -> str:
    """The first call of a thread, of the first ones, that is none of ``threading`` itself."""
    for row in rows:
        name = trace.strings[int(trace.name[row])]
        if not _MACHINERY.match(name):
            return name
    return ""
