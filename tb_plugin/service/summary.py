"""What the parent process keeps of a parsed profile: enough to answer ``profile`` without opening its columns."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads import ReadInfo, StepInfo, ViewInfo
from tb_plugin.storage.seal import Seal


class Summary(Struct, frozen=True):
    """Written beside the column file as JSON, behind a checksum."""

    steps: list[StepInfo]
    views: list[ViewInfo]
    read: ReadInfo
    data_notices: int
    columns: Seal
    """Of the column file."""
