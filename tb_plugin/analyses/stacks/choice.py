"""What a person may choose of the stacks: frames, time, thread, order, folding."""

from __future__ import annotations

from dataclasses import dataclass

from tb_plugin.analyses.base import Params
from tb_plugin.errors import BadRequest
from tb_plugin.trace.schema import NO_OPERATOR, EventKind

_PYTHON = (EventKind.PYTHON, EventKind.MODULE, EventKind.ANNOTATION)
_CALLS = (EventKind.OPERATOR, EventKind.RUNTIME)
FRAMES: dict[str, tuple[EventKind, ...]] = {"both": (*_PYTHON, *_CALLS), "python": _PYTHON, "operators": _CALLS}
"""What the frames of a stack are. Runtime calls belong to the operators: what they took is no time of the operator."""
WEIGHTS = ("host", "device")
ORDERS = ("heavy", "time")
"""Calls at the same place are one, the heaviest first; or only calls that follow each other, in the order of time."""
FOLDS = ("none", "framework")
"""Every frame; or calls that a framework makes to itself count as part of the call that entered it."""
ALL_THREADS = "all"
"""The choice of all threads, idle ones as well."""
REST = {"both": NO_OPERATOR, "python": "(no Python call)", "operators": NO_OPERATOR}
"""Names of the place that carries device work which no frame launched, by what the frames are."""


@dataclass(frozen=True)
class Choice:
    """Which frames, which time, of which threads, in which order, and whether frameworks are folded.

    ``threads`` are keys, ids or names of threads; none = all that are not idle, ``ALL_THREADS`` among them = all.
    """

    of: str = "both"
    weight: str = "host"
    threads: tuple[str, ...] = ()
    order: str = "heavy"
    fold: str = "none"


def choice_of(params: Params) -> Choice:
    """Returns the choice of a request. Raises BadRequest."""
    known = {"of": tuple(FRAMES), "weight": WEIGHTS, "order": ORDERS, "fold": FOLDS}
    defaults = Choice()
    chosen = {key: params.get(key) or getattr(defaults, key) for key in known}
    for key, value in chosen.items():
        if value not in known[key]:
            raise BadRequest(f"{key} cannot be {value[:40]}.", key, f"Choose one of {', '.join(known[key])}.")
    threads = tuple(sorted({thread for thread in params.values("thread") if thread}))
    return Choice(threads=(ALL_THREADS,) if ALL_THREADS in threads else threads, **chosen)
