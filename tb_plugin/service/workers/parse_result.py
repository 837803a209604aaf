"""Limits of a parse and its summary.

The parent process keeps enough to answer ``profile`` without opening the columns.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from tb_plugin.payloads import ClockInfo, Figure, ReadInfo, StepInfo, ViewInfo, WindowInfo
from tb_plugin.storage.checksum import Seal


class Limits(NamedTuple):
    """A window (``model/trace/window.py``) and the memory it must fit into."""

    window: str
    peak_memory_bytes: int
    """Memory for the whole trace."""
    budget_bytes: int
    survey_target: str
    """File for the survey, so that the next window needs none."""


class Summary(Struct, frozen=True):
    """Written next to the column file as JSON with a leading checksum."""

    steps: list[StepInfo]
    views: list[ViewInfo]
    read: ReadInfo
    data_notice_count: int
    columns: Seal
    """Seal of the column file."""
    window: WindowInfo | None = None
    trace_steps: list[str] = []
    """Labels of all steps of the trace, if it is a window."""
    clock: ClockInfo | None = None
    has_replays: bool = False
    """Whether captured graphs are launched, which another recording may describe."""
    key_figures: list[Figure] = []
    """Figures for a list of profiles."""
    has_captures: bool = False
    """Whether it contains captures of such graphs itself."""
    absent: list[ViewInfo] = []
    """Views that the navigation hides, with reasons."""
    ranks: list[str] = []
    """Ranks of a merged file, if the whole file was requested: each has its own column file and summary."""


def rank_ending(rank: str, ending: str) -> str:
    """Returns the ending of a file about one rank of a merged file; ``ending`` for the whole file (empty ``rank``)."""
    return f".{blake2b(rank.encode(), digest_size=6).hexdigest()}{ending}" if rank else ending
