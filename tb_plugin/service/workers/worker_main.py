"""Main program of a worker process.

It reads questions from stdin and writes answers to stdout. Each message is an 8-byte length followed by a pickle.
The parent sends a ``Question``, and the worker sends a ``Message``.
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
from tb_plugin.service.workers.question import Progress, Question

if TYPE_CHECKING:
    from tb_plugin.service.workers.model_cache import OpenModels

_PROGRESS_SECONDS = 0.1
_LENGTH = struct.Struct("<Q")


class Started(msgspec.Struct, frozen=True):
    """First message of a worker, sent when its libraries are loaded."""


class Done(msgspec.Struct, frozen=True):
    """The answer to a question. ``resident_bytes`` is the memory of the worker, excluding mapped files."""

    answer: object
    resident_bytes: int


class Failed(msgspec.Struct, frozen=True):
    error: UserError


class Bug(msgspec.Struct, frozen=True):
    """Reports that a question failed with an unexpected error. Contains the traceback as text."""

    text: str


class Logged(msgspec.Struct, frozen=True):
    """A log record of a worker, including the traceback, if any."""

    level: int
    text: str


# Messages from a worker.
Message = Started | Progress | Logged | Done | Failed | Bug


def send(stream: IO[bytes], message: Question[object] | Message) -> None:
    """Writes one message. Raises OSError if the other process has ended."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Message:
    """Reads one message from a worker. Raises EOFError if the worker has ended."""
    message: Message = pickle.loads(_read(stream))
    return message


def receive_question(stream: IO[bytes]) -> Question[object]:
    """Reads one question. Raises EOFError if the parent has ended."""
    question: Question[object] = pickle.loads(_read(stream))
    return question


def main(memo_bytes: int) -> None:
    """Answers questions until the parent ends. ``memo_bytes`` limits the cache of computed values."""
    leave_out_pandas()
    # Ctrl-C is sent to the whole process group, but the parent decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # Text printed by libraries must not mix with messages on stdout.
    os.dup2(2, 1)
    send(answers, Started())
    logging.getLogger("torch_trace").addHandler(_ToParent(answers))
    questions: queue.SimpleQueue[Question[object]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, questions), daemon=True).start()
    gc.disable()
    from tb_plugin.lib.model_cache import MEMO

    MEMO.limit_bytes = memo_bytes
    from tb_plugin.service.workers.model_cache import OpenModels  # after pandas was blocked

    gc.enable()  # imported modules are never garbage
    models = OpenModels()
    while True:
        _serve(questions.get(), models, answers)


class _ToParent(logging.Handler):
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
        # After a failed allocation the process must not continue. The pool retries in a new process.
        os._exit(137)
    except Exception:  # top level of the process: the parent's log must show the bug
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
