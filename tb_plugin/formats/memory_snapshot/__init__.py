"""Allocator snapshots (``torch.cuda.memory._dump_snapshot``), read without executing code."""

from __future__ import annotations

import re

from tb_plugin.formats.format_entry import FormatEntry
from tb_plugin.formats.memory_snapshot.filenames import ENDINGS, READER_ID, find_candidates

_SNAPSHOT_KEYS = re.compile(
    rb"device_traces|allocator_settings|external_annotations|host_segments|segment_type|active_allocated|total_size"
)
_PICKLE = re.compile(rb"\A(?:\x80[\x02-\x05]|\(d|\(l|\}q|\]q)")


def _sniff(head: bytes) -> bool:
    from tb_plugin.formats.memory_snapshot.html_page import is_page

    return (_PICKLE.match(head) is not None and _SNAPSHOT_KEYS.search(head) is not None) or is_page(head)


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "PyTorch memory snapshot",
        order=70,
        raw="tb_plugin.model.snapshot.table:RawSnapshot",
        endings=ENDINGS,
        find=find_candidates,
        sniff=_sniff,
    ),
)
