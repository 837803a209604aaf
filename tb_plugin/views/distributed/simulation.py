"""New step times of a job with changed work."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.simulate import merge_changes
from tb_plugin.analysis.simulate.ranks import TABLES, Rank, joint_savings, rank_of, rank_tables
from tb_plugin.analysis.simulate.saving_tables import (
    ALL,
    ALL_TITLE,
    METRICS,
    Titled,
    chosen_scales,
    saving_answer,
    saving_frame,
)
from tb_plugin.analysis.simulate.scaled import scaled
from tb_plugin.errors import BadRequest, UnreadableTrace
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Payload
from tb_plugin.views.distributed.comparable_profiles import not_compared
from tb_plugin.views.distributed.job_data import JobData

SCALE, ON = "scale", "on"
WHATIF = "whatif"
_MAX_NAMED = 8


def simulation_frames(trace: TraceTable, params: Params) -> dict[str, Frame]:
    """Returns the replay of one rank with the changes ``scale``; empty without changes. Raises BadRequest."""
    scales = chosen_scales(params)
    if not scales or not len(trace.steps.label):
        return {}
    found = [scaled(trace, scale) for scale in scales]
    changes = [None if each is None else each.expected for each in found]
    if len(changes) > 1:
        changes.append(merge_changes([each for each in changes if each is not None]))
    return {name: Frame(name, name, (), data, (), "") for name, data in rank_tables(trace, changes).items()}


def simulation(joined: Part, data: JobData, params: Params) -> Part:
    """Returns the answer and the table of simulated step times. Raises BadRequest."""
    scales = chosen_scales(params)
    tables = {name: joined.frames[name].data for name in TABLES if name in joined.frames}
    if not tables:
        raise BadRequest("The traces of the ranks are missing.", SCALE, "Load traces with steps instead of summaries.")
    if len(on_cpu := np.unique(data.calls.worker[~data.calls.data["on_device"].to_numpy(zero_copy_only=False)])):
        text = f"Collectives of {', '.join(data.names[at] for at in on_cpu[:_MAX_NAMED].tolist())} ran on the CPU."
        raise BadRequest(text, SCALE, "Simulate one rank: select it with --worker.")
    selected = params.values(ON) or data.names
    if unknown := sorted(set(selected) - set(data.names)):
        raise BadRequest(f"There is no rank {unknown[0][:80]}.", ON, f"Ranks: {', '.join(data.names[:10])}.")
    changes = [Titled(scale.work, scale.title, scale.text) for scale in scales]
    if len(scales) > 1:
        changes.append(Titled("", ALL_TITLE, ALL))
    has_work = np.zeros(len(changes), np.bool_)
    ranks = []
    for worker, name in enumerate(data.names):
        own = {key: table.filter(pc.equal(table["worker"], worker)) for key, table in tables.items()}
        if not own["simulated_ends"].num_rows:
            raise BadRequest(f"The trace of {name} has no steps.", SCALE, "Record steps on all ranks.")
        if not own["simulated_ends"]["is_complete"][0].as_py():
            text = f"The file of {name} is truncated, so the end of the last step is unknown."
            raise UnreadableTrace(text, SCALE, "Record this rank again, or select one complete rank with --worker.")
        if own["simulated_ends"]["devices"][0].as_py() > 1:
            text = f"{name} has work on several devices. Such ranks are not simulated together."
            raise BadRequest(text, SCALE, "Simulate one rank: select it with --worker.")
        if name in selected:
            has_work |= [own["simulated_ends"][f"has_work_{i + 1}"][0].as_py() for i in range(len(changes))]
        ranks.append(_rank(data, own, worker, len(changes), name in selected))
    for scale, is_found in zip(scales, has_work.tolist(), strict=False):
        if not is_found:
            what = f"{scale.kind.replace('_', ' ')} {scale.name}".strip()
            raise BadRequest(f"The selected ranks have no {what}.", SCALE, "Check the name; it may contain *.")
    steps = np.maximum(data.step_counts, 1)
    total = np.bincount(data.step_places[0], data.step_table["step_total_ns"].to_numpy(), len(data.names))
    step_ns = round(float((total / steps).mean()))
    saved = np.rint((joint_savings(ranks) / steps[:, None]).mean(axis=0)).astype(np.int64)
    payloads: dict[str, Payload] = {
        **saving_answer(changes, saved, len(changes), step_ns, notices=not_compared(data.left_out)),
        "summary": Figures("summary", "Step", "", METRICS.measured(whatif_step_ns=step_ns)),
    }
    frame = saving_frame(WHATIF, changes, saved, step_ns, {})
    return Part(joined.coverage, {}, {WHATIF: frame}, payloads, (*payloads, WHATIF))


def _rank(data: JobData, tables: dict[str, pa.Table], worker: int, changes: int, is_changed: bool) -> Rank:
    mine = np.flatnonzero((data.calls.worker == worker) & data.calls.matched)
    events = data.calls.data["event"].to_numpy()[mine].tolist()
    # Coalesced collectives have the same event; the first one counts.
    match = dict(zip(reversed(events), reversed(data.calls.match[mine].tolist()), strict=True))
    return rank_of(tables, match, [0, *(range(1, changes + 1) if is_changed else [0] * changes)])
