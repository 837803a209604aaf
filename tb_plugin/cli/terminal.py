"""Terminal output that escapes untrusted text.

Control characters in a text could rewrite the screen. Bidirectional marks could reverse the text.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tb_plugin.format import json_bytes, printable

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# Width of a table in cells if stdout is no terminal and COLUMNS is not set.
PIPED_WIDTH = 120
# Rows of a table in text and Markdown without --top.
ROWS_IN_TEXT = 10


def print_line(text: str, bold: bool = False) -> None:
    shown = printable(text)
    print(f"\x1b[1m{shown}\x1b[0m" if bold and shown and _styled() else shown)


def print_text(text: str) -> None:
    """Prints a text of several lines, without a line end of its own."""
    print("\n".join(printable(line) for line in text.split("\n")), end="")


def print_error(text: str) -> None:
    print(printable(text), file=sys.stderr)


def complain_of_bug(error: BaseException) -> None:
    for line in "".join(traceback.format_exception(error)).rstrip("\n").split("\n"):
        print_error(line)


def write_json(document: object) -> None:
    r"""Writes a document as one line of JSON to stdout. Unsafe characters become ``\uXXXX``."""
    _write(json_bytes(document) + b"\n")


def write_json_lists(first: Mapping[str, object], lists: Mapping[str, Iterable[object]]) -> None:
    """Does ``write_json`` for an object of ``first`` and ``lists``. Each item of a list is written when it comes."""
    _write(json_bytes(first)[:-1])
    for key, items in lists.items():
        _write(f',"{key}":['.encode())
        for number, item in enumerate(items):
            _write((b"," if number else b"") + json_bytes(item))
        _write(b"]")
    _write(b"}\n")


def _write(data: bytes) -> None:
    sys.stdout.flush()
    left = memoryview(data)
    while left:
        # With PYTHONUNBUFFERED, a single write is limited to 2 GiB.
        left = left[sys.stdout.buffer.write(left) or 0 :]
    sys.stdout.buffer.flush()


def width() -> int:
    """Returns the table width in characters: COLUMNS, the terminal width, or PIPED_WIDTH."""
    wished = os.environ.get("COLUMNS", "")
    if wished.isdecimal() and wished.isascii() and 0 < len(wished) < 6 and int(wished) > 0:
        return int(wished)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or PIPED_WIDTH
    except (OSError, ValueError):  # not a terminal, or no file descriptor
        return PIPED_WIDTH


def _styled() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Parser(argparse.ArgumentParser):
    """An argument parser that escapes control characters in its messages."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message("\n".join(map(printable, message.split("\n"))), file)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).split("\n")))


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Shows warnings of this package on stderr during the ``with`` block."""
    log, handler = logging.getLogger("torch_trace"), logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_Lines())
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
