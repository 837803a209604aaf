"""Result of a parse, and its limits.

The parent process answers ``GET profile`` from the summary, without opening the columns.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from tb_plugin.payloads import ClockInfo, Figure, ReadInfo, StepInfo, ViewInfo, WindowInfo
from tb_plugin.storage.checksum import Seal


class Limits(NamedTuple):
    """A requested window (``model/trace/window.py``) and the memory that it must fit into."""

    window: str
    peak_memory_bytes: int
    """Memory for the whole trace."""
    budget_bytes: int
    survey_target: str
    """File for the survey of the trace, which later windows reuse."""


class Summary(Struct, frozen=True):
    """Summary of a loaded profile, stored next to the column file as JSON after a checksum."""

    steps: list[StepInfo]
    views: list[ViewInfo]
    read: ReadInfo
    data_notice_count: int
    columns: Seal
    """Checksum of the column file."""
    window: WindowInfo | None = None
    trace_steps: list[str] = []
    """Labels of all steps of the trace, if only a window was opened."""
    clock: ClockInfo | None = None
    has_replays: bool = False
    """Whether the trace launches captured graphs."""
    key_figures: list[Figure] = []
    """Figures shown in the list of profiles."""
    has_captures: bool = False
    """Whether the trace contains the captures of its graphs."""
    absent: list[ViewInfo] = []
    """Views hidden from the navigation, with reasons."""
    ranks: list[str] = []
    """Ranks of a merged file, each with its own column file and summary. Empty for one rank."""


def rank_ending(rank: str, ending: str) -> str:
    """Returns the file suffix for one rank of a merged file; ``ending`` itself if ``rank`` is empty."""
    return f".{blake2b(rank.encode(), digest_size=6).hexdigest()}{ending}" if rank else ending
