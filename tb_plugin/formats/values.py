"""JSON values that later stages can store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tb_plugin.formats.issues import IssueLog

_SUSPECT = re.compile(rb"\\u[dD][89a-fA-F]|[0-9]{19}")
_SURROGATES = re.compile("[\ud800-\udfff]")


_JSON = json.JSONDecoder()
_NEXT_OBJECT = re.compile(r"[\s,]{0,256}(?=\{)")


def read_damaged_list(text: str, opening: str, take: Callable[[Any, str], None]) -> tuple[int, int]:
    """Passes the objects before the damage, with their text, to ``take``. ``opening`` matches the start of the list.

    Returns the offsets of the opening (-1 = none) and after the last object.
    """
    begin = re.search(opening, text)
    at = begin.end() if begin else len(text)
    try:
        while (start := _NEXT_OBJECT.match(text, at)) is not None:
            item, at = _JSON.raw_decode(text, start.end())
            take(item, text[start.end() : at])
    except (ValueError, RecursionError):
        pass
    return begin.start() if begin else -1, at


def valid_unicode(text: str) -> str:
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def to_storable(value: Any, source: bytes, log: IssueLog | None = None, numbers: bool = True) -> Any:
    """Removes lone surrogates from decoded JSON, and, if ``numbers``, integers beyond 64 bits (None). Logs both."""
    return _storable(value, log or IssueLog(), numbers) if _SUSPECT.search(source) else value


def _storable(value: Any, log: IssueLog, numbers: bool) -> Any:
    if isinstance(value, str):
        clean = valid_unicode(value)
        if clean != value:
            log.add("lone_surrogate", "repaired")
        return clean
    if isinstance(value, dict):
        return {_storable(key, log, numbers): _storable(each, log, numbers) for key, each in value.items()}
    if isinstance(value, list):
        return [_storable(each, log, numbers) for each in value]
    if numbers and isinstance(value, int) and not -(2**63) <= value < 2**64:
        log.add("far_number", "note")
        return None
    return value
