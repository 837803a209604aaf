"""Pages of PyTorch's memory viewer, which contain a snapshot as base64.

Scripts are never executed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

_START = re.compile(rb'"base64"\s*:\s*"')
_VIEWER = re.compile(rb"MemoryViz|local_files")
_HTML = re.compile(rb"(?i)\A\s*<(?:!doctype\s+html|html)\b")
_BLOCK_BYTES = 1024 * 1024


def is_page(head: bytes) -> bool:
    return _HTML.match(head) is not None and _VIEWER.search(head) is not None and _START.search(head) is not None


class Embedded:
    """File-like access to the first snapshot in a page."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._pending = b""
        self._is_open = self._find()

    def _find(self) -> bool:
        text = b""
        while block := self._read(_BLOCK_BYTES):
            text = text[-4096:] + block
            if match := _START.search(text):
                self._pending = text[match.end() :]
                return True
        return False

    def read(self, size: int) -> bytes:
        """Returns about ``size`` more bytes, or b"" at the end. Raises ValueError for invalid base64."""
        while self._is_open:
            block = self._pending or self._read(size)
            self._pending = b""
            end = block.find(b'"')
            if end >= 0 or not block:
                self._is_open = False
                block = block[: max(end, 0)]
            elif (over := len(block) % 4) != 0:
                block, self._pending = block[:-over], block[-over:]
                if not block:
                    more = self._read(size)
                    self._pending += more
                    if not more:
                        self._is_open = False
                    continue
            try:
                found = base64.b64decode(block, validate=True)
            except binascii.Error as error:
                raise ValueError(f"the base64 of the page is damaged: {error}") from error
            if found:
                return found
        return b""
