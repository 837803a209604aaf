"""One worker process: start, jobs and exit code."""

from __future__ import annotations

import os
import signal
import threading
from collections import OrderedDict, deque
from contextlib import suppress
from typing import IO

from tb_plugin.errors import WorkerDied

_WARM_KEYS = 8
_LAST_BYTES = 4096
# Exit codes of a process killed for its memory, or after a failed allocation.
_MEMORY_CODES = (137, -signal.SIGKILL)


class Process:
    """A worker process. The parent prints the stderr of the worker to its own stderr."""

    def __init__(self, memo_bytes: int) -> None:
        import subprocess

        from tb_plugin.service.workers import interpreter

        self._popen = subprocess.Popen(
            interpreter.command(memo_bytes),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=interpreter.environment(),
        )
        self.pid = self._popen.pid
        self.started = False
        """Whether the process has sent a message."""
        self._last: deque[bytes] = deque(maxlen=16)
        self._relay = threading.Thread(target=self._pass_on, name="torch-trace-stderr", daemon=True)
        self._relay.start()

    @property
    def questions(self) -> IO[bytes]:
        """Returns the pipe to stdin of the process."""
        assert self._popen.stdin is not None  # guaranteed by Popen
        return self._popen.stdin

    @property
    def answers(self) -> IO[bytes]:
        """Returns the pipe from stdout of the process."""
        assert self._popen.stdout is not None  # guaranteed by Popen
        return self._popen.stdout

    def poll(self) -> int | None:
        """Returns the exit code, or None while the process runs."""
        return self._popen.poll()

    def kill(self) -> None:
        self._popen.kill()

    def close(self) -> int:
        """Closes the pipes and waits for the process to end.

        Returns the exit code, or the negative signal number if a signal ended the process.
        """
        for stream in (self._popen.stdin, self._popen.stdout):
            with suppress(OSError):  # buffered data for a dead process
                if stream is not None:
                    stream.close()
        import subprocess

        try:
            code = self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        self._relay.join(1)
        return code

    def last_line(self) -> str:
        """Returns the last line that the process wrote to stderr. Call ``close`` first."""
        lines = b"".join(self._last)[-_LAST_BYTES:].decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _pass_on(self) -> None:
        assert self._popen.stderr is not None  # guaranteed by Popen
        with self._popen.stderr as stream:
            while chunk := os.read(stream.fileno(), _LAST_BYTES):
                self._last.append(chunk)
                with suppress(OSError):  # our stderr may be closed
                    os.write(2, chunk)


class Death:
    """How a worker process ended."""

    def __init__(self, code: int | None, started: bool, last_line: str) -> None:
        self._code = code
        self._started = started
        self._last_line = last_line

    def __str__(self) -> str:
        if self._code is None:
            return self._last_line
        return f"signal {_signal_name(-self._code)}" if self._code < 0 else f"exit code {self._code}"

    def error(self, about: str) -> WorkerDied:
        """Returns the error for a job whose worker died twice. ``about`` is the path of the trace."""
        if self._code in _MEMORY_CODES:
            return WorkerDied(
                f"The worker process was killed twice ({self}).",
                about,
                (
                    "The usual reason is a lack of memory. Close other programs, set TORCH_TRACE_WORKERS=1, or lower "
                    "TORCH_TRACE_MEMORY_MB to open only a window of the trace."
                ),
            )
        said = (
            f" The last output of the process: {self._last_line}" if self._last_line and self._code is not None else ""
        )
        if not self._started:
            do = "Python or its packages may be damaged. See the TensorBoard log or the terminal for details."
            return WorkerDied(f"A worker process could not start ({self}).{said}", about, do)
        do = "This is a bug in Torch Trace or a library. Please report it with the log."
        return WorkerDied(f"The worker process exited unexpectedly twice ({self}).{said}", about, do)


class Seat:
    """A slot for one worker process. ``warm`` contains the keys that the process used last."""

    def __init__(self, memo_bytes: int) -> None:
        self._memo_bytes = memo_bytes
        self.warm: OrderedDict[str, None] = OrderedDict()
        self.process: Process | None = None

    def used(self, key: str) -> None:
        """Stores that the process has the data of a key in memory."""
        if self.process is None:  # replaced after a large job
            return
        self.warm[key] = None
        self.warm.move_to_end(key)
        while len(self.warm) > _WARM_KEYS:
            self.warm.popitem(last=False)

    def start(self) -> Process:
        """Returns the running process, and starts one if necessary. Raises OSError."""
        if self.process is None or self.process.poll() is not None:
            self.end()
            self.process = Process(self._memo_bytes)
        return self.process

    def bury(self, error: Exception) -> Death:
        """Closes a dead process and returns how the process ended."""
        process, self.process = self.process, None
        self.warm.clear()
        if process is None:
            return Death(None, False, str(error))
        code = process.close()
        return Death(code, process.started, process.last_line())

    def end(self) -> None:
        process, self.process = self.process, None
        self.warm.clear()
        if process is not None:
            process.kill()
            process.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return str(number)
