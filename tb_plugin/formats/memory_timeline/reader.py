"""Reader for memory timelines: ``[times, sizes]``, or raw rows.

A raw row is ``[time, action, bytes, category]``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.memory_estimate import PACKED
from tb_plugin.formats._chrome.sniffing import BOM
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.memory_timeline import FORMATS, LEVEL_COLUMNS, READER_ID, form_of
from tb_plugin.formats.memory_timeline.lists import OTHER, Lists
from tb_plugin.formats.stream import TextStream, text_of
from tb_plugin.lib.arrays import Int8, Int64
from tb_plugin.model.category_memory import BEFORE, CATEGORIES, Action, RawCategoryMemory
from tb_plugin.model.trace.report import ReadReport

# peak memory of reading and summing, per byte of text (2.0 was measured on 10 million short raw rows)
PER_TEXT_BYTE = 2.5
HEAD_BYTES = 64 * 1024
MOST_BYTES = 2**50  # 1 PiB, an impossible size
_MAX_TOTAL_BYTES = 2.0**62
_EMPTY = "export_memory_timeline was called for a device without allocations. Pass the device used for training."


class MemoryTimelineReader(DeclaredReader, entry=FORMATS[0]):
    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return int(PER_TEXT_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values()))

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawCategoryMemory:
        log = IssueLog()
        rows = _Rows(log)

        def report_progress(done: float) -> None:
            progress(ReadState(done, rows.count, {"memory": rows.count} if rows.count else {}))

        with text_of(source, report_progress, log) as stream:
            lists = Lists(stream, options.chunk_bytes, log)
            lists.skip(BOM)
            form = form_of(lists.head(HEAD_BYTES))
            if form is None:
                raise UnreadableTrace("The file contains no memory timeline.", do=OTHER)
            (_read_raw if form == "raw" else _read_levels)(lists, rows, log)
            if lists.skip(b"]") is False and form == "levels" and not lists.ended:
                log.note("trailing_text", "text after the lists was ignored", lists.offset)
            timeline = rows.finish(stream)
        report_progress(1.0)
        return timeline


def _read_raw(lists: Lists, rows: _Rows, log: IssueLog) -> None:
    lists.skip(b"[")
    for found, _ in lists.rows(4):
        time, action, size, category = found.T
        bad = (action < 1) | (action > 4) | (category < 0) | (category >= len(CATEGORIES)) | (abs(size) > MOST_BYTES)
        if bad.any():
            text = "rows with an unknown action or category, or with more than one petabyte, were skipped"
            log.add("unknown_row", "dropped", None, str(found[bad][0].tolist()), int(bad.sum()), text)
        odd = ~bad & (((action == Action.CREATE) & (size < 0)) | ((action == Action.DESTROY) & (size > 0)))
        if odd.any():
            text = "rows whose size has the wrong sign for their action were loaded unchanged"
            log.add("odd_sign", "unknown", None, str(found[odd][0].tolist()), int(odd.sum()), text)
        rows.count += len(found)
        rows.extend_to(time)
        good = ~bad
        rows.add(np.where(action == Action.PREEXISTING, BEFORE, time)[good], category[good], action[good], size[good])


def _read_levels(lists: Lists, rows: _Rows, log: IssueLog) -> None:
    lists.skip(b"[")
    lists.skip(b"[")
    pieces = list(lists.numbers())
    times = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    if not lists.skip(b",") or not lists.skip(b"["):
        raise UnreadableTrace("The file is truncated: the sizes are missing.", do="Export the file again.")
    if not len(times):
        raise UnreadableTrace("The file contains no times.", do=_EMPTY)
    if (np.diff(times) < 0).any():
        raise UnreadableTrace("The times are not in ascending order.", do=OTHER)
    if int(times[-1]) > np.iinfo(np.int64).max // 1000:
        raise UnreadableTrace("The times are not microseconds since 1970.", do=OTHER)
    times = np.where(times < 0, BEFORE, times * 1000)
    if len(times) > 1 and times[0] == times[1]:
        times[0] = BEFORE  # PyTorch assigns the first known time to memory from before the recording
    last = np.zeros((1, len(CATEGORIES)), np.int64)
    odd = moments = 0
    beyond = 0
    for found, place in lists.rows(LEVEL_COLUMNS):
        known = place < len(times)
        beyond += int((~known).sum())
        level, place = found[known][:, 1:], place[known]
        odd += int((found[known][:, 0] != 0).sum())
        large = (abs(level) > MOST_BYTES).any(1)
        if large.any():
            text = "times with sizes above one petabyte were skipped"
            log.add("unknown_row", "dropped", None, count=int(large.sum()), text=text)
            level, place = level[~large], place[~large]
        change = level - np.concatenate((last, level[:-1]))
        last = level[-1:] if len(level) else last
        at, category = np.nonzero(change)
        rows.count += len(found)
        moments = max(moments, int(place.max(initial=-1)) + 1)
        rows.extend_to(times[place])
        rows.add(times[place][at], category, np.full(len(at), Action.LEVEL), change[at, category])
    if odd:
        log.note(
            "sentinel", f"the first size of {odd} lists was ignored, because PyTorch always writes 0 as the first size"
        )
    if beyond:
        log.add("unknown_row", "dropped", count=beyond, text="sizes without a time were skipped")
    missing = len(times) - moments
    if missing > 0:
        log.add("missing_sizes", "dropped", count=missing, text="times without sizes were skipped")


class _Rows:
    def __init__(self, log: IssueLog) -> None:
        self.count = 0  # number of lists read
        self._log = log
        self._parts: list[tuple[Int64, Int8, Int8, Int64]] = []
        self._end_ns = 0
        self._sum = 0.0

    def extend_to(self, time: Int64) -> None:
        self._end_ns = max(self._end_ns, int(time.max(initial=0)))

    def add(self, time: Int64, category: Int64, action: Int64, size: Int64) -> None:
        self._sum += float(np.abs(size).sum(dtype=np.float64))
        if self._sum > _MAX_TOTAL_BYTES:
            raise UnreadableTrace("The sum of all sizes is impossibly large.", do=OTHER)
        time = np.maximum(time, BEFORE)
        self._parts.append((time, category.astype(np.int8), action.astype(np.int8), size))

    def finish(self, stream: TextStream) -> RawCategoryMemory:
        if not self.count:
            raise UnreadableTrace("The file contains no rows.", do=_EMPTY)
        columns = [np.concatenate([part[i] for part in self._parts]) for i in range(4)]
        self._parts.clear()
        time, category, action, size = columns
        issues = self._log.issues()
        dropped = sum(issue.count for issue in issues if issue.outcome == "dropped")
        unread = sum(issue.count for issue in issues if issue.code in ("missing_sizes", "truncated_tail"))
        report = ReadReport(
            format=READER_ID,
            file_bytes=stream.file_bytes,
            text_bytes=stream.text_bytes,
            events_in_file=self.count + unread,
            events_loaded=max(0, self.count + unread - dropped),
            events_dropped=dropped,
            events_unknown=sum(issue.count for issue in issues if issue.outcome == "unknown"),
            complete=not is_packed_badly(issues) and not any(issue.code in _CUT for issue in issues),
            issues=issues,
            records="rows",
        )
        return RawCategoryMemory(time, category, action, size, self._end_ns, report)


_CUT = ("truncated_tail", "missing_sizes")
