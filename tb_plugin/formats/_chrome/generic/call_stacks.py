"""Call stacks of events: references to ``stackFrames``, or lists of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tb_plugin.formats._chrome.columns import Column
from tb_plugin.formats._chrome.generic.events import Event
from tb_plugin.formats._chrome.interning import Interner, as_text
from tb_plugin.model.trace.schema import MISSING

_MAX_FRAMES = 1000  # maximum number of frames loaded per stack, innermost first


class CallStacks:
    """Collects call stacks by event index.

    Frames are looked up after the read, because ``stackFrames`` may follow the events.
    """

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self._event = Column(np.int32)
        self._stack: list[Any] = []

    def add(self, numbers: Sequence[int], stacks: Sequence[Any]) -> None:
        """Appends the stacks of events. Each stack is a frame id or a list of names."""
        self._event.add(np.array(numbers, np.int32))
        self._stack += stacks

    def take(self, frames: Any) -> tuple[np.ndarray[Any, np.dtype[np.int32]], list[int]]:
        """Returns event indices, and the string ids of their stacks (-1 = unknown frame).

        The text of a stack starts with the innermost frame. Frames are separated by ``;``.
        """
        known = frames if isinstance(frames, Mapping) else {}
        texts: dict[str, int] = {}
        found = []
        for stack in self._stack:
            key = "\n".join(map(as_text, stack)) if isinstance(stack, list) else f"id {as_text(stack)}"
            if key not in texts:
                names = list(reversed(stack)) if isinstance(stack, list) else _chain(known, as_text(stack))
                text = ";".join(as_text(name).replace(";", ",") for name in names[:_MAX_FRAMES])
                texts[key] = self._interner.text(text) if text else MISSING
            found.append(texts[key])
        return self._event.take(), found


def stack_of(event: Event) -> Any:
    return event.sf if event.sf is not None else event.stack if isinstance(event.stack, list) else None


def end_stack_of(event: Event) -> Any:
    """Returns the call stack recorded at the end of a range, or None."""
    return event.esf if event.esf is not None else event.estack if isinstance(event.estack, list) else None


def _chain(frames: Mapping[str, Any], leaf: str) -> list[Any]:
    """Returns the names of a frame and its callers, innermost first. Stops at a cycle."""
    names: list[Any] = []
    visited: set[str] = set()
    at: str | None = leaf
    while at is not None and at not in visited and len(names) < _MAX_FRAMES:
        visited.add(at)
        frame = frames.get(at)
        if not isinstance(frame, Mapping):
            break
        names.append(frame.get("name", ""))
        parent = frame.get("parent")
        at = None if parent is None else as_text(parent)
    return names
