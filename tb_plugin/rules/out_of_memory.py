"""Failed memory requests."""

from __future__ import annotations

from tb_plugin.analysis.out_of_memory import chosen_failures, notice_of
from tb_plugin.rules._base import NO_SAVING, Detection, Limit, Rule, Scene


def _look(s: Scene) -> Detection | None:
    failures = chosen_failures(s.trace, s.chosen)
    return Detection(notice_of(s.trace, failures), NO_SAVING, failures.row) if len(failures.row) else None


RULE = Rule(
    __name__,
    title="Out of memory",
    look=_look,
    order=10,
    detects="A memory request failed.",
    threshold="One failed memory request.",
    saving="None: the program stops with an error unless it catches the error.",
    needs="`[OutOfMemory]` events, which PyTorch 2.1 and newer record together with allocator events.",
    notes="""
        The finding describes the first failed request: time, requested bytes, Python line and operator. It also
        reports the bytes in use and the number of failed requests. If no steps are selected, requests outside steps
        count too. The severity is always high. The advice depends on the cause: the device is full (`full`), or the
        request alone exceeds all memory in use (`one`). Reserved memory may also be fragmented (`pieces`), or the
        request was for CPU memory (`cpu`).
    """,
    cases=("full", "one", "pieces", "cpu"),
    limits=(Limit.MEMORY,),
)
