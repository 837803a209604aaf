"""Device time of sharding, pipelining, offloading and expert parallelism."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Number, Params, Part, answer_view
from tb_plugin.analysis.metrics import CHOSEN, SHARED
from tb_plugin.analysis.parallelism.experts import token_dispatches
from tb_plugin.analysis.parallelism.roles import METHODS, PIPELINE, WORDS, Role, exposed_ns, roles_of
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.analysis.selection import Selection, select_rows, steps_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Payload, Sort, Table, View
from tb_plugin.views.parallelism import VIEW

METRICS = SHARED.defining(
    {
        ("", "text"): {
            "method": ("Method", "Sharding, pipeline, offloading or experts."),
            "role": ("Role", "Purpose of the work in the parallel method."),
        },
        (CHOSEN, "ns"): {
            "role_device_ns": ("Device", "Device time of the role; concurrent streams add up."),
            "role_exposed_ns": ("Exposed", "Exposed device time of the role; concurrent streams count once."),
            "stage_bubble_ns": ("Pipeline bubble", "Exposed time of pipeline sends and receives."),
            "sharding_exposed_ns": ("Sharding, exposed", "Exposed communication time of shards."),
            "offload_exposed_ns": ("Offload, exposed", "Time of offload copies while nothing else runs."),
        },
        (CHOSEN, "bytes"): {"role_bytes": ("Bytes", "Recorded bytes moved by communication with this role.")},
        (CHOSEN, "count"): {
            "micro_batches": ("Micro-batches", "Ranges of one micro-batch in one stage, forward or backward."),
            "dispatches_untold": ("Dispatches without sizes", "Token dispatches without complete sizes."),
        },
        (CHOSEN, "number"): {
            "expert_imbalance": ("Expert imbalance", "Tokens of the busiest rank divided by the mean over ranks.")
        },
    }
)


class Parallelism(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return params.chosen

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        data = _totals(trace, selection)
        facts = _facts(trace, selection, data)
        frame = _frame(data)
        steps = steps_of(trace, params.steps)
        count = len(steps.label) if steps.recorded else 0
        payloads: dict[str, Payload] = {"summary": _summary(facts, count)}
        return Part(selection.coverage, facts, {"roles": frame}, payloads, ("summary", "roles"))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        return answer_view(self, parts[0], params)


def _totals(trace: TraceTable, selection: Selection) -> dict[str, Int64]:
    roles = roles_of(trace)
    mine = selection.rows[roles.row]
    row, role = roles.row[mine], roles.role[mine].astype(np.int64)
    moved = roles.bytes[mine]
    return {
        "calls": sum_by(role, np.ones(len(row), np.int64), len(Role)),
        "role_device_ns": sum_by(role, trace.dur_ns[row], len(Role)),
        "role_exposed_ns": np.array([exposed_ns(trace, mine & roles.among(one)) for one in Role], np.int64),
        "role_bytes": sum_by(role, np.maximum(moved, 0), len(Role)),
    }


def _frame(data: dict[str, Int64]) -> Frame:
    order = [role for roles in METHODS.values() for role in roles if data["calls"][role]]
    method = {role: name for name, roles in METHODS.items() for role in roles}
    hides = np.array([role in (Role.ROUTE, Role.EXPERTS, Role.COPY_IN, Role.COPY_OUT) for role in order], np.bool_)
    at = np.array(order, np.int64)
    words = {role: text for text, role in WORDS.items()}
    columns: dict[str, pa.Array] = {
        "role": pa.array([words[role] for role in order], pa.string()),
        "method": pa.array([method[role] for role in order], pa.string()),
        "calls": pa.array(data["calls"][at]),
        "role_device_ns": pa.array(data["role_device_ns"][at]),
        "role_exposed_ns": pa.array(data["role_exposed_ns"][at], mask=hides),
        "role_bytes": pa.array(data["role_bytes"][at], mask=data["role_bytes"][at] == 0),
    }
    shown = METRICS.columns(*columns, share=("role_device_ns",))
    table = sorted_by(pa.table(columns), [("role_device_ns", "descending"), ("role", "ascending")])
    return Frame("roles", "Roles", shown, table, ("role",), "role", Sort("role_device_ns", True))


def _facts(trace: TraceTable, selection: Selection, data: dict[str, Int64]) -> dict[str, Number]:
    facts: dict[str, Number] = {}
    every = roles_of(trace)
    chosen = selection.rows[every.row]
    for name, roles in METHODS.items():
        at = np.array(roles, np.int64)
        if data["calls"][at].any():
            facts[f"parallelism.{name}_ns"] = int(data["role_device_ns"][at].sum())
            facts[f"parallelism.{name}_exposed_ns"] = exposed_ns(trace, chosen & every.among(*roles))
    if np.any(data["calls"][np.array(PIPELINE)]):
        ranges = name_matches(trace, trace.recorder.parallel.micro_batch) & (trace.kind == EventKind.ANNOTATION)
        if ranges.any():
            facts["parallelism.micro_batches"] = int((ranges & selection.rows).sum())
    if data["calls"][Role.DISPATCH]:
        sent = token_dispatches(trace)
        mine = selection.rows[sent.row]
        facts["parallelism.dispatches_untold"] = int(data["calls"][Role.DISPATCH]) - int(mine.sum())
        if sent.experts_ns[mine].sum():
            facts["parallelism.expert_imbalance"] = float(np.average(sent.ratio[mine], weights=sent.experts_ns[mine]))
    return facts


# Figures of the headline, and their facts.
_SUMMARY_FACTS = {
    "sharding_exposed_ns": "sharding_exposed_ns",
    "stage_bubble_ns": "pipeline_exposed_ns",
    "micro_batches": "micro_batches",
    "offload_exposed_ns": "offload_exposed_ns",
    "expert_imbalance": "expert_imbalance",
    "dispatches_untold": "dispatches_untold",
}


def _summary(facts: dict[str, Number], steps: int) -> Figures:
    values = {
        key: facts[f"parallelism.{fact}"] for key, fact in _SUMMARY_FACTS.items() if f"parallelism.{fact}" in facts
    }
    figures = [
        METRICS.figure(key, value, note=f"in {steps} steps" if steps > 1 and key.endswith("_ns") else "")
        for key, value in values.items()
        if key != "dispatches_untold" or value
    ]
    return Figures("summary", "Parallelism", "", figures, "headline")
