"""Nodes of an execution trace and the tensors that connect the nodes.

Node ids increase in start order, so a node ends with its last descendant. The producer of a tensor is the last
earlier node that outputs the tensor. If several nested nodes output the tensor, the innermost node is the producer.
The users of a tensor are the later nodes that read the tensor, until another node outputs the tensor again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import (
    Frame,
    Params,
    Part,
    answer_view,
    int_param,
)
from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import NotFoundError
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.execution_trace import ExecutionTrace
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import CoverageInfo, Figures, Notice, Notices, Payload, Table, View
from tb_plugin.views.execution_nodes import VIEW

# Maximum number of listed users of a tensor.
MOST_USERS = 100
FILE = "the file"
# Parameters that select a node, and their meaning.
_NODE_PARAMETERS = {"function_id": ("function", "function id"), "node_number": ("node", "id")}
_MADE, _USES = "made its input", "uses its output"
METRICS = SHARED.adding(
    define(
        FILE,
        "count",
        {
            "node_number": ("Node", "Node id in the file, in start order."),
            "function_id": ("Function id", "Recorded call number; 0 for none."),
            "execution_node_count": ("Nodes", "Operators and ranges in the file."),
            "execution_tensor_count": ("Tensors", "Distinct tensors in the file."),
            "tensors_in": ("Inputs", "Input tensors."),
            "tensors_out": ("Outputs", "Output tensors."),
            "tensor_id": ("Tensor", "Tensor id in the file."),
            "storage_id": ("Storage", "Storage id of the tensor; views share it."),
            "tensor_position": ("Position", "Position among the operator's values, from 0."),
        },
    ),
    define(
        FILE,
        "bytes",
        {"recorded_tensor_bytes": ("Bytes", "Element count multiplied by element size.")},
    ),
    define(
        FILE,
        "text",
        {
            "process_id": ("Process", "Recorded process id."),
            "tensor_side": ("Side", "in: input. out: output."),
            "tensor_device": ("Device", "Device of the tensor."),
            "node_relation": ("Relation", "made its input: produced an input. uses its output: takes an output."),
            "execution_schema": ("Schema", "Recorded format version."),
        },
    ),
    define(
        FILE,
        "code",
        {
            "tensor_shape": ("Shape", "Sizes of the tensor."),
            "tensor_strides": ("Strides", "Strides of the tensor, in elements."),
            "tensor_type": ("Type", "Recorded value type."),
            "operator_schema": ("Signature", "Signature of the operator."),
        },
    ),
)


class ExecutionNodes(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return tuple(params.get(key) for key in _NODE_PARAMETERS)

    def part(self, trace: ExecutionTrace, params: Params) -> Part:
        """Returns all nodes, or the one node that ``function_id`` or ``node_number`` selects.

        Raises BadRequest for an invalid parameter, and NotFoundError for an unknown node.
        """
        coverage = CoverageInfo(complete=trace.report.complete)
        if (row := _selected_place(trace, params)) is not None:
            payloads, frames = _node_payloads(trace, row)
            return Part(coverage, frames=frames, payloads=payloads, layout=(*payloads, *frames))
        nodes = _nodes(trace)
        tensors = pc.count_distinct(trace.tensors["tensor"]).as_py()
        figures = [
            METRICS.figure("execution_node_count", len(trace)),
            METRICS.figure("execution_tensor_count", tensors),
            METRICS.figure("process_id", None if trace.process is None else str(trace.process)),
            METRICS.figure("execution_schema", trace.schema),
        ]
        text = (
            "An execution trace contains no times. Open the trace of the same recording to see tensors on the timeline."
        )
        todo = "Put both files into one folder, and select an operator on the timeline."
        payloads = {
            "answer": Notices("answer", "Answer", "answer", [Notice("execution_no_times", "info", text, todo)]),
            "summary": Figures("summary", "Execution trace", "", figures, "headline"),
        }
        facts = {"execution.nodes": len(trace), "execution.tensors": tensors}
        return Part(coverage, facts, {nodes.name: nodes}, payloads, (*payloads, nodes.name))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        return answer_view(self, parts[0], params)


def _nodes(trace: ExecutionTrace) -> Frame:
    side = trace.tensors["is_output"].to_numpy().astype(np.bool_)
    row = trace.tensors["row"].to_numpy()
    data = {
        "name": trace.nodes["name"].cast(pa.large_string()),
        "node_number": trace.nodes["node"],
        "function_id": trace.nodes["function"],
        "tensors_in": pa.array(np.bincount(row[~side], minlength=len(trace))),
        "tensors_out": pa.array(np.bincount(row[side], minlength=len(trace))),
        "operator_schema": trace.nodes["schema"].cast(pa.large_string()),
    }
    columns = METRICS.columns(*data)
    return Frame("execution_nodes", "Nodes", columns, pa.table(data), ("node_number",), "name")


def _selected_place(trace: ExecutionTrace, params: Params) -> int | None:
    """Returns the index of the selected node, or None if no node is selected.

    Raises BadRequest for an invalid parameter, and NotFoundError for an unknown node.
    """
    for key, (column, what) in _NODE_PARAMETERS.items():
        wanted = int_param(params, key)
        if wanted is None:
            continue
        found = np.flatnonzero(trace.nodes[column].to_numpy() == wanted)
        # Call number 0 means none.
        if not len(found) or (column == "function" and not wanted):
            raise NotFoundError(
                f"No node has the {what} {wanted}.",
                key,
                "Check that the execution trace and this trace come from the same recording.",
            )
        return int(found[0])
    return None


def _node_payloads(trace: ExecutionTrace, row: int) -> tuple[dict[str, Payload], dict[str, Frame]]:
    node = trace.nodes.slice(row, 1).to_pylist()[0]
    figures = [
        METRICS.figure("name", node["name"]),
        METRICS.figure("function_id", node["function"]),
        METRICS.figure("process_id", None if trace.process is None else str(trace.process)),
        METRICS.figure("operator_schema", node["schema"]),
    ]
    frames = {frame.name: frame for frame in (_tensors(trace, row), _links(trace, row))}
    return {"node": Figures("node", "Node", "", figures)}, frames


def _tensors(trace: ExecutionTrace, row: int) -> Frame:
    mine = trace.tensors.filter(pc.equal(trace.tensors["row"], row))
    texts = {key: mine[key].cast(pa.large_string()) for key in ("shape", "type", "device", "strides")}
    number = np.arange(mine.num_rows)
    data = {
        "tensor_side": pc.if_else(mine["is_output"], "out", "in"),
        "tensor_position": mine["position"],
        "tensor_shape": texts["shape"],
        "tensor_type": texts["type"],
        "tensor_device": texts["device"],
        "recorded_tensor_bytes": pc.multiply(mine["elements"], mine["item_bytes"]),
        "tensor_id": mine["tensor"],
        "storage_id": mine["storage"],
        "tensor_strides": texts["strides"],
        "row": pa.array(number),
    }
    columns = METRICS.columns(*(key for key in data if key != "row"))
    keys = ("tensor_side", "tensor_position", "tensor_id")
    return Frame("node_tensors", "Tensors", columns, pa.table(data), keys, "tensor_side")


def _links(trace: ExecutionTrace, row: int) -> Frame:
    last = last_inside(trace)
    owner, tensor = trace.tensors["row"].to_numpy(), trace.tensors["tensor"].to_numpy()
    side = trace.tensors["is_output"].to_numpy().astype(np.bool_)
    mine = owner == row
    links: list[tuple[str, int, int]] = []
    for each in np.unique(tensor[mine & ~side]).tolist():
        if (maker := _maker(owner[(tensor == each) & side], last, row)) is not None:
            links.append((_MADE, maker, each))
    for each in np.unique(tensor[mine & side]).tolist():
        is_same = tensor == each
        users = np.unique(owner[is_same & ~side & (owner > last[row])])
        given = owner[is_same & side & (owner > last[row])]
        # After another node outputs it, it is a different value.
        until = int(last[given].min(initial=len(trace)))
        users = users[users <= until]
        # Of nested users only the outermost counts.
        reach = np.maximum.accumulate(np.append(-1, last[users]))[:-1]
        links += [(_USES, int(user), each) for user in users[users > reach][:MOST_USERS]]
    rows = pa.array([link[1] for link in links], pa.int64())
    data = {
        "name": trace.nodes["name"].cast(pa.large_string()).take(rows),
        "node_relation": pa.array([link[0] for link in links], pa.string()),
        "tensor_id": pa.array([link[2] for link in links], pa.int64()),
        "function_id": trace.nodes["function"].take(rows),
        "node_number": trace.nodes["node"].take(rows),
    }
    keys = ("node_relation", "node_number", "tensor_id")
    return Frame("node_links", "Linked operators", METRICS.columns(*data), pa.table(data), keys, "name")


def _maker(givers: Int64, last: Int64, row: int) -> int | None:
    """Returns the last node that outputs a tensor before node ``row`` starts, or None.

    If several nested nodes output the tensor, returns the innermost node.
    """
    over = givers[last[givers] < row]
    if not len(over):
        return None
    end = last[over]
    latest = over[end == end.max()]
    return int(latest.max())


@cached_by_argument
def last_inside(trace: ExecutionTrace) -> Int64:
    """Returns the index of each node's last descendant, or of the node itself if it has no children."""
    node, parent = trace.nodes["node"].to_numpy(), trace.nodes["parent"].to_numpy()
    last = np.arange(len(node), dtype=np.int64)
    if not len(node):
        return last
    at = np.minimum(np.searchsorted(node, parent), len(node) - 1)
    # A node that starts later cannot enclose another, whatever the file says.
    around = np.where((node[at] == parent) & (at < last), at, MISSING).astype(np.int32)
    for rows in reversed(Forest(around).levels[1:]):
        np.maximum.at(last, around[rows], last[rows])
    return last
