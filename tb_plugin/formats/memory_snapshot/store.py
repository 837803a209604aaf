"""Event columns, with tables of texts, stacks, streams and pools."""

from __future__ import annotations

from tb_plugin.formats._pickle.memo import POOL_ID, Taken
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.memory_snapshot.columns import Columns, Numbered, StackTable, Texts, TooMany, is_number
from tb_plugin.model.snapshot.table import Action, Events
from tb_plugin.model.trace.schema import MISSING

ACTIONS = {
    "alloc": Action.ALLOC,
    "free_requested": Action.FREE_REQUESTED,
    "free_completed": Action.FREE_COMPLETED,
    "free": Action.FREE_COMPLETED,
    "segment_alloc": Action.SEGMENT_ALLOC,
    "segment_free": Action.SEGMENT_FREE,
    "segment_map": Action.SEGMENT_MAP,
    "segment_unmap": Action.SEGMENT_UNMAP,
    "snapshot": Action.SNAPSHOT,
    "oom": Action.OOM,
    "annotate": Action.ANNOTATE,
}
MAX_US = 2**63 // 1000 - 1  # the latest time whose nanoseconds fit into 64 bits
_MAX_ROWS_PER_BYTE = (
    4  # limit on rows and frames per byte of the file, including repeated references; real files are below 1
)


class Store:
    def __init__(self, log: IssueLog) -> None:
        self.log = log
        self.texts = Texts(log)
        self.streams = Numbered(0)
        self.pools = Numbered((0, 0))
        self.stacks = StackTable(self.texts, self.spend)
        self.events = Columns(Events)
        self.loaded = 0
        self.dropped = 0
        self.events_loaded = 0
        self._budget = 1 << 16
        self._actions: dict[int, int] = {}

    def earn(self, size: int) -> None:
        """Raises the limit on rows and frames after ``size`` bytes were read."""
        self._budget += _MAX_ROWS_PER_BYTE * size

    def spend(self, count: int) -> None:
        """Subtracts rows or frames from the limit. Raises TooMany if the limit is exceeded."""
        self._budget -= count
        if self._budget < 0:
            raise TooMany

    def stream(self, value: object) -> int:
        """Returns the index of a stream; -1 = invalid."""
        return self.streams.of(value) if is_number(value) else MISSING

    def pool(self, value: object) -> int:
        """Returns the index of a memory pool; -1 = invalid."""
        if type(value) is Taken and value.what == POOL_ID:
            return value.code
        if isinstance(value, tuple | list) and len(value) == 2 and all(map(is_number, value)):
            return self.pools.of((value[0], value[1]))
        return MISSING

    def action(self, text: int) -> int:
        code = self._actions.get(text)
        if code is None:
            name = self.texts.all[text]
            code = self._actions[text] = ACTIONS.get(name, Action.UNKNOWN)
        return code

    def unknown_actions(self, text: int, count: int) -> None:
        what = f"events with the unknown action '{self.texts.all[text][:60]}' have no effect"
        self.log.add("unknown_action", "unknown", count=count, text=what)
