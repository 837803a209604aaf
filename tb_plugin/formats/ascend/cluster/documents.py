"""JSON files of an analysis, with exact digits and truncation repair."""

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
    """Returns the object in a file, None if there is none. Numbers with a decimal point are texts of their digits."""
    for text in (content, None):
        try:
            found = _DECODER.decode(_repaired(content, log) if text is None else text)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
        return storable(found, content, log) if isinstance(found, dict) else None
    return None


def _repaired(content: bytes, log: IssueLog) -> bytes:
    """Returns the text without words that are not JSON, closed after the last complete part."""
    parts: list[bytes] = []
    open_: list[bytes] = []
    copied, whole, closers = 0, 0, b""
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
            parts.append(content[copied : match.end()])
            copied = match.end()
            whole, closers = len(parts), b"".join(reversed(open_))
        elif not token.startswith(b'"'):
            parts += [content[copied : match.start()], b"null"]
            copied = match.end()
            words += 1
    if words:
        log.add("bare_word", "repaired", count=words)
    if closers:
        log.note("truncated_tail", "the file is truncated; the part before that is shown")
    return b"".join(parts[:whole]) + closers
