"""Snapshots of an allocator as PyTorch pickles them (``torch.cuda.memory._dump_snapshot``). Nothing of a file is executed."""

from __future__ import annotations

import re

from tb_plugin.formats.format_entry import FormatEntry
from tb_plugin.formats.memory_snapshot.filenames import ENDINGS, READER_ID, find_candidates
from tb_plugin.formats.memory_snapshot.html_page import is_page

_WORDS = re.compile(
    rb"device_traces|allocator_settings|external_annotations|host_segments|segment_type|active_allocated|total_size"
)
_PICKLE = re.compile(rb"\A(?:\x80[\x02-\x05]|\(d|\(l|\}q|\]q)")


def _sniff(head: bytes) -> bool:
    """True for a pickle that names parts of a snapshot, and for a page of the memory viewer."""
    return (_PICKLE.match(head) is not None and _WORDS.search(head) is not None) or is_page(head)


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
