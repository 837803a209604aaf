"""Options of merged stacks: frames, weight, threads, order, folding."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.host_threads import Thread, threads_of
from tb_plugin.analysis.selection import Chosen
from tb_plugin.analysis.stack_frames import FRAMES
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool
from tb_plugin.model.trace.table import TraceTable

WEIGHTS = ("host", "device")
ORDERS = ("heavy", "time")
"""``heavy`` merges all calls with the same path and sorts them by time, longest first.

``time`` merges only consecutive calls and sorts them by start.
"""
# ``framework`` merges internal calls of a framework into the call that entered it.
FOLDS = ("none", "framework")
ALL_THREADS = "all"
"""Value that selects all threads, including idle threads."""


class Choice(msgspec.Struct, frozen=True):
    """Options for merged stacks. ``threads`` has keys, ids or names; empty = all threads that are not idle."""

    of: str = "both"
    weight: str = "host"
    threads: tuple[str, ...] = ()
    order: str = "heavy"
    fold: str = "none"


def choice_of(params: Params) -> Choice:
    """Returns the stack options of a request. Raises BadRequest for an invalid option."""
    known = {"of": tuple(FRAMES), "weight": WEIGHTS, "order": ORDERS, "fold": FOLDS}
    defaults = Choice()
    chosen = {key: params.get(key) or getattr(defaults, key) for key in known}
    for key, value in chosen.items():
        if value not in known[key]:
            raise BadRequest(f"{key} cannot be {value[:40]}.", key, f"Choose one of {', '.join(known[key])}.")
    threads = tuple(sorted({thread for thread in params.values("thread") if thread}))
    return Choice(threads=(ALL_THREADS,) if ALL_THREADS in threads else threads, **chosen)


def chosen_threads(trace: TraceTable, rows: Chosen, texts: tuple[str, ...]) -> Bool | None:
    """Returns a mask by thread number, None if all threads are selected. Raises BadRequest for an unknown thread."""
    threads = threads_of(trace, rows)
    if ALL_THREADS in texts or (not texts and not any(thread.idle for thread in threads)):
        return None
    found = [_thread_of(trace, threads, text) for text in texts] or [thread for thread in threads if not thread.idle]
    flags = np.zeros(max(thread.number for thread in threads) + 1, np.bool_)
    flags[[thread.number for thread in found]] = True
    return flags


def _thread_of(trace: TraceTable, threads: tuple[Thread, ...], text: str) -> Thread:
    """Returns the thread with this key, else the only one with this name or id. Raises BadRequest without one."""
    ids = {i: (track.tid, track.thread.strip()) for i, track in enumerate(trace.tracks)}
    found = [thread for thread in threads if thread.key == text]
    found = found or [thread for thread in threads if text in (thread.name, *ids.get(thread.number, ()))]
    if len(found) == 1:
        return found[0]
    known = ", ".join(thread.key for thread in (found or threads)[:20]) or "none"
    what = "Several threads match" if found else "No thread matches"
    raise BadRequest(f"{what} {text[:40]}.", "thread", f"Choose one of {known}, or {ALL_THREADS}.")
