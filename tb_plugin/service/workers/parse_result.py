"""Result of a parse, and limits for the parse.

The parent process answers ``GET profile`` from the summary and does not open the columns.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from tb_plugin.payloads import ClockInfo, Figure, ReadInfo, StepInfo, ViewInfo, WindowInfo
from tb_plugin.storage.checksum import Seal


class Limits(NamedTuple):
    """A requested window (see ``model/trace/window.py``) and the memory budget for it."""

    window: str
    peak_memory_bytes: int
    """Memory that the whole trace would need."""
    budget_bytes: int
    survey_target: str
    """File for the survey of the trace. Later windows use the same survey."""


class Summary(Struct, frozen=True):
    """Summary of a loaded profile. It is stored next to the column file, as a checksum followed by JSON."""

    steps: list[StepInfo]
    views: list[ViewInfo]
    read: ReadInfo
    data_notice_count: int
    columns: Seal
    """Checksum of the column file."""
    window: WindowInfo | None = None
    trace_steps: list[str] = []
    """Labels of all steps of the trace, if only a window is open."""
    clock: ClockInfo | None = None
    has_replays: bool = False
    """Whether the trace launches CUDA graphs."""
    key_figures: list[Figure] = []
    """Key numbers in the list of profiles."""
    has_captures: bool = False
    """Whether the trace contains the captures of its CUDA graphs."""
    absent: list[ViewInfo] = []
    """Views that the navigation does not show, with the reason for each."""
    ranks: list[str] = []
    """Ranks of a merged file. Each has a column file and a summary. Empty if the file contains one rank."""


def rank_ending(rank: str, ending: str) -> str:
    """Returns the file suffix for one rank of a merged file, or ``ending`` if ``rank`` is empty."""
    return f".{blake2b(rank.encode(), digest_size=6).hexdigest()}{ending}" if rank else ending
