"""Formats. One file (or package) a format; READERS is the literal list of them."""

from __future__ import annotations

from tb_plugin.readers.base import Reader
from tb_plugin.readers.kineto import KinetoReader

READERS: tuple[Reader, ...] = (KinetoReader(),)
