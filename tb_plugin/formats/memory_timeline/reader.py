"""The Reader of memory timelines: ``[times, sizes]``, or a list of ``[time, action, bytes, category]`` (raw)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.memory_estimate import PACKED
from tb_plugin.formats._chrome.sniffing import BOM
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.memory_timeline import FORMATS
from tb_plugin.formats.memory_timeline.lists import OTHER, Lists
from tb_plugin.formats.memory_timeline.sniffing import LEVEL_COLUMNS, READER_ID, form_of
from tb_plugin.formats.stream import TextStream, text_of
from tb_plugin.model.category_memory import BEFORE, CATEGORIES, Action, RawCategoryMemory
from tb_plugin.model.trace.report import ReadReport

Int64 = npt.NDArray[np.int64]
Int8 = npt.NDArray[np.int8]

PER_TEXT_BYTE = 2.5
"""Memory at the peak of a read and of what is made of it, per byte of text: 2.0 was measured on 10 million short raw rows."""
HEAD_BYTES = 64 * 1024
MOST_BYTES = 2**50
"""A petabyte: no row is about more."""
_LAST_ROWS = 2.0**62
_UNKNOWN = CATEGORIES.index("unknown")
_EMPTY = "Nothing was allocated on the device that export_memory_timeline was asked about: name the one that is used."


class MemoryTimelineReader(DeclaredReader, entry=FORMATS[0]):
    """Reads JSON and raw JSON of ``export_memory_timeline``, packed or not, of any size in bounded memory."""

    def need_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the memory that reading files of these sizes takes at its peak."""
        return int(PER_TEXT_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values()))

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawCategoryMemory:
        """Returns the source's one file. Raises UnreadableTrace, StorageError and what ``progress`` raises."""
        log = IssueLog()
        rows = _Rows(log)

        def tell(done: float) -> None:
            progress(ReadState(done, rows.count, {"memory": rows.count} if rows.count else {}))

        with text_of(source, tell, log) as stream:
            lists = Lists(stream, options.chunk_bytes, log)
            lists.skip(BOM)
            form = form_of(lists.head(HEAD_BYTES))
            if form is None:
                raise UnreadableTrace("It holds no memory timeline.", do=OTHER)
            (_read_raw if form == "raw" else _read_levels)(lists, rows, log)
            if lists.skip(b"]") is False and form == "levels" and not lists.ended:
                log.note("trailing_text", "text after the lists was ignored", lists.offset)
            made = rows.finish(stream)
        tell(1.0)
        return made


def _read_raw(lists: Lists, rows: _Rows, log: IssueLog) -> None:
    lists.skip(b"[")
    for found, _ in lists.rows(4):
        time, action, size, category = found.T
        bad = (action < 1) | (action > 4) | (category < 0) | (category >= len(CATEGORIES)) | (abs(size) > MOST_BYTES)
        if bad.any():
            text = "rows of an unknown action or category, or of more than a petabyte, were left out"
            log.add("unknown_row", "dropped", None, str(found[bad][0].tolist()), int(bad.sum()), text)
        odd = ~bad & (((action == Action.CREATE) & (size < 0)) | ((action == Action.DESTROY) & (size > 0)))
        if odd.any():
            text = "rows that allocate less than nothing, or release it, count as they are"
            log.add("odd_sign", "unknown", None, str(found[odd][0].tolist()), int(odd.sum()), text)
        rows.count += len(found)
        rows.seen_until(time)
        good = ~bad
        rows.add(np.where(action == Action.PREEXISTING, BEFORE, time)[good], category[good], action[good], size[good])


def _read_levels(lists: Lists, rows: _Rows, log: IssueLog) -> None:
    lists.skip(b"[")
    lists.skip(b"[")
    pieces = list(lists.numbers())
    times = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    if not lists.skip(b",") or not lists.skip(b"["):
        raise UnreadableTrace("It ends before the sizes, which stand behind the times.", do="Export it again.")
    if not len(times):
        raise UnreadableTrace("It holds no moment.", do=_EMPTY)
    if (np.diff(times) < 0).any():
        raise UnreadableTrace("Its times go backwards.", do=OTHER)
    if int(times[-1]) > np.iinfo(np.int64).max // 1000:
        raise UnreadableTrace("Its times are no microseconds since 1970.", do=OTHER)
    times = np.where(times < 0, BEFORE, times * 1000)
    if len(times) > 1 and times[0] == times[1]:
        times[0] = BEFORE  # of what was there before, PyTorch puts the first time that it knows
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
            text = "moments with more than a petabyte were left out"
            log.add("unknown_row", "dropped", None, count=int(large.sum()), text=text)
            level, place = level[~large], place[~large]
        change = level - np.concatenate((last, level[:-1]))
        last = level[-1:] if len(level) else last
        at, category = np.nonzero(change)
        rows.count += len(found)
        moments = max(moments, int(place.max(initial=-1)) + 1)
        rows.seen_until(times[place])
        rows.add(times[place][at], category, np.full(len(at), Action.LEVEL), change[at, category])
    if odd:
        log.note("sentinel", f"the first size of {odd} moments, which PyTorch leaves 0, was ignored")
    if beyond:
        log.add("unknown_row", "dropped", count=beyond, text="sizes without a time were left out")
    missing = len(times) - moments
    if missing > 0:
        log.add("missing_sizes", "dropped", count=missing, text="moments whose sizes are not in the file were left out")


class _Rows:
    """The rows so far."""

    def __init__(self, log: IssueLog) -> None:
        self.count = 0
        """Lists that were read."""
        self._log = log
        self._kept: list[tuple[Int64, Int8, Int8, Int64]] = []
        self._end_ns = 0
        self._sum = 0.0

    def seen_until(self, time: Int64) -> None:
        """Takes the times that the file speaks of."""
        self._end_ns = max(self._end_ns, int(time.max(initial=0)))

    def add(self, time: Int64, category: Int64, action: Int64, size: Int64) -> None:
        """Takes changes. Raises UnreadableTrace when they cannot be added up."""
        self._sum += float(np.abs(size).sum(dtype=np.float64))
        if self._sum > _LAST_ROWS:
            raise UnreadableTrace("Its sizes add up to more than there can be.", do=OTHER)
        time = np.maximum(time, BEFORE)
        self._kept.append((time, category.astype(np.int8), action.astype(np.int8), size))

    def finish(self, stream: TextStream) -> RawCategoryMemory:
        """Returns all of it. Raises UnreadableTrace when there is none."""
        if not self.count:
            raise UnreadableTrace("It holds no rows.", do=_EMPTY)
        columns = [np.concatenate([kept[i] for kept in self._kept]) for i in range(4)]
        self._kept.clear()
        time, category, action, size = columns
        issues = self._log.issues()
        dropped = sum(issue.count for issue in issues if issue.outcome == "dropped")
        lost = sum(issue.count for issue in issues if issue.code in ("missing_sizes", "truncated_tail"))
        report = ReadReport(
            format=READER_ID,
            file_bytes=stream.file_bytes,
            text_bytes=stream.text_bytes,
            events_seen=self.count + lost,
            events_kept=max(0, self.count + lost - dropped),
            events_dropped=dropped,
            events_unknown=sum(issue.count for issue in issues if issue.outcome == "unknown"),
            complete=not is_packed_badly(issues) and not any(issue.code in _CUT for issue in issues),
            issues=issues,
            records="rows",
        )
        return RawCategoryMemory(time, category, action, size, self._end_ns, report)


_CUT = ("truncated_tail", "missing_sizes")
