"""Failed memory requests."""

from __future__ import annotations

from tb_plugin.analysis.out_of_memory import chosen_failures, notice_of
from tb_plugin.rules._base import NO_SAVING, Detection, Rule, Scene
from tb_plugin.rules._limits import Limit


def _look(s: Scene) -> Detection | None:
    failures = chosen_failures(s.trace, s.chosen)
    return Detection(notice_of(s.trace, failures), NO_SAVING, failures.row) if len(failures.row) else None


RULE = Rule(
    __name__,
    title="Out of memory",
    look=_look,
    order=10,
    detects="A request for memory failed.",
    threshold="One failed request.",
    saving="None: the program fails here unless it catches the error.",
    needs="Events `[OutOfMemory]`, which PyTorch 2.1 and newer record with the allocator's events.",
    notes="""
        The finding describes the first failed request: the time, the bytes requested, the line of Python and
        the operator. It also reports the bytes in use and the number of failed requests. If no steps are
        selected, requests outside of steps count too. Its severity is always high. The advice depends on the
        cause: the device is full (`full`), or the request alone is larger than everything in use (`one`).
        Memory may also be reserved but in pieces (`pieces`), or the request was for memory of the CPU (`cpu`).
    """,
    cases=("full", "one", "pieces", "cpu"),
    saves=False,
    limits=(Limit.MEMORY,),
)
