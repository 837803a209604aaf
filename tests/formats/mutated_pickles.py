"""``python -m tests.formats.mutated_pickles COUNT SEED FILE...`` reads mutants of pickles under a tripwire.

Whatever a mutant makes the interpreter do that reading plain data does not need ends the process: an import, a file that
is opened, a process, code that is compiled or run. Prints how many were opened and how many refused, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tb_plugin.errors import UnreadableTrace
from tb_plugin.model.snapshot.assemble import assemble
from tests.snapshots import read

FORBIDDEN = (
    *("import", "open", "exec", "compile", "pickle.find_class", "marshal.loads", "os.", "subprocess.", "socket."),
    *("ctypes.", "shutil.", "code.__new__", "function.__new__"),
)
SLOWEST_SECONDS = 20.0
_CODE = (
    *(b"cos\nsystem\n", b"\x8c\x02os\x8c\x06system\x93", b"R", b"b", b"\x81", b"i__builtin__\neval\n", b"o"),
    *(b"\x82\x01", b"P1\n", b"Q", b"\x92", b"\x97"),
)
_ODD = (
    *(b"(" * 50, b"e" * 5, b"0" * 9, b"h\x00" * 40, b"2" * 200, b"\x8b\xff\xff\xff\x7f", b"\x8a\xff"),
    *(b"j\xff\xff\xff\xff", b"r\xff\xff\xff\xff", b"X\xff\xff\xff\xff", b"\x8d" + b"\xff" * 8, b"\x95" + b"\xff" * 8),
    b"]q\x00h\x00a.",
)
_TRICKS = _CODE + _ODD
"""Opcodes that would name, call or build something, that refer to nothing, and that promise more than there is."""


def mutants(files: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Pickles with bytes changed, taken out, doubled or put in."""
    rng = random.Random(seed)
    for _ in range(count):
        data = bytearray(rng.choice(files))
        for _ in range(rng.choice((1, 1, 2, 5, 30))):
            at = rng.randrange(len(data))
            kind = rng.randrange(5)
            if kind == 0:
                data[at] = rng.randrange(256)
            elif kind == 1:
                data[at:at] = rng.choice(_TRICKS)
            elif kind == 2:
                del data[at : at + rng.choice((1, 3, 100, 5000))]
            elif kind == 3:
                data[at:at] = data[at : at + rng.choice((2, 50, 2000))]
            else:
                data[at : at + 1] = bytes((data[at] ^ (1 << rng.randrange(8)),))
            if not data:
                data = bytearray(b".")
        yield bytes(data)


def main(count: int, seed: int, files: list[str]) -> dict[str, int]:
    """Reads them all. Raises AssertionError where one takes too long."""
    contents = [Path(file).read_bytes() for file in files]
    for content in contents:  # whatever is imported late is imported now
        assemble(read(content))
    outcomes: Counter[str] = Counter()
    armed = True

    def trip(event: str, args: tuple[Any, ...]) -> None:
        if armed and event.startswith(FORBIDDEN):
            raise SystemExit(f"tripwire: {event} {args!r:.200}")

    sys.addaudithook(trip)
    for mutant in mutants(contents, count, seed):
        begin = time.perf_counter()
        try:
            snapshot = read(mutant)
            outcomes["whole" if snapshot.report.complete else "part"] += 1
            told = sum(issue.count for issue in snapshot.report.issues if issue.outcome == "dropped")
            assert snapshot.report.complete or told, "what is left out is counted"
            assemble(snapshot)
        except UnreadableTrace as error:
            assert error.what
            outcomes["refused: code" if "would run code" in error.what else "refused"] += 1
        took = time.perf_counter() - begin
        assert took < SLOWEST_SECONDS, took
    armed = False
    return dict(outcomes)


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])))
