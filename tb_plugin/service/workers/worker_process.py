"""One worker process: its interpreter, its jobs and its exit code.

Log directories are untrusted. A worker must never import a ``json.py`` from the current directory, which may be a log
directory. Its import path therefore lacks the current directory and the folder of the running script.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from tb_plugin.errors import UserError, WorkerDied
from tb_plugin.extensions import configured_names
from tb_plugin.service.workers.question import Job, Ready

_WARM_KEYS = 8
# Exit codes of a process killed for its memory, or after a failed allocation.
_MEMORY_CODES = (137, -signal.SIGKILL)
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; from tb_plugin.service.workers.worker_main import main; "
    "main(int(sys.argv[1]))"
)
# Workers run in parallel, so each library uses one thread per worker.
_SINGLE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Process:
    """A worker process. It writes to the stderr of the parent."""

    def __init__(self, memo_bytes: int) -> None:
        self._popen = subprocess.Popen(
            _command(memo_bytes), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
        )
        self.pid = self._popen.pid
        self.started = False
        """Whether the process has sent a message."""

    @property
    def questions(self) -> IO[bytes]:
        assert self._popen.stdin is not None  # guaranteed by Popen
        return self._popen.stdin

    @property
    def answers(self) -> IO[bytes]:
        assert self._popen.stdout is not None  # guaranteed by Popen
        return self._popen.stdout

    def poll(self) -> int | None:
        return self._popen.poll()

    def kill(self) -> None:
        self._popen.kill()

    def close(self) -> int:
        """Waits for the process to end. Returns the exit code, or the negative signal number."""
        for stream in (self._popen.stdin, self._popen.stdout):
            with suppress(OSError):  # buffered data for a dead process
                if stream is not None:
                    stream.close()
        try:
            code = self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        return code


class Death:
    """How a worker process ended. ``failure`` is the reason if it was not started."""

    def __init__(self, code: int | None, started: bool, failure: str = "") -> None:
        self._code = code
        self._started = started
        self._failure = failure

    def __str__(self) -> str:
        if self._code is None:
            return self._failure
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
        if not self._started:
            do = "Python or its packages may be damaged. See the TensorBoard log or the terminal for details."
            return WorkerDied(f"A worker process could not start ({self}).", about, do)
        do = "This is a bug in Torch Trace or a library. Please report it with the log."
        return WorkerDied(f"The worker process exited unexpectedly twice ({self}).", about, do)


class Seat:
    """A slot for one worker process and its current job. ``warm`` contains the keys that the process used last."""

    def __init__(self, memo_bytes: int) -> None:
        self._memo_bytes = memo_bytes
        self.warm: OrderedDict[str, None] = OrderedDict()
        self.process: Process | None = None
        self.job: Job[Any] | None = None

    @property
    def is_free(self) -> bool:
        """Returns whether the process is idle, or is only loading its libraries."""
        return self.job is None or isinstance(self.job.question, Ready)

    def used(self, key: str) -> None:
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
        process, self.process = self.process, None
        self.warm.clear()
        if process is None:
            return Death(None, False, str(error))
        return Death(process.close(), process.started)

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


def _command(memo_bytes: int) -> list[str]:
    """Returns the command line of a worker process.

    ``memo_bytes`` limits the cache of the worker. The flag ``-P`` removes the current directory from the import
    path.
    """
    return [sys.executable, "-P", "-c", _START, str(memo_bytes), *import_path()]


def _environment() -> dict[str, str]:
    """Returns the environment of a worker process. Variables that extend the import path are removed."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **_SINGLE}


def import_path() -> list[str]:
    """Returns the absolute folders of ``sys.path``, without the current directory and the folder of the running script.

    The folders of this package and of configured extensions (``registry``) come last, wherever they are.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    suspect = {os.path.realpath(folder) for folder in ("", *([str(Path(script).parent)] if script else []))}
    trusted = [entry for entry in sys.path if Path(entry).is_absolute() and os.path.realpath(entry) not in suspect]
    home = str(Path(__file__).absolute().parents[3])
    return list(dict.fromkeys([*trusted, home, *_extensions()]))


def _extensions() -> list[str]:
    if not (names := configured_names()):
        return []
    from tb_plugin import registry

    with suppress(UserError):  # a request that needs this extension reports the import error
        registry.readers()
    packages = [sys.modules.get(name.partition(".")[0]) for name in names]
    return [str(Path(place).absolute().parent) for package in packages if (place := _place(package))]


def _place(module: ModuleType | None) -> str:
    return next(iter(getattr(module, "__path__", [])), getattr(module, "__file__", None) or "")
