"""MegEngine's chrome_timeline.json: threads, devices and CUPTI streams."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.formats.base import Candidate, ListedFile
from tb_plugin.formats.format_entry import TRACE, FormatEntry
from torch_trace_megengine.timeline.filenames import READER_ID, candidate_of
from torch_trace_megengine.timeline.sniffing import looks_like_timeline


def _find(listing: Sequence[ListedFile]) -> list[Candidate]:
    found = (candidate_of(file.path) for file in listing)
    return [candidate for candidate in found if candidate is not None]


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "MegEngine trace",
        order=40,
        raw=TRACE,
        endings=(".chrome_timeline.json.gz", ".chrome_timeline.json"),
        find=_find,
        sniff=looks_like_timeline,
    ),
)
