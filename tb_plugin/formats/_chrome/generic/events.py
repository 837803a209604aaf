"""Events of any tool, and the role of each phase (``ph``)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tb_plugin.formats._chrome.events import ChromeEvent, event_decoder


class Event(ChromeEvent, gc=False):
    args: dict[str, Any] | None = None
    tts: Any = None
    tdur: Any = None
    s: Any = None
    bind_id: Any = None
    flow_in: Any = None
    flow_out: Any = None
    sf: Any = None
    stack: Any = None
    esf: Any = None
    estack: Any = None


decode = event_decoder(Event)


class Role(IntEnum):
    """Contribution of an event to rows."""

    RANGE = 0  # a complete range
    BEGIN = 1  # starts a range on its thread
    END = 2  # ends the innermost range on its thread
    MARK = 3  # an instant of a thread, a process or the trace
    ASYNC_BEGIN = 4  # starts a part of an operation
    ASYNC_END = 5
    ASYNC_MARK = 6  # an instant of an operation


class Scope(IntEnum):
    """Scope of an event that has neither a thread nor an operation."""

    PROCESS = 1
    TRACE = 2
    TOTALS = 3  # a total that a tool wrote in addition to its ranges


# phases of events that become rows or parts of rows
ROLES: dict[str, Role] = {
    "X": Role.RANGE, "B": Role.BEGIN, "E": Role.END,
    **dict.fromkeys("iIRP", Role.MARK),
    **dict.fromkeys("bSN", Role.ASYNC_BEGIN),
    **dict.fromkeys("eFD", Role.ASYNC_END),
    **dict.fromkeys("nTpO", Role.ASYNC_MARK),
}  # fmt: skip
# ids are only unique within a family of phases
FAMILIES: dict[str, str] = {
    **dict.fromkeys("ben", "nestable"),
    **dict.fromkeys("STpF", "legacy"),
    **dict.fromkeys("NOD", "object"),
}
# names of events that are not displayed
SKIPPED_PHASES: dict[str, str] = {
    **dict.fromkeys("vV", "memory dumps"), "c": "clock synchronizations",
    **dict.fromkeys("()", "contexts"), "=": "linked ids",
}  # fmt: skip
