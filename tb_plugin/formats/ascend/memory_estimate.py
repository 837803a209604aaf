"""Memory estimate for reading a profile, by kind of file."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.formats._chrome.memory_estimate import PACKED, peak_memory_bytes
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.filenames import kind_of
from tb_plugin.formats.base import FileSize

DATABASES = frozenset({"db", files.ANALYSED})
DOCUMENTS = (files.COMMUNICATION, files.MATRIX)
MOST_DOCUMENT_BYTES = 64 * 1024 * 1024  # limit on the text of a document, about 55,000 calls
PER_DOCUMENT_BYTE = 7.0
# peak memory per byte of a database (4.7 to 6.0 were measured: 2,000,000 and 500,000 rows, no stacks)
PER_DATABASE_BYTE = 6.0
PER_TABLE_BYTE = 4.0  # peak memory per byte of a table (3.7 were measured: kernels and blocks of 200 MB each)


def estimated_peak_bytes(sizes: Mapping[str, FileSize]) -> int:
    """Returns the estimated peak memory of a read, in bytes."""
    kinds = {name: kind_of(name) for name in sizes}
    is_drawn = files.TRACE in kinds.values()
    read = {name: size for name, size in sizes.items() if not (is_drawn and kinds[name] == files.OPERATORS)}
    stored = sum(size.stored_bytes for name, size in read.items() if kinds[name] in DATABASES)
    tables = sum(size.text_bytes(PACKED) for name, size in read.items() if kinds[name] in files.TABLES)
    documents = sum(
        min(size.text_bytes(PACKED), MOST_DOCUMENT_BYTES) for name, size in read.items() if kinds[name] in DOCUMENTS
    )
    others = {name: size for name, size in read.items() if kinds[name] not in DATABASES | files.TABLES}
    more = PER_TABLE_BYTE * tables + PER_DATABASE_BYTE * stored + PER_DOCUMENT_BYTE * documents
    return peak_memory_bytes(others) + int(more)
