"""One run of a peer on one trace, in the peer's own environment: ``python peers.py NAME FOLDER`` prints JSON.

This file imports nothing of ours. Each function does what the peer does before it can answer anything.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

OVERVIEW = ("overview",)
OPERATORS = (
    "operation_pie_by_name",
    "operation_table_by_name",
    "operation_pie_by_name_input",
    "operation_table_by_name_input",
)
KERNELS = ("kernel_pie", "kernel_table", "kernel_op_table", "tc_pie")


def orjson(trace: Path) -> dict[str, int]:
    """Unpack and decode, nothing else, garbage collector off: what any JSON library has to spend at least."""
    import gc

    import isal.igzip
    import orjson as library

    gc.disable()
    with isal.igzip.open(trace) as stream:
        return {"events": len(library.loads(stream.read())["traceEvents"])}


def torch_tb_profiler(trace: Path) -> dict[str, int]:
    """Load a run and encode what its pages ask for at first."""
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler import RunLoader

    run = RunLoader("run", str(trace.parent), io.Cache(tempfile.mkdtemp())).load()
    # A distributed job gets a second profile over all workers.
    profile = next(found for (worker, _), found in run.profiles.items() if worker != "All")
    names = (*OVERVIEW, *OPERATORS, *KERNELS)
    found = [getattr(profile, name, None) for name in names]
    return {"bytes": sum(len(json.dumps(value)) for value in found) + len(json.dumps(profile.get_module_view()))}


def hta(trace: Path) -> dict[str, int]:
    """Load only: its analyses are asked one by one."""
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_files={0: str(trace)})
    return {"events": len(analysis.t.get_trace(0))}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](next(Path(sys.argv[2]).glob("*.pt.trace.json.gz")))))
