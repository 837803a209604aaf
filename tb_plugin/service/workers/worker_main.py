"""The main program of a worker process: questions on stdin, answers on stdout.

Messages are pickles behind an 8-byte length: a ``Question`` to the worker, a ``Message`` from it.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from typing import IO, TYPE_CHECKING

import msgspec

from tb_plugin.errors import UserError
from tb_plugin.service.workers.block_pandas import leave_out_pandas
from tb_plugin.service.workers.lazy_arrow_functions import create_arrow_functions_lazily
from tb_plugin.service.workers.question import Progress, Question

if TYPE_CHECKING:
    from tb_plugin.service.workers.model_cache import OpenModels

_PROGRESS_SECONDS = 0.1
_LENGTH = struct.Struct("<Q")


class Started(msgspec.Struct, frozen=True):
    """The first message of a worker: its libraries are loaded."""


class Done(msgspec.Struct, frozen=True):
    """A question is answered. ``resident_bytes`` is the memory of the worker, without shared file pages."""

    answer: object
    resident_bytes: int


class Failed(msgspec.Struct, frozen=True):
    """A question was refused."""

    error: UserError


class Bug(msgspec.Struct, frozen=True):
    """A question met a bug: the text of its traceback."""

    text: str


class Logged(msgspec.Struct, frozen=True):
    """A log line of a worker, with its traceback if any."""

    level: int
    text: str


# Messages from a worker.
Message = Started | Progress | Logged | Done | Failed | Bug


def send(stream: IO[bytes], message: Question[object] | Message) -> None:
    """Writes one message. Raises OSError when the other side has ended."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Message:
    """Reads one message of a worker. Raises EOFError when it has ended."""
    message: Message = pickle.loads(_read(stream))
    return message


def receive_question(stream: IO[bytes]) -> Question[object]:
    """Reads one question. Raises EOFError when the parent has ended."""
    question: Question[object] = pickle.loads(_read(stream))
    return question


def main(memo_bytes: int) -> None:
    """Answers questions until the parent closes the pipe or ends; caches at most ``memo_bytes`` of numbers."""
    leave_out_pandas()
    create_arrow_functions_lazily()
    # Ctrl-C reaches the whole process group: the parent decides what happens then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not land between the messages.
    os.dup2(2, 1)
    send(answers, Started())
    logging.getLogger("torch_trace").addHandler(_ToParent(answers))
    questions: queue.SimpleQueue[Question[object]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, questions), daemon=True).start()
    gc.disable()
    from tb_plugin.lib.model_cache import MEMO

    MEMO.limit_bytes = memo_bytes
    from tb_plugin.service.workers.model_cache import OpenModels  # with everything that must not bring pandas along

    gc.enable()  # nothing that was imported is garbage
    models = OpenModels()
    while True:
        _serve(questions.get(), models, answers)


class _ToParent(logging.Handler):
    """Sends what is logged while a question is answered: the parent's log hides secrets and control characters."""

    def __init__(self, answers: IO[bytes]) -> None:
        super().__init__(logging.WARNING)
        self._answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        send(self._answers, Logged(record.levelno, self.format(record)))


def _listen(stream: IO[bytes], questions: queue.SimpleQueue[Question[object]]) -> None:
    try:
        while True:
            questions.put(receive_question(stream))
    except (EOFError, OSError):
        os._exit(0)


def _serve(question: Question[object], models: OpenModels, answers: IO[bytes]) -> None:
    last, stage = 0.0, ""

    def report(progress: Progress) -> None:
        nonlocal last, stage
        now = time.monotonic()
        if progress.stage != stage or now - last >= _PROGRESS_SECONDS:
            last, stage = now, progress.stage
            send(answers, progress)

    message: Message
    try:
        message = Done(question.answer(models, report), _resident_bytes())
    except UserError as error:
        message = Failed(error)
    except MemoryError:
        # Its heap is in no state to go on; the pool sees a death and retries in a fresh process.
        os._exit(137)
    except Exception:  # the edge of the process: a bug must reach the parent's log
        message = Bug(traceback.format_exc())
    try:
        send(answers, message)
    except OSError:
        os._exit(0)


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 (pathlib costs an import here)
            _, resident, shared = statm.read().split()[:3]
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _read(stream: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    chunks = []
    while size:
        chunk = stream.read(size)
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
