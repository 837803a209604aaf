"""Removal of paths, hosts and users from the data of a report."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# Fields with fixed values, outside of rows. ``key`` contains a name of the recording for parts of a chart.
_FIXED = frozenset((
    "about", "confidence", "device_word", "kind", "label_column", "measure", "model", "name_column", "references", "rule",
    "severity", "state", "style", "unit", "value_columns", "version", "view",
))  # fmt: skip
_HOST_KEYS = frozenset(("host", "host_name", "hostname", "node"))
_FILE = re.compile(r"[^/\\]+\.(?:py|pyx|pyi|pyc|c|cc|cpp|cxx|cu|cuh|h|hpp|hip|rs|go|so|dll|dylib|ipynb)")
# Sentences of ours, in which a name such as "work" is a word.
_PROSE = frozenset(("definition", "enable", "note", "snippet", "text", "todo", "why"))
_WORD = re.compile(r"[a-z]+")
_USERS = re.compile(r"(?:/home/|/Users/|\\Users\\)([^/\\\n\"'<>|:]{1,64})(?=[/\\])")
_WORKER_OF_HOST = re.compile(r"(?P<host>.*[^\W\d_].*?)[_.-](?P<pid>\d{2,})(?:[_.-].*)?")
_PLAIN_WORKER = re.compile(r"(?i)\W*(?:worker|rank|node|gpu|npu|proc|process|trace|snapshot|local|global)?[\W_]*\d*\W*")
# Pieces of a text that may be paths or addresses. Each character is looked at once: a text may be hostile.
_PIECE = re.compile(r"[^\s\"'<>|,;(){}\[\]*?]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PUBLIC = (
    "https://pytorch.org/",
    "https://docs.pytorch.org/",
    "https://ui.perfetto.dev",
    "https://github.com/pytorch/",
)
_WINDOWS = re.compile(r"(?:[A-Za-z]:)?\\")
_POSIX = re.compile(r"(?P<before>[^\w~./]*|-{1,2}\w+=?|\w+=)(?P<path>~?/.*)")
_MAIL = re.compile(r"[\w.+-]+@[A-Za-z0-9][\w.-]*")
_IP = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_LOCAL = frozenset(("localhost", "root", "user", "unknown", "none", ""))


class Redactor:
    """Replaces directories of paths by …, and each host and user by one name with a number."""

    def __init__(self, hosts: Iterable[str], users: Iterable[str], runs: Iterable[str], workers: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        self._add(hosts, "host")
        self._add(users, "user")
        self._fields = {run: f"run{number}" for number, run in enumerate(dict.fromkeys(runs), 1)}
        own = [worker for worker in dict.fromkeys(workers) if not _PLAIN_WORKER.fullmatch(worker)]
        self._fields |= {worker: f"worker{number}" for number, worker in enumerate(own, 1)}
        # A run named "step" is also a word: it is only replaced where it is a whole value.
        marked = {name: new for name, new in self._fields.items() if re.search(r"[\d_/.-]", name)}
        self._replaced = marked | self._names
        self._in_names = _any_of(self._replaced)
        self._in_prose = _any_of(name for name in self._replaced if not _WORD.fullmatch(name))
        self._done: dict[tuple[str, bool], str] = {}

    def _add(self, names: Iterable[str], kind: str) -> None:
        found = dict.fromkeys(name for name in names if name.strip().lower() not in _LOCAL and len(name) > 1)
        for number, name in enumerate(found, 1):
            self._names.setdefault(name, f"{kind}{number}")
            short = name.partition(".")[0]
            if kind == "host" and len(short) > 1 and not short.isdigit():
                self._names.setdefault(short, f"{kind}{number}")

    def text(self, text: str, is_prose: bool = False) -> str:
        if (text, is_prose) not in self._done:
            self._done[text, is_prose] = self._redacted(text, is_prose)
        return self._done[text, is_prose]

    def _redacted(self, text: str, is_prose: bool) -> str:
        if text in self._fields:
            return self._fields[text]
        if "/" in text or "\\" in text or "@" in text:
            text = _PIECE.sub(lambda match: _without_path(match.group()), text)
        text = _IP.sub("address", text)
        names = self._in_prose if is_prose else self._in_names
        return names.sub(lambda match: self._replaced[match.group()], text)

    def data(self, value: Any, key: str = "", is_row: bool = False) -> Any:
        """Returns JSON data with all texts from the recording redacted. Keys of objects stay."""
        is_fixed = not is_row and (key in _FIXED or (key == "key" and str(value).isidentifier()))
        if is_fixed and not isinstance(value, Mapping):
            return value
        if isinstance(value, str):
            return self.text(value, key in _PROSE and not is_row)
        if isinstance(value, list):
            return [self.data(one, key, is_row) for one in value]
        if isinstance(value, Mapping):
            rows = is_row or key == "rows" or key == "totals" or key == "params"
            return {name: self.data(one, name, rows) for name, one in value.items()}
        return value


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    any_name = "|".join(map(re.escape, longest_first)) or "(?!)"
    return re.compile(rf"(?<![A-Za-z0-9])(?:{any_name})(?![A-Za-z0-9])")


def _without_path(piece: str) -> str:
    """Removes addresses, and the directories of paths. Only the names of code files stay."""
    if scheme := _SCHEME.search(piece):
        return piece if piece.startswith(_PUBLIC) else f"{piece[: scheme.start()]}…"
    if "@" in piece:
        piece = "".join("user@host" if _MAIL.fullmatch(part) else part for part in re.split("([:=])", piece))
    if _WINDOWS.match(piece):
        drive = 2 if piece[1:2] == ":" else 0
        path, colon, line = piece[drive:].partition(":")
        return _named(path.rsplit("\\", 1)[-1]) + colon + line
    return ":".join(map(_without_directories, piece.split(":"))) if "/" in piece else piece


def _without_directories(part: str) -> str:
    stem = part.rstrip(".")
    last = stem.rpartition("/")[2]
    absolute = _POSIX.fullmatch(stem)
    if absolute and absolute["path"].rstrip("/").count("/") > 1:
        return absolute["before"] + _named(last) + part[len(stem) :]
    return _named(last) + part[len(stem) :] if "/" in stem and _FILE.fullmatch(last) else part


def _named(file: str) -> str:
    return f"…/{file}" if _FILE.fullmatch(file) else "…"


def redactor_of(data: Any, runs: Iterable[str], workers: Iterable[str], paths: Iterable[str]) -> Redactor:
    """Finds the hosts and users in the data of a report, and those of this machine."""
    workers = list(workers)
    hosts, users = [], []
    for key, text in _texts(data):
        if key in _HOST_KEYS and " " not in text:
            hosts.append(text)
        users += _USERS.findall(text)
    for path in paths:
        users += _USERS.findall(path)
    for worker in workers:
        match = _WORKER_OF_HOST.fullmatch(worker)
        if match and not _PLAIN_WORKER.fullmatch(match["host"]):
            hosts.append(match["host"])
    return Redactor([*hosts, socket.gethostname()], [*users, *_own_user()], runs, workers)


def _own_user() -> list[str]:
    try:
        return [getpass.getuser()]
    except (KeyError, OSError, ImportError):
        return []


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yields each text with its key; the key of a figure's value is that of its metric."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, key)
    elif isinstance(value, Mapping):
        metric = value.get("metric")
        for name, one in value.items():
            is_figure = name == "value" and isinstance(metric, Mapping)
            yield from _texts(one, str(metric["key"]) if is_figure and metric else name)
