"""JSON files about communication, with exact numbers and repaired ends."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

import msgspec

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.values import to_storable

MOST_VALUES = 4_000_000  # limit on values per file of limited size; real files have one per 20 bytes
_MOST_DEPTH = 64
_DECODER = msgspec.json.Decoder(float_hook=str)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|N/A|NaN|-?Infinity', re.DOTALL)
_CLOSER = {b"{": b"}", b"[": b"]"}


def document_in(content: bytes, log: IssueLog, max_bytes: int = 0) -> dict[str, Any] | None:
    """Returns the JSON object in a file, or None. A file that is not shown is logged.

    Numbers with a decimal point become texts, because a float would lose the nanoseconds of a time since 1970. Of a
    truncated file, the complete entries are returned. ``max_bytes`` is a limit; 0 = no limit.
    """
    if max_bytes:
        values = content.count(b",") + content.count(b"[") + content.count(b"{")
        if len(content) > max_bytes or values > MOST_VALUES:
            text = f"the file has more than {max_bytes >> 20} MiB or {MOST_VALUES:,} values and is not shown"
            log.add("too_large", "note", text=text)
            return None
    content = content.removeprefix(codecs.BOM_UTF8)
    repairs = IssueLog()
    try:
        found = _DECODER.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = _from_repaired(_repaired(content.decode("utf-8", "replace").encode(), repairs))
    if not isinstance(found, dict):
        text = (
            "the file contains no JSON object, or is damaged or nested too deeply, and is not shown. Export it again."
        )
        log.add("file_lost", "note", text=text)
        return None
    log.entries.update(repairs.entries)
    storable: dict[str, Any] = to_storable(found, content, log)
    return storable


def _from_repaired(content: bytes) -> Any:
    try:
        return json.loads(content, parse_float=str)  # unlike msgspec, it reads lone surrogates
    except (ValueError, RecursionError):
        return None


def _repaired(content: bytes, log: IssueLog) -> bytes:
    """Replaces words that are not valid JSON by null, and closes the text after the last complete member."""
    parts: list[bytes] = []
    open_: list[bytes] = []
    copied, whole, closers = 0, 0, b""
    words = 0
    for match in _TOKEN.finditer(content):
        token = match[0]
        if token in _CLOSER:
            open_.append(_CLOSER[token])
            if len(open_) > _MOST_DEPTH:
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
        log.note("truncated_tail", "the file is truncated; only its complete entries are shown")
    return b"".join(parts[:whole]) + closers
