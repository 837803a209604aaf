"""The Reader of memory flows. What is drawn is scaled and cut to whole units; what counts are the attributes ``tag:*``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.memory_estimate import PACKED
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.memory_flow import FORMATS, READER_ID
from tb_plugin.formats.memory_flow.elements import Elements
from tb_plugin.formats.stream import TextStream, text_of
from tb_plugin.model.memory_flow import RawMemoryFlow
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.strings import StringTable

PER_TEXT_BYTE = 2.5
"""Memory at the peak of a read and of what is made of it, per byte of text: 2.0 was measured on a million tensors."""
MOST_BYTES = 2**50
"""A petabyte: no tensor is larger."""
_SUM = 2.0**62
FLUSH = 20_000
"""Tensors whose attributes are held as texts."""

Int64 = npt.NDArray[np.int64]
_TAGS = ("name", "address", "size", "layout", "produced", "erased", "duration", "group")
_AGAIN = "Record it anew: Profiler(..., formats=['memory_flow.svg'])."


class MemoryFlowReader(DeclaredReader, entry=FORMATS[0]):
    """Reads what MegEngine's profiler draws as ``memory_flow.svg``, packed or not, in bounded memory."""

    def need_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the memory that reading files of these sizes takes at its peak."""
        return int(PER_TEXT_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values()))

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawMemoryFlow:
        """Returns the source's one file. Raises UnreadableTrace, StorageError and what ``progress`` raises."""
        log = IssueLog()
        tensors = _Tensors(log)

        def tell(done: float) -> None:
            progress(ReadState(done, tensors.seen, {"memory": tensors.seen} if tensors.seen else {}))

        with text_of(source, tell, log) as stream:
            Elements(tensors.take, log).read(stream, options.chunk_bytes)
            made = tensors.finish(stream)
        tell(1.0)
        return made


class _Tensors:
    """The tensors so far: attributes as texts, and columns of those that were taken before."""

    def __init__(self, log: IssueLog) -> None:
        self.seen = 0
        self._log = log
        self._kept = 0
        self._drawing = False
        self._texts: dict[str, list[str | None]] = {tag: [] for tag in _TAGS}
        self._numbers: list[tuple[Int64, ...]] = []
        self._names: dict[str, list[pa.Array]] = {"name": [], "layout": []}

    def take(self, element: str, attributes: Mapping[str, str]) -> None:
        """Takes an element: of rectangles those that are a tensor."""
        self._drawing |= element == "svg"
        kind = attributes.get("tag:type")
        if kind != "tensor":
            if kind is not None:
                self._log.add(
                    "unknown_type", "unknown", example=kind, text="rectangles that are no tensors are not shown"
                )
            return
        self.seen += 1
        for tag, texts in self._texts.items():
            texts.append(attributes.get(f"tag:{tag}"))
        if len(self._texts["name"]) >= FLUSH:
            self._flush()

    def _flush(self) -> None:
        texts = {tag: pa.array(found, pa.large_string()) for tag, found in self._texts.items()}
        for found in self._texts.values():
            found.clear()
        address, has_address = _addresses_of(texts["address"])
        size, has_size = _numbers_of(texts["size"], _SIZES)
        start, has_start = _numbers_of(texts["produced"], _TIMES)
        end, has_end = _numbers_of(texts["erased"], _TIMES)
        told = pc.fill_null(pc.match_substring_regex(texts["group"], "^[0-9]{1,18}$"), False)
        operator = pc.if_else(told, texts["group"], str(MISSING)).cast(pa.int64()).to_numpy()
        bad = ~(has_address & has_size & has_start & has_end) | (size > MOST_BYTES)
        self._left_out(bad, texts, "tensors whose address, size or time cannot be read were left out")
        empty = ~bad & ((size == 0) | texts["address"].is_null().to_numpy(zero_copy_only=False))
        self._left_out(empty, texts, "tensors without any memory were left out")
        good = ~(bad | empty)
        # An empty end is no end; one before the begin stands for a tensor that was not released while recording.
        end = np.where((end == 0) | (end < start), MISSING, end)
        keep = pa.array(good)
        for tag, parts in self._names.items():
            parts.append(pc.fill_null(texts[tag], "").filter(keep))
        self._numbers.append(tuple(column[good] for column in (address, size, start, end, operator)))
        self._kept += int(good.sum())

    def _left_out(self, rows: npt.NDArray[np.bool_], texts: Mapping[str, pa.Array], why: str) -> None:
        if count := int(rows.sum()):
            first = int(np.flatnonzero(rows)[0])
            example = ", ".join(f"{tag}={texts[tag][first].as_py()}" for tag in ("name", "address", "size", "produced"))
            self._log.add("bad_tensor", "dropped", None, example, count, why)

    def finish(self, stream: TextStream) -> RawMemoryFlow:
        """Returns all of it. Raises UnreadableTrace when it is no drawing of tensors."""
        self._flush()
        if not self.seen and not self._drawing:
            raise UnreadableTrace("It is no SVG.", do=_AGAIN)
        if not self.seen:
            raise UnreadableTrace("It shows no tensor.", do=_AGAIN)
        encoded = pa.chunked_array([*self._names["name"], *self._names["layout"]]).combine_chunks().dictionary_encode()
        ids = encoded.indices.to_numpy()
        address, size, start, end, operator = (np.concatenate(parts) for parts in zip(*self._numbers, strict=True))
        if size.sum(dtype=np.float64) > _SUM:
            raise UnreadableTrace("Its sizes add up to more than there can be.", do=_AGAIN)
        issues = self._log.issues()
        dropped = sum(issue.count for issue in issues if issue.outcome == "dropped")
        lost = dropped - (self.seen - self._kept)
        report = ReadReport(
            format=READER_ID,
            file_bytes=stream.file_bytes,
            text_bytes=stream.text_bytes,
            events_seen=self.seen + lost,
            events_kept=self._kept,
            events_repaired=sum(issue.count for issue in issues if issue.code == "raw_markup"),
            events_dropped=dropped,
            complete=not is_packed_badly(issues) and not any(issue.code == "truncated_tail" for issue in issues),
            issues=issues,
            records="tensors",
        )
        return RawMemoryFlow(
            address,
            size,
            start,
            end,
            operator,
            name=ids[: self._kept].astype(np.int32),
            layout=ids[self._kept :].astype(np.int32),
            strings=StringTable(encoded.dictionary),
            report=report,
        )


Bool = npt.NDArray[np.bool_]

_SIZES = (("TB", 2**40), ("GB", 2**30), ("MB", 2**20), ("KB", 2**10), ("B", 1))
_TIMES = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
MOST = 2**62
"""Larger numbers are none."""


def _numbers_of(texts: pa.Array, units: tuple[tuple[str, int], ...]) -> tuple[Int64, Bool]:
    """Returns the numbers of some texts and which of them could be read; missing and empty ones are 0, and read."""
    pattern = "^ *" + "".join(rf"(?:(?P<{unit}>[0-9]{{1,18}}){unit} *)?" for unit, _ in units) + "$"
    texts = pc.fill_null(texts, "")
    found = pc.extract_regex(texts, pattern)
    known = found.is_valid().to_numpy(zero_copy_only=False)
    total = np.zeros(len(texts), np.int64)
    size = np.zeros(len(texts))
    for unit, factor in units:
        part = pc.fill_null(found.field(unit), "")
        value = pc.if_else(pc.equal(part, ""), "0", part).cast(pa.int64()).to_numpy()
        size += value.astype(np.float64) * factor
        total += np.where(value <= MOST // factor, value, 0) * factor
    return np.where(size < MOST, total, 0), known & (size < MOST)


def _addresses_of(texts: pa.Array) -> tuple[Int64, Bool]:
    """Returns hexadecimal numbers below 2**62 and which of the texts are such."""
    known = pc.fill_null(pc.match_substring_regex(texts, "^0x[0-9a-fA-F]{1,16}$"), False).to_numpy(zero_copy_only=False)
    low = np.array([int(text, 16) if ok else 0 for text, ok in zip(texts.to_pylist(), known, strict=True)], np.uint64)
    known &= low < MOST
    return np.where(known, low, 0).astype(np.int64), known
