"""Backward operators that wait for the device, likely in deterministic mode."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.module_paths import module_paths
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._host_waits import OFTEN, WaitReason, waiting_calls

_PARTS = {
    "backward_operator": "{backward_operator}",
    "forward_operator": " of {forward_operator}",
    "module": " in {module}",
    "forward_line": " at {forward_line}",
}
METRICS = COMMON.in_steps(
    ns={"backward_sync_ns": ("Backward waits", "Host time that these operators wait for the device, per step.")},
    number={"backward_sync_calls": ("Waits", "Waits for the device in these operators, per step.")},
    count={
        "backward_sync_kinds": (
            "Backward operators",
            "Distinct operators that wait, by forward operator, module and line.",
        )
    },
)


def _look(s: Scene) -> Detection | None:
    trace, found = s.trace, waiting_calls(s, WaitReason.BACKWARD)
    if found is None:
        return None
    calls = found.row
    said, kinds = _most(trace, calls)
    notice = s.notice(
        RULE,
        text=f"{s.per_step_words} {_told(s, said, kinds, found.count)}. Likely cause: deterministic algorithms, "
        "because the forward operators do not wait.",
        figures=METRICS.measured(
            **said,
            backward_sync_calls=s.per_step(found.count),
            backward_sync_ns=s.per_step(int(trace.dur_ns[calls].sum())),
            **optional(kinds > 1, backward_sync_kinds=kinds),
        ),
        evidence=Link("backward", {}, "Show the backward pass"),
        why="The autograd engine launches nothing while it waits, so the device becomes idle. The trace does not record "
        "whether deterministic algorithms are on. Lower bound: the waits disappear. Upper bound: the operators that wait "
        "and their copies disappear too.",
    )
    return Detection(notice, Bounds(found.least, found.most), s.by_length(calls))


def _told(s: Scene, said: dict[str, str], kinds: int, waits: int) -> str:
    named = "".join(part for key, part in _PARTS.items() if key in said)
    often = s.times_words(waits, "backward_sync_calls")
    if kinds == 1:
        return f"{named} makes the host wait {{backward_sync_ns}} for the device, {often}"
    return (
        f"{{backward_sync_kinds}} backward operators make the host wait {{backward_sync_ns}} for the device, {often}, "
        f"most of it {named}"
    )


def _most(trace: TraceTable, calls: Int64) -> tuple[dict[str, str], int]:
    """Returns the backward operator with the longest wait, and the number of different operators that wait."""
    every, paths, lines = backward_operators(trace), module_paths(trace), code_lines(trace)
    at = every.of[trace.operator[calls]]
    forward = every.forward[at]
    name, path, line = np.append(trace.name, MISSING)[forward], paths.of[forward], lines.of[forward]
    groups = group(every.name[at], name, path, line)
    spent = groups.sum(trace.dur_ns[calls])
    texts = [
        {
            "backward_operator": every.names[int(every.name[at][first])].as_py(),
            "forward_operator": trace.strings[int(name[first])],
            "module": _text(paths.modules, int(path[first])),
            "forward_line": _text(lines.texts, int(line[first])),
        }
        for first in groups.first[spent == spent.max()].tolist()
    ]
    chosen = min(texts, key=lambda each: tuple(each.values()))
    return {key: text for key, text in chosen.items() if text}, len(groups)


def _text(texts: pa.Array, number: int) -> str:
    return "" if number == MISSING else str(texts[number].as_py())


RULE = Rule(
    __name__,
    title="Waits in the backward pass",
    look=_look,
    order=40,
    detects="A backward operator waits for the GPU, although its forward operator does not.",
    threshold=f"One Python line waits in at least {percent(OFTEN)} of the steps.",
    saving="As for `synchronising_calls`.",
    notes="""
        The rule checks operators that PyTorch runs differently under `torch.use_deterministic_algorithms`: gather,
        scatter, index, put, take, repeat_interleave, embedding, cumsum, padding and upsampling. If the forward operator
        waits too, the reason is different, such as a boolean mask. The finding names the backward operator with the
        longest wait, with its forward operator, module and line. The trace does not record whether deterministic
        algorithms are on, so the confidence is medium.
    """,
    limits=(Limit.CPU,),
)
