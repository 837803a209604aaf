"""Perfetto's protobuf traces (``.pftrace``) of PyTorch and other tools."""

from __future__ import annotations

from functools import partial

from tb_plugin.formats._chrome.filenames import packets_candidate
from tb_plugin.formats.base import each_file
from tb_plugin.formats.format_entry import TRACE, FormatEntry

READER_ID = "perfetto"


def _sniff(head: bytes) -> bool:
    from tb_plugin.formats.perfetto.packets import looks_like_packets

    return looks_like_packets(head)


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "Perfetto trace",
        order=60,
        raw=TRACE,
        endings=(".pftrace.gz", ".pftrace", ".perfetto-trace"),
        find=each_file(partial(packets_candidate, READER_ID)),
        sniff=_sniff,
        uses=("kineto", "chrome"),
    ),
)
