"""Traces made to hurt, written piece by piece so that only the reader's own memory counts.

``python -m tests.formats.hostile`` reads each that it is asked for in a process of its own and prints what it cost as JSON.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, BinaryIO, cast

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble

DEEP = 100_000
LONG = 100
"""Pieces of a megabyte."""
MOST_SECONDS = 300
MEGABYTE = b"x" * 1_000_000
GOOD = b'{"ph":"X","cat":"cpu_op","name":"good","pid":1,"tid":1,"ts":100,"dur":1}'
OPEN = b'{"traceEvents":['


class Pieces(io.RawIOBase):
    """A file that is made while it is read. A Source of one file, too."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self._pieces: Iterator[bytes] = iter(pieces)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def names(self) -> Sequence[str]:
        return ["hostile.pt.trace.json"]

    def open(self, name: str) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(self, 1024 * 1024))

    def size(self, name: str) -> int:
        return 1


def among_good(*pieces: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """A trace of two good events with something between them."""
    yield OPEN + GOOD + b",\n"
    yield from chain.from_iterable([piece] if isinstance(piece, bytes) else piece for piece in pieces)
    yield b",\n" + GOOD + b"]}"


def event(fields: str) -> bytes:
    return b'{"ph":"X","cat":"cpu_op","pid":1,"tid":1,"dur":1,' + fields.encode() + b"}"


def many(count: int, fields: str) -> Iterator[bytes]:
    """Events whose ``fields`` hold their number."""
    yield OPEN + GOOD
    for start in range(0, count, 1000):
        yield b"".join(b",\n" + event(fields.replace("@", str(i))) for i in range(start, min(count, start + 1000)))
    yield b"]}"


def with_args(opening: bytes, closing: bytes) -> Iterator[bytes]:
    return among_good(event('"name":"deep","ts":5,"args":')[:-1], opening * DEEP, b"1", closing * DEEP, b"}")


CASES = {
    "nested lists in arguments": lambda: with_args(b"[", b"]"),
    "nested objects in arguments": lambda: with_args(b'{"x":', b"}"),
    "nested lists as shapes": lambda: with_args(b'{"Input Dims":' + b"[" * 10, b"]" * 10 + b"}"),
    "nesting without an end": lambda: among_good(b'{"ph":', b"[" * DEEP),
    "nested metadata": lambda: [b'{"x":', b"[" * DEEP, b"]" * DEEP, b',"traceEvents":[', GOOD, b"]}"],
    "nested metadata at the end": lambda: [OPEN, GOOD, b'],"x":', b'{"a":' * DEEP, b"1", b"}" * DEEP, b"}"],
    "a name of 100 MB": lambda: among_good(b'{"name":"', repeat(MEGABYTE, LONG), event('","x":1,"ts":5')[1:]),
    "an argument of 100 MB": lambda: among_good(
        event('"name":"b","ts":5,"args":{"x":"')[:-1], repeat(MEGABYTE, LONG), b'"}}'
    ),
    "a string of 100 MB without an end": lambda: among_good(b'{"name":"', repeat(MEGABYTE, LONG)),
    "100 MB that look like ends of events": lambda: among_good(
        b'{"name":"', repeat(b"},{" * 333_333, LONG), event('","x":1,"ts":5')[1:]
    ),
    "metadata of 100 MB": lambda: [b'{"x":"', *repeat(MEGABYTE, LONG), b'","traceEvents":[', GOOD, b"]}"],
    "a number of 3 million digits": lambda: among_good(event('"name":"d","ts":' + "9" * 3_000_000)),
    "a key half a million times": lambda: among_good(event('"name":"n",' * 500_000 + '"ts":5')),
    "a million quotes": lambda: among_good(b'"' * 1_000_000),
    "a million braces": lambda: among_good(b"{" * 1_000_000),
    "100,000 names": lambda: many(100_000, '"name":"name number @","ts":@'),
    "300,000 names": lambda: many(300_000, '"name":"name number @","ts":@'),
    "300,000 argument values": lambda: many(300_000, '"name":"n","ts":@,"args":{"Input Dims":[[@,@]],"odd @":"@"}'),
    "100,000 categories": lambda: many(100_000, '"cat":"c@","name":"n","ts":@'),
    "30,000 bad escapes": lambda: many(30_000, r'"name":"C:\Users\@","ts":@'),
    "nothing but lists": lambda: [b"[" * DEEP, b"]" * DEEP],
}


def cost(case: str) -> dict[str, Any]:
    """What reading one case tells and takes, above what this process had before."""
    source = Pieces(CASES[case]())
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.process_time()
    try:
        table = assemble(KinetoReader().read(source, ReadOptions(), no_progress))
        names = [table.strings[i] for i in set(table.name.tolist())]
        told: dict[str, Any] = {"good": names.count("good"), "events": len(table), "names": len(names)}
        told["issues"] = {issue.code: issue.count for issue in table.report.issues}
    except UnreadableTrace as error:
        told = {"refused": str(error)}
    told["seconds"] = time.process_time() - start
    told["peak_bytes"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before.ru_maxrss) * 1024
    return told


def main() -> None:
    """Answers each line of the input by a line: a case, and its cost in a copy of this process, which has read nothing."""
    for line in sys.stdin:
        if (copy := os.fork()) == 0:
            signal.alarm(MOST_SECONDS)
            print(json.dumps(cost(line.strip())), flush=True)
            os._exit(0)
        if status := os.waitpid(copy, 0)[1]:
            print(json.dumps({"died": status}), flush=True)


if __name__ == "__main__":
    main()
