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
_CODE = r"py|pyx|pyi|pyc|c|cc|cpp|cxx|cu|cuh|h|hpp|hip|rs|go|so|dll|dylib|ipynb"
_SEGMENT = r"[^\s/\\:*?\"'<>|,;(){}\[\]]+"
_USERS = re.compile(r"(?:/home/|/Users/|[\\/]Users[\\/]|/mnt/home/|/export/home/)([^/\\\n\"'<>|:]{1,64})(?=[/\\])")
_WORKER_OF_HOST = re.compile(r"(?P<host>.*[^\W\d_].*?)[_.-](?P<pid>\d{2,})(?:[_.-].*)?")
_PLAIN_WORKER = re.compile(r"(?i)\W*(?:worker|rank|node|gpu|npu|proc|process|trace|snapshot|local|global)?[\W_]*\d*\W*")
_ADDRESSES = re.compile(
    r"\b(?!(?:https?://(?:docs\.)?pytorch\.org|https://ui\.perfetto\.dev)\b)[a-z][a-z0-9+.-]{1,15}://[^\s\"'<>|)]+"
)
_WINDOWS = re.compile(rf"(?:\b[A-Za-z]:|\\)\\(?:{_SEGMENT}\\)*(?P<last>{_SEGMENT})?")
_ABSOLUTE = re.compile(rf"(?<![\w.)\]}}/…~-])~?/(?:{_SEGMENT}/)+(?P<last>{_SEGMENT})?")
_RELATIVE = re.compile(rf"(?<![\w/…])(?:\.{{0,2}}/)?(?:{_SEGMENT}/)+(?P<last>{_SEGMENT}\.(?:{_CODE}))\b")
_FILE = re.compile(rf"{_SEGMENT}\.(?:{_CODE})")
_MAIL = re.compile(r"(?<![\w.])[\w.+-]+@[A-Za-z0-9][\w-]*(?:\.[\w-]+)*")
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
        every = sorted({**marked, **self._names}.items(), key=lambda item: -len(item[0]))
        self._replaced = dict(every)
        self._words = re.compile("|".join(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])" for name, _ in every))
        self._done: dict[str, str] = {}

    def _add(self, names: Iterable[str], kind: str) -> None:
        found = dict.fromkeys(name for name in names if name.strip().lower() not in _LOCAL and len(name) > 1)
        for number, name in enumerate(found, 1):
            self._names.setdefault(name, f"{kind}{number}")
            short = name.partition(".")[0]
            if kind == "host" and len(short) > 1 and not short.isdigit():
                self._names.setdefault(short, f"{kind}{number}")

    def text(self, text: str) -> str:
        if text not in self._done:
            self._done[text] = self._redacted(text)
        return self._done[text]

    def _redacted(self, text: str) -> str:
        if text in self._fields:
            return self._fields[text]
        if "/" in text or "\\" in text:
            text = _ADDRESSES.sub("…", text)
            text = _WINDOWS.sub(_shortened, text)
            text = _ABSOLUTE.sub(_shortened, text)
            text = _RELATIVE.sub(_shortened, text)
        if "@" in text:
            text = _MAIL.sub("user@host", text)
        text = _IP.sub("address", text)
        if self._replaced:
            text = self._words.sub(lambda match: self._replaced[match.group()], text)
        return text

    def data(self, value: Any, key: str = "", is_row: bool = False) -> Any:
        """Returns JSON data with all texts from the recording redacted. Keys of objects stay."""
        is_fixed = not is_row and (key in _FIXED or (key == "key" and str(value).isidentifier()))
        if is_fixed and not isinstance(value, Mapping):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.data(one, key, is_row) for one in value]
        if isinstance(value, Mapping):
            rows = is_row or key == "rows" or key == "totals" or key == "params"
            return {name: self.data(one, name, rows) for name, one in value.items()}
        return value


def _shortened(match: re.Match[str]) -> str:
    last = match["last"] or ""
    return f"…/{last}" if _FILE.fullmatch(last) else "…"


def redactor_of(data: Any, runs: Iterable[str], workers: Iterable[str], paths: Iterable[str]) -> Redactor:
    """Finds the hosts and users in the data of a report, and those of this machine."""
    workers = list(workers)
    hosts, users = [], []
    for key, text in _texts(data):
        if key in _HOST_KEYS:
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
