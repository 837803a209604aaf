"""Chains of elementwise kernels between products: compiled, each chain is one kernel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.metrics import STEPS, define
from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.metrics import METRICS as OF_RULES
from tb_plugin.analyses.rules.shapes import extents
from tb_plugin.analyses.rules.streams import runs, streams, updates
from tb_plugin.analyses.what_if import Change
from tb_plugin.analyses.wording import noun, references_of
from tb_plugin.payloads import Link, Notice
from tb_plugin.trace.schema import MISSING, KernelClass

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

CHAIN = 3
"""Kernels, at least: two in a row are everywhere, and not always on the same numbers."""
CHAIN_SHARE = 0.01
"""Share of the kernel time of the steps: what takes less hardly saves a hundredth of a step."""
METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {"chains_ns": ("Elementwise chains", "Kernels in chains of three and more, a mean over the steps.")},
    ),
    define(
        STEPS,
        "number",
        {
            "chains": ("Chains", "Such chains, a mean over the steps."),
            "chain_kernels": ("Kernels of chains", "Kernels in such chains, a mean over the steps."),
        },
    ),
    define(
        STEPS, "code", {"chain_line": ("Python", "Line of Python that most of the time of these chains lies under.")}
    ),
)


def _look(s: Scene) -> Seen | None:
    trace, all_of = s.trace, streams(s.trace)
    row, operator = all_of.row, all_of.operator
    member = (all_of.kernel_class == KernelClass.ELEMENTWISE) & (operator != MISSING) & s.rows[row]
    # What is named like its operator was generated: it is fused already.
    member &= trace.name[row] != np.append(trace.name, MISSING)[operator]
    updated = np.zeros(len(trace), np.bool_)
    updated[updates(trace).work] = True
    place = np.flatnonzero(member & ~updated[row])
    size = extents(trace, operator[place])
    # Neighbours may belong to other tensors: only shapes tell.
    place, size = place[size.numbers > 0], size.only(size.numbers > 0)
    if len(place) < CHAIN:
        return None
    apart = np.append(True, np.diff(place) != 1) | all_of.first[place]
    apart |= np.append(True, size.numbers[1:] != size.numbers[:-1])
    begin, end = runs(np.ones(len(place), np.bool_), apart)
    long = end - begin >= CHAIN
    begin, end = begin[long], end[long]
    chain = np.repeat(np.arange(len(begin)), end - begin)
    of = np.arange(len(chain)) + np.repeat(begin - np.append(0, np.cumsum(end - begin))[:-1], end - begin)
    rows, time = row[place[of]], trace.dur_ns[row[place[of]]]
    total = int(trace.dur_ns[s.kernels].sum())
    if not len(rows) or time.sum() < CHAIN_SHARE * total:
        return None
    line = s.line(rows)
    notice = Notice(
        rule="tiny_elementwise",
        severity="medium",
        text="{chain_kernels} elementwise kernels of each step follow each other in {chains} "
        + f"{noun(s.per_step(len(begin)), 'chain')}, {{chains_ns}}"
        + (", most of it from {chain_line}." if line else "."),
        todo=trace.recorder.todo("tiny_elementwise"),
        figures=[
            METRICS.figure("chain_kernels", s.per_step(len(rows))),
            METRICS.figure("chains", s.per_step(len(begin))),
            METRICS.figure("chains_ns", s.per_step(int(time.sum()))),
            *([METRICS.figure("chain_line", line)] if line else []),
        ],
        evidence=Link("launches", {"table": "sequences"}, "Show repeated sequences"),
        references=references_of(trace.recorder, "tiny_elementwise"),
        why="Each kernel of a chain reads what the one before it wrote, and needs a launch; fused they are one kernel. At "
        "best it takes as long as the shortest of the chain. At least what is written and read between two kernels goes, "
        "if nothing else needs it.",
        confidence="medium",
    )
    most = _all_but_one(chain, time)
    least = np.minimum(_between(chain, time / (size.inputs[of] + 1)), most)
    around = np.unique(operator[place[of]][np.append(False, chain[1:] == chain[:-1])])
    return Seen(
        notice,
        Change(row=rows, less_ns=least),
        Change(s.covered(around), rows, most),
        s.by_length(rows),
    )


def _all_but_one(chain: Int64, time: Int64) -> Int64:
    """What goes of each kernel if only the shortest of each chain stays."""
    stays = np.lexsort((time, chain))[np.append(True, chain[1:] != chain[:-1])]
    less = time.copy()
    less[stays] = 0
    return less


def _between(chain: Int64, each: npt.NDArray[np.float64]) -> Int64:
    """What goes of each kernel if what it writes for the next one is not written, and not read there.

    ``each``: what one tensor takes of it.
    """
    inner = chain[1:] == chain[:-1]
    tensors = np.append(inner, False).astype(np.int64) + np.append(False, inner)
    found: Int64 = (each * tensors).astype(np.int64)
    return found


RULE = Rule("tiny_elementwise", "Elementwise kernels one after another", _look)
