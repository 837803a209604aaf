"""One run of a peer on the traces of a folder, in the peer's own environment: ``python peers.py NAME FOLDER``.

This file imports nothing of ours. Each function does what the peer does before it can answer anything, and returns
what it found.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from pathlib import Path

OPERATORS = (
    "operation_pie_by_name",
    "operation_table_by_name",
    "operation_pie_by_name_input",
    "operation_table_by_name_input",
)
KERNELS = ("kernel_pie", "kernel_table", "kernel_op_table", "tc_pie")
DISTRIBUTED = ("gpu_info", "steps_to_overlap", "steps_to_wait", "comm_ops")
Found = dict[str, object]


def orjson(traces: list[Path]) -> Found:
    """Unpack and decode to Python objects, garbage collector off: what any such JSON library spends at least."""
    import orjson as library

    gc.disable()
    return {"events": sum(len(library.loads(_unpacked(trace))["traceEvents"]) for trace in traces)}


def simdjson(traces: list[Path]) -> Found:
    """The same with simdjson."""
    import simdjson as library

    gc.disable()
    return {"events": sum(len(library.loads(_unpacked(trace))["traceEvents"]) for trace in traces)}


def simdjson_parse(traces: list[Path]) -> Found:
    """Unpack and parse into simdjson's own document; no Python object is made."""
    import simdjson as library

    return {"events": sum(len(library.Parser().parse(_unpacked(trace))["traceEvents"]) for trace in traces)}


def _unpacked(trace: Path) -> bytes:
    import isal.igzip

    with isal.igzip.open(trace) as stream:  # type: ignore[no-untyped-call]  # isal has no types
        return stream.read()  # type: ignore[no-any-return]  # nor here


def torch_tb_profiler(traces: list[Path]) -> Found:
    """Load a run with its own loader and encode what its pages ask for at first; its Trace page left out."""
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler import RunLoader

    run = RunLoader("run", str(traces[0].parent), io.Cache(tempfile.mkdtemp())).load()
    # The job as a whole gets a profile of its own.
    ranks = [profile for (worker, _), profile in run.profiles.items() if worker != "All"]
    if len(ranks) < len(traces):
        raise SystemExit(f"only {len(ranks)} of {len(traces)} files were read")
    pages: list[object] = [profile.overview for profile in ranks]
    if len(ranks) == 1:
        (only,) = ranks
        pages += [getattr(only, name, None) for name in (*OPERATORS, *KERNELS)]
        pages.append(only.get_module_view())
        if only.memory_snapshot:
            # With the units that its page sends.
            pages.append(only.get_memory_curve(time_metric="ms", memory_metric="MB"))
            pages.append(only.get_memory_stats(memory_metric="KB"))
            pages.append(only.get_memory_events(time_metric="ms", memory_metric="KB"))
    else:
        whole = [profile for (worker, _), profile in run.profiles.items() if worker == "All"]
        pages += [getattr(profile, name, None) for profile in whole for name in DISTRIBUTED]
    return {"pages": len(pages), "bytes": sum(len(json.dumps(page)) for page in pages)}


def hta(traces: list[Path]) -> Found:
    """Load only: its analyses are asked one by one."""
    from hta.trace_analysis import TraceAnalysis

    ranks = range(len(traces))
    analysis = TraceAnalysis(trace_files={rank: str(trace) for rank, trace in zip(ranks, traces, strict=True)})
    return {"events": sum(len(analysis.t.get_trace(rank)) for rank in ranks)}


def hta_ranks(traces: list[Path]) -> Found:
    """Load all ranks and ask what it says of them together: overlap, and who starts its communication late."""
    import re

    from hta.trace_analysis import TraceAnalysis

    names = {int(re.match(r"rank(\d+)", trace.name)[1]): str(trace) for trace in traces}  # type: ignore[index]  # all match
    analysis = TraceAnalysis(trace_files=names)
    overlap = analysis.get_comm_comp_overlap(visualize=False)
    stragglers = analysis.get_potential_stragglers(num_candidates=2)
    return {"ranks": len(overlap), "stragglers": [int(rank) for rank in stragglers]}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sorted(Path(sys.argv[2]).glob("*.pt.trace.json.gz")))))
