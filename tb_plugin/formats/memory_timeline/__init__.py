"""Files of ``torch.profiler.profile.export_memory_timeline``: JSON and raw JSON."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.formats.base import Candidate, ListedFile
from tb_plugin.formats.format_entry import FormatEntry
from tb_plugin.formats.memory_timeline.sniffing import READER_ID, candidate_of, form_of


def _find(listing: Sequence[ListedFile]) -> list[Candidate]:
    found = (candidate_of(file.path) for file in listing)
    return [candidate for candidate in found if candidate is not None]


def _sniff(head: bytes) -> bool:
    return form_of(head) is not None


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "PyTorch memory timeline",
        order=80,
        raw="tb_plugin.model.category_memory:RawCategoryMemory",
        endings=(".json.gz", ".json", ".raw.gz"),
        find=_find,
        sniff=_sniff,
    ),
)
