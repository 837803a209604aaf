"""Write `graph_lanes_synthetic`: invented device work through the Python exporter of PyTorch 2.15, a graph's on lanes.

usage: python synthetic_graph_lanes.py OUT_DIR        (OUT_DIR/graph_lanes_synthetic is created)
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch.profiler._chrome_trace_export import export_chrome_trace

BEGIN = 1795313286000000000
GRAPH = 5 << 32
PID = os.getpid()


def activity(name: str, category: str, device: int, stream: int, at: int, dur: int, said: str = "", **more: Any) -> Any:
    """An activity as Kineto gives it: every fact is a method."""
    facts = {
        "name": name, "type": category, "device_id": device, "resource_id": stream, "timestamp": BEGIN + at,
        "duration": dur, "metadata_json": said, "correlation_id": 0, "linked_correlation_id": 0, "flow_id": 0,
        "flow_type": 0, "flow_start": False, "linked_activity": None, **more,
    }  # fmt: skip
    return SimpleNamespace(**{key: (lambda value=value: value) for key, value in facts.items()})


def of_kernel(stream: int, node: int) -> str:
    return (
        f'"queued": 0, "device": 0, "context": 1, "stream": {stream}, "correlation": 20, "registers per thread": 40, '
        f'"shared memory": 0, "grid": [1, 1, 1], "block": [128, 1, 1], "graph id": 5, "graph node id": {GRAPH | node}'
    )


def main(out: Path) -> None:
    collective = activity(
        "record_param_comms", "cpu_op", PID, PID, 1000, 500, correlation_id=3,
        said='"Collective name": "all_reduce", "dtype": "Float", "In msg nelems": 16, "Out msg nelems": 16, "Group size": 2',
    )  # fmt: skip
    of_graph = {"correlation_id": 20, "flow_id": 20, "flow_type": 2, "linked_correlation_id": 1}
    activities = [
        activity("aten::mm", "cpu_op", PID, PID, 0, 5000, '"Ev Idx": 0', correlation_id=1),
        collective,
        activity("cudaGraphLaunch", "cuda_runtime", PID, PID, 6000, 2000, '"cbid": 311, "correlation": 20',
                 **of_graph, flow_start=True),
        activity("k_attn", "kernel", 0, 31, 10000, 3000, of_kernel(31, 1), **of_graph),
        activity("k_mlp", "kernel", 0, 32, 13000, 3000, of_kernel(32, 2), **of_graph),
        activity("ncclDevKernel_AllReduce", "kernel", 0, 33, 16000, 3000, of_kernel(33, 3), correlation_id=20,
                 linked_correlation_id=3, linked_activity=collective),
        activity("k_eager", "kernel", 0, 7, 20000, 1000, '"device": 0, "context": 1, "stream": 7, "correlation": 21',
                 correlation_id=21, linked_correlation_id=1),
        activity("region", "gpu_user_annotation", 0, 31, 9999, 3002),
        activity("region", "gpu_user_annotation", 0, 7, 19999, 1002),
        activity("Instrumentation", "overhead", -1, 0, 7000, 100),
    ]  # fmt: skip
    annotations = {
        GRAPH | 1: [{"name": "layers.0.attn", "dtype": "bf16"}],
        GRAPH | 2: [{"name": "layers.0.mlp", "stream": 60}],
        GRAPH | 3: [{"name": "dp", "stream": 61, "Process Group Description": "default_pg"}],
    }
    folder = out / "graph_lanes_synthetic" / "iteration_10"
    folder.mkdir(parents=True, exist_ok=True)
    results = SimpleNamespace(trace_activities=lambda: activities, trace_start_ns=lambda: BEGIN)
    path = str(folder / "rank0_trace.json")
    export_chrome_trace(results, path, metadata={"with_stack": "1"}, annotations=annotations, graph_lanes="all")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
