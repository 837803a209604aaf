"""The program of a worker process: takes tasks from its standard input, answers on its standard output.

Messages are pickles behind an 8-byte length. To the worker: ``(task, args)``, where task is ``module:function``.
From it: ``("started",)`` at first, ``("progress", Progress)``, ``("done", result, resident_bytes)``,
``("failed", UserError)``, ``("bug", traceback)``.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from tb_plugin.errors import UserError
from tb_plugin.payloads import Figure

_PROGRESS_SECONDS = 0.1
_LENGTH = struct.Struct("<Q")


class Progress(NamedTuple):
    """How far a task is.

    ``stage`` names what it does now, ``fraction`` is how much of its input is read, 0..1. ``events`` are read so far,
    ``counts`` of them by kind (``readers.base.ReadState``); ``about`` is what the file states ahead of them. ``since`` is
    when the stage began, in monotonic seconds of the process that waits for the task; the worker leaves it out.
    """

    stage: str
    fraction: float = 0.0
    events: int = 0
    counts: Mapping[str, int] = {}
    about: Sequence[Figure] = ()
    since: float = 0.0


Report = Callable[[Progress], None]
"""Takes how far a task is. Within a stage at most ten reports a second travel to the parent."""
Task = Callable[..., Any]


def send(stream: IO[bytes], message: object) -> None:
    """Writes one message. Raises OSError when the other side is gone."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Reads one message. Raises EOFError when the other side is gone."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return pickle.loads(_exactly(stream, length))


def resolve(task: str) -> Task:
    """The function that ``module:function`` names. It takes ``report=`` besides its arguments."""
    module, _, name = task.partition(":")
    function: Task = getattr(importlib.import_module(module), name)
    return function


class _NoPandas:
    """Has every import of pandas fail in a worker.

    pyarrow imports it, where it is installed, as soon as the first array is made: 0.3 s and 50 MB for nothing, since
    tasks hand over Arrow. pyarrow takes the failure for a machine without pandas.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("A worker has no use for pandas.", name=name)


def main() -> None:
    """Serves tasks until the parent closes the pipe or dies."""
    sys.meta_path.insert(0, _NoPandas)
    # Ctrl-C reaches the whole process group: the parent decides what happens then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not land between the messages.
    os.dup2(2, 1)
    send(answers, ("started",))
    tasks: queue.SimpleQueue[tuple[str, tuple[Any, ...]]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, tasks), daemon=True).start()
    while True:
        task, args = tasks.get()
        _serve(task, args, answers)


def _listen(stream: IO[bytes], tasks: queue.SimpleQueue[tuple[str, tuple[Any, ...]]]) -> None:
    """Queues what the parent sends; ends the process, busy or not, when the parent is gone."""
    try:
        while True:
            tasks.put(receive(stream))
    except (EOFError, OSError):
        os._exit(0)


def _serve(task: str, args: tuple[Any, ...], answers: IO[bytes]) -> None:
    last, stage = 0.0, ""

    def report(progress: Progress) -> None:
        nonlocal last, stage
        now = time.monotonic()
        if progress.stage != stage or now - last >= _PROGRESS_SECONDS:
            last, stage = now, progress.stage
            send(answers, ("progress", progress))

    message: tuple[Any, ...]
    try:
        message = ("done", resolve(task)(*args, report=report), _resident_bytes())
    except UserError as error:
        message = ("failed", error)
    except MemoryError:
        # Its heap is in no state to go on; the pool sees a death and retries in a fresh process.
        os._exit(137)
    except Exception:  # the edge of the process: a bug must reach the parent's log
        message = ("bug", traceback.format_exc())
    try:
        send(answers, message)
    except OSError:
        os._exit(0)


def _resident_bytes() -> int:
    """Memory of this process that is not shared with a file, in bytes; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 (pathlib costs an import here)
            _, resident, shared = statm.read().split()[:3]
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _exactly(stream: IO[bytes], size: int) -> bytes:
    chunks = []
    while size:
        chunk = stream.read(size)
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
