"""Host threads that make calls: names, times and idle state."""

from __future__ import annotations

import re
from functools import cache

import msgspec
import numpy as np

from tb_plugin.analysis.selection import EVERYTHING, Chosen, select_rows
from tb_plugin.analysis.stack_frames import stack_frames, thread_starts
from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import stable_order
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable, Track

# Waiting functions of the standard library, by file.
_PYTHON_WAITS = {
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
    "torch/_inductor/compile_worker/subproc_pool.py": "_recv_msg|_read_thread",
}
# Waiting functions written in C.
_C_WAITS = "acquire|sleep|poll|select|wait|waitpid|epoll_wait|kevent|accept|recv|recv_into"


@cache
def _waits() -> re.Pattern[str]:
    """Returns a regex for waiting functions: ``file(line): function``, ``Class.function (file:line)`` or C names."""
    files = {file.replace(".py", r"\.py").replace("/", r"[/\\]"): names for file, names in _PYTHON_WAITS.items()}
    files_first = "|".join(rf"{file}\(\d+\): (?:{names})" for file, names in files.items())
    names_first = "|".join(rf"(?:{names}) \((?:.*[/\\])?{file}:\d+\)" for file, names in files.items())
    ways = (
        rf"(?:.*[/\\])?(?:{files_first})",
        rf"(?:\w+\.)*(?:{names_first})",
        rf"<built-in (?:method|function) (?:{_C_WAITS})\b.*>",
        r"<built-in method get of _queue\.SimpleQueue .*>",
        r"<method '(?:acquire|poll|recv|recv_into)' of .*>",
        r"<(?:built-in )?method '?read(?:into|line)?'? of '?_io\.Buffered.*>",
        r"_thread\.R?[lL]ock\.(?:acquire|__enter__)|time\.sleep|_queue\.SimpleQueue\.get",
        rf"(?:_socket|select|posix)\.(?:\w+\.)*(?:{_C_WAITS})",
    )
    return re.compile("|".join(ways))


# Minimum wait share of an idle thread.
MOSTLY = 0.95
_WORK = (EventKind.OPERATOR, EventKind.RUNTIME, EventKind.MODULE, EventKind.ANNOTATION)
# First frames of a thread that may name its function.
_FRAMES_CHECKED = 8
_MACHINERY = re.compile(r"(?:.*[/\\])?threading\.py\(\d+\): ")


class Thread(msgspec.Struct, frozen=True):
    """A host thread. Its ``key`` is unique."""

    number: int
    key: str
    name: str
    host_ns: int
    """Time that the thread spends in calls during the selected steps."""
    wait_ns: int
    """Part of ``host_ns`` that is spent in waiting functions, excluding calls that these functions make."""
    idle: bool


def thread_key(track: Track) -> str:
    """Returns the process id and the thread id in one text."""
    return f"{track.pid}:{track.tid}"


@cached_by_argument
def threads_of(trace: TraceTable, rows: Chosen = EVERYTHING) -> tuple[Thread, ...]:
    """Returns the threads that have stack frames, with their times in the selected steps.

    A thread is idle if it mostly waits and runs no operators, runtime calls, modules or annotations. If all threads
    would be idle, no thread is marked as idle.
    """
    frames = stack_frames(trace, "both", "none")
    if not len(frames.row):
        return ()
    count = int(frames.thread.max()) + 1
    chosen = select_rows(trace, *rows).rows[frames.row]
    own = np.where(chosen, frames.own_ns, 0)
    waits = waiting_names(trace)[trace.name[frames.row]]
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
        _called(trace, n, frames.row[order[at : at + _FRAMES_CHECKED]])
        for n, at in zip(numbers, first.tolist(), strict=True)
    ]
    return tuple(
        Thread(number, key, name, int(host[number]), int(wait[number]), bool(idle[number]))
        for number, (key, name) in zip(numbers, called, strict=True)
    )


@cached_by_argument
def waiting_names(trace: TraceTable) -> Bool:
    """Returns whether each string id names a waiting function. The last entry is for id -1."""
    return trace.strings.where(lambda text: _waits().fullmatch(text) is not None)


def waiting_tracks(trace: TraceTable, rows: Int64, own_ns: Int64) -> Bool:
    """Returns, for each track, whether its Python calls among the rows mostly wait, and it runs nothing else.

    ``own_ns`` is the time of each row excluding nested calls. If all tracks with Python calls wait, none is returned.
    """
    count = len(trace.tracks)
    python = trace.kind[rows] == EventKind.PYTHON
    track, own = trace.track[rows[python]], own_ns[python]
    waits = waiting_names(trace)[trace.name[rows[python]]]
    host = np.bincount(track, weights=own, minlength=count)
    wait = np.bincount(track[waits], weights=own[waits], minlength=count)
    works = np.zeros(count, np.bool_)
    works[trace.track[rows[of_kind(trace.kind[rows], *_WORK)]]] = True
    found: Bool = ~works & (host > 0) & (wait >= MOSTLY * host)
    return found & bool((~found & (host > 0)).any())


def _called(trace: TraceTable, number: int, rows: Int64) -> tuple[str, str]:
    """Returns key and name of a thread. A thread started by ``threading`` is named after the function that it runs."""
    starts = thread_starts(trace)
    opens = np.flatnonzero(starts.thread == number)
    place = int(trace.track[starts.row[opens[0]]]) if len(opens) else number
    track, ordinal = trace.tracks[place], int(starts.ordinal[opens[0]]) if len(opens) else 0
    runs = _runs(trace, rows) if len(opens) else ""
    # Other tracks with the same id are not part of the thread.
    name = f"{track.thread.strip() or f'thread {track.tid}'}: {runs}" if runs else track_names(trace)[place].title
    key = thread_key(track)
    return (f"{key}#{ordinal + 1}" if ordinal else key), name


def _runs(trace: TraceTable, rows: Int64) -> str:
    """Returns the name of the first frame that does not belong to ``threading``."""
    for row in rows:
        name = trace.strings[int(trace.name[row])]
        if not _MACHINERY.match(name):
            return name
    return ""
