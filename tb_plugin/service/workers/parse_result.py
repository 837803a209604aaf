"""What the parent process tells a parse, and keeps of it: enough to answer ``profile`` without opening its columns."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from tb_plugin.payloads import ClockInfo, Figure, ReadInfo, StepInfo, ViewInfo, WindowInfo
from tb_plugin.storage.checksum import Seal


class Limits(NamedTuple):
    """Asks a parse for a window: where it begins (``model/trace/window.py``), and what it has to fit into."""

    window: str
    need_bytes: int
    """What all of the trace needs."""
    budget_bytes: int
    survey_target: str
    """File that keeps the survey, so that the next window needs none."""


class Summary(Struct, frozen=True):
    """Written beside the column file as JSON, behind a checksum."""

    steps: list[StepInfo]
    views: list[ViewInfo]
    read: ReadInfo
    data_notice_count: int
    columns: Seal
    """Seal of the column file."""
    window: WindowInfo | None = None
    trace_steps: list[str] = []
    """Labels of all steps of the trace, where it is a window."""
    clock: ClockInfo | None = None
    has_replays: bool = False
    """Whether captured graphs are launched, of which another recording may tell more."""
    key_figures: list[Figure] = []
    """What a list of profiles tells of it."""
    has_captures: bool = False
    """Whether it holds captures of such graphs itself."""
    absent: list[ViewInfo] = []
    """Views that the navigation leaves out, and why: who asks for one is told."""
    ranks: list[str] = []
    """Ranks that the file was merged from, where all of it was asked for: each has a column file and summary of its own."""


def rank_ending(rank: str, ending: str) -> str:
    """Returns the ending of a file about one rank of a merged file, beside ``ending`` for all of it (an empty ``rank``)."""
    return f".{blake2b(rank.encode(), digest_size=6).hexdigest()}{ending}" if rank else ending
