"""Tables of tensors and of the code that creates them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.snapshot.labels import address_texts
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import measure_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Sort
from torch_trace_megengine.memory_flow.metrics import METRICS
from torch_trace_megengine.memory_flow.model import MemoryFlow
from torch_trace_megengine.memory_flow.tensor_names import NO_NAME, origins_of


def tensors_frame(flow: MemoryFlow, rows: Int64, name: str, title: str) -> Frame:
    """Returns the tensors in ``rows``, largest first."""
    rows = rows[np.lexsort((rows, -flow.size[rows]))]
    origins, operator = origins_of(flow), flow.operator[rows]
    names = flow.strings.take(flow.name[rows])
    operators = pa.array(origins.operators, pa.large_string())
    columns = {
        "tensor_name": pc.if_else(pc.equal(names, ""), NO_NAME, names),
        "tensor_bytes": pa.array(flow.size[rows]),
        "tensor_made_ns": pa.array(flow.start_ns[rows]),
        "tensor_released_ns": pa.array(flow.end_ns[rows], mask=~flow.is_released[rows]),
        "tensor_life_ns": pa.array(flow.end_ns[rows] - flow.start_ns[rows]),
        "tensor_layout": flow.strings.take(flow.layout[rows]),
        "tensor_operator": operators.take(pa.array(origins.operator[rows])),
        "tensor_address": address_texts(flow.address[rows]),
        "tensor_operator_number": pa.array(operator, mask=operator == MISSING),
        "tensor_number": pa.array(rows),
    }
    return Frame(
        name=name,
        title=title,
        columns=METRICS.columns(*columns, share=("tensor_bytes",), hidden=("tensor_operator_number", "tensor_number")),
        data=pa.table(columns),
        row_key=("tensor_number",),
        name_column="tensor_name",
        sort=Sort("tensor_bytes", True),
    )


def used_by(flow: MemoryFlow, rows: Int64, of: Int64, count: int) -> Int64:
    """Returns the bytes in use by each of ``count`` groups. Bytes shared within a group count once."""
    return measure_by(of, flow.address[rows], flow.address[rows] + flow.size[rows], count)


@cached_by_argument
def all_tensors_frame(flow: MemoryFlow) -> Frame:
    return tensors_frame(flow, np.arange(len(flow)), "tensors", "All tensors")


def producers_frame(flow: MemoryFlow, alive: Int64) -> Frame:
    """Returns one row per producer, with the bytes of the producer's tensors in ``alive``."""
    origins = origins_of(flow)
    count = len(origins.producers)
    then = used_by(flow, alive, origins.producer[alive], count)
    total, longest, largest = (np.zeros(count, np.int64) for _ in range(3))
    np.add.at(total, origins.producer, flow.size)
    np.maximum.at(longest, origins.producer, flow.end_ns - flow.start_ns)
    np.maximum.at(largest, origins.producer, flow.size)
    order = np.lexsort((-total, -then))
    columns = {
        "tensor_producer": pa.array([origins.producers[i] for i in order.tolist()], pa.large_string()),
        "producer_moment_bytes": pa.array(then[order]),
        "producer_tensors": pa.array(np.bincount(origins.producer, minlength=count)[order]),
        "producer_bytes": pa.array(total[order]),
        "largest_tensor_bytes": pa.array(largest[order]),
        "producer_life_ns": pa.array(longest[order]),
    }
    return Frame(
        name="flow_producers",
        title="Producers",
        columns=METRICS.columns(*columns, share=("producer_moment_bytes",)),
        data=pa.table(columns),
        row_key=("tensor_producer",),
        name_column="tensor_producer",
        sort=Sort("producer_moment_bytes", True),
    )
