"""JSON of an analysis: numbers by their digits, and of a file that was cut off what stands before the cut."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.values import storable

MOST_DEPTH = 64
_DECODER = msgspec.json.Decoder(float_hook=str)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|N/A|NaN|-?Infinity', re.DOTALL)
_CLOSER = {b"{": b"}", b"[": b"]"}


def document(content: bytes, log: IssueLog) -> dict[str, Any] | None:
    """Returns the object in a file; None where there is none. Numbers with a point are texts of their digits."""
    for text in (content, None):
        try:
            found = _DECODER.decode(_repaired(content, log) if text is None else text)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
        return storable(found, content, log) if isinstance(found, dict) else None
    return None


def _repaired(content: bytes, log: IssueLog) -> bytes:
    """The text without words that JSON does not know, closed after the last part that is whole."""
    parts: list[bytes] = []
    open_: list[bytes] = []
    last, whole, closers = 0, 0, b""
    words = 0
    for match in _TOKEN.finditer(content):
        token = match[0]
        if token in _CLOSER:
            open_.append(_CLOSER[token])
            if len(open_) > MOST_DEPTH:
                return b""
        elif token in (b"}", b"]"):
            if not open_ or open_.pop() != token:
                break
            parts.append(content[last : match.end()])
            last = match.end()
            whole, closers = len(parts), b"".join(reversed(open_))
        elif not token.startswith(b'"'):
            parts += [content[last : match.start()], b"null"]
            last = match.end()
            words += 1
    if words:
        log.add("bare_word", "repaired", count=words)
    if closers:
        log.note("truncated_tail", "the file ends in the middle; what stands before that is shown")
    return b"".join(parts[:whole]) + closers
