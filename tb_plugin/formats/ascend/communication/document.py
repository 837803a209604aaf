"""``communication.json`` and its matrix, with repaired JSON and a size limit."""

from __future__ import annotations

import json
import re
from typing import Any

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.values import to_storable

MOST_BYTES = 64 * 1024 * 1024  # limit on the text, about 55,000 calls; each byte takes up to seven bytes of memory
MOST_VALUES = 4_000_000  # limit on values per document; real documents have one per 20 bytes
PER_BYTE = 7.0
_STRING_OR_WORD = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|N/A', re.DOTALL)
_AGAIN = "Parse the profile again: torch_npu.profiler.profiler.analyse()."


def document_in(content: bytes, log: IssueLog) -> dict[str, Any] | None:
    """Returns the JSON object in a file. Returns None for an unreadable file, and logs it.

    Numbers become texts, because a float would lose the nanoseconds of a time since 1970.
    """
    if len(content) > MOST_BYTES:
        text = f"the file has more than {MOST_BYTES >> 20} MiB of text and is not shown"
        log.add("too_large", "note", text=text)
        return None
    if content.count(b",") + content.count(b"[") + content.count(b"{") > MOST_VALUES:
        text = f"the file has more than {MOST_VALUES:,} values and is not shown"
        log.add("too_large", "note", text=text)
        return None
    try:
        found = to_storable(_parsed(content, log), content, log)
    except RecursionError:
        log.add("too_deep", "note", text="the file is nested too deeply and is not shown")
        return None
    except ValueError as error:
        text = f"the file is damaged or truncated and is not shown: {error}. {_AGAIN}"
        log.add("damaged", "note", text=text)
        return None
    if not isinstance(found, dict):
        log.add("odd_type", "note", text="the file contains no JSON object and is not shown")
        return None
    return found


def _parsed(content: bytes, log: IssueLog) -> Any:
    text = content.decode("utf-8-sig", "replace")
    try:
        return _loaded(text)
    except ValueError:
        if b"N/A" not in content:
            raise
    words = 0

    def without(match: re.Match[bytes]) -> bytes:
        nonlocal words
        words += match[0] == b"N/A"
        return b"null" if match[0] == b"N/A" else match[0]

    found = _loaded(_STRING_OR_WORD.sub(without, content).decode("utf-8-sig", "replace"))
    log.add("bare_word", "repaired", count=words)
    return found


def _loaded(text: str) -> Any:
    return json.loads(text, parse_float=str, parse_int=str, parse_constant=lambda word: None)
