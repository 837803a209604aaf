"""Survey of Kineto's events: launches, device work and steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.columns import int64s
from tb_plugin.formats._chrome.interning import as_text
from tb_plugin.formats._chrome.survey import Surveying
from tb_plugin.formats.kineto.collector import is_instant
from tb_plugin.formats.kineto.events import NO_ARGS, Event
from tb_plugin.formats.kineto.window_cut import kind_ids, kinds_of
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.order import FAR
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind


class KinetoSurvey(Surveying):
    def _restart_at(self, text_bytes: int) -> None:
        super()._restart_at(text_bytes)
        self._stream: dict[tuple[str, str], int] = {}  # (process, thread) of device work -> number
        self._kinds = kind_ids()

    def is_range(self, event: Event) -> bool:
        return not is_instant(event)

    def add_rows(self, rows: Sequence[Event], start: Int64, dur: Int64) -> None:
        kinds = kinds_of(self._kinds, rows)
        work = of_kind(kinds, *DEVICE_WORK)
        # As in model/trace/order.py, implausible times are ignored.
        right = (dur >= 0) & (dur <= FAR) & (np.abs(start) < FAR) & ~(work & (start == 0) & (dur == 0))
        end = start + np.where(right, dur, 0)
        self.bounds.add(start[right], end[right])
        launches, works = np.flatnonzero((kinds == EventKind.RUNTIME) & right), np.flatnonzero(work & right)
        self.work.add_launches(_correlations(rows, launches), start[launches], end[launches])
        streams = np.array([self._stream_of(rows[i]) for i in works.tolist()], np.int32)
        self.work.add_work(_correlations(rows, works), start[works], end[works], streams)
        self.work.add_steps(rows, start, dur, right & of_kind(kinds, EventKind.ANNOTATION, EventKind.OPERATOR))

    def _stream_of(self, event: Event) -> int:
        return self._stream.setdefault((as_text(event.pid), as_text(event.tid)), len(self._stream))


def _correlations(rows: Sequence[Event], some: npt.NDArray[np.intp]) -> Int64:
    return int64s([(rows[i].args or NO_ARGS).correlation for i in some.tolist()])
