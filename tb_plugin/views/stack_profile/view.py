"""Files of stacks: flame graph, functions, callers and callees."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.flame.functions import functions_of, sandwich
from tb_plugin.analysis.flame.nodes import FlameNodes, largest_nodes, parent_groups
from tb_plugin.analysis.flame.tree import Terms, tree_of_graph
from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.stack_profile import StackProfile
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.payloads import CoverageInfo, Figures, Notice, Notices, Payload, Sort, Unit
from tb_plugin.views.stack_profile import VIEW

# Maximum number of places, those with the largest values. ``Tree.total_nodes`` is the number of all places.
NODES_SENT = 10_000
FILE = "the file"
_UNITS: dict[str, Unit] = {"ns": "ns", "bytes": "bytes", "samples": "count", "nodes": "count", "value": "count"}
_TITLES = {"ns": "time", "bytes": "bytes", "samples": "samples", "nodes": "nodes of graphs", "value": "value"}


def _definitions(kind: str) -> dict[str, tuple[str, str]]:
    what = _TITLES[kind]
    return {
        f"stack_{kind}": (f"Total {what}", f"Recorded {what} including nested calls; recursion counts once."),
        f"stack_self_{kind}": (f"Self {what}", f"Recorded {what} excluding nested calls."),
    }


METRICS = SHARED.adding(
    *(define(FILE, unit, _definitions(kind)) for kind, unit in _UNITS.items()),
    define(
        FILE,
        "count",
        {
            "stack_lines": ("Stacks", "Valid stacks in the file."),
            "stack_functions": ("Functions", "Distinct frame names."),
            "stack_threads": ("Profiles", "Profiles in the file."),
        },
    ),
    define(
        FILE,
        "text",
        {
            "stack_thread": ("Profile", "Profile name in the file."),
            "stack_thread_key": ("Profile number", "Profile number in the file, from 0."),
        },
    ),
)


class StackProfileAnalysis(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.get("function"), params.values("thread"))

    def part(self, profile: StackProfile, params: Params) -> Part:
        """Returns merged stacks and functions. With ``function``, returns its callers and callees instead."""
        coverage = CoverageInfo(complete=profile.report.complete)
        terms, chosen = _terms(profile), _selected_profiles(profile, params)
        places = merged_profiles(profile, chosen)
        if function := params.get("function"):
            callers, callees = sandwich(places, function, terms)
            payloads: dict[str, Payload] = {"callers": callers, "callees": callees}
            return Part(coverage, payloads=payloads, layout=tuple(payloads))
        functions = functions_of(places, terms)
        total = int(places.host_ns.sum())
        payloads = {
            "answer": Notices("answer", "Answer", "answer", _answer(profile, functions, total)),
            "summary": Figures("summary", "Stacks", "", [
                METRICS.figure(f"stack_{profile.counted}", total, profile.what),
                METRICS.figure("stack_lines", profile.stacks),
                METRICS.figure("stack_functions", functions.data.num_rows),
            ], "headline"),
            "stacks": tree_of_graph(largest_nodes(places, "host", NODES_SENT), terms),
        }  # fmt: skip
        frames = {each.name: each for each in (functions, _threads(profile))}
        facts = {
            f"stacks.total_{profile.counted}": total,  # the unit depends on the file
            "stacks.functions": functions.data.num_rows,
            "stacks.listed": profile.stacks,
        }
        return Part(coverage, facts, frames, payloads, (*payloads, *frames))


def _terms(profile: StackProfile) -> Terms:
    total, own = f"stack_{profile.counted}", f"stack_self_{profile.counted}"
    keys = {"host_ns": total, "function_host_ns": total, "caller_host_ns": total, "calls": "", "caller_calls": ""}
    return Terms(METRICS, has_kinds=False, keys={**keys, "host_own_ns": own, "function_host_self_ns": own})


def _selected_profiles(profile: StackProfile, params: Params) -> tuple[int, ...]:
    known = {str(number): number for number in range(len(profile.threads))}
    requested = sorted(set(params.values("thread")) - {""})
    for each in requested:
        if each not in known:
            raise BadRequest(f"There is no profile {each[:40]}.", "thread", f"Choose one of 0 to {len(known) - 1}.")
    return tuple(known[each] for each in requested)


@cached_by_argument
def merged_profiles(profile: StackProfile, threads: tuple[int, ...]) -> FlameNodes:
    """Returns the merged stacks of the profiles whose numbers are in ``threads`` (empty = all profiles)."""
    found = profile.places
    some = np.flatnonzero(np.isin(found.thread, threads)) if threads else np.arange(len(found.label))
    parent = places_of(some, len(found.label))[found.parent[some]]
    label = found.label[some].astype(np.int64)
    nodes = group(Forest(parent).paths(label)) if len(some) else group(label)
    none = np.zeros(len(nodes), np.int64)
    # Frames have no recorded kind: they are coloured by the package in their names.
    is_module = pc.starts_with(profile.names, "nn.Module: ").to_numpy(zero_copy_only=False)
    kinds = np.where(is_module, int(EventKind.MODULE), int(EventKind.PYTHON))
    return FlameNodes(
        label=label[nodes.first],
        texts=profile.names,
        kind=kinds[label[nodes.first]],
        parent=parent_groups(nodes, parent),
        thread=np.full(len(nodes), MISSING),
        calls=none,
        host_ns=nodes.sum(found.own[some]),
        device_ns=none,
    )


def _threads(profile: StackProfile) -> Frame:
    sums = np.zeros(len(profile.threads), np.int64)
    np.add.at(sums, profile.places.thread, profile.places.own)
    order = np.argsort(-sums, kind="stable") if profile.threads != ("",) else np.zeros(0, np.int64)
    key = f"stack_{profile.counted}"
    data = {
        "stack_thread": pa.array([profile.threads[number] for number in order.tolist()], pa.large_string()),
        "stack_thread_key": pa.array([str(number) for number in order.tolist()], pa.string()),
        key: pa.array(sums[order]),
    }
    columns = METRICS.columns(*data)
    return Frame(
        "stack_threads", "Profiles", columns, pa.table(data), ("stack_thread_key",), "stack_thread", Sort(key, True)
    )


def _answer(profile: StackProfile, functions: Frame, total: int) -> list[Notice]:
    notices = []
    top = functions.data.slice(0, 1).to_pylist()
    if top and total:
        own = f"stack_self_{profile.counted}"
        figures = [METRICS.figure("name", top[0]["name"]), METRICS.figure(own, top[0][own])]
        figures.append(METRICS.figure(f"stack_{profile.counted}", total))
        text = f"{{name}} itself has the largest share: {{{own}}} of {{stack_{profile.counted}}}."
        notices.append(Notice("stacks_most", "info", text, "", figures))
    if profile.counted == "value":
        text = "The file does not report the unit of its numbers."
        notices.append(Notice("stacks_unit", "info", text, ""))
    return notices
