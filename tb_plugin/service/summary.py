"""What the parent process keeps of a parsed profile: enough to answer ``profile`` without opening its columns."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads import ReadInfo, StepInfo, ViewInfo


class Summary(Struct, frozen=True):
    """Written beside the column file as JSON."""

    steps: list[StepInfo]
    views: list[ViewInfo]
    read: ReadInfo
    data_notices: int
