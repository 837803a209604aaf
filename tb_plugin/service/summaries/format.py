"""File format of rank summaries, which are untrusted input.

::

    torch-trace rank summary 1    # FORMAT
    1a2b3c4d                      # checksum of everything below
    {"stamp": ..., ...}           # SummaryHeader, as JSON
    ...                           # result (part_codec.dump), compressed with Zstandard

Equal traces have equal summaries: the file contains no creation time, host, path or library version.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta, Struct

from tb_plugin.analysis.base import Number, Part
from tb_plugin.formats.base import JobInfo
from tb_plugin.payloads import Column, CoverageInfo, Payload, ReadInfo, StepInfo
from tb_plugin.service import part_codec
from tb_plugin.service.discovery.summary_files import SUFFIX
from tb_plugin.service.workers.memory_budget import MEMORY_VARIABLE
from tb_plugin.storage.checksum import with_checksum, without_checksum
from tb_plugin.storage.listing import StoredFile

# Version of the file format.
FORMAT = 1
_NO_ROOM = f"does not fit in memory together with the summaries of the other ranks ({MEMORY_VARIABLE})"
_TOO_MANY = "reports too many steps"
_MAGIC = b"torch-trace rank summary "
# Maximum size of a summary.
MOST_BYTES = 256 * 1024**2
# Maximum size of the header: some 30,000 steps, which take up to ten times as much memory.
MOST_HEAD_BYTES = 4 * 1024**2
# Maximum size of the unpacked result. 100,000 calls per rank take some 20 MB.
MOST_UNPACKED_BYTES = 1024**3
# Maximum compression ratio of the result.
MOST_RATIO = 2000
MOST_ROWS = 50_000_000
_MOST_NS = 2**62
_LEVEL = 3


_Few = Meta(max_length=1000)
_MOST_STEPS = 100_000
# Estimated memory of a step label in a list.
_STEP_BYTES = 64
_Steps = Annotated[list[str], Meta(max_length=_MOST_STEPS)]


class _Coverage(CoverageInfo, frozen=True):
    steps: _Steps | None = None


class _Frame(part_codec.StoredFrame, frozen=True):
    columns: Annotated[list[Column], _Few]
    row_key: Annotated[list[str], _Few]


class _Stored(part_codec.StoredPart, frozen=True):
    """A view result with size limits. They are checked before decoding, because lists expand in memory."""

    coverage: _Coverage
    facts: Annotated[dict[str, Number], _Few]
    frames: Annotated[Mapping[str, _Frame], _Few]
    payloads: Annotated[dict[str, Payload], Meta(max_length=0)]
    layout: Annotated[list[str], Meta(max_length=0)]
    steps: _Steps


class SummaryRefused(ValueError):
    """Raised if a rank summary cannot be used. The text completes the sentence "its summary ..."."""


class Settings(Struct, frozen=True):
    """User settings that affect the summary: ``steps`` as a pattern, ``classes`` as a hash of the rules."""

    steps: str = ""
    classes: str = ""


class SummaryHeader(Struct, frozen=True):
    """Header of a rank summary. It contains what is needed without opening the trace."""

    stamp: str
    files: list[tuple[str, int]]
    """(name, size in bytes) of each file of the trace."""
    settings: Settings
    part_bytes: int
    steps: list[StepInfo]
    read: ReadInfo
    job: JobInfo | None = None


class Wanted(msgspec.Struct, frozen=True):
    """Files and settings that a summary must match; ``files`` None = any."""

    files: tuple[tuple[str, int], ...] | None
    settings: Settings

    @classmethod
    def of(cls, files: Sequence[StoredFile] | None, settings: Settings) -> Wanted:
        """Returns the requirements for a profile that has these files; None = any files."""
        return cls(None if files is None else tuple(map(portable_name, files)), settings)


def portable_name(file: StoredFile) -> tuple[str, int]:
    """Returns (file name, size in bytes). Directories are omitted, because users may move files."""
    return PurePosixPath(file.path).name, file.size


def place_of(main: str) -> str:
    """Returns the path of the summary of a trace. ``main`` is the main file of the trace."""
    return main + SUFFIX


def dump(part: Part, about: SummaryHeader) -> bytes:
    """Serialises a summary. Raises SummaryRefused if readers would refuse the result."""
    body = part_codec.dump(part)
    head = msgspec.json.encode(msgspec.structs.replace(about, part_bytes=len(body)), order="deterministic")
    if len(head) > MOST_HEAD_BYTES:
        raise SummaryRefused(_TOO_MANY)
    packed = pa.Codec("zstd", compression_level=_LEVEL).compress(body, asbytes=True)
    return b"%s%d\n" % (_MAGIC, FORMAT) + with_checksum(head + b"\n" + packed)


def content_of(stream: BinaryIO, room_bytes: int = MOST_BYTES) -> bytes:
    """Returns the bytes of a summary. Raises SummaryRefused, also if there are more than ``room_bytes``."""
    size = stream.seek(0, os.SEEK_END)
    if size > MOST_BYTES:
        raise SummaryRefused("is too large")
    if size > room_bytes:
        raise SummaryRefused(_NO_ROOM)
    stream.seek(0)
    return stream.read(size + 1)


def read_header(content: bytes) -> SummaryHeader:
    """Returns the header of a summary. Raises SummaryRefused."""
    return _opened(content)[0]


def decode_unchecked(content: bytes, wanted: Wanted, room_bytes: int = MOST_UNPACKED_BYTES) -> tuple[Part, int]:
    """Returns a result, whose values are not checked, and its bytes. Raises SummaryRefused, also if too large."""
    about, packed = _opened(content)
    check_header(about, wanted)
    size = about.part_bytes
    if not 0 < size <= min(MOST_UNPACKED_BYTES, MOST_RATIO * (len(packed) + 1000)):
        raise SummaryRefused("reports an impossible size")
    if size + len(content) > room_bytes:
        raise SummaryRefused(_NO_ROOM)
    try:
        body = pa.decompress(packed, decompressed_size=size, codec="zstd", asbytes=True)
        part = part_codec.load(body, _table, _Stored)
    except SummaryRefused:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError) as error:
        raise SummaryRefused("is damaged") from error
    _check(part)
    # Table columns refer to the unpacked bytes; only steps take additional memory.
    taken = size + _STEP_BYTES * (len(part.steps) + len(part.coverage.steps or ()))
    if taken > room_bytes:
        raise SummaryRefused(_NO_ROOM)
    return part, taken


def check_values(unseen: Sequence[Part]) -> None:
    """Checks all values of several results together. Raises SummaryRefused for an impossible value."""
    for name in dict.fromkeys(name for part in unseen for name in part.frames):
        # Validated before any text or list is accessed, and without copying.
        table = pa.concat_tables([part.frames[name].data for part in unseen if name in part.frames])
        try:
            table.validate(full=True)
        except pa.ArrowException as error:
            raise SummaryRefused("is damaged") from error
        _check_values(name, table)


def check_header(about: SummaryHeader, wanted: Wanted) -> None:
    """Raises SummaryRefused if a summary does not match ``wanted``."""
    check_stamp(about)
    if about.settings != wanted.settings:
        raise SummaryRefused("was computed with other settings (TORCH_TRACE_STEPS, TORCH_TRACE_CLASSES)")
    if wanted.files is not None and tuple(about.files) != wanted.files:
        raise SummaryRefused("belongs to another trace file")


def check_stamp(about: SummaryHeader) -> None:
    """Raises SummaryRefused if a summary was written by an incompatible version."""
    from tb_plugin.views.distributed.rank.profile import schema_hash

    if about.stamp != schema_hash():
        raise SummaryRefused("was written by another version")


def _opened(content: bytes) -> tuple[SummaryHeader, memoryview]:
    if len(content) > MOST_BYTES:
        raise SummaryRefused("is too large")
    if not content.startswith(_MAGIC):
        raise SummaryRefused("is damaged")
    line = b"%s%d\n" % (_MAGIC, FORMAT)
    if not content.startswith(line):
        raise SummaryRefused("was written by another version")
    try:
        body = without_checksum(memoryview(content)[len(line) :])
    except ValueError as error:
        raise SummaryRefused("is damaged") from error
    # The size of the header is limited before decoding, because decoded text takes much more memory.
    head, end, _ = bytes(body[: MOST_HEAD_BYTES + 1]).partition(b"\n")
    if not end:
        raise SummaryRefused(_TOO_MANY)
    try:
        return msgspec.json.decode(head, type=SummaryHeader), body[len(head) + 1 :]
    except msgspec.ValidationError as error:
        raise SummaryRefused("was written by another version") from error
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise SummaryRefused("is damaged") from error


def _table(name: str, data: bytes) -> pa.Table:
    from tb_plugin.views.distributed.rank.profile import part_shapes

    shape = part_shapes().get(name)
    if shape is None:
        raise SummaryRefused("contains an unknown table")
    if not is_plain(data):
        raise SummaryRefused("uses an unknown compression")
    stream = pa.ipc.open_stream(data)
    if not stream.schema.equals(shape):
        raise SummaryRefused("has unexpected columns")
    table = stream.read_all()
    if table.num_rows > MOST_ROWS:
        raise SummaryRefused("has too many rows")
    return table


def _check_values(name: str, table: pa.Table) -> None:
    from tb_plugin.views.distributed.rank.profile import NEVER_NULL

    for each in table.columns:
        column = pc.list_flatten(each) if pa.types.is_list(each.type) else each
        if column is not each and column.null_count:
            raise SummaryRefused("lacks values")
        if pa.types.is_int64(column.type) and len(column):
            ends = pc.min_max(column)
            high, low = ends["max"].as_py(), ends["min"].as_py()
            if high is not None and (high > _MOST_NS or low < -_MOST_NS):
                raise SummaryRefused("contains impossible numbers")
    if any(table[key].null_count for key in NEVER_NULL.get(name, ())):
        raise SummaryRefused("lacks values")


def _check(part: Part) -> None:
    """Raises SummaryRefused if a result lacks tables, has unknown tables, or contains impossible facts."""
    from tb_plugin.views.distributed.rank.profile import ALWAYS, FACTS
    from tb_plugin.views.distributed.rank.reported import REPORTED

    if any(name not in part.frames for name in ALWAYS) or any(
        name != frame.name for name, frame in part.frames.items()
    ):
        raise SummaryRefused("lacks tables")
    if any(name in part.frames for name in REPORTED) and any(name not in part.frames for name in REPORTED):
        raise SummaryRefused("lacks tables")
    if part.worker or not part.facts.keys() <= FACTS.keys():
        raise SummaryRefused("contains unknown data")
    for name, value in part.facts.items():
        low, high = FACTS[name]
        # Facts are integers. Decoding has already rejected lists and texts.
        if value is not None and (type(value) is not int or not low <= value <= high):
            raise SummaryRefused(f"has an impossible value for {name}")
    if part.facts.get("distributed.calls") != part.frames["collectives"].data.num_rows:
        raise SummaryRefused("has an impossible value for distributed.calls")


# Maximum number of messages per stream: each becomes one array per column, even without rows. We write a few.
MOST_MESSAGES = 1000
_RECORD_BATCH, _DICTIONARY_BATCH = "record batch", "dictionary"
# Fields of Message in Arrow's Message.fbs; older writers report compression in the second one.
_HEADER, _CUSTOM_METADATA = 2, 4
# Fields of RecordBatch, which is a field of DictionaryBatch; others report compression here.
_COMPRESSION, _DATA = 3, 1


def is_plain(data: bytes) -> bool:
    """Returns whether a stream contains only uncompressed buffers and few messages.

    Reading such a stream needs no more memory than its size. A compressed buffer may expand a thousandfold. Raises
    ValueError, pyarrow.ArrowException for invalid streams.
    """
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    for _ in range(MOST_MESSAGES):
        try:
            message = reader.read_next_message()
        except StopIteration:
            return True
        if message.type in (_RECORD_BATCH, _DICTIONARY_BATCH) and _is_packed(
            bytes(message.metadata), message.type == _DICTIONARY_BATCH
        ):
            return False
    return False


def _is_packed(head: bytes, of_dictionary: bool) -> bool:
    try:
        message = _table_offset(head, 0)
        if _field(head, message, _CUSTOM_METADATA) is not None:
            return True
        batch = _table_at(head, message, _HEADER)
        if of_dictionary:
            batch = _table_at(head, batch, _DATA)
        return _field(head, batch, _COMPRESSION) is not None
    except struct.error as error:
        raise ValueError("A message ends too early.") from error


def _table_offset(head: bytes, place: int) -> int:
    return place + int(struct.unpack_from("<I", head, place)[0])


def _field(head: bytes, table: int, number: int) -> int | None:
    shape = table - int(struct.unpack_from("<i", head, table)[0])
    if shape < 0:
        raise ValueError("A table has no shape.")
    size = int(struct.unpack_from("<H", head, shape)[0])
    entry = 4 + 2 * number
    offset = int(struct.unpack_from("<H", head, shape + entry)[0]) if entry + 2 <= size else 0
    return table + offset if offset else None


def _table_at(head: bytes, table: int, number: int) -> int:
    place = _field(head, table, number)
    if place is None:
        raise ValueError("A message has no batch.")
    return _table_offset(head, place)
