"""Reader for memory flow drawings.

Data comes from the attributes ``tag:*``, because the coordinates in the drawing are scaled and rounded.
"""

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
from tb_plugin.formats.stream import TextStream, text_of
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.strings import StringTable
from torch_trace_megengine.memory_flow import FORMATS, READER_ID
from torch_trace_megengine.memory_flow.elements import Elements
from torch_trace_megengine.memory_flow.model import RawMemoryFlow

PER_TEXT_BYTE = 2.5  # peak memory of reading and summing, per byte of text (2.0 was measured on a million tensors)
MOST_BYTES = 2**50  # 1 PiB, an impossible size
_MAX_TOTAL_BYTES = 2.0**62
FLUSH = 20_000  # maximum number of tensors whose attributes are still texts

_TAGS = ("name", "address", "size", "layout", "produced", "erased", "duration", "group")
_AGAIN = "Record again: Profiler(..., formats=['memory_flow.svg'])."


class MemoryFlowReader(DeclaredReader, entry=FORMATS[0]):
    """Reads the ``memory_flow.svg`` of MegEngine's profiler piece by piece. The file may be compressed."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return int(PER_TEXT_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values()))

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawMemoryFlow:
        log = IssueLog()
        tensors = _Tensors(log)

        def report_progress(done: float) -> None:
            progress(ReadState(done, tensors.seen, {"memory": tensors.seen} if tensors.seen else {}))

        with text_of(source, report_progress, log) as stream:
            Elements(tensors.take, log).read(stream, options.chunk_bytes)
            flow = tensors.finish(stream)
        report_progress(1.0)
        return flow


class _Tensors:
    """Collects tensors. Recent tensors are stored as attribute texts, earlier tensors as columns."""

    def __init__(self, log: IssueLog) -> None:
        self.seen = 0
        self._log = log
        self._loaded = 0
        self._drawing = False
        self._texts: dict[str, list[str | None]] = {tag: [] for tag in _TAGS}
        self._numbers: list[tuple[Int64, ...]] = []
        self._names: dict[str, list[pa.Array]] = {"name": [], "layout": []}

    def take(self, element: str, attributes: Mapping[str, str]) -> None:
        self._drawing |= element == "svg"
        kind = attributes.get("tag:type")
        if kind != "tensor":
            if kind is not None:
                self._log.add(
                    "unknown_type", "unknown", example=kind, text="rectangles that are not tensors are not shown"
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
        has_operator = pc.fill_null(pc.match_substring_regex(texts["group"], "^[0-9]{1,18}$"), False)
        operator = pc.if_else(has_operator, texts["group"], str(MISSING)).cast(pa.int64()).to_numpy()
        bad = ~(has_address & has_size & has_start & has_end) | (size > MOST_BYTES)
        self._drop_rows(bad, texts, "tensors without a valid address, size or time were skipped")
        empty = ~bad & ((size == 0) | texts["address"].is_null().to_numpy(zero_copy_only=False))
        self._drop_rows(empty, texts, "tensors without memory were skipped")
        good = ~(bad | empty)
        # An empty end, or one before the start, means that the tensor was not released during the recording.
        end = np.where((end == 0) | (end < start), MISSING, end)
        keep = pa.array(good)
        for tag, parts in self._names.items():
            parts.append(pc.fill_null(texts[tag], "").filter(keep))
        self._numbers.append(tuple(column[good] for column in (address, size, start, end, operator)))
        self._loaded += int(good.sum())

    def _drop_rows(self, rows: npt.NDArray[np.bool_], texts: Mapping[str, pa.Array], why: str) -> None:
        if count := int(rows.sum()):
            first = int(np.flatnonzero(rows)[0])
            example = ", ".join(f"{tag}={texts[tag][first].as_py()}" for tag in ("name", "address", "size", "produced"))
            self._log.add("bad_tensor", "dropped", None, example, count, why)

    def finish(self, stream: TextStream) -> RawMemoryFlow:
        self._flush()
        if not self.seen and not self._drawing:
            raise UnreadableTrace("The file is not an SVG drawing.", do=_AGAIN)
        if not self.seen:
            raise UnreadableTrace("The drawing contains no tensors.", do=_AGAIN)
        encoded = pa.chunked_array([*self._names["name"], *self._names["layout"]]).combine_chunks().dictionary_encode()
        ids = encoded.indices.to_numpy()
        address, size, start, end, operator = (np.concatenate(parts) for parts in zip(*self._numbers, strict=True))
        if size.sum(dtype=np.float64) > _MAX_TOTAL_BYTES:
            raise UnreadableTrace("The sum of the tensor sizes is impossibly large.", do=_AGAIN)
        issues = self._log.issues()
        dropped = sum(issue.count for issue in issues if issue.outcome == "dropped")
        unreadable = dropped - (self.seen - self._loaded)
        report = ReadReport(
            format=READER_ID,
            file_bytes=stream.file_bytes,
            text_bytes=stream.text_bytes,
            events_in_file=self.seen + unreadable,
            events_loaded=self._loaded,
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
            name=ids[: self._loaded].astype(np.int32),
            layout=ids[self._loaded :].astype(np.int32),
            strings=StringTable(encoded.dictionary),
            report=report,
        )


_SIZES = (("TB", 2**40), ("GB", 2**30), ("MB", 2**20), ("KB", 2**10), ("B", 1))
_TIMES = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
MOST = 2**62  # larger numbers are invalid


def _numbers_of(texts: pa.Array, units: tuple[tuple[str, int], ...]) -> tuple[Int64, Bool]:
    """Converts texts to numbers, with a mask of valid texts. Missing and empty texts are valid and give 0."""
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
    """Converts hexadecimal texts below 2**62 to numbers, with a mask of valid texts."""
    known = pc.fill_null(pc.match_substring_regex(texts, "^0x[0-9a-fA-F]{1,16}$"), False).to_numpy(zero_copy_only=False)
    low = np.array([int(text, 16) if ok else 0 for text, ok in zip(texts.to_pylist(), known, strict=True)], np.uint64)
    known &= low < MOST
    return np.where(known, low, 0).astype(np.int64), known
