"""Kineto's Chrome JSON: ``<worker>.<time>.pt.trace.json[.gz]``, written by torch.profiler."""

from __future__ import annotations

from tb_plugin.formats.format_entry import TRACE, FormatEntry
from tb_plugin.formats.kineto.filenames import READER_ID, find_candidates
from tb_plugin.formats.kineto.sniffing import looks_like_trace

FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "PyTorch trace",
        order=30,
        raw=TRACE,
        endings=(".json.gz", ".json"),
        find=find_candidates,
        sniff=looks_like_trace,
    ),
)
